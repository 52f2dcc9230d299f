"""Layers take floats of 16 bits and give f32, on every device, as if the input had been f32."""

from pathlib import Path

import numpy as np
import pytest

import meganeura
from tests.effort import effort

LAYERS = """\
block Layers()(x: {type}[n, 4, 6, 6], ids: i32[n, 6]) -> [n, 3]
    where n >= 2:
  y = x |> conv: conv2d(4, 3, pad=1) |> bn: batch_norm
  y = concat(x + y, x |> gn: group_norm(2), axis=1) |> mean(3)
  tokens = ids |> table: embedding(10, 8)
  rows = rearrange(x[:, :, :, 0], [n, c, h] -> [n, h, c])
  pairs = concat(rows, rows, axis=-1) |> ln: layer_norm |> rms: rms_norm
  heads = rearrange(x[:, :, :, :2], [n, c, h, w] -> [n, 1, c, h * w])
  seen = attention(heads, heads, heads) |> mean(1, 2)
  y = mean(tokens + pairs, 1) + (mean(y, 2) |> fc: linear(8)) + sum(seen)
  return y |> out: linear(3)

model layers = Layers()
"""


WGPU = pytest.param("wgpu", marks=pytest.mark.adapter)


@pytest.mark.parametrize("device", effort([WGPU], ["cpu", WGPU, "xla:cpu"]))
def test_layers_on_halves_are_layers_on_what_they_are_widened_to(
    tmp_path: Path, device: str
) -> None:
    generator = np.random.default_rng(0)
    # Squares of numbers of this size are beyond the largest half.
    x = (1000 * generator.standard_normal((2, 4, 6, 6))).astype(np.float16)
    ids = generator.integers(0, 10, (2, 6)).astype(np.int32)
    found = {}
    for name, given, on in (("f16", x, device), ("f32", x.astype(np.float32), "cpu")):
        file = tmp_path / f"{name}.mgn"
        file.write_text(LAYERS.format(type=name))
        model = meganeura.load(str(file)).model(seed=0)
        with model.session({"n": 2}, device=on) as session:
            found[name] = session.step({"x": given, "ids": ids})["output"]
    assert found["f16"].dtype == np.float32
    scale = np.abs(found["f32"]).max()
    np.testing.assert_allclose(found["f16"] / scale, found["f32"] / scale, atol=1e-5)


def test_training_on_halves_moves_parameters_of_f32(tmp_path: Path) -> None:
    program = (
        "train fit(x: {type}[batch, 4], y: [batch, 3]):\n"
        "  minimize mse(x |> fc: linear(3), y)\n"
        "  run:\n"
        '    data = "none"\n    batch = 8\n    optimizer = sgd(lr=0.1)\n'
    )
    generator = np.random.default_rng(0)
    x = generator.standard_normal((8, 4)).astype(np.float16)
    y = generator.standard_normal((8, 3)).astype(np.float32)
    weights = []
    for name, given in (("f16", x), ("f32", x.astype(np.float32))):
        file = tmp_path / f"{name}.mgn"
        file.write_text(program.format(type=name))
        with meganeura.load(str(file)).trainer(device="cpu") as trainer:
            trainer.step({"x": given, "y": y})
            weights.append(trainer.weights["fc.weight"])
    assert weights[0].dtype == np.float32
    np.testing.assert_array_equal(*weights)
