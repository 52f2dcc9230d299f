"""Messages about devices and hosts that cannot share a run, before anything runs."""

from pathlib import Path

import pytest

from meganeura_runtime.backends.reference.device import ReferenceDevice
from tests.cli.command import Command

COMMAND = ("train", "digits_mlp", "--set", "epochs=0")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("devices=3",), 1, "a batch has 32 examples, which 3 devices cannot share evenly"),
        (("devices=3",), 1, "--set batch=33"),
        (("devices=64",), 1, "--set batch=64"),
        (("devices=4", "drop_last=false"), 1, "the last batch of an epoch has 29 examples"),
        (("devices=4", "drop_last=false"), 1, "--set drop_last=true"),
        (("devices=4",), 2, "`cpu` runs on one device, and not on 4; `--device xla` runs on"),
        (("devices=0",), 2, "`devices` must be above 0"),
        (("sharding=tensor",), 2, "`sharding` must be data or fsdp"),
    ],
)
def test_devices_that_cannot_share_a_batch(
    meganeura: Command, tmp_path: Path, arguments: tuple[str, ...], code: int, text: str
) -> None:
    sets = [word for each in arguments for word in ("--set", each)]
    shown = meganeura(*COMMAND, "--device", "cpu", "--out", str(tmp_path / "run"), *sets)
    assert text in shown.err
    assert shown.code == code
    assert not (tmp_path / "run").exists()


def test_more_devices_than_there_are(meganeura: Command, tmp_path: Path) -> None:
    many = ("--device", "xla:cpu", "--set", "devices=16", "--out", str(tmp_path / "run"))
    shown = meganeura(*COMMAND, *many)
    assert "16 devices of the platform cpu are asked for; JAX has 1" in shown.err
    assert shown.code == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--hosts", "2"), "needs all of --coordinator, --hosts and --host"),
        (
            ("--coordinator", "here", "--hosts", "2", "--host", "0"),
            "no place such as 10.0.0.1:8476",
        ),
        (("--coordinator", "h:1", "--hosts", "2", "--host", "2"), "the numbers are 0 to 1"),
        (("--coordinator", "h:1", "--hosts", "2", "--host", "0"), "names its device"),
        (
            ("--coordinator", "h:1", "--hosts", "2", "--host", "0", "--device", "cpu"),
            "`cpu` runs on one host, and not on 2",
        ),
    ],
)
def test_hosts_that_cannot_meet(
    meganeura: Command, tmp_path: Path, arguments: tuple[str, ...], text: str
) -> None:
    shown = meganeura(*COMMAND, "--out", str(tmp_path / "run"), *arguments)
    assert text in shown.err
    assert shown.code == 2


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, None), (1, "n0"), (7, "n6"), (8, "n7"), (9, "n7 and 1 more"), (11, "n7 and 3 more")],
)
def test_what_each_device_holds_whole_is_said(
    meganeura: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    said: str | None,
) -> None:
    names = [f"n{number}" for number in range(count)]
    monkeypatch.setattr(ReferenceDevice, "replicated", lambda *_: names)
    shown = meganeura(*COMMAND, "--device", "cpu", "--out", str(tmp_path / "run"))
    assert shown.code == 0
    lines = [each for each in shown.out.splitlines() if each.startswith("whole on each device")]
    listed = ", ".join(names[:8])
    expected = f"whole on each device, as it divides no axis of them: {listed}"
    assert lines == ([] if said is None else [expected.removesuffix(said.split()[0]) + said])
