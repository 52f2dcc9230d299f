"""The scripts of `docs/coming_from_pytorch.md` do the same."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import meganeura

pytestmark = pytest.mark.parity

PAGE = (Path(__file__).parents[2] / "docs" / "coming_from_pytorch.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def lines_of(*texts: str) -> int:
    """The lines that are not empty."""
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def test_both_scripts_have_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 1797)
    patterns = generator.uniform(0, 16, size=(10, 1, 8, 8))
    images = patterns[labels] + generator.normal(size=(1797, 1, 8, 8))
    np.savez("digits.npz", image=images.astype(np.float32), label=labels)
    theirs, ours = blocks("py")
    (program,) = blocks("mgn")
    Path("net.mgn").write_text(program)
    found: list[list[float]] = []
    for script in (theirs, ours):
        names: dict[str, Any] = {}
        exec(compile(script, "coming_from_pytorch.md", "exec"), names)  # noqa: S102 - our own text
        found.append(names["losses"])
        names["data"].close()  # the file that the page leaves to the end of its process
    assert len(found[0]) == 20
    assert found[0][-1] < 0.95 * found[0][0]
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
    assert load_file("runs/net/weights.safetensors").keys() == load_file("start.safetensors").keys()
    assert lines_of(ours, program) < lines_of(theirs)


def test_tensors_of_torch_are_read(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    image = generator.uniform(0, 16, size=(4, 1, 8, 8)).astype(np.float32)
    label = generator.integers(0, 10, 4)
    program = meganeura.load("digits_mlp")
    losses: list[float] = []
    for given in (image, label), (torch.from_numpy(image), torch.from_numpy(label)):
        with program.trainer(device="cpu") as trainer:
            losses.append(trainer.step({"image": given[0], "label": given[1]}).loss)
    assert losses[0] == losses[1]
    with program.trainer(device="cpu") as trainer:
        given = torch.from_numpy(image).requires_grad_()
        assert trainer.step({"image": given, "label": label}).loss == losses[0]
    assert not [*tmp_path.iterdir()]
