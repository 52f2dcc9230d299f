"""Every form of the language gives its tree, with exact spans, and a mistake costs one report."""

import re
from collections.abc import Sequence

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration
from tests.dsl.syntax.trees import (
    NAMES,
    expression,
    nodes,
    place,
    plain,
    program,
    read,
    statements,
    tree,
)

# --- expressions ---------------------------------------------------------------------------------

X, Y, Z = ("Name", "x"), ("Name", "y"), ("Name", "z")
ONE, TWO = ("Integer", 1), ("Integer", 2)


def binary(operator: str, left: object, right: object) -> object:
    return ("Binary", operator, left, right)


def call(
    callee: str, *arguments: object, label: object = None, inputs: Sequence[object] = ()
) -> object:
    given, tensors = (tuple(("Argument", None, x) for x in each) for each in (arguments, inputs))
    return ("Call", label, callee, given, tensors, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1_500", ("Integer", 1500)),
        ("1e-5", ("Real", "1e-05")),
        ("2.5", ("Real", "2.5")),
        ("1_0.2_5E+2", ("Real", "1025.0")),
        ('"a # b"', ("Text", "a # b")),
        ("true", ("Boolean", "True")),
        ("false", ("Boolean", "False")),
        ("[]", ("ListOf", ())),
        ("[1, x,]", ("ListOf", (ONE, X))),
        ("((x))", X),
        ("-x ** 2", ("Unary", "-", binary("**", X, TWO))),
        ("2 ** -x", binary("**", TWO, ("Unary", "-", X))),
        ("x ** y ** z", binary("**", X, binary("**", Y, Z))),
        ("x - y - z", binary("-", binary("-", X, Y), Z)),
        ("x + y // z", binary("+", X, binary("//", Y, Z))),
        ("x @ y % z", binary("%", binary("@", X, Y), Z)),
        ("not x == y", ("Unary", "not", binary("==", X, Y))),
        ("x or y and not z", binary("or", X, binary("and", Y, ("Unary", "not", Z)))),
        ("x <= y + 1", binary("<=", X, binary("+", Y, ONE))),
        ("x if y else z", ("Conditional", Y, X, Z)),
        ("x if y else y if z else 1", ("Conditional", Y, X, ("Conditional", Z, Y, ONE))),
        ("[x if y else z, 1]", ("ListOf", (("Conditional", Y, X, Z), ONE))),
        ("x.weight.bias", ("Attribute", ("Attribute", X, "weight"), "bias")),
        ("x[0]", ("Subscript", X, (("Integer", 0),))),
        ("x[:, 0]", ("Subscript", X, (("Range", None, None), ("Integer", 0)))),
        ("x[..., 1]", ("Subscript", X, (("EllipsisEntry",), ONE))),
        ("x[...]", ("Subscript", X, (("EllipsisEntry",),))),
        ("x[:y]", ("Subscript", X, (("Range", None, Y),))),
        ("x[1:, :2]", ("Subscript", X, (("Range", ONE, None), ("Range", None, TWO)))),
        ("f(x)[1].w", ("Attribute", ("Subscript", call("f", X), (ONE,)), "w")),
        ("f()", call("f")),
        ("f(x, axis=-1)", ("Call", None, "f", (("Argument", None, X),
            ("Argument", "axis", ("Unary", "-", ONE))), (), None)),
        ("up(x,)(y, z,)", call("up", X, inputs=(Y, Z))),
        ("(x + y) |> f", ("Pipe", binary("+", X, Y), call("f"))),
        ("x |> f[1]", ("Pipe", X, ("Call", None, "f", (), (), ("Path", ("f", ONE))))),
        ("x |> f if y else z", ("Conditional", Y, ("Pipe", X, call("f")), Z)),
        ("x |> a.b[y][0].c: f(1)(z)", ("Pipe", X, call(
            "f", ONE, label=("Path", ("a", "b", Y, ("Integer", 0), "c")), inputs=(Z,)))),
        ("x |> [y + 1]: f", ("Pipe", X, call("f", label=("Path", (binary("+", Y, ONE),))))),
        ("x |> .: f", ("Pipe", X, call("f", label=("Path", ())))),
        ("x |> head.fc(1)", ("Pipe", X, call("head.fc", ONE))),
        ("f([x, y * 2] -> [y, x])", call("f", ("Rearrangement",
            ("Pattern", (X, binary("*", Y, TWO))), ("Pattern", (Y, X))))),
        ("f([...x, y] -> [])", call("f", ("Rearrangement",
            ("Pattern", (("Rest", "x"), Y)), ("Pattern", ())))),
    ],
)  # fmt: skip
def test_expression(text: str, expected: object) -> None:
    assert plain(expression(text)) == expected


# --- statements ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x", ("Bind", (Y,), X)),
        ("x, y = z |> f", ("Bind", (X, Y), ("Pipe", Z, call("f")))),
        ("return x, y", ("Return", (X, Y))),
        ("minimize_ = x", ("Bind", (("Name", "minimize_"),), X)),
        ("param w: [x]", ("Declare", "param", ("Path", ("w",)),
            ("Type", None, ("Pattern", (X,))), None)),
        ("frozen param a.b[0]: i32[x] = y", ("Declare", "frozen param",
            ("Path", ("a", "b", ("Integer", 0))), ("Type", "i32", ("Pattern", (X,))), Y)),
        ("state s: bool[] = zeros()", ("Declare", "state", ("Path", ("s",)),
            ("Type", "bool", ("Pattern", ())), call("zeros"))),
        ("update a.s = x", ("Update", ("Path", ("a", "s")), X, ())),
        ("update a[0].s[1] = x", ("Update", ("Path", ("a", ("Integer", 0), "s", ONE)), X, ())),
        ("update s[:, y] = x", ("Update", ("Path", ("s",)), X, (("Range", None, None), Y))),
        ("update s[y, z] = x", ("Update", ("Path", ("s",)), X, (Y, Z))),
        ("cache s: [x]", ("Declare", "cache", ("Path", ("s",)),
            ("Type", None, ("Pattern", (X,))), None)),
        ("if x == 1:\n  y = x", ("If", binary("==", X, ONE), (("Bind", (Y,), X),), ())),
        ("if x:\n  y = x\nelse:\n  y = z", ("If", X, (("Bind", (Y,), X),), (("Bind", (Y,), Z),))),
        ("if x:\n  y = x\nelse if y:\n  y = z\nelse:\n  y = 1", ("If", X, (("Bind", (Y,), X),), (
            ("If", Y, (("Bind", (Y,), Z),), (("Bind", (Y,), ONE),)),))),
        ("x[1, y] = z", ("Part", X, (ONE, Y), Z)),
        ("scan i in 0..x while y:\n  y = x", ("Scan", ("Name", "i"), ("Integer", 0), X, Y,
            (("Bind", (Y,), X),))),
        ("scan i in 0..x:\n  y = x", ("Scan", ("Name", "i"), ("Integer", 0), X, None,
            (("Bind", (Y,), X),))),
        ("for i in 0..x + 1:\n  y = x", ("For", ("Name", "i"), ("Integer", 0), binary("+", X, ONE),
            (("Bind", (Y,), X),))),
    ],
)  # fmt: skip
def test_statement(text: str, expected: object) -> None:
    assert plain(statements(text)) == (expected,)


def test_objectives() -> None:
    text = """\
train fit(x: [n, 2]):
  minimize x |> over over a.b[0], over
  minimize over
"""
    (train,) = tree(text).declarations
    assert isinstance(train, ast.Train)
    paths = ("Path", ("a", "b", ("Integer", 0))), ("Path", ("over",))
    over = ("Name", "over")
    assert plain(train.body) == (
        ("Minimize", ("Pipe", X, call("over")), paths),
        ("Minimize", over, ()),
    )


def test_train() -> None:
    text = """\
train fit(x: [n, 2], y: i32[n]) where n >= 1:
  minimize f(x, y)
  metric accuracy = mean(y == 1)
  run:
    batch = 64
    optimizer = adam(lr=1e-3)
"""
    (train,) = tree(text).declarations
    assert isinstance(train, ast.Train)
    assert plain(train.where) == (binary(">=", ("Name", "n"), ONE),)
    assert [type(each).__name__ for each in train.body] == ["Minimize", "Metric", "Run"]
    assert isinstance(train.body[2], ast.Run)
    assert plain(train.body[2].settings) == (
        ("Setting", ("Name", "batch"), None, ("Integer", 64)),
        ("Setting", ("Name", "optimizer"), None, ("Call", None, "adam",
            (("Argument", "lr", ("Real", "0.001")),), (), None)),
    )  # fmt: skip


# --- declarations --------------------------------------------------------------------------------

N = ("Type", None, ("Pattern", (("Name", "n"),)))
R = ("Result", None, N[2], None)
X_INPUT = ("Input", "x", N, "False", None, None)
Z_INPUT = ("Input", "z", N, "False", None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from a.b import x, y", ("Import", ("a", "b"), (X, Y))),
        ("def f(x, y=2,) = x", ("Def", ("Name", "f"),
            (("Parameter", "x", None, None), ("Parameter", "y", None, TWO)), X)),
        ("block f()(x: [n]) -> [n] = y", ("Block", ("Name", "f"), (), (X_INPUT,), (R,),
            (), (("Return", (Y,)),))),
        ("block f()(x: [n]) -> a: [n], b: i32[n] = y", ("Block", ("Name", "f"), (), (X_INPUT,),
            ((*R[:3], "a"), ("Result", "i32", N[2], "b")), (), (("Return", (Y,)),))),
        ("block f(y)(x: [n], z: [n],) -> [n], [n]\n  where x, y:\n  return x, x", ("Block",
            ("Name", "f"), (("Parameter", "y", None, None),), (X_INPUT, Z_INPUT),
            (R, R), (X, Y), (("Return", (X, X)),))),
        ("train t(x: [n], y: whole [n]):\n  minimize x", ("Train", ("Name", "t"),
            (X_INPUT, ("Input", "y", N, "True", None, None)), (), (("Minimize", X, ()),))),
        ("train t(x: [n], y: [each n of x, n]):\n  minimize x", ("Train", ("Name", "t"),
            (X_INPUT, ("Input", "y", ("Type", None, ("Pattern", (("Name", "n"), ("Name", "n")))),
             "False", None, X)), (), (("Minimize", X, ()),))),
        ("block f(g: block = x, h: block(y)(x: [n]) -> ([n], [n]))():\n  return x", (
            "Block", ("Name", "f"), (
                ("Parameter", "g", ("BlockKind", None), X),
                ("Parameter", "h", ("BlockKind", ("Block", ("Name", "h"),
                    (("Parameter", "y", None, None),), (X_INPUT,), (R, R), (), ())), None)),
            (), None, (), (("Return", (X,)),))),
        ("block f()():\n  return x", ("Block", ("Name", "f"), (), (), None, (),
            (("Return", (X,)),))),
        ("model m = F(1)", ("Model", ("Name", "m"), call("F", ONE))),
        ("model m = a.b: F()", ("Model", ("Name", "m"), call("F", label=("Path", ("a", "b"))))),
        ("expect m has 1_0 params, 2 weights", ("ExpectHas", call("m"),
            (("Count", 10, "params"), ("Count", 2, "weights")))),
        ("expect m(1) maps [n], i32[n] -> [n], u8[n]", ("ExpectMaps", call("m", ONE),
            (N, ("Type", "i32", N[2])), (R, ("Result", "u8", N[2], None)), ())),
        ("expect m maps [n] -> [n] where x, y", ("ExpectMaps", call("m"), (N,), (R,), (X, Y))),
        ("expect m holds a[1].b: [n], c: i32[n]", ("ExpectHolds", call("m"), (
            ("Held", ("Path", ("a", ONE, "b")), N),
            ("Held", ("Path", ("c",)), ("Type", "i32", N[2]))))),
    ],
)  # fmt: skip
def test_declaration(text: str, expected: object) -> None:
    assert plain(tree(f"{text}\n")) == (expected,)
    assert plain(tree(text)) == (expected,), "a line break at the end is not needed"


@pytest.mark.parametrize("dtype", ["any", "bf16", "bool", "f16", "f32", "f64", "i32", "u8", "u32"])
def test_element_types(dtype: str) -> None:
    (expect,) = tree(f"expect m maps {dtype}[n] -> [n]").declarations
    assert isinstance(expect, ast.ExpectMaps)
    assert expect.inputs[0].dtype == dtype


# --- layout --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "y = x |> f |> g(1, 2)",
        "y = x\n|> f\n      |> g(1, 2)",
        "y = x |> f  # one\n\n  # two\n\n    |> g(1, 2)",
        "y = x |> f |> g(\n1,\n  # three\n\t2\n)",
        "y =\n  x |> f |> g(1,\n 2)",
        "y = x |> f |> g(1, 2)  # four",
        "y\t=  x|>f|>g( 1,2 )   ",
    ],
)
def test_layout_of_lines(text: str) -> None:
    text = text.replace("\n\t", "\n ")
    assert plain(statements(text)) == plain(statements("y = x |> f |> g(1, 2)"))


@pytest.mark.parametrize(
    "sign", ["+", "-", "*", "/", "//", "%", "@", "**", "==", "!=", "<", ">=", "and", "or", "|>"]
)
def test_a_line_that_begins_with_an_operator_continues(sign: str) -> None:
    assert plain(statements(f"y = x\n  {sign} z")) == plain(statements(f"y = x {sign} z"))


def test_else_continues_a_conditional_and_begins_a_branch() -> None:
    text = "if x:\n  y = x if y\n    else z\nelse:\n  y = z"
    assert plain(statements(text)) == (
        ("If", X, (("Bind", (Y,), ("Conditional", Y, X, Z)),), (("Bind", (Y,), Z),)),
    )


@pytest.mark.parametrize("name", NAMES)
def test_line_breaks_of_other_systems(name: str) -> None:
    text = program(name)
    assert plain(tree(text.replace("\n", "\r\n"))) == plain(tree(text))


# --- words that are keywords only in their place -------------------------------------------------

SOFT = ("block", "def", "expect", "f32", "from", "frozen", "has", "import", "in", "layer", "maps",
        "metric", "minimize", "model", "param", "project", "repeat", "run", "show", "state",
        "train", "update", "where")  # fmt: skip


SOFT_PROGRAM = """\
from q.q import q
block q(c=1)(q: [d]) -> [q]
    where q == 1:
  q, y = q |> q.a: f(q=q)
  q = q.q[q] + q
  param q: [q]
  state q.q: i32[q] = q
  for q in 0..q:
    update q = q if q else q(q)
  return q
model q = q.q: q()
expect q has 1 q
expect q maps [q] -> [q]
train q(q: [d]):
  minimize q
  metric q = q
  run:
    q = q
"""


@pytest.mark.parametrize("word", SOFT)
def test_keywords_are_names_where_no_keyword_can_stand(word: str) -> None:
    text = re.sub(r"\bq\b", word, SOFT_PROGRAM)
    assert repr(plain(tree(text))) == repr(plain(tree(SOFT_PROGRAM))).replace("'q'", f"'{word}'")


# --- recovery ------------------------------------------------------------------------------------


def test_one_report_for_each_broken_declaration() -> None:
    text = (
        program("resnet")
        .replace("if stride != 1 or", "if stride = 1 or")
        .replace("for i in 1..depth:", "for i in 1..depth")
        .replace("has 82 params", "has 82")
    )
    module, reports = read(text)
    assert [report.code for report in reports] == ["E0103", "E0112", "E0101"]
    assert [report.label and report.label.span.line for report in reports] == [8, 16, 32]
    names = [getattr(node, "name", None) for node in module.declarations]
    assert [name and name.text for name in names] == [
        "down", "ResNet", "resnet18", None, None, "fit"
    ]  # fmt: skip


def test_a_declaration_before_rubbish_is_kept() -> None:
    module, reports = read("model a = F()\nmoddel b = F()\nmodel c = F()\n")
    assert [node.name.text for node in module.declarations if isinstance(node, ast.Model)] == [
        "a", "c"
    ]  # fmt: skip
    assert [report.code for report in reports] == ["E0137"]


def test_outline() -> None:
    source = Source("test.mgn", f"x = 1\nfrom a import b\n{program('whisper')}expect m\n\n#end")
    found = outline(source)
    assert [(each.kind, each.name) for each in found] == [
        ("", ""),
        ("from", ""),
        ("block", "SelfAttention"),
        ("block", "EncoderLayer"),
        ("block", "WhisperEncoder"),
        ("model", "whisper_tiny"),
        ("train", "probe"),
        ("expect", ""),
    ]
    assert "".join(each.span.text for each in found) == source.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("# only\n\n", []),
        ("\n# first\n\nmodel a = A()\n", [("model", "\n# first\n\nmodel a = A()\n")]),
        ("model a = A()\n# b\nmodel b = B()", [
            ("model", "model a = A()\n# b\n"), ("model", "model b = B()")]),
        ("# a\nx\nmodel a = A()", [("", "# a\nx\n"), ("model", "model a = A()")]),
        (" model a = A()\ndef f() = 1", [("", " model a = A()\n"), ("def", "def f() = 1")]),
    ],
)  # fmt: skip
def test_text_before_the_first_keyword(text: str, found: list[tuple[str, str]]) -> None:
    outlines = outline(Source("test.mgn", text))
    assert [(each.kind, each.span.text) for each in outlines] == found


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        ("block A(c)(x: [n]) -> [n] = x", ["A"]),
        ("block A\n  (c)\n  (x: [n]) -> [n] = x", ["A"]),
        ("block A(c)\n(x: [n]) -> [n]:\n  return x", ["A"]),
        ("block A\n  (c=max(1, [2][0]))\n\n  # input\n  (x: [n]) -> [n]:\n  return x", ["A"]),
        ("block A()(x: [n])\n  (y: [n]) -> [n]:\n  return x", []),
        ("block\n  A()(x: [n]) -> [n]:\n  return x", []),
        ("block A()(x: [n]) -> [n]:\n  y = x\n  (y) = x\n  return x", []),
        ("model a\n  (c) = A()", []),
        ("model a = A\n  (3)", []),
        ("def f\n  (x) = x", []),
        ("train t\n  (x: [n]):\n  minimize x", []),
        ("train t(x: [n]):\n  minimize x\n  (x)", []),
    ],
)
def test_only_the_header_of_a_block_goes_on_with_a_bracket(text: str, declared: list[str]) -> None:
    module, reports = read(text)
    assert [
        each.name.text for each in module.declarations if isinstance(each, ast.Block)
    ] == declared
    assert bool(reports) == (not declared)


def test_a_declaration_is_parsed_alone() -> None:
    source = Source("test.mgn", "block broken(\n" + program("resnet"))
    found = {each.name: each for each in outline(source)}
    declaration, problems = parse_declaration(found["resnet18"])
    assert problems == ()
    assert isinstance(declaration, ast.Model)
    assert place(declaration.span) == (30, 1, "model resnet18 = ResNet(depths=[2, 2, 2, 2])")


# --- spans ---------------------------------------------------------------------------------------


def again(node: ast.Node) -> str:
    """A program in which the text of a node stands where such a node can stand."""
    indentation = " " * (node.span.column - 1)
    text = node.span.text
    match node:
        case ast.Import() | ast.Def() | ast.Block() | ast.Model() | ast.Train():
            return text
        case ast.ExpectHas() | ast.ExpectHolds() | ast.ExpectMaps():
            return text
        case ast.Held():
            return f"expect m holds {text}"
        case ast.Parameter():
            return f"block B({text})(x: [n]):\n  return x"
        case ast.NamedKind() | ast.TextKind() | ast.BlockKind():
            return f"def f(x: {text}) = x"
        case ast.Input():
            return f"block B()({text}):\n  return x"
        case ast.Count():
            return f"expect m has {text}"
        case ast.Result():
            return f"expect m maps [n] -> {text}"
        case ast.Type() | ast.Pattern():
            return f"expect m maps {text} -> [n]"
        case ast.Rest():
            return f"expect m maps [{text}] -> [n]"
        case ast.Path():
            return f"model m = {text}: F()"
        case ast.Splice():
            return f"model m = a{text}: F()"
        case ast.Argument() | ast.Rearrangement():
            return f"def f() = g({text})"
        case ast.Range() | ast.EllipsisEntry():
            return f"def f() = x[{text}]"
        case ast.Setting():
            return f"train t(x: [n]):\n  run:\n    {text}"
        case ast.Minimize() | ast.Project() | ast.Metric() | ast.Show() | ast.Run():
            return f"train t(x: [n]):\n{indentation}{text}"
        case ast.Bind() | ast.Part() | ast.If() | ast.For() | ast.Scan() | ast.Layer():
            return f"block B()(x: [n]):\n{indentation or ' '}{text}"
        case ast.Return() | ast.Declare() | ast.Update():
            return f"block B()(x: [n]):\n{indentation or ' '}{text}"
        case ast.Call(label=label) if label is not None:
            return f"model m = {text}"
        case ast.Call(arguments=(), inputs=()):
            return f"def f() = x |> {text}"
        case _:
            return f"def f() = {text}"


@pytest.mark.parametrize("name", NAMES)
def test_the_text_of_a_span_is_the_phrase(name: str) -> None:
    module = tree(program(name))
    for node in nodes(module):
        if isinstance(node, ast.Return) and node.span == node.values[0].span:
            continue
        kin = [plain(each) for each in nodes(tree(again(node))) if type(each) is type(node)]
        assert plain(node) in kin, node.span.text


def test_spans_are_exact() -> None:
    (block,) = tree("block B()(x: [n]) -> [n]:\n  y = (x + 1) * f( 2 )  # done\n  return y\n\n\n"
                    ).declarations  # fmt: skip
    assert isinstance(block, ast.Block)
    bind = block.body[0]
    assert isinstance(bind, ast.Bind)
    product = bind.value
    assert isinstance(product, ast.Binary)
    assert place(block.span)[:2] == (1, 1)
    assert block.span.text.endswith("return y")
    assert place(bind.span) == (2, 3, "y = (x + 1) * f( 2 )")
    assert place(product.span) == (2, 7, "(x + 1) * f( 2 )")
    assert place(product.left.span) == (2, 8, "x + 1")
    assert place(product.operator_span) == (2, 15, "*")
    assert place(product.right.span) == (2, 17, "f( 2 )")


def test_spans_of_a_layer() -> None:
    pipe = expression("x |> a.b: head(1)(y)")
    assert isinstance(pipe, ast.Pipe)
    assert pipe.layer.label is not None
    assert place(pipe.layer.span) == (1, 16, "a.b: head(1)(y)")
    assert place(pipe.layer.label.span) == (1, 16, "a.b")
    assert place(pipe.layer.callee_span) == (1, 21, "head")
