"""Every optimizer on every device, optimized or not: one run in which each moves a layer."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

import meganeura
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS
from meganeura_runtime.train.events import Event, Logged
from tests.effort import effort
from tests.optimizers import ALL_OPTIMIZERS, write_points


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("optimizers")
    write_points(folder)
    (folder / "all.mgn").write_text(ALL_OPTIMIZERS)
    return folder


def trained(place: Path, device: str, optimize: str) -> dict[str, NDArray[np.float32]]:
    """All weights after ten steps."""
    settings = {"device": device, "optimize": optimize}
    name = f"{device.replace(':', '-')}-{optimize}"
    return load_file(
        meganeura.load(str(place / "all.mgn")).train(settings=settings, out=place / name).weights
    )


@pytest.fixture(scope="module")
def expected(place: Path) -> dict[str, NDArray[np.float32]]:
    """Those of the reference, and each layer has moved."""
    begun = meganeura.load(str(place / "all.mgn")).train(
        settings={"device": "cpu", "epochs": 0}, out=place / "begun"
    )
    first, last = load_file(begun.weights), trained(place, "cpu", "false")
    assert {name.rpartition(".")[0] for name in last} >= {*OPTIMIZERS, "ours"}
    for name, values in last.items():
        assert np.all(np.isfinite(values)), name
        assert np.any(values != first[name]), name
    return last


@pytest.mark.parametrize(
    ("device", "optimize"),
    [
        ("wgpu:0", "true"),
        *effort([], [("cpu", "true"), ("wgpu:0", "false"), ("xla:cpu", "true")]),
    ],
)
def test_devices_agree_on_all_optimizers(
    place: Path, expected: dict[str, NDArray[np.float32]], device: str, optimize: str
) -> None:
    found = trained(place, device, optimize)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-3, atol=1e-4, err_msg=name)


def test_the_gradient_norm_is_told_and_recorded(place: Path) -> None:
    """Its first value is that of a run that is not clipped, and of one that is."""
    found: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Logged):
            found.append(event.metrics["gradient_norm"])

    for number, clip in enumerate(("none", "0.01")):
        meganeura.load(str(place / "all.mgn")).train(
            device="cpu",
            settings={"gradient_norm": True, "clip_norm": clip, "epochs": 1, "log_every": 1},
            out=place / f"norm-{number}",
            watch=watch,
        )
        text = (place / f"norm-{number}/metrics.jsonl").read_text()
        assert text.count('"gradient_norm"') == 5
    assert found[0] == found[5] > 0.1
