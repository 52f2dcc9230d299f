"""Output that is closed, full or no longer read, and names that are no text."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.shared_entries import cache_of_processes

PROGRAM = """\
block Net()(x: [n, 3]) -> [n, 2] = x |> fc: linear(2)

model net = Net()

train fit(x: [batch, 3], y: [batch, 2]):
  minimize mse(x |> net, y)
  run:
    data      = "x.npz"
    batch     = 8
    epochs    = 4
    log_every = 1
    optimizer = sgd(lr=0.1)
"""
BASH = shutil.which("bash") or ""
VARIABLES = {
    **os.environ,
    "M_PYTHON": sys.executable,
    "M_COMMAND": "import meganeura.cli.main as m; m.main()",
    "NO_COLOR": "1",
    "MEGANEURA_CACHE": cache_of_processes(),
}
pytestmark = pytest.mark.skipif(not BASH, reason="there is no bash")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fit.mgn").write_text(PROGRAM)
    generator = np.random.default_rng(0)
    x, y = (generator.normal(size=(64, count)).astype("f4") for count in (3, 2))
    np.savez(tmp_path / "x.npz", x=x, y=y)
    return tmp_path


def shell(
    folder: Path, script: str, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a script in which `m` is the command."""
    begin = 'm() { "$M_PYTHON" -c "$M_COMMAND" "$@"; }\n'
    return subprocess.run(
        [BASH, "-c", begin + script],
        cwd=folder,
        env={**VARIABLES, **(more or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_output_that_is_closed_goes_nowhere(folder: Path) -> None:
    """Not into the next file that is opened."""
    found = shell(folder, "m check fit.mgn >&- && m train fit.mgn --device cpu --out run >&-")
    assert (found.returncode, found.stderr) == (0, "")
    assert (folder / "run" / "weights.safetensors").exists()
    assert shell(folder, "m check fit.mgn <&- 2>&-").returncode == 0
    assert shell(folder, "m check none.mgn 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_a_full_disk_is_said(folder: Path) -> None:
    for command in ("check fit.mgn", "docs scan"):
        found = shell(folder, f"m {command} > /dev/full")
        assert found.returncode == 1
        said = "error: standard output cannot be written: No space left on device"
        assert found.stderr.splitlines() == [said]


def test_a_run_whose_reader_leaves_is_stopped_and_goes_on(folder: Path) -> None:
    script = "m train fit.mgn --device cpu --out run | head -1; exit ${PIPESTATUS[0]}"
    found = shell(folder, script)
    assert found.returncode == 128 + signal.SIGPIPE
    assert "stopping after this step" in found.stderr
    saved = {each.name for each in (folder / "run").iterdir()}
    assert {"checkpoint.safetensors", "weights.safetensors"} <= saved
    assert json.loads((folder / "run" / "run.json").read_text())["status"] == "stopped"
    found = shell(folder, "m train fit.mgn --device cpu --resume run")
    assert found.returncode == 0
    assert "done after 32 steps" in found.stdout
    assert "epoch 1 " not in found.stdout


@pytest.fixture
def hangups() -> Generator[None]:
    """A suite that itself ignores hangups, as under `nohup`, has processes that do not."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(
    ("begin", "epochs", "code", "status"),
    [("", 100_000, 128 + signal.SIGHUP, "stopped"), ("trap '' HUP; ", 100, 0, "finished")],
    ids=["", "nohup"],
)
def test_a_run_whose_terminal_is_gone_is_stopped(
    folder: Path, begin: str, epochs: int, code: int, status: str
) -> None:
    arguments = f"train fit.mgn --device cpu --set epochs={epochs} --out run"
    script = f'{begin}exec "$M_PYTHON" -c "$M_COMMAND" {arguments}'
    with subprocess.Popen(
        [BASH, "-c", script], cwd=folder, env=VARIABLES, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "step" in line)
        process.send_signal(signal.SIGHUP)
        process.stdout.read()
    assert process.returncode == code
    assert (folder / "run" / "checkpoint.safetensors").exists()
    assert json.loads((folder / "run" / "run.json").read_text())["status"] == status


@pytest.mark.parametrize("script", ["check $'\\xff.mgn'", "train fit.mgn --out $'o\\xff'"])
def test_a_name_that_is_no_text_is_refused(folder: Path, script: str) -> None:
    found = shell(folder, f"m {script}")
    assert found.returncode == 2
    assert "is not UTF-8, in which names are kept" in found.stderr
    assert not (folder / "runs").exists()


def test_a_terminal_that_knows_few_characters_is_given_others_in_ascii(folder: Path) -> None:
    found = shell(
        folder, "m check \N{LATIN SMALL LETTER U WITH DIAERESIS}.mgn", {"PYTHONIOENCODING": "ascii"}
    )
    assert found.returncode == 2
    assert "\\xfc.mgn`: there is no such file" in found.stdout
