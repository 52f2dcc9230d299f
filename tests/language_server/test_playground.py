"""The checker as the page of the playground asks it, in JSON and without a file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from meganeura.cli.app import run
from meganeura.language_server.playground import Playground

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "runtime/web/playground/lessons").glob("*.md"))
CASES = ROOT / "tests/shape_bugs"
WRONG = "block Net()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(3)\n"


def checked(text: str) -> dict[str, Any]:
    return json.loads(Playground().answer(json.dumps({"method": "check", "text": text})))


def program_of(lesson: Path) -> str:
    (_, program, _) = lesson.read_text().split("```")
    return program.removeprefix("mgn\n")


def test_a_program_is_judged_in_the_words_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in (WRONG, WRONG.replace("3", "2"), (CASES / "others/odd_skip/wrong.mgn").read_text()):
        Path("program.mgn").write_text(text)
        run(["check", "program.mgn"])
        found = checked(text)
        reports = "".join(f"{each['text']}\n\n" for each in found["problems"])
        assert capsys.readouterr().out == f"{reports}{found['verdict']}\n"


def test_shapes_and_verdicts_stand_at_their_places() -> None:
    found = checked(WRONG.replace("3", "2"))
    assert found["fine"]
    assert found["hints"] == [{"at": [1, 27], "text": "[n, 2]", "stage": True}]
    assert found["lenses"] == [{"line": 0, "text": "proved for all sizes"}]


def test_a_fix_is_given_with_the_problem_that_it_mends() -> None:
    text = "block Net()(x: [n, 4]) -> [n, 4]:\n  return rleu(x)\n"
    (problem,) = checked(text)["problems"]
    assert (problem["severity"], problem["code"], problem["range"][0]) == ("error", "E0201", [1, 9])
    (fix,) = problem["fixes"]
    (edit,) = fix["edits"]
    assert not fix["safe"]
    assert edit == {"range": [[1, 9], [1, 13]], "text": "relu"}


def test_of_many_problems_the_first_are_drawn_and_the_others_counted() -> None:
    lines = "".join(f"  y{at} = unknown{at}(x)\n" for at in range(30))
    found = checked(f"block Net()(x: [n]) -> [n]:\n{lines}  return x\n")
    assert len(found["problems"]) == 20
    assert found["unshown"] >= 10


def test_hovers_completion_format_pages_and_sources() -> None:
    page = Playground()
    page.check(WRONG.replace("3", "2"))
    hovered = page.hover([1, 14])
    assert hovered is not None
    assert "fc: f32[n, 2]" in hovered["text"]
    items = page.complete(f"{WRONG}block B()(y: [n]) -> [n]:\n  return y |> gel", [3, 17])
    assert "gelu" in {each["label"] for each in items}
    (edit,) = page.format("def a(n)   = n\n")
    assert edit["text"] == "def a(n) = n\n"
    assert page.page("E0301") is not None
    assert page.page("../E0301") is None
    assert "block Gpt2(" in page.source("gpt2")


def test_the_layers_of_a_model_are_those_of_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = Playground()
    assert page.check(page.source("digits_cnn"))["models"] == ["digits_cnn"]
    run(["summary", "digits_cnn"])
    assert capsys.readouterr().out == f"{page.layers('digits_cnn')}\n"


def test_a_name_of_a_source_is_no_path() -> None:
    with pytest.raises(KeyError):
        Playground().source("../pyproject")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_is_fine_and_laid_out(lesson: Path) -> None:
    program = program_of(lesson)
    found = checked(program)
    assert found["fine"], found["problems"]
    assert Playground().format(program) == []


def test_there_are_ten_lessons_and_more_puzzles_that_are_wrong_and_right() -> None:
    assert len(LESSONS) == 10
    folders = [CASES / "others", CASES / "tensorflow_program_bugs"]
    found = [case for folder in folders for case in folder.iterdir()]
    puzzles = [case for case in found if "# fed: " not in (case / "right.mgn").read_text()]
    assert len(puzzles) >= 12
    for case in puzzles:
        assert checked((case / "wrong.mgn").read_text())["problems"]
        assert checked((case / "right.mgn").read_text())["fine"]


SCRIPT = """
import sys
from meganeura.language_server.playground import Playground
Playground().check(sys.stdin.read())
print(*sorted({name.split(".")[0] for name in sys.modules} - {*sys.stdlib_module_names}))
"""


def test_it_needs_nothing_that_a_browser_lacks() -> None:
    program = (ROOT / "stdlib_models/digits_cnn.mgn").read_text()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], input=program, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "meganeura_dsl" in loaded
    assert loaded.isdisjoint({"egglog", "numpy", "rich", "safetensors", "typer", "wgpu"})
