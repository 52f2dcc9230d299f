"""Diagnostics and inlay hints as functions of a text."""

from lsprotocol.types import DiagnosticSeverity, DiagnosticTag

from meganeura.language_server.analysis import Analysis, analyse
from meganeura.language_server.diagnostics import diagnostics
from meganeura.language_server.inlay_hints import inlay_hints

URI = "file:///programs/net.mgn"


def analysed(text: str) -> Analysis:
    return analyse(URI, text, {})


def hinted(text: str) -> str:
    """A program with its hints, each in guillemets."""
    lines = text.split("\n")
    for hint in reversed(inlay_hints(analysed(text))):
        row, column = hint.position.line, hint.position.character
        lines[row] = f"{lines[row][:column]}«{hint.label}»{lines[row][column:]}"
    return "\n".join(lines)


def test_every_problem_is_told_with_its_places() -> None:
    found = diagnostics(
        analysed("""\
block A()(x: [n, d]) -> [n, 2]:
  dead = x
  return x
block B()(x: [n, d]) -> [n, d]:
  return y
def broken(
train fit(x: [batch, 4]):
  minimize mean(x |> l: linear(2))
  run:
    batch = 0
""")
    )
    assert {each.code for each in found} >= {"E0207", "E0303", "E0201", "E0513"}
    (dead,) = (each for each in found if each.code == "E0207")
    assert dead.tags == [DiagnosticTag.Unnecessary]
    assert dead.severity is DiagnosticSeverity.Error
    assert [each.range.start.line for each in found if each.code == "E0513"] == [9]


def test_the_first_declaration_is_a_related_place() -> None:
    text = "def f(n) = n\ndef f(n) = n + 1\n"
    (found,) = diagnostics(analysed(text))
    assert found.related_information is not None
    assert found.related_information[0].location.uri == URI
    assert found.related_information[0].location.range.start.line == 0
    assert found.range.start.line == 1


def test_hints_stand_behind_names_and_stages_that_change_a_type() -> None:
    assert (
        hinted("""\
block Net(d)(x: [n, d]) -> [n, 5], [n, 2]:
  h = x |> a: linear(3) |> relu |> b: linear(5) |> relu
  z = h + h
  p, q = z |> t: TwoOf
  return q, p
block TwoOf()(x: [n, d]) -> [n, 2], [n, d]:
  return x |> a: linear(2), x
""")
        == """\
block Net(d)(x: [n, d]) -> [n, 5], [n, 2]:
  h = x |> a: linear(3) |> relu«[n, 3]» |> b: linear(5) |> relu«[n, 5]»
  z«: [n, 5]» = h + h
  p«: [n, 2]», q«: [n, 5]» = z |> t: TwoOf
  return q, p
block TwoOf()(x: [n, d]) -> [n, 2], [n, d]:
  return x |> a: linear(2)«[n, 2]», x
"""
    )


def test_a_block_that_does_not_hold_has_hints_where_something_is_known() -> None:
    assert (
        hinted("""\
block Net(d)(x: [n, d]) -> [n, 2]:
  h = x |> a: linear(3)
  bad = h @ x
  z = h |> b: linear(4)
  return z
def broken(
""")
        == """\
block Net(d)(x: [n, d]) -> [n, 2]:
  h = x |> a: linear(3)«[n, 3]»
  bad = h @ x
  z = h |> b: linear(4)«[n, 4]»
  return z
def broken(
"""
    )
