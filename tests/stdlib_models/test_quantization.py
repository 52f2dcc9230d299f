"""Layers that train with quantized numbers compute with those of `meganeura quantize`."""

from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl.ir.quantization import Quantization
from meganeura_runtime.io.tensors.safetensors_file import write_tensors

LINEAR = """\
block Net()(x: [n, 64]) -> [n, 8]:
  return x |> fc: quantized_linear(8, bias=false, bits={bits}, group={group})

model net = Net()
"""


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 32), (4, 0), (8, 16)])
def test_a_layer_computes_with_the_numbers_that_quantize_makes(
    bits: int, group: int, tmp_path: Path
) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(LINEAR.format(bits=bits, group=group))
    weight = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32) / 9
    weight[3] = 0
    write_tensors(tmp_path / "w.safetensors", {"fc.weight": weight}, {})
    model = meganeura.load(str(path)).model(weights=tmp_path / "w.safetensors")
    found = model.run({"x": np.eye(64, dtype=np.float32)}, device="cpu")["output"].T
    how = Quantization(bits, group)
    np.testing.assert_array_equal(found, how.dequantize(*how.quantize(weight), weight.shape))
