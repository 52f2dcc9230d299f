"""The command itself: help, version, exit codes, and errors without tracebacks."""

import subprocess
import sys

import pytest

import meganeura_dsl
from meganeura_dsl import pipeline
from meganeura_dsl.resources import standard_models
from tests.cli.command import Command


def test_help_lists_every_verb(meganeura: Command) -> None:
    shown = meganeura("--help")
    assert shown.code == 0
    for verb in (
        "check",
        "train",
        "run",
        "weights",
        "shapes",
        "abi",
        "build",
        "gradcheck",
        "explain",
        "fmt",
        "devices",
        "cache",
    ):
        assert f"  {verb} " in shown.out


def test_the_version_is_the_package_s(meganeura: Command) -> None:
    shown = meganeura("--version")
    assert (shown.code, shown.out) == (0, f"meganeura {meganeura_dsl.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("check",),
        ("check", "--frobnicate", "digits_cnn"),
        ("check", "no_such_model"),
        ("abi", "no_such_model"),
        ("check", f"{standard_models()}/digits_cnn.mgn:no_such_model"),
        ("build", "digits_cnn", "--emit", "machine_code"),
        ("build", "digits_cnn", "--mode", "infer", "--emit", "graph", "--size", "n=zero"),
        ("build", "digits_cnn", "--mode", "infer", "--emit", "graph", "--size", "k=3"),
        ("build", "digits_cnn", "--mode", "infer", "--emit", "plan"),
        ("build", "digits_cnn", "--size", "bach=3"),
        ("train", "digits_cnn", "--set", "batch"),
        ("train", "digits_cnn", "--set", "epochs=0"),
        ("train", "digits_cnn", "--set", "bach=3"),
        ("train", "digits_cnn", "--seed", "-1"),
        ("train", "digits_cnn", "--seed", "x"),
        ("train", "digits_cnn", "--device", "abacus"),
        ("train", "digits_cnn", "--set", "data=no.safetensors"),
        ("fmt", "no.mgn"),
    ],
)
def test_a_wrong_command_line_exits_with_2(meganeura: Command, arguments: tuple[str, ...]) -> None:
    shown = meganeura(*arguments)
    assert shown.code == 2
    assert shown.err or shown.out
    assert "Traceback" not in shown.err


def test_the_nearest_model_is_offered(meganeura: Command) -> None:
    assert "digits_cnn" in meganeura("abi", "digit_cnn").err


def test_an_internal_error_asks_to_be_reported(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr(pipeline, "load", fail)
    shown = meganeura("abi", "digits_cnn")
    assert shown.code == 1
    assert "internal error: ZeroDivisionError: of all things" in shown.err
    assert "MEGANEURA_TRACEBACK=1" in shown.err
    monkeypatch.setenv("MEGANEURA_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        meganeura("abi", "digits_cnn")


def test_too_little_memory_is_no_internal_error(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> None:
        raise MemoryError

    monkeypatch.setattr(pipeline, "load", fail)
    shown = meganeura("abi", "digits_cnn")
    assert (shown.code, shown.err) == (1, "out of memory: a smaller batch needs less\n")


def test_a_reader_that_leaves_is_no_error() -> None:
    command = "import meganeura_dsl.cli.main as m; m.main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "abi", "resnet18"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
