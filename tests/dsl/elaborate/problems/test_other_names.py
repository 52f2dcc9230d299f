"""Names of other systems are answered with a form of this language, and each form is proved."""

import re
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.pipeline import check_file
from meganeura_dsl.syntax.problems.foreign_calls import function_cure
from tests.effort import effort
from tests.folded import each_of

PAGE = (Path(__file__).parents[4] / "docs" / "coming_from_pytorch.md").read_text()
INPUTS = (
    "x: [n, d], y: [n, d], v: [n, 8 * k], z: [n, c, d], one: [n, 1, d], w: [n, d, k], m: [d, k],"
    " edges: [k], row: [d], column: [n], q: [n, heads, s, e], image: [n, 3, h, u],"
    " mask: bool[n, d], ids: i32[n], order: i32[n, d]"
)
FACTS = "n >= 2, d >= 10, h >= 2, u >= 2, d % heads == 0, 0 <= ids, ids < d, 0 <= order, order < d"
FORMS = sorted({form.code for answer in other_names().values() for form in answer.forms})


def reports(tmp_path: Path, text: str) -> list[Report]:
    file = tmp_path / "net.mgn"
    file.write_text(text)
    return list(check_file(str(file)).reports)


@each_of("form", FORMS)
def test_each_form_is_proved(form: str, tmp_path: Path) -> None:
    *first, last = form.split("\n")
    top = [f"{line}\n" for line in first if line.startswith("from ")]
    body = [line for line in first if not line.startswith("from ")]
    lines = "".join(f"  {line}\n" for line in (*body, last if " = " in last else f"_y = {last}"))
    text = f"{''.join(top)}block Net()({INPUTS}) -> [n, d]\n    where {FACTS}:\n{lines}  return x\n"
    found = reports(tmp_path, text)
    assert {each.code for each in found} <= {"E0207"}, "\n".join(map(render, found))


def test_no_name_is_one_of_the_language(tmp_path: Path) -> None:
    names = list(other_names())[:: effort(4, 1)]
    assert not other_names().keys() & BUILTINS.keys()
    lines = "".join(
        f"block Net{number}()(x: [n, d]) -> [n, d]:\n  return {name}(x)\n"
        for number, name in enumerate(names)
    )
    found = reports(tmp_path, lines)
    assert [each.code for each in found] == ["E0201"] * len(names)
    for name, report in zip(names, found, strict=True):
        assert report.headline == f"nothing here is called `{name}`"
        specific = None if report.label is None else function_cure(report.label.span)
        assert report.help == (specific or other_names()[name].help())


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("x |> nn.LayerNorm", "x |> ln: layer_norm    # nn.LayerNorm(d)(x)"),
        ("x |> fc: Dense(10)", "fc: linear(10)"),
    ],
)
def test_a_name_with_a_module_or_a_label(call: str, advice: str, tmp_path: Path) -> None:
    (found,) = reports(tmp_path, f"block Net()(x: [n, d]) -> [n, d]:\n  return {call}\n")
    assert (found.code, found.help and found.help.code) == ("E0201", advice)


def test_the_message_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.mgn").write_text("block Net()(x: [n, d]) -> [n, d]:\n  return x |> flatten\n")
    (found,) = check_file("net.mgn").reports
    assert render(found).strip() in PAGE


@pytest.mark.parametrize("name", ["spreads", "windws", "fit"])
def test_no_formula_of_the_library_is_suggested(name: str, tmp_path: Path) -> None:
    (found,) = reports(tmp_path, f"block Net()(x: [n, d]) -> [n, d]:\n  return {name}(x)\n")
    said = found.help.text if found.help is not None else ""
    assert not re.search("`(spread|windows|fits)`", said)


def test_what_is_answered_is_never_respelled() -> None:
    assert other_names().keys() <= foreign_names()
