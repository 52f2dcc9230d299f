"""Tensors of PyTorch as they are given to models and trainers."""

from pathlib import Path

import numpy as np
import torch

import meganeura


def test_a_tensor_may_require_a_gradient_or_be_of_bf16(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(
        "block Net()(x: [n, 2]) -> [n, 2]:\n  return 2 * x\n\nmodel net = Net()\n"
    )
    model = meganeura.load(str(tmp_path / "net.mgn")).model()
    for tensor in (
        torch.full((2, 2), 1.5, requires_grad=True),
        torch.full((2, 2), 1.5, dtype=torch.bfloat16, requires_grad=True),
        torch.full((2, 2), 1.5, dtype=torch.float16),
    ):
        found = model.run({"x": tensor}, device="cpu")["output"]
        np.testing.assert_array_equal(found, np.full((2, 2), 3))
