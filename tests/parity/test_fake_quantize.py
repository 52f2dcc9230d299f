"""Numbers that are rounded with a slope: the numbers and slopes that PyTorch has."""

from pathlib import Path

import numpy as np
import torch

import meganeura

SLOPES = """\
block Net()(x: [n, d]) -> y: [n, d], slope: [n, d]:
  y = x |> fake_quantize(0.05, zero=3, low=0, high=15)
  return y, grad(sum(y * x), x)

model net = Net()

block Groups()(x: [n, d]) -> [n, d]:
  y = insert_axis(x, 1, 1) |> fake_quantize_groups
  return grad(sum(2 * y), x)

model groups = Groups()
"""


def test_slopes_are_straight_through(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(SLOPES)
    x = np.random.default_rng(0).normal(size=(6, 40)).astype(np.float32)
    x[0, :3] = 0.025, 0.075, 0.125  # halves, which are rounded to even numbers
    given = torch.tensor(x, requires_grad=True)
    wanted = torch.fake_quantize_per_tensor_affine(given, 0.05, 3, 0, 15)
    (wanted * given).sum().backward()  # pyright: ignore[reportUnknownMemberType] - torch leaves it open
    program = meganeura.load(str(tmp_path / "net.mgn"))
    found = program.model("net").run({"x": x}, device="cpu")
    levels = found["y"] / np.float32(0.05)
    np.testing.assert_allclose(levels, np.rint(levels), atol=1e-5)
    near = np.abs(found["y"] - wanted.detach().numpy())
    assert near.max() <= 0.0501  # where torch multiplies by 1 / 0.05, a half may round otherwise
    assert (near > 1e-6).mean() < 0.02
    assert given.grad is not None
    slopes = given.grad.numpy() - wanted.detach().numpy() + found["y"]
    np.testing.assert_allclose(found["slope"], slopes, atol=1e-6)
    (twos,) = program.model("groups").run({"x": x}, device="cpu").values()
    np.testing.assert_array_equal(twos, np.full_like(x, 2))
