"""`meganeura devices` and `meganeura fmt`."""

from pathlib import Path

import pytest

from meganeura_runtime.backends.webgpu.device import adapters
from tests.cli.command import Command

UNTIDY = "def f( a,b = 2 ) = a*b\n"
TIDY = "def f(a, b=2) = a * b\n"


def test_the_cpu_is_always_there(meganeura: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise adapters.DeviceError("no driver of any kind")

    monkeypatch.setattr(adapters, "list_devices", fail)
    shown = meganeura("devices")
    assert shown.code == 0
    assert shown.out.startswith("cpu ")
    assert "auto takes cpu (no driver of any kind)" in shown.out
    assert "no GPU can be used: no driver of any kind" in shown.err


def test_a_program_is_put_in_order_once(meganeura: Command, tmp_path: Path) -> None:
    path = tmp_path / "program.mgn"
    path.write_text(UNTIDY)
    assert meganeura("fmt", "--check", str(path)).code == 1
    assert path.read_text() == UNTIDY
    shown = meganeura("fmt", str(path))
    assert (shown.code, shown.out) == (0, f"changed {path}\n")
    assert path.read_text() == TIDY
    shown = meganeura("fmt", "--check", str(path))
    assert (shown.code, shown.out) == (0, "")


def test_a_broken_program_is_left_alone(meganeura: Command, tmp_path: Path) -> None:
    path = tmp_path / "program.mgn"
    path.write_text("def f( = 3\n")
    shown = meganeura("fmt", str(path))
    assert shown.code == 1
    assert "error[E0" in shown.err
    assert path.read_text() == "def f( = 3\n"
