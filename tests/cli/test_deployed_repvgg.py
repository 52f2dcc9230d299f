"""A file that `meganeura deploy` writes is run as the deployed form of the same model."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_runtime.io.weights import write_weights
from tests.cli.command import Command
from tests.narrow import NARROW, trained


@pytest.mark.parametrize(("name", "device"), [("repvgg_b1g4", "cpu"), ("repvgg_a0", "wgpu:0")])
def test_it_gives_the_numbers_of_the_original(
    name: str, device: str, meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = NARROW[name]
    elaboration = model.elaborate()
    write_weights(Path("trained.safetensors"), elaboration.parameters, trained(elaboration), {})
    picture = np.random.default_rng(1).normal(size=(2, 3, 32, 32)).astype(np.float32)
    np.save("x.npy", picture)
    options = [f"{key}={value}" for key, value in model.config.items()]
    settings = [word for option in options for word in ("--set", option)]

    def output(weights: str, *more: str) -> np.ndarray:
        where = ("--weights", weights, "--device", device, "--input", "x.npy", "--output", "y.npy")
        shown = meganeura("run", name, *settings, *more, *where)
        assert (shown.code, shown.err) == (0, "")
        return np.load("y.npy")

    files = ("--weights", "trained.safetensors", "-o", "deployed.safetensors")
    assert meganeura("deploy", name, *settings, *files).code == 0
    found = output("deployed.safetensors", "--set", "deployed=true")
    expected = output("trained.safetensors")
    assert np.ptp(expected) > 0.01
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())

    checked = meganeura("weights", "check", name, "deployed.safetensors", *settings)
    assert "E0540" in checked.out  # it is not the trained form
