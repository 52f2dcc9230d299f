"""Names of other systems are answered with a form of this language, and each form is proved."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.elaborate.problems.other_names import OTHER_NAMES
from meganeura_dsl.pipeline import check_file

PAGE = (Path(__file__).parents[3] / "docs" / "coming_from_pytorch.md").read_text()
INPUTS = (
    "x: [n, d], y: [n, d], v: [n, 8 * k], z: [n, c, d], w: [n, d, k], q: [n, heads, s, d],"
    " image: [n, 3, h, u], mask: bool[n, d], ids: i32[n]"
)
SIZES = "n >= 2, d >= 10, h >= 2, u >= 2"
FORMS = sorted(set(OTHER_NAMES.values()))


def reports(tmp_path: Path, text: str) -> list[Report]:
    file = tmp_path / "net.mgn"
    file.write_text(text)
    return list(check_file(str(file)).reports)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_proved(form: str, tmp_path: Path) -> None:
    top, line = (f"{form}\n", "1") if form.startswith("from ") else ("", form)
    body = f"block Net()({INPUTS}) -> [n, d]\n    where {SIZES}:\n  _y = {line}\n  return x\n"
    found = reports(tmp_path, top + body)
    assert {each.code for each in found} <= {"E0207"}, "\n".join(map(render, found))


def test_no_name_is_one_of_the_language(tmp_path: Path) -> None:
    assert not OTHER_NAMES.keys() & BUILTINS.keys()
    for name, form in OTHER_NAMES.items():
        text = f"block Net()(x: [n, d]) -> [n, d]:\n  return {name}(x)\n"
        (found,) = reports(tmp_path, text)
        assert (found.code, found.help and found.help.code) == ("E0201", form), name


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        ("x |> nn.LayerNorm", "x |> ln: layer_norm"),
        ("x |> fc: Dense(10)", "x |> fc: linear(10)"),
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
