"""Fixes of syntax problems: safe where the text leaves no doubt, else suggested or withheld."""

import pytest

from meganeura_dsl.diagnostics.fixes import apply, compatible_fixes
from meganeura_dsl.diagnostics.problem import Applicability, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import library
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_dsl.syntax.problems.certainty import NUMBERED_LAYERS

BLOCK = "block Net(deep=1)(x: [n, d], y: [n, d]) -> [n, d]:\n"


def fixed(text: str, kind: Applicability = Applicability.SAFE) -> str:
    """The text after all fixes of one kind and one iteration."""
    source, sink = Source("net.mgn", text), Sink()
    parse(source, sink)
    assert sink.has_errors
    reports = compatible_fixes(sink.reports, source, kind)
    return apply(text, [edit for each in reports if each.help for edit in each.help.edits])


def is_right(text: str) -> bool:
    sink = Sink()
    parse(Source("net.mgn", text), sink)
    return not sink.has_errors


BODIES = [
    ("  z = x \N{MINUS SIGN} y\n", "  z = x - y\n"),
    ("  z = x\N{NO-BREAK SPACE}* y\n", "  z = x * y\n"),
    ("  if deep ≥ 2:\n    x = y\n", "  if deep >= 2:\n    x = y\n"),
    ("  if deep ≠ 2:\n    x = y\n", "  if deep != 2:\n    x = y\n"),
    ("  z = x;   # done\n", "  z = x   # done\n"),
    ("  z = f('a')\n", '  z = f("a")\n'),
    ("  z = f(“a b”)\n", '  z = f("a b")\n'),
    *((f'  z = "{each}\n', f'  z = "{each}"\n') for each in ("a", "a-b/c_d.npy", "../x", "7")),
    ("  z = .5 * x\n", "  z = 0.5 * x\n"),
    ("  z = 0x10 * x\n", "  z = 16 * x\n"),
    ("  z = 1__000 * x\n", "  z = 1_000 * x\n"),
    ("  let z = x\n", "  z = x\n"),
    ("  x *= y + x\n", "  x = x * (y + x)\n"),
    ("  x -= relu(y + x)  # less\n", "  x = x - relu(y + x)  # less\n"),
    ("  x += y |> relu\n", "  x = x + (y |> relu)\n"),
    ("  z = f(x, bias=True)\n", "  z = f(x, bias=true)\n"),
    ("  z = f(x, bias=False)\n", "  z = f(x, bias=false)\n"),
    ("  var z = x\n", "  z = x\n"),
    ("  const  z = x == y\n", "  z = x == y\n"),
    ("  x *= y\n", "  x = x * y\n"),
    ("  z = x //\n      y\n", "  z = x\n      // y\n"),
    ("  z = x or  # c\n      y\n", "  z = x  # c\n      or y\n"),
    ("  if deep > 1 # c\n    x = y\n", "  if deep > 1: # c\n    x = y\n"),
    ("  for i in range(1, deep):\n    x = y\n", "  for i in 1..deep:\n    x = y\n"),
    ("  z = conv2d(c, 3 pad=1)\n", "  z = conv2d(c, 3, pad=1)\n"),
    ("  z = f(x,\n        [n, d\n  u = y\n", "  z = f(x,\n        [n, d\n  u = y\n"),
    ("  z = rearrange(x, [n, d)\n", "  z = rearrange(x, [n, d)\n"),
    ("  z = x |> relu)\n", "  z = x |> relu\n"),
    ("  z = x  and\n      y\n", "  z = x\n      and y\n"),
    ("  z = x |>  # first\n      relu\n", "  z = x  # first\n      |> relu\n"),
    ("  if deep > 1\n    x = y\n", "  if deep > 1:\n    x = y\n"),
    ("  if 1 < f(deep) < 4:\n    x = y\n", "  if 1 < f(deep) and f(deep) < 4:\n    x = y\n"),
    ("  if deep > 1: x = y  # so\n", "  if deep > 1:\n    x = y  # so\n"),
]


@pytest.mark.parametrize(("before", "after"), BODIES, ids=[before for before, _ in BODIES])
def test_statements(before: str, after: str) -> None:
    assert fixed(f"{BLOCK}{before}  return x\n") == f"{BLOCK}{after}  return x\n"
    assert before == after or is_right(BLOCK + after)


GUESSES = [
    # a product of elements, or of matrices
    ("  z = x \N{MULTIPLICATION SIGN} y\n", "  z = x * y\n"),
    # a colon is missing, or a pipe
    ("  z = x |> layers[0].conv conv2d(3, 3)\n", "  z = x |> layers[0].conv: conv2d(3, 3)\n"),
    # the bracket that opens may be the wrong one
    ("  z = relu(x]\n", "  z = relu(x)\n"),
    ("  z = [n, d)\n", "  z = [n, d]\n"),
    # it may close before an argument
    ("  z = relu(batch_norm(x)\n  u = y\n", "  z = relu(batch_norm(x))\n  u = y\n"),
    # a comma is missing, or this is one number
    ("  z = conv2d(1 000)\n", "  z = conv2d(1, 000)\n"),
    ("  z = conv2d(1.5 4)\n", "  z = conv2d(1.5, 4)\n"),
]


@pytest.mark.parametrize(("before", "after"), GUESSES, ids=[before for before, _ in GUESSES])
def test_what_may_mean_another_thing_is_suggested(before: str, after: str) -> None:
    assert fixed(f"{BLOCK}{before}  return x\n") == f"{BLOCK}{before}  return x\n"
    suggested = fixed(f"{BLOCK}{before}  return x\n", Applicability.SUGGESTED)
    assert suggested == f"{BLOCK}{after}  return x\n"


DECLARATIONS = [
    ("def f(h):  # half\n  return h // 2\n", None),
    ("def f(h): h // 2\n", "def f(h) = h // 2\n"),
    ("def f(h):\n  return h // 2\n\nmodel a = A()\n", "def f(h) = h // 2\n\nmodel a = A()\n"),
    ("def f(h):\n  k = h\n  return k // 2\n", None),
    ("def f(h):\n  return h, 2\n", None),
    ("def f(h):\n  return (h, 2)\n", None),
    ("def f(h):\n  return 2 * (h, 2)\n", None),
    ("def f(h):\n  return 2 * max (h, 2)\n", "def f(h) = 2 * max (h, 2)\n"),
    ("block A(x: [n, d]) = x\n", "block A()(x: [n, d]) = x\n"),
    ("block A(c: 3)(x: [n, d]) = x\n", None),
    ("block A()(x: [n, d] y: [n, d]) = x\n", "block A()(x: [n, d], y: [n, d]) = x\n"),
    ("block A()(x: Float32[n]) = x\n", "block A()(x: f32[n]) = x\n"),
    ("block A()(x: int64[n]) = x\n", None),
    ("block A(x: f32[n], y: f32[n]):\n  return x\n",
     "block A()(x: f32[n], y: f32[n]):\n  return x\n"),
    ("block A(x: f32[n])(c):\n  return x\n", None),
    ("block A(x: [n])(y: [n]) = x\n", None),
    ("block A(k: 3, x: f32[n]):\n  return x\n", None),
    ("def f(h):\n  return return h\n", None),
    ("def f(h):\n  return max(h, 2)\n", "def f(h) = max(h, 2)\n"),
    ("train t(x: [n])\n  minimize sum(x)\n", "train t(x: [n]):\n  minimize sum(x)\n"),
    ("modle a = A()\n", "model a = A()\n"),
    ("model a: A()\n", "model a = A()\n"),
    ("\ufeffmodel a = A()\n", "model a = A()\n"),
    ("model a = A(\u202e)\n", None),
    ("block A()(x: [n]) = x  \nblock B(\n", None),
    ("block A()(x: [n]):\n\treturn x\n", "block A()(x: [n]):\n  return x\n"),
    ("block A()(x: [n]):\n\tif n > 1:\n\t\tx = x\n\treturn x\n",
     "block A()(x: [n]):\n  if n > 1:\n    x = x\n  return x\n"),
    ("block A()(x: [n]):\n\ty = x\n    return y\n", None),
    ("block B()(x: [n]):\n  return x\n\nblock A()(x: [n]):\n\tx = x\n\treturn x\n\ndef b() = 1\n",
     "block B()(x: [n]):\n  return x\n\nblock A()(x: [n]):\n  x = x\n  return x\n\ndef b() = 1\n"),
    ("block A()(x: [n]) -> [n]\r\n  if n > 1: x = x\r\n  return x\r\n",
     "block A()(x: [n]) -> [n]:\r\n  if n > 1: x = x\r\n  return x\r\n"),
    ("block A()(x: [n]):\r\n  if n > 1: x = x\r\n  return x\r\n",
     "block A()(x: [n]):\r\n  if n > 1:\r\n    x = x\r\n  return x\r\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), DECLARATIONS, ids=[one for one, _ in DECLARATIONS])
def test_declarations(before: str, after: str | None) -> None:
    assert fixed(before) == (before if after is None else after)


UNCERTAIN = [
    "z = y = x",  # perhaps two names
    "z = x & y",
    "z = !x",
    "z = x; u = y",
    "z = f('a', 'b')",
    "z = f('a)",
    "z = f('a\")",
    "z = 'a' \"b\"",
    'z = [n, "a',
    'z = x"a',
    'z = 7"a',
    "let z: f32 = x",
    "let z == x",
    "var z",
    "x *= (y + x",
    "x += y\n      + x",
    "z, x += y",
    "x.y += y",
    "z = [n, d)]",
    "z = (x[0)",
    "z = conv2d(x.1 4)",
    "z = f(x y==3)",
    "z = x *",
    "z = x |>\n\n      relu",
    "if deep > 1 x = y",
    "if deep > 1",  # perhaps there is no body
    'z = file("a.npy)',
    'z = "two words',
    "z = x |> relu conv2d(3, 3)",  # perhaps a pipe is missing
    "z = x |> Half2 conv2d(3, 3)",
    "z = (x + y",  # perhaps it closes before an operator
    "z = relu(x + y",
    "z = f(x, (y",
    "z = x * y + 1)",  # perhaps it opens before an operand
    "z = f(x, y(1) 2)",
    "z = conv2d(c k)",
    "z = [n c]",
    "for i in 4:",
    "while deep:",
    "blok = = 3",
    "x = None",
    "z = 3f * x",
    "z = 1e * x",
    "if 1 < f(deep < 3) < 4:",
    "if not 1 < deep < 4:",  # `not` would belong to the first of the two comparisons
    "x += y +",
    "x[0] += y",
    "elf x",
    "for = 3",
]


@pytest.mark.parametrize("line", UNCERTAIN)
def test_a_guess_is_no_fix(line: str) -> None:
    text = f"{BLOCK}  {line}\n  return x\n"
    assert fixed(text) == text
    assert fixed(text, Applicability.SUGGESTED) == text


def test_a_numbered_label_that_is_a_block_is_none() -> None:
    declared = "block half2()(x: [n]) = x\n\n"
    lost = f"{BLOCK}  return x |> half2 conv2d(3, 3)\n"
    guess = Applicability.SUGGESTED
    assert "half2: conv2d" in fixed(lost, guess)
    assert fixed(declared + lost, guess) == declared + lost
    imported = "from halves import half1, half2\n\n"
    assert fixed(imported + lost, guess) == imported + lost


def test_a_layer_of_the_library_that_ends_in_a_number_is_no_label() -> None:
    blocks = [block for module in library() for block in module.blocks.values()]
    layers = [block.name.text for block in blocks if len(block.inputs) == 1]
    assert {name for name in layers if name[-1].isdigit()} == NUMBERED_LAYERS
    for name in NUMBERED_LAYERS:
        lost = f"{BLOCK}  return x |> {name} conv2d(3, 3)\n"
        assert fixed(lost, Applicability.SUGGESTED) == lost


def test_all_that_can_be_fixed_at_once_is() -> None:
    text = "model a: A()\n\nmodel b: A()\n\nblock A()(x: [n])\n  return x\n"
    right = "model a = A()\n\nmodel b = A()\n\nblock A()(x: [n]):\n  return x\n"
    assert fixed(text) == right
