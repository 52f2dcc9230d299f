"""`meganeura check`: reports, summaries, JSON, one line each, and settings."""

import json
import os
import re
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


def test_notes_of_a_fine_program_are_counted(meganeura: Command, tmp_path: Path) -> None:
    """The last line alone tells that there is more to read."""
    target = written(tmp_path, FINE.replace("x |> twice", "x |> w: linear(2)"))
    shown = meganeura("check", target)
    assert shown.code == 0
    assert shown.out.startswith("note[N0004]")
    last = shown.out.splitlines()[-1]
    assert last == f"{target}: fine, with 1 note, 1 block proved for all sizes"


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


@pytest.mark.parametrize("settings", ["", "  run:\n    optimizer = adam(lr=0.1)\n"])
def test_what_a_run_needs_may_be_given_with_its_command(
    meganeura: Command, tmp_path: Path, settings: str
) -> None:
    """With a `run:` or without one, what is missing is asked for where a run begins."""
    path = written(tmp_path, FINE.partition("  run:\n")[0] + settings)
    assert meganeura("check", path).code == 0
    shown = meganeura("train", path)
    assert shown.code == 1
    assert "error[E0511]: the setting `batch` is missing" in shown.out + shown.err


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


# --- formats -------------------------------------------------------------------------------------

WRONG = FINE.replace("x + x", "x + y")


def test_sarif_is_one_log_of_all_targets(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, WRONG)
    shown = meganeura("check", "--output-format", "sarif", "digits_cnn", target, "no.mgn")
    assert shown.code == 1
    assert shown.err == ""
    log = json.loads(shown.out)
    first, second = log["runs"][0]["results"]
    assert first["ruleId"] == "E0201"
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == Path(target).as_uri()
    assert place["region"]["startLine"] == 1
    assert second["ruleId"] == "E0119"


def test_github_annotations_are_one_line_each(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, WRONG)
    shown = meganeura("check", "--format", "github", target)
    assert shown.code == 1
    [line] = shown.out.splitlines()
    assert line.startswith(f"::error file={target},line=1,endLine=1,col=")
    assert ",title=E0201::nothing here is called `y`" in line
    assert meganeura("check", "--format", "github", "digits_cnn").out == ""


def test_every_format_has_the_same_exit_code(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, WRONG)
    for name in ("text", "short", "json", "sarif", "github"):
        codes = [meganeura("check", "--format", name, each).code for each in (target, "no.mgn")]
        assert codes == [1, 2]
        assert meganeura("check", "--format", name, "digits_mlp").code == 0
    for old, new in (("--json", "json"), ("--short", "short")):
        results = [meganeura("check", *each, target) for each in ([old], ["--format", new])]
        assert results[0] == results[1]
        assert results[0] == meganeura("check", old, "--format", new, target)


def test_one_output_has_one_format(meganeura: Command) -> None:
    for options in (["--json", "--short"], ["--json", "--format", "sarif"], ["--format", "xml"]):
        shown = meganeura("check", *options, "digits_mlp")
        assert (shown.code, shown.out) == (2, "")
        assert "--output-format" in shown.err


# --- fixes ---------------------------------------------------------------------------------------

BROKEN = """\
block Twice(x: [n, d]) -> [n, d] = x + x

model twice: Twice()

train fit(x: [batch, 3])
  minimize mean(x |> twise)
  run:
    data  = "x.safetensors"
    bacth = 4
"""


HALF_FIXED = FINE.replace("|> twice", "|> twise").replace("batch = 4", "bacth = 4")


def test_unasked_only_safe_fixes_are_applied(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN)
    shown = meganeura("check", "--fix", target)
    assert shown.code == 1
    assert Path(target).read_text() == HALF_FIXED
    assert [line for line in shown.out.splitlines() if line.startswith(("fixed", "changed"))] == [
        f"fixed {target}:1: E0131: write both, even if the first is empty",
        f"fixed {target}:3: E0101: write `=`",
        f"fixed {target}:5: E0112: write a colon",
    ]
    assert shown.out.count("  suggestion: did you mean ") == 2  # of a layer and of a setting


@pytest.mark.parametrize("name", ["nadam", "radam", "asgd", "adamax"])
def test_an_optimizer_of_another_system_is_not_respelled(
    meganeura: Command, tmp_path: Path, name: str
) -> None:
    text = FINE.replace("batch = 4", f"batch = 4\n    optimizer = {name}(lr=1e-3)")
    target = written(tmp_path, text)
    shown = meganeura("check", "--fix", "--unsafe", target)
    assert shown.code == 1
    assert f"`{name}` is no optimizer" in shown.out
    assert "did you mean" not in shown.out
    assert Path(target).read_text() == text


def test_an_optimizer_of_the_library_is_imported_as_the_message_says(
    meganeura: Command, tmp_path: Path
) -> None:
    text = FINE.replace("batch = 4", "batch = 4\n    optimizer = radam(lr=1e-3)")
    shown = meganeura("check", written(tmp_path, text))
    assert "from optimizers import radam" in shown.out
    again = meganeura("check", written(tmp_path, f"from optimizers import radam\n\n{text}"))
    assert again.code == 0


def test_a_rule_of_the_library_is_explained(meganeura: Command) -> None:
    shown = meganeura("explain", "radam")
    assert shown.code == 0
    assert "optimizer radam(lr: real = 1e-3" in shown.out
    assert "torch.optim.RAdam" in shown.out


def test_unsafe_says_what_fix_applies(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN)
    shown = meganeura("check", "--unsafe", target)
    assert shown.code == 2
    assert "give both" in shown.err
    assert Path(target).read_text() == BROKEN


def test_fixes_are_applied_until_none_is_left(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN)
    Path(target).chmod(0o640)
    shown = meganeura("check", "--fix", "--unsafe", target)
    assert (shown.code, shown.err) == (0, "")
    assert Path(target).read_text() == FINE
    assert Path(target).stat().st_mode & 0o777 == 0o640
    assert shown.out.splitlines() == [
        f"fixed {target}:1: E0131: write both, even if the first is empty",
        f"fixed {target}:3: E0101: write `=`",
        f"fixed {target}:5: E0112: write a colon",
        f"changed {target}:6: E0201: did you mean `twice`?",
        "    6 -   minimize mean(x |> twise)",
        "    6 +   minimize mean(x |> twice)",
        f"changed {target}:9: E0510: did you mean `batch`?",
        "    9 -     bacth = 4",
        "    9 +     batch = 4",
        f"{target}: fine, 1 block proved for all sizes",
    ]
    assert list(tmp_path.iterdir()) == [Path(target)]


def test_what_remains_decides_the_exit_code(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN.replace("x + x", "x + z"))
    shown = meganeura("check", "--fix", "--json", target)
    assert shown.code == 1
    assert f"fixed {target}:3: E0101: write `=`" in shown.err
    [checked] = json.loads(shown.out)
    codes = [report["code"] for report in checked["reports"]]
    assert codes == ["E0201", "E0201", "E0510"]
    again = Path(target).read_text()
    assert meganeura("check", "--fix", target).code == 1
    assert Path(target).read_text() == again


def test_without_fix_nothing_is_written(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN)
    assert "3 + model twice = Twice()" in meganeura("check", target).out
    assert Path(target).read_text() == BROKEN


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_all_else_of_a_file_stays(meganeura: Command, tmp_path: Path, mark: bytes) -> None:
    text = "# größe\r\nblock A()(x: [n])\r\n  if n > 1: x = x # 1\r\n  return x\r\n\r\n\r\n"
    right = (
        "# größe\r\nblock A()(x: [n]):\r\n  if n > 1:\r\n    x = x # 1\r\n  return x\r\n\r\n\r\n"
    )
    path = tmp_path / "net.mgn"
    path.write_bytes(mark + text.encode())
    link = tmp_path / "link.mgn"
    link.symlink_to(path)
    meganeura("check", "--fix", str(link))
    assert path.read_bytes() == mark + right.encode()
    assert link.is_symlink()


def test_only_the_named_file_is_fixed(meganeura: Command, tmp_path: Path) -> None:
    (tmp_path / "lib.mgn").write_text("block A()(x: [n])\n  return x\n")
    target = written(tmp_path, "from lib import A\n\nmodel a: A()\n")
    shown = meganeura("check", "--fix", target)
    assert shown.code == 1
    assert "E0112" in shown.out
    assert (tmp_path / "lib.mgn").read_text() == "block A()(x: [n])\n  return x\n"
    assert Path(target).read_text() == "from lib import A\n\nmodel a = A()\n"


def test_a_standard_model_is_never_written(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own.mgn").write_text("model a: A()\n")
    monkeypatch.setattr("meganeura_dsl.program.standard_models", lambda: tmp_path)
    shown = meganeura("check", "--fix", "own")
    assert shown.code == 1
    assert "fixed" not in shown.out
    assert (tmp_path / "own.mgn").read_text() == "model a: A()\n"


def test_a_file_that_cannot_be_written_stays(meganeura: Command, tmp_path: Path) -> None:
    target = written(tmp_path, BROKEN)
    (tmp_path / f".program.mgn.{os.getpid()}.partial").mkdir()
    shown = meganeura("check", "--fix", target)
    assert shown.code == 1
    assert "E0534" in shown.err
    assert Path(target).read_text() == BROKEN


def test_check_judges_what_run_does(meganeura: Command, tmp_path: Path) -> None:
    wrong = "\nblock Wrong()(x: [n, 4]) -> [n, 3] = x\n\nmodel wrong = Wrong()\n"
    target = written(tmp_path, FINE + wrong)
    for name in ("", ":twice", ":wrong"):
        shown = meganeura("check", target + name)
        assert shown.code == 1
        assert f"{target}{name}: 1 error" in shown.out
        assert meganeura("shapes", f"{target}:twice").code == 1
    target = written(tmp_path, FINE)
    assert meganeura("check", f"{target}:twice").code == 0
    assert meganeura("check", f"{target}:thrice").code == 2


@pytest.mark.parametrize(
    "setting", ['optimizer["heads.*"] = sgd(lr=1e-3)', 'schedule["heads.*"] = constant(warmup=3)']
)
def test_paths_that_match_nothing_are_told_before_a_run(
    setting: str, meganeura: Command, tmp_path: Path
) -> None:
    program = f"""\
block Net()(x: [n, 3]) -> [n, 1] = x |> head: linear(1)

model net = Net()

train fit(x: [batch, 3]):
  minimize mean(x |> net())
  run:
    data      = "x.safetensors"
    batch     = 4
    epochs    = 1
    optimizer = adam(lr=1e-3)
    {setting}
"""
    shown = meganeura("check", written(tmp_path, program))
    assert shown.code == 1
    assert "error[E0509]: no parameter matches `heads.*`" in shown.err + shown.out
    assert "head.bias, head.weight" in shown.err + shown.out
    right = meganeura("check", written(tmp_path, program.replace("heads.*", "head.*")))
    assert right.code == 0


def test_of_many_problems_the_first_are_drawn_and_the_others_counted(
    meganeura: Command, tmp_path: Path
) -> None:
    lines = "".join(f"  y{n} = x + missing{n}\n" for n in range(25))
    (tmp_path / "net.mgn").write_text(f"block f()(x: [n]) -> [n]:\n{lines}  return x\n")
    shown = meganeura("check", str(tmp_path / "net.mgn"))
    assert shown.out.count("error[E0201]") == 20
    found = re.search(r"^(\d+) more problems, not shown: --short has all", shown.out, re.MULTILINE)
    assert found is not None
    short = meganeura("check", str(tmp_path / "net.mgn"), "--short").out.splitlines()
    assert len(short) == 20 + int(found[1])
    assert sum("E0201" in line for line in short) == 25
