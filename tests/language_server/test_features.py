"""Each answer to an editor as a function of a text and a place, marked by `^` in the tests."""

import pytest
from lsprotocol.types import CodeActionKind, Hover, MarkupContent, Position, TextEdit

from meganeura.language_server.analysis import Analysis, analyse
from meganeura.language_server.code_actions import code_actions, formatting
from meganeura.language_server.code_lenses import code_lenses
from meganeura.language_server.completion import completion
from meganeura.language_server.hover import hover
from meganeura.language_server.inlay_hints import inlay_hints
from meganeura.language_server.navigation import (
    definition,
    document_symbols,
    folding_ranges,
    references,
)
from meganeura.language_server.rename import RenameError, Renaming, rename, renamed_range
from meganeura.language_server.semantic_tokens import LEGEND, semantic_tokens
from meganeura.language_server.signature_help import signature_help

URI = "file:///programs/net.mgn"
NET = """\
# A small network.
# It has two layers.
block Net(wide=8)(x: [n, 3]) -> [n, 2] where wide >= 2:
  h = x |> first: linear(wide) |> relu
  if wide > 4:
    h = h * 2
  return h |> second: linear(2)

model net = Net(wide=4)
expect net has 26 weights

train fit(x: [batch, 3], y: i32[batch]):
  minimize cross_entropy(net(x), y)
  run:
    batch = 2
    epochs = 1
"""


def analysed(text: str = NET) -> Analysis:
    return analyse(URI, text, {})


def at(text: str, mark: str, number: int = 0) -> Position:
    """The position right behind the beginning of a text, the so manieth of its kind."""
    offset = -1
    for _ in range(number + 1):
        offset = text.index(mark, offset + 1)
    before = text[: offset + 1]
    return Position(before.count("\n"), len(before) - before.rfind("\n") - 1)


def hovered(text: str, mark: str, number: int = 0) -> str:
    found = hover(analysed(text), at(text, mark, number))
    assert isinstance(found, Hover)
    assert isinstance(found.contents, MarkupContent)
    return found.contents.value


def edited(text: str, edits: list[TextEdit]) -> str:
    lines = text.split("\n")
    for edit in sorted(edits, key=lambda each: each.range.start, reverse=True):
        row, start, end = (
            edit.range.start.line, edit.range.start.character, edit.range.end.character,
        )  # fmt: skip
        assert edit.range.end.line == row
        lines[row] = lines[row][:start] + edit.new_text + lines[row][end:]
    return "\n".join(lines)


def test_a_value_has_its_type_and_what_is_known_there() -> None:
    said = hovered(NET, "h = h * 2")
    assert "h: f32[n, wide]" in said
    assert "Known here: `wide >= 2`, `wide > 4`" in said


def test_a_block_has_its_comment_its_head_and_its_proof() -> None:
    said = hovered(NET, "Net(wide=4)")
    assert "# It has two layers.\nblock Net(wide=8)(x: [n, 3]) -> [n, 2] where wide >= 2" in said
    assert "proved for all sizes" in said


def test_a_stage_has_its_checkpoint_names() -> None:
    said = hovered(NET, "first: linear")
    assert "Under this label in the checkpoint of `net`:" in said
    assert "first.weight: f32[4, 3]\nfirst.bias: f32[4]\n```" in said
    text = """\
block Net()(x: [n, 3]) -> [n, 3]:
  for i in 0..2:
    x = x |> layers[i].fc: linear(3)
  return x
model net = Net()
"""
    assert "layers.0.fc.weight: f32[3, 3]" in hovered(text, "layers[i]")


def test_names_of_the_library_functions_and_settings_have_their_pages() -> None:
    assert "block linear" in hovered(NET, "linear(wide)")
    assert "`epochs" in hovered(NET, "epochs = 1")


def test_a_problem_has_its_counterexample() -> None:
    text = "block Net(c)(x: [n, d]) -> [n, d] = x |> fc: linear(c)\n"
    assert "for example  c=1  d=2" in hovered(text, "linear(c)")


def test_definitions_of_all_kinds_of_names() -> None:
    analysis = analysed()

    def line(mark: str, number: int = 0) -> int | None:
        found = definition(analysis, at(NET, mark, number))
        return None if found is None else found.range.start.line

    assert line("Net(wide=4)") == 2
    assert line("wide=4") == 2
    assert line("wide)") == 2
    assert line("h * 2") == 3
    assert line("net(x)") == 8
    library = definition(analysis, at(NET, "linear(wide)"))
    assert library is not None
    assert library.uri.endswith("nn.mgn")


def test_references_are_those_of_one_scope() -> None:
    text = NET.replace("train fit(x", "def f(wide) = wide\ntrain fit(x")
    lines = [each.range.start.line for each in references(analysed(text), at(text, "wide=8"))]
    assert lines == [2, 2, 3, 4, 8]


def test_the_outline_and_the_folds() -> None:
    symbols = document_symbols(analysed())
    assert [each.name for each in symbols] == ["Net", "net", "fit"]
    assert symbols[0].range.end.line == 6
    folds = [(each.start_line, each.end_line) for each in folding_ranges(analysed())]
    assert folds == [(2, 6), (4, 5), (11, 15), (13, 15), (0, 1)]


def test_safe_fixes_are_preferred_and_others_say_what_they_do() -> None:
    text = """\
block A()(x: [n, d]) -> [n, d]
  return x
block M()(x: [n, d]) -> [n, d] = softmx(x, 1)
"""
    analysis = analysed(text)
    actions = code_actions(analysis, analysis.positions.whole())
    kinds = [(each.kind, each.is_preferred) for each in actions]
    assert kinds == [
        (CodeActionKind.QuickFix, True),
        (CodeActionKind.QuickFix, False),
        (CodeActionKind.SourceFixAll, None),
    ]
    assert actions[1].title.endswith("`softmax` (changes what the program means)")
    assert actions[2].edit is not None
    assert actions[2].edit.changes is not None
    assert edited(text, list(actions[2].edit.changes[URI])) == text.replace(
        "[n, d]\n", "[n, d]:\n", 1
    )


def test_formatting_is_that_of_fmt_and_leaves_what_is_broken() -> None:
    (edit,) = formatting(analysed("def f( n )=n\n"))
    assert edit.new_text == "def f(n) = n\n"
    assert formatting(analysed("def f( n )=\n")) == []
    assert formatting(analysed(edit.new_text)) == []


def test_the_form_of_a_call_marks_the_argument() -> None:
    text = NET.replace("linear(wide) |> relu", "conv2d(8, 3, pad=")
    offset = text.index("pad=") + 4
    found = signature_help(analysed(), text, offset)
    assert found is not None
    (form,) = found.signatures
    assert form.parameters is not None
    assert found.active_parameter is not None
    assert str(form.parameters[found.active_parameter].label).startswith("pad")
    assert signature_help(analysed(), "x = [1, ", 8) is None


def completed(text: str) -> list[str]:
    """Returns the completions at the `@` of a text."""
    offset = text.index("@")
    return [each.label for each in completion(analysed(), text.replace("@", ""), offset)]


RULE = """\
# Descent.
optimizer heavy(lr: real, beta: real = 0.9)(p: [...s], g: [...s]) -> [...s]:
  state m: [...s] = zeros
  update m = beta * m + g
  return p - lr * m

"""


def test_an_optimizer_of_the_program_is_known_where_settings_name_it() -> None:
    text = f"{RULE}{NET}    optimizer = heavy(lr=0.1)\n"
    said = hovered(text, "heavy(lr=")
    assert "# Descent." in said
    assert "proved for all sizes" in said
    (found,) = definition_of(text, "heavy(lr=")
    assert found == 1
    offset = len(RULE) + len(NET) + len("    optimizer = ")
    items = completion(analysed(text), text, offset)
    assert items[0].label == "heavy"
    assert items[0].documentation == "Descent."
    offered = completed(f"{RULE}{NET[: NET.index('  h = x')]}  hidden = x |> @")
    assert "Net" in offered
    assert "heavy" not in offered


def definition_of(text: str, mark: str) -> list[int]:
    """The lines that a name is declared in."""
    found = definition(analysed(text), at(text, mark))
    return [] if found is None else [found.range.start.line]


def test_completion_knows_where_it_is() -> None:
    head = NET[: NET.index("  h = x")]
    offered = completed(f"{head}  hidden = x |> conv2d(@")
    assert offered[:4] == ["c=", "k=", "stride=", "pad="]
    assert {"x", "n", "wide", "Net", "linear", "softmax"} <= {*offered}
    settings = completed(f"{NET}    @")
    assert {"optimizer", "epochs", "data"} <= {*settings}
    assert "linear" not in settings
    assert "adamw" in completed(f"{NET}    optimizer = @")
    assert any(each.startswith("images(") for each in completed(f"{NET}    data = @"))
    assert "resnet" in completed("from @")
    assert "BasicBlock" in completed("from resnet import @")
    assert completed("# about @") == []


PARTS = """\
block Parts()(x: [n, d]) -> scale: [n], rest: [n, d]:
  return sum(x, 1), x

model parts = Parts()

"""


@pytest.mark.parametrize("applied", ["Parts()", "p: Parts()", "parts", "linear(3) |> p.q: Parts()"])
def test_behind_a_value_of_several_results_their_names_are_completed(applied: str) -> None:
    text = f"{PARTS}block Uses()(x: [n, d]) -> [n]:\n  out = x |> {applied}\n  return out."
    items = completion(analysed(PARTS), text, len(text))
    assert [(each.label, each.detail) for each in items] == [("scale", "[n]"), ("rest", "[n, d]")]


def test_behind_a_declared_layer_its_results_are_completed() -> None:
    text = f"{PARTS}train fit(x: [b, 2]):\n  layer p: Parts()\n  out = x |> p\n  y = out.re"
    items = completion(analysed(PARTS), text, len(text))
    assert [each.label for each in items] == ["scale", "rest"]


def renamed(text: str, mark: str, new: str) -> tuple[str, Renaming]:
    found = rename(analysed(text), at(text, mark), new, {})
    assert found is not None
    return edited(text, found.edits), found


def test_a_renamed_label_says_which_checkpoint_keys_change() -> None:
    after, found = renamed(NET, "first: linear", "stem")
    assert after == NET.replace("first:", "stem:")
    assert found.told == (
        "2 checkpoint keys change: first.weight -> stem.weight, first.bias -> stem.bias"
    )


def test_a_renamed_parameter_changes_the_calls_and_no_key() -> None:
    after, found = renamed(NET, "wide=8", "width")
    assert after == NET.replace("wide", "width")
    assert found.told == ""


def test_a_rename_that_breaks_the_program_is_refused() -> None:
    with pytest.raises(RenameError, match="would not hold"):
        rename(analysed(), at(NET, "wide=8"), "x", {})
    with pytest.raises(RenameError, match="is no name"):
        rename(analysed(), at(NET, "wide=8"), "2x", {})
    assert renamed_range(analysed(), at(NET, "linear(wide)")) is None


def test_lenses_say_what_holds() -> None:
    said = [each.command.title for each in code_lenses(analysed()) if each.command]
    assert said == ["proved for all sizes", "26 weights in 4 params", "holds", "train"]


def test_weights_are_counted_as_expect_counts_them() -> None:
    text = """\
block A()(x: [n, 3, h, w]) -> [n, 3, h, w] = x |> bn: batch_norm
model a = A()
expect a has 2 params, 6 weights
"""
    said = [each.command.title for each in code_lenses(analysed(text)) if each.command]
    assert said == ["proved for all sizes", "6 weights in 2 params", "holds"]


def test_tokens_cover_the_text_in_order() -> None:
    data = semantic_tokens(analysed()).data
    lines = NET.split("\n")
    row = column = 0
    found: list[tuple[str, str]] = []
    for index in range(0, len(data), 5):
        down, right, length, type_, _ = data[index : index + 5]
        row, column = row + down, right + (column if down == 0 else 0)
        found.append((lines[row][column : column + length], LEGEND.token_types[type_]))
    assert found[:8] == [
        ("# A small network.", "comment"), ("# It has two layers.", "comment"),
        ("block", "keyword"), ("Net", "class"), ("wide", "parameter"), ("8", "number"),
        ("x", "variable"), ("n", "variable"),
    ]  # fmt: skip
    assert ("first", "namespace") in found
    assert ("batch", "property") in found


def test_a_comment_ends_where_an_old_line_end_is() -> None:
    """The protocol ends lines at a lone carriage return too, and no token has two lines."""
    data = semantic_tokens(analysed("# one\rtwo\ndef f(n) = n\n")).data
    assert data[2] == len("# one")
    assert all(each >= 0 for each in data)


def test_the_name_of_several_results_shows_each() -> None:
    text = (
        "block Both()(x: [n, 8]) -> whole: [n, 8], total: [n]:\n"
        "  return x, sum(x, 1)\n"
        "block Net()(x: [n, 8]) -> [n]:\n"
        "  out = x |> Both()\n"
        "  return out.total\n"
    )
    assert "out.whole: f32[n, 8]\nout.total: f32[n]" in hovered(text, "out")
    assert "whole: [n, 8], total: [n]" in hovered(text, "Both", 1)
    assert [each.label for each in inlay_hints(analysed(text))] == [": whole: [n, 8], total: [n]"]
