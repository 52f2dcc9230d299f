"""Formatting keeps what a program means and says, and does nothing to what it has formatted."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meganeura_dsl import resources
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from tests.dsl.syntax.generated import modules
from tests.dsl.syntax.trees import NAMES, plain, program, tree
from tests.effort import effort


def formatted(text: str) -> str:
    """The canonical form of a program, which is checked to be one."""
    module = tree(text)
    result = format_module(module, find_comments(module.source))
    again = tree(result)
    assert plain(again) == plain(module)
    assert format_module(again, find_comments(again.source)) == result
    return result


def comments_of(text: str) -> list[str]:
    """The comments of a text, without their spacing."""
    found = find_comments(Source("test.mgn", text))
    return [part for comment in found for part in re.findall(r"#[^#]*[^#\s]", comment.text)]


# --- properties ----------------------------------------------------------------------------------


@settings(
    max_examples=effort(25, 2500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(modules())
def test_any_tree(module: ast.Module) -> None:
    text = format_module(module, ())
    assert plain(tree(text)) == plain(module)
    assert formatted(text) == text


BEFORE_OPERATOR = [" ", "   ", "\n        ", "  # why\n      ", "\n\n  # why\n\n\n    "]
AFTER_COMMA = [" ", "", "\n ", "  # which\n\n", "\n # which\n"]
AT_END = ["\n", "  \n", "   # so\n", "#so\n", "\n\n\n", "\n  # next\n", "\n# next\n\n"]
PLACES = re.compile(r" +(?=\|>|[-+*/%]+ |->|where )|(?<=,) +|\n(?= *\S)")


@st.composite
def relaid(draw: st.DrawFn) -> str:
    """One of the programs, laid out and commented in other ways."""

    def other(match: re.Match[str]) -> str:
        if match[0] == "\n":
            return draw(st.just("\n") | st.sampled_from(AT_END))
        is_comma = match.string[match.start() - 1] == ","
        return draw(st.just(" ") | st.sampled_from(AFTER_COMMA if is_comma else BEFORE_OPERATOR))

    text = program(draw(st.sampled_from(NAMES)))
    head, *rest = re.split(r"(?m)(?=^(?:block|model|train|expect|def) )", text)
    chosen = draw(st.integers(0, len(rest) - 1))
    rest[chosen] = PLACES.sub(other, re.sub(r" *#.*", "", rest[chosen]))
    return "".join([head, *rest])


@settings(max_examples=effort(25, 2500))
@given(relaid())
def test_any_layout(text: str) -> None:
    assert comments_of(formatted(text)) == comments_of(text)


@pytest.mark.parametrize("name", NAMES)
def test_programs(name: str) -> None:
    text = program(name)
    result = formatted(text)
    assert comments_of(result) == comments_of(text)
    assert re.sub(r"\s+", "", result) == re.sub(r"\s+", "", text)
    assert result.count("\n") == text.count("\n")


@pytest.mark.parametrize("name", resources.standard_model_names())
def test_standard_models(name: str) -> None:
    text = (resources.standard_models() / f"{name}.mgn").read_text(encoding="utf-8")
    assert comments_of(formatted(text)) == comments_of(text)


# --- examples ------------------------------------------------------------------------------------


def test_the_canonical_form() -> None:
    text = """\
#  a remark
from a . b   import x,y
def f( h,s=1 )=((h-1)//s)+1


block B( c )( x:[n , ...d ] )->[n,c]   where (c%2==1),d!=3 :   # about B
# about y

    y=(x+1)*2 |> conv1 : conv2d( c,3,pad = 1 )   # about conv1

    |> relu( )
    if not (c==1) :
        y=f(y)[ : ,0]
    else :
          y = -(y**2)
    return x if (c == 1) else (y |> a.b [0]: g ( [n , d]->[d,n] ) (x))
    # the end of B


block relu()(x:[...s]) -> [...s] = max(x,0)
model a=B(1)
model longer=head.fc : B( c=3 )  # about longer
expect a has 1_0 params , 2 weights
expect a maps [n]->[n]
train t(x:[n,2]) :
    minimize f( x )
    run :
        batch=64
        optimizer=adam( lr=1e-3 )
# the end
"""
    assert (
        formatted(text)
        == """\
#  a remark
from a.b import x, y

def f(h, s=1) = (h - 1) // s + 1

block B(c)(x: [n, ...d]) -> [n, c] where c % 2 == 1, d != 3:   # about B
  # about y

  y = (x + 1) * 2 |> conv1: conv2d(c, 3, pad=1)  # about conv1
                  |> relu
  if not c == 1:
    y = f(y)[:, 0]
  else:
    y = -y ** 2
  return x if c == 1 else y |> a.b[0]: g([n, d] -> [d, n])(x)
  # the end of B

block relu()(x: [...s]) -> [...s] = max(x, 0)

model a      = B(1)
model longer = head.fc: B(c=3)   # about longer

expect a has 1_0 params, 2 weights
expect a maps [n] -> [n]

train t(x: [n, 2]):
  minimize f(x)
  run:
    batch     = 64
    optimizer = adam(lr=1e-3)
# the end
"""
    )


def test_long_lines_are_broken_at_their_weakest_places() -> None:
    header = "block B(c)(x: [n, c, h, w], another_one: [n, c, h, w]) -> [n, c, (h - 1) // 2 + 1, w]"
    pipes = (
        "x |> one: conv2d(c, 3, pad=1, bias=false) |> two: conv2d(c, 3, pad=1, bias=true) |> relu"
    )
    text = f"""\
{header} where h % 2 == 1:
  y = {pipes} |> gelu
  z = f({", ".join(f"argument_{i}" for i in range(9))})
  return y + z * {" + ".join(f"(some_value_{i} |> f)" for i in range(5))}
"""
    assert (
        formatted(text)
        == f"""\
{header}
    where h % 2 == 1:
  y = {pipes}
        |> gelu
  z = f(argument_0, argument_1, argument_2, argument_3, argument_4, argument_5, argument_6,
        argument_7, argument_8)
  return y + z * (some_value_0 |> f) + (some_value_1 |> f) + (some_value_2 |> f)
       + (some_value_3 |> f) + (some_value_4 |> f)
"""
    )


def test_a_header_that_does_not_fit_has_one_entry_a_line() -> None:
    sizes = "vocabulary=30522, positions=512, d=768, layers=12, heads=12, ffn=3072"
    inputs = "ids: i32[n, s], mask: bool[n, s] = true"
    text = f"block Encoder({sizes})({inputs}) -> [n, s, d]:\n  x = ids\n"
    assert formatted(text).splitlines() == [
        f"block Encoder({sizes})(",
        "    ids: i32[n, s],",
        "    mask: bool[n, s] = true",
        ") -> [n, s, d]:",
        "  x = ids",
    ]
    more = text.replace("ffn=3072", "ffn=3072, bias=true, classes=1000")
    assert formatted(more).splitlines()[:3] == [
        "block Encoder(",
        "    vocabulary=30522,",
        "    positions=512,",
    ]
    assert f")({inputs}) -> [n, s, d]:" in formatted(more)


def test_a_header_that_fits_is_one_line_however_it_was_written() -> None:
    text = "block f(d,\n        k)(x: [n,\n d])\n    -> [n, d]:\n  return x\n"
    assert formatted(text.replace("[n,\n d]", "[n, d]")) == (
        "block f(d, k)(x: [n, d])\n    -> [n, d]:\n  return x\n"
    )


def test_a_comment_on_an_entry_of_a_header_stays_with_it() -> None:
    text = "block f(d, # width\n        k=3)(x: [n, d]) -> [n, d]:\n  return x\n"
    assert formatted(text) == (
        "block f(\n    d,     # width\n    k=3\n)(x: [n, d]) -> [n, d]:\n  return x\n"
    )


def test_comments_on_branches() -> None:
    text = """\
block B()(x: [n]):
  # before
  if x:  # then
    y = x
    # end of then
  else if z:  # or
    y = x
  # before else
  else:  # otherwise
    # first
    y = z
  return y
"""
    assert formatted(text) == text


def test_comments_before_an_else_that_is_not_the_first() -> None:
    text = """\
block B()(x: [n]):
  if x:
    y = x
    if z:
      y = z
    else:
      y = x
  # before else
  else:
    y = z
  return y
"""
    assert formatted(text) == text


def test_comments_that_are_indented_further_than_any_code() -> None:
    text = """\
block B()(x: [n]):
      # first
  if x:
    y = x
      # second

        # third
   # fourth
# last
  return x
"""
    wanted = """\
block B()(x: [n]):
  # first
  if x:
    y = x
    # second

    # third
    # fourth
  # last
  return x
"""
    assert formatted(text) == wanted


def test_no_blank_line_stands_above_the_first_line_of_a_body() -> None:
    text = """\
train t(x: [n]):

  if x:

    minimize f(x)

  else:

    minimize g(x)
  run:


    # first
    batch = 2


    lr = 3
"""
    wanted = """\
train t(x: [n]):
  if x:
    minimize f(x)

  else:
    minimize g(x)
  run:
    # first
    batch = 2

    lr    = 3
"""
    assert formatted(text) == wanted


def test_a_choice_by_name_has_room() -> None:
    line = "def f(x, y, z) = g(x if y else z, a = x if y else z, b=x, c=(x if y else z) + 1)\n"
    assert formatted(line) == line


def test_comments_alone() -> None:
    assert format_module(ast.Module(Source("", "# a\n\n\n#b  \n"), ()), find_comments(
        Source("", "# a\n\n\n#b  \n"))) == "# a\n\n#b\n"  # fmt: skip


def test_a_hash_in_a_text_is_no_comment() -> None:
    text = 'def f() = "# no"  # yes\n'
    assert comments_of(text) == ["# yes"]
    assert formatted(text) == text


def test_line_breaks_become_those_of_unix() -> None:
    assert formatted("def f() = 1  # a\r\n\r\n# b\r\n") == "def f() = 1  # a\n\n# b\n"


@pytest.mark.parametrize("above", ["model a = relu()\n", "from nn import relu\n", ""])
def test_a_comment_that_is_indented_belongs_to_a_body_only_if_there_is_one(above: str) -> None:
    text = f"{above} # a\n# b\ndef f() = 1\n"
    found, blank = formatted(text), "\n" if above else ""
    assert found == f"{above}{blank}# a\n# b\ndef f() = 1\n"
    assert formatted(found) == found
