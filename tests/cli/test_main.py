"""The command itself: help, version, exit codes, and errors without tracebacks."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import meganeura_dsl
from meganeura import cli
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
        ("train", "digits_cnn", "--set", "epochs=-1"),
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
    command = "import meganeura.cli.main as m; m.main()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "abi", "resnet18"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


ESCAPE = "\x1b]0;owned\x07\u202e"


@pytest.mark.parametrize(
    ("text", "code"), [("block A()(x: [n]) -> [n] = x\n", 0), ("block A()(x: [n]) -> [n] = y\n", 1)]
)
def test_what_a_file_is_called_does_not_reach_the_terminal_raw(
    meganeura: Command, tmp_path: Path, text: str, code: int
) -> None:
    path = tmp_path / f"a{ESCAPE}.mgn"
    path.write_text(text)
    for command in ("check", "fmt", "gradcheck", "abi", "train", "build"):
        told = meganeura(command, str(path))
        for stream in (told.out, told.err):
            assert all(char.isprintable() or char == "\n" for char in stream), command
    told = meganeura("check", "--json", str(path))
    assert told.code == code
    assert json.loads(told.out)[0]["target"] == str(path)
    assert "\x1b" not in told.out


@pytest.mark.parametrize(
    "arguments",
    [
        [ESCAPE],
        ["check", f"--{ESCAPE}"],
        ["check", "--format", ESCAPE, "net.mgn"],
        ["gradcheck", "nn", "--block", ESCAPE],
        ["train", "digits_mlp", "--set", ESCAPE],
        ["check", ESCAPE],
        ["explain", ESCAPE],
    ],
)
def test_wrong_arguments_do_not_reach_the_terminal_raw(
    meganeura: Command, arguments: list[str]
) -> None:
    told = meganeura(*arguments)
    assert told.code == 2
    assert (told.out + told.err).count("owned") >= 1
    for stream in (told.out, told.err):
        assert all(char.isprintable() or char == "\n" for char in stream)


def test_commands_write_in_one_way_which_escapes() -> None:
    paths = list(Path(cli.__path__[0]).rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert ("typer.echo" in text) == (path.name == "console.py"), path
        assert not re.search(r"(?<![.\w])print\(", text), path
