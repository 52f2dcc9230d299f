"""Every mistake gives its problem, at the exact place, with the code that cures it."""

import pytest

from meganeura_dsl.diagnostics.fixes import hunks
from meganeura_dsl.diagnostics.problem import Report, problems_in
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.syntax.parser.parser import LARGEST
from meganeura_dsl.syntax.problems import line_problems, text_problems, token_problems
from tests.dsl.syntax.trees import read

HEADER = "block B(c)(x: [n, d]) -> [n, d]:\n"

# « and » enclose the place that the report must show; the last is the code in its help, if that is
# made from the code that was found.
IN_A_BODY = [
    ("E0101", "  «else»:\n    x = x", ""),
    ("E0101", "  y = x.«»", ""),
    ("E0101", "  frozen «w»: [c]", ""),
    ("E0101", "  return«»", ""),
    ("E0101", "  param w [c]«»", ""),
    ("E0101", "  y = x if c«»", ""),
    ("E0101", "  x«.»if = 3", ""),
    ("E0101", "  y = x |> conv2d(64, 3) «relu»", ""),
    ("E0101", "  y = (x«,» z)", ""),
    ("E0101", "  y = x |> a:«» ", ""),
    ("E0101", '  y = x |> «"foo"»', ""),
    ("E0101", "  x«.»y = 3", ""),
    ("E0101", "  param w: «c»", ""),
    ("E0101", "  y = x if c else «+»", ""),
    ("E0101", "  a, b = 1«,» 2", ""),
    ("E0102", "  y = x |> conv1« »conv2d(c, 3)", "y = x |> conv1: conv2d(c, 3)"),
    ("E0102", "  y = x |> [0]« »Foo(c)", "y = x |> [0]: Foo(c)"),
    ("E0103", "  if c «=» 3:\n    x = x", "if c == 3:"),
    ("E0103", "  y = f(1«=»2)", "y = f(1==2)"),
    ("E0103", "  y = a «=» b", "y = a == b"),
    ("E0104", "  y = conv2d«(»64, 3", ""),
    ("E0105", "  y = relu(x)«)»", ""),
    ("E0105", "  y = x[0«)»", "y = x[0]"),
    ("E0105", "  y = f(x[0, 1«)»", "y = f(x[0, 1]"),
    ("E0106", "  y = f(\n«\t»1)", ""),
    ("E0106", "«\t»y = x", ""),
    ("E0106", "  «\t»y = x", ""),
    ("E0107", "  y = x«\u202e»", ""),
    ("E0107", "  y = x«\x00»", ""),
    ("E0107", "  # «\x1b»[3m", ""),
    ("E0107", "  y = x «\r»y", ""),
    ("E0108", "  y = x «→» z", ""),
    ("E0108", "  y = «{»", ""),
    ("E0108", "  y = «'»foo'", ""),
    ("E0108", "  y = x «?» 1 : 2", ""),
    ("E0108", "  y = «é»", ""),
    ("E0108", "  y = x«;» z", ""),
    ("E0108", "  y = gr«ö»ße", ""),
    ("E0109", "  if c:\n      y = x\n«    »z = x", ""),
    ("E0110", "  return x\n  «model» y = B()", ""),
    ("E0110", "  y = x\n«    »relu", ""),
    ("E0110", "  y = x\n«      »z = x", ""),
    ("E0111", "  if c:\n    x = x\n  else:«»\n  return x", ""),
    ("E0111", "  if c == 1: «return» x", ""),
    ("E0112", "  if c == 1«»\n    x = x", "if c == 1:"),
    ("E0112", "  for i in 0..4«»\n    x = x", "for i in 0..4:"),
    ("E0114", "  y = «1__0»", ""),
    ("E0114", "  y = «9999999999999999999999999999999999999999»", ""),
    ("E0114", "  y = «.5»", ""),
    ("E0114", "  y = «1.5.2»", ""),
    ("E0114", "  y = «3f»", ""),
    ("E0114", "  y = «1e999»", ""),
    ("E0114", "  y = «1_»", ""),
    ("E0114", "  y = «0x10»", ""),
    ("E0114", "  y = «1.»", ""),
    ("E0120", "  y = f(«for»=3)", "y = f(for_=3)"),
    ("E0120", "  «true» = 3", "true_ = 3"),
    ("E0120", "  «for» = 3", "for_ = 3"),
    ("E0120", "  «return» = 3", "return_ = 3"),
    ("E0121", "  x «-=» 1", ""),
    ("E0121", "  if c == 1:\n    x = x\n  «elif» c == 2:\n    x = x", ""),
    ("E0121", "  x «+=» 3", ""),
    ("E0121", "  «while» c:\n    x = x", ""),
    ("E0121", "  «let» y = 3", ""),
    ("E0121", "  y = f(bias=«True»)", ""),
    ("E0121", "  y = «None»", ""),
    ("E0122", "  y = f(a=1, «a=2»)", ""),
    ("E0123", "  y = f(a=1, «2»)", ""),
    ("E0124", "  «minimize x»", ""),
    ("E0124", "  if c:\n    for i in 0..3:\n      «metric a = x»", ""),
    ("E0125", "  y = x\n«y» = 3", ""),
    ("E0125", "  return x\n«return» y", ""),
    ("E0127", "  y = [«...s»]", ""),
    ("E0128", "  x = x |> a: «layers[0]»", "x = x |> a: layers[0]: layer(...)"),
    ("E0129", "  y = relu(x) «and»", ""),
    ("E0129", "  y = x «or»\n        y", "or y"),
    ("E0129", "  y = x «**»", ""),
    ("E0129", "  y = x «|>»\n    relu", "|> relu"),
    ("E0129", "  y = x «+»\n    x", "+ x"),
    ("E0130", "  y = (1 < x + 2 «<=» 4)", "y = (1 < x + 2 and x + 2 <= 4)"),
    ("E0130", "  if 1 < c «<» 4:\n    x = x", "if 1 < c and c < 4:"),
    ("E0132", "  «x» + 1", "return x + 1"),
    ("E0132", "  «x» + 1\n  return x", "y = x + 1"),
    ("E0132", "  «x» |> conv1: conv2d(64)\n  return x", "y = x |> conv1: conv2d(64)"),
    ("E0132", "  «x»", "return x"),
    ("E0132", "  «relu»(x)", "return relu(x)"),
    ("E0132", '  «show»(x, "x")\n  return x', 'x = show(x, "x")'),
    ("E0132", '  «show»(2 * x, "x")\n  return x', 'y = show(2 * x, "x")'),
    ("E0132", "  «relu»(x)\n  return x", "x = relu(x)"),
    ("E0133", "  «conv1»: conv2d(64)", "x = x |> conv1: conv2d(64)"),
    ("E0134", "  y = [x« »y]", "y = [x, y]"),
    ("E0134", "  y = conv2d(64« »3)", "y = conv2d(64, 3)"),
    ("E0135", "  for i in «range(4)»:\n    x = x", "for i in 0..4:"),
    ("E0135", "  for w in «widths»:\n    x = x", "for w in 0..4:"),
    ("E0135", "  for _ in «enumerate(x, 1)»:\n    x = x", "for _ in 0..4:"),
    ("E0135", "  for i in «enumerate()»:\n    x = x", "for i in 0..4:"),
    ("E0135", "  for row in «x»:\n    x = x", "for i in 0..size(x, 0):"),
    ("E0137", "  «retrun» x", "return x"),
    ("E0138", "  y = «x.mean»(1)", "mean(x, 1)"),
    ("E0138", "  y = relu(«a.b.sum»())", "sum(a.b)"),
    ("E0138", "  y = 2 * «torch.exp»(x)", "exp(x)"),
    ("E0138", "  y = «(x + x).sum»(1)", "sum(x + x, 1)"),
    ("E0138", "  y = x[:, 0] + «relu(x)[0].mean»()", "mean(relu(x)[0])"),
    ("E0138", "  y = x |> relu()«.mean»(1)", "|> mean(1)"),
    ("E0138", "  y = «self.fc1»(x)", "x |> fc1: linear(10)"),
    ("E0138", "  y = «x.mean» (1)", "mean(x, 1)"),
    ("E0139", "  y = x «+» x |> relu", ""),
    ("E0139", "  y = f(x * 2 «-» x |> relu)", ""),
    ("E0140", "  y = x |> relu «+» x", "(x |> relu) + x"),
    ("E0140", "  y = f(c, a=x |> a: g(1) |> b[0]: h «@» x)", "(x |> a: g(1) |> b[0]: h) @ x)"),
    ("E0140", "  y = x if c else x\n        |> relu  # so\n        «**» 2", "(x |> relu) ** 2"),
    ("E0140", "  return x, x[0] |> relu «<» x", "(x[0] |> relu) < x"),
]  # fmt: skip

AT_THE_TOP = [
    ("E0101", "expect m has 62«»", ""),
    ("E0101", "expect m has «params»", ""),
    ("E0101", "from resnet import«»", ""),
    ("E0101", "block«»", ""),
    ("E0101", "def f(x)«»", ""),
    ("E0101", "from resnet«»", ""),
    ("E0101", "def«»", ""),
    ("E0101", "model x«:» Foo()", "model x = Foo()"),
    ("E0101", "train t(x: [n]):\n  run:\n    batch«:» 64", "batch = 64"),
    ("E0101", "def f(x) «->» 3", "def f(x) = 3"),
    ("E0101", "from «.»resnet import x", ""),
    ("E0101", "from a.b«(»c) import d", ""),
    ("E0101", "block B(c)(x: «n») -> [n]:\n  return x", ""),
    ("E0102", "model m = head« »Foo()", "model m = head: Foo()"),
    ("E0110", "«  »block B(c)(x: [n]) -> [n]:\n    return x", ""),
    ("E0111", "block B(c)(x: [n, d]) -> [n, d]:«»", ""),
    ("E0111", "block B(c)(x: [n, d]) -> [n, d]:«»\nreturn x", ""),
    ("E0112", "train t(x: [n]):\n  run«»\n    batch = 64", "run:"),
    ("E0112", "block B(c)(x: [n, d]) -> [n, d]«»\n  return x", "block B(c)(x: [n, d]) -> [n, d]:"),
    ("E0113", 'train t(x: [n]):\n  run:\n    data = «"foo»', 'data = "foo"'),
    ("E0114", "expect m has «1111111111111111111111111111111» params", ""),
    ("E0115", "«»", ""),
    ("E0115", "«»# nothing", ""),
    ("E0142", "# mgn «2»\nblock", ""),
    ("E0120", "block B(«if»)(x: [n]) -> [n]:\n  return x", "block B(if_)(x: [n]) -> [n]:"),
    ("E0120", "def «if»(x) = 3", "def if_(x) = 3"),
    ("E0121", "«import» resnet", ""),
    ("E0121", "«class» Foo:\n  pass", ""),
    ("E0122", "train t(x: [n], «x: [n]»):\n  minimize x", ""),
    ("E0122", "block B(c, «c»)(x: [n]) -> [n]:\n  return x", ""),
    ("E0122", "block B()(y: [2 * x], «x: [n]») -> [n]:\n  return x", ""),
    ("E0122", "train t(«x: [...x]»):\n  minimize x", ""),
    ("E0123", "model m = F(a=1, «2»)", ""),
    ("E0124", "train t(x: [n]):\n  «return x»", ""),
    ("E0125", "«x» = 3\ndef f() = 1", ""),
    ("E0141", "block B(c)(x: [n]) -> y: [n], «[n]»:\n  return x, x", "-> y: [n], result1: [n]"),
    ("E0122", "block B(c)(x: [n]) -> y: [n], «y: [n]»:\n  return x, x", ""),
    ("E0126", "block B(c)(x: [n]) -> «int»[n]:\n  return x", ""),
    ("E0126", "block B(c)(x: «int»[n]) -> [n]:\n  return x", ""),
    ("E0128", "expect «m[0]» has 1 params", "expect m[0]: layer(...) has 1 params"),
    ("E0129", "def f(x) «=» ", ""),
    ("E0131", "block B(x«:» [n, d]) -> [n, d]:\n  return x", ""),
    ("E0131", "block B(c) «->» [n, d]:\n  return x", ""),
    ("E0134", "block B(c)(x: [n« »c]) -> [n]:\n  return x", "block B(c)(x: [n, c]) -> [n]:"),
    ("E0134", "block B(c« »d)(x: [n]) -> [n]:\n  return x", "block B(c, d)(x: [n]) -> [n]:"),
    ("E0136", "def f(x)«:»\n  return x", "def f(x) = x"),
    ("E0137", "block B(c)(x: [n]) -> [n] «wher» c == 3:\n  return x",
        "block B(c)(x: [n]) -> [n] where c == 3:"),
    ("E0137", "expect m «map» [n] -> [n]", "expect m maps [n] -> [n]"),
    ("E0137", "model m = B(3)\n«modl» n = B(4)\nmodel k = C()", "model n = B(4)"),
    ("E0137", "«blok» B()(x: [n]) -> [n]:\n  return x", "block B()(x: [n]) -> [n]:"),
]  # fmt: skip


def check(marked: str, code: str, cure: str) -> Report:
    """The one report of a program, which is of this code and stands between the marks."""
    before, place, after = marked.replace("»", "«").split("«")
    _, (report,) = read(f"{before}{place}{after}\n")
    assert report.label is not None
    span = report.label.span
    source = span.source.text
    assert report.code == code
    assert source[: span.start] + "«" + span.text + "»" + source[span.end :] == f"{marked}\n"
    if cure:
        assert report.help is not None
        fix = hunks(report.help.edits)
        written = [line.split(" #")[0].strip() for hunk in fix for line in hunk.after]
        assert cure in (written or [report.help.code])
    assert code in render(report)
    return report


@pytest.mark.parametrize(("code", "text", "cure"), IN_A_BODY)
def test_mistake_in_a_body(code: str, text: str, cure: str) -> None:
    check(HEADER + text, code, cure)


@pytest.mark.parametrize(("code", "text", "cure"), AT_THE_TOP)
def test_mistake_at_the_top(code: str, text: str, cure: str) -> None:
    check(text, code, cure)


def test_every_problem_is_met() -> None:
    of_files = {"E0117", "E0118", "E0119"}
    met = {code for code, _, _ in IN_A_BODY + AT_THE_TOP} | of_files | {"E0116"}
    assert met == {each.code for each in problems_in(text_problems, line_problems, token_problems)}


# --- nothing nests without end -------------------------------------------------------------------

MANY = 10_000


@pytest.mark.parametrize(
    "nested",
    [
        "(" * MANY + "x" + ")" * MANY,
        "[" * MANY + "]" * MANY,
        "f(" * MANY + "x" + ")" * MANY,
        "x[" * MANY + "0" + "]" * MANY,
        "-" * MANY + "x",
        "not " * MANY + "x",
        "2 ** " * MANY + "x",
        "x if c else " * MANY + "x",
        "x" + ".w" * MANY,
        "x" + " + x" * MANY,
        "x" + " |> f" * MANY,
    ],
    ids=lambda nested: nested[:8],
)
def test_deep_nesting(nested: str) -> None:
    _, (report,) = read(f"{HEADER}  y = {nested}\n")
    assert (report.code, report.label and report.label.span.line) == ("E0116", 2)


def test_deep_nesting_that_is_never_closed() -> None:
    _, (report,) = read(f"{HEADER}  y = {'(' * MANY}\n")
    assert (report.code, report.label and report.label.span.line) == ("E0104", 2)


def test_deep_nesting_of_bodies() -> None:
    lines = [" " * depth + "if c:" for depth in range(2, 300)]
    _, (report,) = read("\n".join([HEADER.strip(), *lines, " " * 300 + "y = x"]))
    assert report.code == "E0116"


def test_a_long_chain_of_branches() -> None:
    branches = "  else if c:\n    y = x\n" * MANY
    _, (report,) = read(f"{HEADER}  if c:\n    y = x\n{branches}")
    assert report.code == "E0116"


def test_a_text_of_many_statements_is_not_deep() -> None:
    module, reports = read(HEADER + "  y = [x, x]\n" * 5_000)
    assert not reports
    assert len(module.declarations) == 1


def test_too_large() -> None:
    module, (report,) = read("#" * (LARGEST + 1))
    assert (report.code, module.declarations) == ("E0117", ())


# --- words ---------------------------------------------------------------------------------------


def test_message_of_a_lost_colon() -> None:
    text = "block B(c)(x: [n]):\n  y = x |> conv1 conv2d(c, 3)   # three by three\n"
    _, (report,) = read(text)
    assert (
        render(report)
        == """\
error[E0102]: this label has lost its colon                                  (syntax)
  test.mgn:2  y = x |> conv1 conv2d(c, 3)   # three by three
                            ^ I read `conv1` as a layer, then found another name
  suggestion: write a colon to make it a label
        2 -   y = x |> conv1 conv2d(c, 3)   # three by three
        2 +   y = x |> conv1: conv2d(c, 3)   # three by three"""
    )


@pytest.mark.parametrize(
    ("text", "headline", "label"),
    [
        ("expect m has 62", "this line ends too early", "expected a name"),
        ("from a", "this line ends too early", "expected `.` or `import`"),
        ("model m = (", "this `(` is never closed", "no `)` follows it"),
        ("model m = )", "this `)` closes nothing", "no bracket is open here"),
        ("model m = A([3)", "this `)` cannot close a `[`", "`]` is missing before it"),
        ("model m = A[3)", "this `)` cannot close a `[`", "`]` is missing before it"),
        ("block B()(x: 3):", "`3` cannot stand here", "expected a type"),
        ("def f() = (1, 2)", "`,` cannot stand here", "expected an operator or `)`"),
        ("def f() = * 2", "`*` cannot stand here", "expected a value"),
        ("def f() = x; y", "`;` means nothing here", "this character"),
        ("def f() = x \u2212 y", "`\u2212` means nothing here", "U+2212 MINUS SIGN"),
        ("def f() = \0", "this character cannot be seen", "a NUL byte stands here"),
        ("def f() = \u202ex", "this character cannot be seen",
            "U+202E RIGHT-TO-LEFT OVERRIDE stands here"),
        ("block B()(x: [n]):\n  else:\n    y = x", "`else` cannot stand here",
            "expected a statement"),
        ("block B()(x: [n]):\n     y = x\n   y = x", "this indentation belongs to no body above",
            "3 spaces; the bodies above have 0 or 5"),
        ("def f() = 1" + "0" * 30, "this is not a number", "too many digits"),
    ],
)  # fmt: skip
def test_words(text: str, headline: str, label: str) -> None:
    _, (report,) = read(text)
    assert report.label is not None
    assert (report.headline, report.label.text) == (headline, label)
