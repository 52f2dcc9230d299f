"""`meganeura check`: reports, summaries, JSON, one line each, and settings."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Command

FINE = """\
block Twice()(x: [n, d]) -> [n, d] = x + x

model twice = Twice()

train fit(x: [batch, 3]):
  minimize mean(x |> twice)
  run:
    data  = "x.safetensors"
    batch = 4
"""


def written(folder: Path, text: str) -> str:
    path = folder / "program.mgn"
    path.write_text(text)
    return str(path)


def test_a_fine_program_is_summed_up(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, FINE)
    shown = meganeura("check", target)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out == f"{target}: fine, 1 block proved for all sizes\n"


def test_several_targets_are_checked_and_one_wrong_one_decides(
    meganeura: Command, tmp_path: Path
) -> None:
    target = written(tmp_path, FINE.replace("x + x", "x + y"))
    shown = meganeura("check", "digits_cnn", target)
    assert shown.code == 1
    assert "digits_cnn: fine" in shown.out
    assert f"{target}: 1 error" in shown.out
    assert "program.mgn:1" in shown.out


def test_short_reports_are_one_line_each(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, FINE.replace("x + x", "x + y"))
    [line] = meganeura("check", "--short", target).out.splitlines()
    assert line.startswith(f"{target}:1:")
    assert ": error[E0" in line


def test_json_holds_all_that_was_found(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, FINE.replace("x + x", "x + y"))
    shown = meganeura("check", "--json", "digits_cnn", target)
    fine, wrong = json.loads(shown.out)
    assert (fine["target"], fine["fine"], fine["reports"]) == ("digits_cnn", True, [])
    assert "Residual" in fine["proved"]
    assert wrong["fine"] is False
    [report] = wrong["reports"]
    assert (report["file"], report["line"], report["severity"]) == (target, 1, "error")


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("batch = 4", "batch = 0", "E0513", 9),
        ("batch = 4", "bach = 4", "E0510", 9),
        ("batch = 4", 'batch = "4"', "E0512", 9),
        ("batch = 4", "optimizer = adam()", "E0511", 8),
    ],
)
def test_settings_are_checked_too(
    meganeura: Command, tmp_path: Path, old: str, new: str, code: str, line: int
) -> None:
    shown = meganeura("check", "--json", written(tmp_path, FINE.replace(old, new)))
    assert shown.code == 1
    [checked] = json.loads(shown.out)
    report = next(each for each in checked["reports"] if each["code"] == code)
    assert report["line"] == line


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"model = \x00", b"\tmodel", b"def f(", b"(" * 10_000],
    ids=["empty", "not UTF-8", "NUL", "tab", "unclosed", "deep"],
)
def test_no_file_makes_a_traceback(meganeura: Command, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "program.mgn"
    path.write_bytes(content)
    shown = meganeura("check", str(path))
    assert shown.code == 1
    assert "error[E0" in shown.out
    assert "internal" not in shown.err


def test_a_file_that_is_not_there_is_the_command_line_s_fault(
    meganeura: Command, tmp_path: Path
) -> None:
    shown = meganeura("check", str(tmp_path / "no.mgn"))
    assert shown.code == 2
    assert "no.mgn" in shown.out
