"""Blocks as values, and what a proof knows of them."""

import re
from functools import cache

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from tests.dsl.elaborate.body.blocks.adapted import ADAPTED, codes, in_net, names


def test_a_block_that_takes_blocks_is_proved_for_all() -> None:
    result = pipeline.check(Source("net.mgn", ADAPTED), lambda _: None)
    assert result.problems == ()
    assert result.proved == ("Mlp", "lora", "Outer")


def test_what_its_header_does_not_say_is_not_assumed() -> None:
    text = """
block Bad(fc=linear)(x: [n, d]) -> [n, d]:
  return x |> fc1: fc(2 * d)
"""
    (report,) = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert report.code == "E0303"
    assert [remark.title for remark in report.remarks] == ["for example"]


def test_blocks_go_through_several_blocks() -> None:
    text = in_net("  return x |> a: Outer(relu) |> b: Outer(fc=lora(r=2))")
    assert codes(text) == []
    assert names(text) == [
        *(f"a.mlp.fc{i}.{name}" for i in (1, 2) for name in ("weight", "bias")),
        *(f"b.mlp.fc{i}.{name}" for i in (1, 2) for name in ("weight", "bias", "lora_A", "lora_B")),
    ]


def test_positions_count_what_is_left() -> None:
    text = in_net("  return x |> a: Mlp(4, fc=lora(r=2, base=linear(bias=false)))")
    assert codes(text) == []
    assert "a.fc1.bias" not in names(text)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("act=3", "E0203"),
        ("act=max_pool", "E0221"),
        ("act=softmax(axis=-2)", "E0221"),
        ("act=layer_norm", "E0221"),
        ("fc=conv1d", "E0221"),
        ("fc=relu", "E0221"),
        ("fc=lora(q=3)", "E0202"),
        ("fc=lora(1, 2, linear, 4)", "E0202"),
        ("fc=lora(2, out=3)", "E0202"),
        ("fc=lora(out=3)", "E0221"),
        ("act=gely", "E0201"),
        ("act=sum", "E0203"),
        ("hidden=relu", "E0203"),
    ],
)
def test_what_does_not_fit(given: str, code: str) -> None:
    arguments = given if given.startswith("hidden") else f"4, {given}"
    assert codes(in_net(f"  return x |> a: Mlp({arguments})")) == [code]


GIVEN = """
block plus()(a: [...s], b: [...s]) -> [...s] = a + b
block join()(u: [...s], v: [...s]) -> [...s] = u - v
block mixed()(w: [j, k], m: [i, j]) -> [i, k] = m @ w
block scaled(p, q=2)(a: [m, k]) -> [m, k] = p * a + q
block shifted(r)(a: [m, k]) -> [m, k] = r + a
block times(k)(a: [m, d]) -> [m, k * d]:
  return rearrange(expand(a, [m, d] -> [m, d, k]), [m, d, k] -> [m, k * d])
block widen(k, c)(a: [m, d]) -> [m, k * d + c]:
  return concat(a |> times(k), full([m, c], 0), axis=1)
block tripled(c)(a: [m, d]) -> [m, 3 * d + c] = a |> widen(3, c)
block doubled(p)(a: [m, d]) -> [m, 2 * d] = p * (a |> times(2))
block weighted(p)(a: [...s], b: [...s]) -> [...s] = p * a + b
block both()(a: [m, k]) -> [m, k], [m, k]:
  return a, 2 * a
block sums()(a: [m, k]) -> [m, k], [m]:
  return a, sum(a, 1)
block ids()(a: [m, k]) -> i32[m, k] = i32(a)
block summed()(a: [m, k]) -> [m] = sum(a, 1)
block third()(a: [m, k]) -> [m, k]
    where k >= 3:
  return a + sum(a[:, 2:3])
block fourth()(a: [m, k]) -> [m, k]
    where k >= 4:
  return a + sum(a[:, 3:4])
block few(c: size)(a: [m, 3]) -> [m, c]:
  return a |> fc: linear(c)
block holds()(a: [m, k]) -> [m, k]:
  param w: [k] = ones
  layer l: linear(k, bias=false)
  return a * w |> l
block held()(a: [m, k]) -> [m, k]:
  return a |> .: holds
block quiet()(a: [m, k]) -> [m, k]:
  return dropout(a, 0.5)
block untold()(a: [m, k]) = 2 * a
block each(p)(a: [m, k]) -> [m, k]:
  for i in 0..len(p):
    a = a * p[i]
  return a
block first()(a: [...s, j], b: [...t, j]) -> [...s, j] = a + sum(b)
model plain = scaled(3)
block biased()(a: [...s]) -> [...s]:
  param bias: [] = 0.0
  return a + bias
model whole = biased()
block below(c)(a: [m, k]) -> [m, c] = a |> fc: linear(c)
block tied(p)(a: [m, k]) -> [m, k]:
  y = a |> l: below(k)
  return p[0] * (y @ l.fc.weight)
block tied_sum(p)(a: [m, k]) -> [m]:
  y = a |> l: below(k)
  return p[0] * sum(y @ l.fc.weight, 1)
"""
ONE = "f: block()(a: [i, j]) -> [i, j]"
TWO = "f: block()(a: [i, j], b: [i, j]) -> [i, j]"
PRODUCT = "f: block()(m: [i, j], w: [j, k]) -> [i, k]"
OF_P = "f: block(p)(a: [i, j]) -> [i, j]"
OF_P_TWO = "f: block(p)(a: [i, j], b: [i, j]) -> [i, j]"
OF_P_Q = "f: block(p, q)(a: [i, j]) -> [i, j]"
TRIPLE = "f=times(3)", "x |> f |> g: linear(4)"
OWNS = "owns weights ({}), and is applied without a label"
FITS = [
    (TWO, "f(x, x)", "plus", ""),
    (TWO, "f(x, x)", "join", ""),
    (TWO, "f(x, x)", "relu", "`relu` takes 1 tensor, and got 1 more"),
    (TWO, "f(x, b=x)", "plus", ""),
    (TWO, "f(x, b=x)", "join", "`join` needs a tensor `v`"),
    (TWO, "f(x, x)", "plain", "`scaled` takes 1 tensor, and got 1 more"),
    (PRODUCT, "f(x, x[0:4])", "mixed", "takes [j, k], [i, j], and is given [i, j], [j, k]"),
    (PRODUCT, "f(w=x[0:4], m=x)", "mixed", ""),
    (PRODUCT, "f(w=x[0:4], m=x)", "plain", "`scaled` needs a tensor `a`"),
    (OF_P_TWO, "f(x, 2, b=x)", "weighted", ""),
    (OF_P_TWO, "f(x, 2, b=x)", "plus", "`plus` got 1 argument too many"),
    (OF_P, "x |> f(2)", "scaled", ""),
    (OF_P, "x |> f(2)", "shifted", ""),
    (OF_P, "x |> f(p=2)", "scaled", ""),
    (OF_P, "x |> f(p=2)", "shifted", "`shifted` has no argument `p`, and needs `r`"),
    (OF_P, "(x |> f(2)) + f(p=2)(x)", "shifted", "`shifted` has no argument `p`, and needs `r`"),
    (OF_P, "(x |> f(2)) + f(2)(x)", "shifted", ""),
    (OF_P, "x", "scaled", ""),
    (OF_P, "x", "relu", "`relu` got 1 argument too many"),
    ("f: block(p=1)(a: [i, j]) -> [i, j]", "x", "relu", ""),
    ("f: block(p=1)(a: [i, j]) -> [i, j]", "x |> f", "relu", ""),
    ("f: block(p=1)(a: [i, j]) -> [i, j * p]", "x |> f", "relu", ""),
    ("f: block(p=2)(a: [i, j]) -> [i, j * p]", "x |> g: linear(2) |> f", "times(2)", ""),
    ("f: block(p=1, q)(a: [i, j]) -> [i, j]", "x", "shifted", ""),
    (
        "f: block(p=2)(a: [i, j]) -> [i, j * p]",
        "x |> g: linear(2) |> f",
        "doubled(3)",
        "",
    ),
    (
        "f: block(p=2)(a: [i, j]) -> [i, j * p]",
        "x |> g: linear(1) |> f(4)",
        "doubled",
        "gives f32[i, 2*j], and f32[i, j*p] is due",
    ),
    (OF_P_Q, "x |> f(2, 3)", "shifted", "`shifted` got 1 argument too many"),
    (OF_P_Q, "x |> f(2, q=3)", "shifted", "`shifted` has no argument `q`"),
    (OF_P_Q, "x |> f(2, q=3)", "scaled", ""),
    (OF_P_Q, "x |> f(q=3, p=2)", "scaled", ""),
    (OF_P_Q, "f(2, 3)(x)", "scaled", ""),
    (OF_P_Q, "f(x, 2, 3)", "scaled", ""),
    (OF_P_Q, "f(2, 3)(x)", "shifted", "`shifted` got 1 argument too many"),
    ("f=scaled(3)", "x |> f(q=2)", "scaled(4)", ""),
    ("f=scaled(3)", "x |> f(2)", "scaled", ""),
    ("f=scaled(3)", "x |> f(q=2)", "scaled", "`scaled` needs `p`"),
    (*TRIPLE, "times(3)", ""),
    (*TRIPLE, "times(k=3)", ""),
    (*TRIPLE, "times(2)", "gives f32[m, 2*d], and f32[m, 3*d] is due"),
    ("f=widen(3)", "x |> f(2) |> g: linear(4)", "tripled", ""),
    ("f=widen(3)", "x |> f(2) |> g: linear(4)", "widen(3)", ""),
    (
        "f=widen(3)",
        "x |> f(2) |> g: linear(4)",
        "widen(2)",
        "gives f32[m, c + 2*d], and f32[m, c + 3*d] is due",
    ),
    ("f=times", "x |> f(2) |> g: linear(4)", "times(3)", "`times` got 1 argument too many"),
    (ONE, "x |> f(training=false)", "quiet", ""),
    (ONE, "x |> f(frozen=true)", "quiet", ""),
    (ONE, "x |> f", "both", "gives 2 results, not 1"),
    ("f=sums", "x", "sums", ""),
    ("f=sums", "x", "both", "gives f32[m, k], and f32[m] is due"),
    ("f=sums", "x", "tanh", "gives 1 result, not 2"),
    ("f=ids", "x + f32(f(x))", "relu", "gives f32[m, k], and i32[m, k] is due"),
    ("f=ids", "x + f32(f(x))", "ids", ""),
    (ONE, "x |> f", "ids", "gives i32[i, j], and f32[i, j] is due"),
    (ONE, "x |> f", "summed", "gives f32[i], and f32[i, j] is due"),
    (ONE, "x |> f", "third", "`third` needs `k >= 3, that is j >= 3`"),
    ("f=third", "x |> f", "third", ""),
    ("f=fourth", "x |> f", "third", ""),
    ("f=third", "x |> f", "fourth", "`fourth` needs `k >= 4`"),
    (ONE, "x |> h: f", "few(2)", "takes [m, 3], and is given [i, j]"),
    (ONE, "x |> f", "max_pool(2)", "`max_pool` takes [n, c, *spatial], not f32[i, j]"),
    (
        "f: block()(a: [...s, j], b: [...t, j]) -> [...s, j]",
        "x",
        "plus",
        "takes [...s], [...s], and is given [...s, j], [...t, j]",
    ),
    ("f: block()(a: [...s, j], b: [...t, j]) -> [...s, j]", "f(x, x[0])", "first", ""),
    (ONE, "x |> f", "plain", ""),
    (ONE, "x |> f", "whole", ""),
    (ONE, "x |> f", "holds", OWNS.format("w, l")),
    (ONE, "x |> f", "biased", OWNS.format("bias")),
    (ONE, "(x |> h: f) + f(x)", "held", OWNS.format("w, l")),
    (ONE, "x |> h: f", "held", ""),
    ("f: block", "x |> f", "holds", OWNS.format("w, l")),
    ("f: block", "x |> h: f", "holds", ""),
    ("f=tanh", "x |> f", "plain", "takes other tensors, and is given [...s]"),
    (OF_P, "x |> f(2)", "each", "`len` needs the list the configuration gives"),
    ("f=plain", "x |> f", "relu", ""),
    ("f=untold", "x |> f", "relu", ""),
    (ONE, "x |> h: f", "tied([2])", ""),
    (ONE, "x |> h: f", "tied_sum([2])", "gives f32[i], and f32[i, j] is due"),
]


@cache
def said_of_fits() -> dict[str, list[tuple[str, str, str]]]:
    """Of each row, by the name of its block: code, headline and label of what is said about it."""
    text = GIVEN
    for number, (parameter, use, given, _) in enumerate(FITS):
        where = "\n    where n >= 4" if "x[0" in use else ""
        text += f"block Takes{number}({parameter})(x: [n, 4]) -> [n, 4]{where}:\n  return {use}\n"
        text += f"block Net{number}()(x: [6, 4]) -> [6, 4]:\n"
        text += f"  return x |> t: Takes{number}({given})\n"
    said: dict[str, list[tuple[str, str, str]]] = {}
    for report in pipeline.check(Source("net.mgn", text), lambda _: None).reports:
        assert report.label is not None
        if report.code not in ("E0207", "E0404", "N0001"):
            above = text.splitlines()[: report.label.span.line]
            name = re.findall(r"^block (\w+)", "\n".join(above), re.MULTILINE)[-1]
            label = " ".join(report.label.text.split())
            said.setdefault(name, []).append((report.code, report.headline, label))
    return said


@pytest.mark.parametrize("number", range(len(FITS)), ids=lambda number: " | ".join(FITS[number]))
def test_a_given_block_is_proved_to_fit_as_it_is_applied(number: int) -> None:
    _, _, given, reason = FITS[number]
    headline = f"`{given.split('(')[0]}` cannot stand for `f`"
    said = said_of_fits()
    assert said.get(f"Net{number}", []) == ([("E0221", headline, reason)] if reason else [])
    assert {name for name in said if not name.startswith("Net")} == set()


@pytest.mark.parametrize(
    ("given", "more", "fault"),
    [
        ("scaled(3)", "2", ""),
        ("scaled(3)", "q=2", ""),
        ("scaled(q=3)", "2", ""),
        ("scaled(q=3)", "p=2", ""),
        ("scaled(3)", "p=2", "`scaled` got `p` twice"),
        ("scaled(2, q=3)", "q=2", "`scaled` got `q` twice"),
        ("scaled(3)", "2, q=4", "`f` got `q` twice"),
        ("scaled(3, 2)", "4", "`f` got 1 argument too many"),
        ("scaled(3, training=false)", "2, training=false", ""),
        ("scaled(3, frozen=true)", "frozen=false", ""),
    ],
)
def test_configuration_is_given_once(given: str, more: str, fault: str) -> None:
    """Some where the block is given, the rest where it is applied; modes in both places."""
    text = f"{GIVEN}block Takes(f: block)(x: [n, 4]) -> [n, 4] = x |> f({more})\n"
    text += f"model net = Takes({given})\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert [each.headline for each in reports if each.code == "E0202"] == ([fault] if fault else [])
    assert {each.code for each in reports} <= {"E0202", "E0207", "E0404", "N0001"}


@pytest.mark.parametrize(
    ("parameter", "contract"),
    [
        ("f: block", "f: block   that is  a block without weights"),
        ("f=plain", "f=plain   that is  a block without weights"),
        ("f=untold", "f=untold   that is  a block without weights"),
        ("f=tanh", "f=tanh   that is  (x: [...s]) -> [...s]"),
        ("f=scaled(3)", "f=scaled(3)   that is  (q=2)(a: [m, k]) -> [m, k]"),
        ("f=plus", "f=plus   that is  (a: [...s], b: [...s]) -> [...s]"),
        ("f=sums", "f=sums   that is  (a: [m, k]) -> [m, k], [m]"),
        ("f=any_", "f=any_   that is  a block without weights"),
        ("f: block(p)(a: [i, j]) -> [i, j]", "f: block(p)(a: [i, j]) -> [i, j]"),
    ],
)
def test_a_refusal_says_which_blocks_are_taken(parameter: str, contract: str) -> None:
    text = f"{GIVEN}block any_()(x: any[...s]) -> any[...s] = x\n"
    text += f"block Takes({parameter})(x: [n, 4]) -> [n, 4]:\n  return x |> f\n"
    text += "model wrong = Takes(holds)\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    (report,) = (each for each in reports if each.code == "E0221")
    assert [(each.title, each.text) for each in report.remarks] == [("the contract", contract)]


@pytest.mark.parametrize(
    ("parameter", "given", "example"),
    [
        ("f: block()(a: [i, j]) -> [i, j]", "third", "j=1   gives   a [i, 1]"),
        ("f: block()(a: [i, j]) -> [i, j]", "square", "i=1 j=2 gives found [1, 2]"),
        ("f=times(3)", "times(2)", "d=1   gives   gives [m, 2]   due [m, 3]"),
    ],
)
def test_a_refusal_has_the_smallest_sizes_that_show_why(
    parameter: str, given: str, example: str
) -> None:
    text = f"{GIVEN}block square()(a: [m, m]) -> [m, m] = a\n"
    text += f"block Takes({parameter})(x: [n, 4]) -> [n, 4]:\n  return x |> f |> g: linear(4)\n"
    text += f"model wrong = Takes({given})\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    (report,) = (each for each in reports if each.code == "E0221")
    texts = [each.text for each in report.remarks if each.title == "for example"]
    assert [" ".join(each.split()) for each in texts] == [" ".join(example.split())]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [("relu, relu", "g"), ("total, total", "f"), ("relu, total", ""), ("relu, total, relu", "")],
)
def test_what_fits_one_parameter_need_not_fit_another(given: str, wrong: str) -> None:
    text = f"""
block total()(a: [...s]) -> [] = sum(a)
block Same(g: block()(a: [...s]) -> [...s])(x: [n]) -> [n] = x |> g
block Takes(f: block()(a: [...s]) -> [...s], g: block()(a: [...s]) -> [], h=tanh)(x: [n]) -> [n]:
  y = x |> h |> Same(h) |> Same(f) |> f
  return y * g(x)
model net = Takes({given})
"""
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert [each.headline.split("`")[3] for each in reports] == ([wrong] if wrong else [])


def test_a_block_is_chosen_by_configuration() -> None:
    text = in_net("  return x |> a: Mlp(4, act=relu if 2 > 1 else tanh)")
    assert codes(text) == []


@pytest.mark.parametrize(
    ("parameter", "given", "headline"),
    [
        ("f: block", "3", "this needs a block as `f`"),
        ("f: block", "true", "this needs a block as `f`"),
        ("f: block = tanh", "3", "this needs a block as `f`"),
        ("f=tanh", "2.5", "this needs a block as `f`"),
        ("f=1", "relu", "this needs a number, a size or a condition as `f`"),
        ("f", "relu", "this needs a number, a size or a condition as `f`"),
        ("f: size", "relu", "`f` of `Takes` takes a whole number from 1"),
        ("f: list", "relu", "`f` of `Takes` takes a list"),
    ],
)
@pytest.mark.parametrize("where", ["model", "layer"])
def test_a_block_is_given_where_a_block_is_taken(
    parameter: str, given: str, headline: str, where: str
) -> None:
    text = f"block Takes({parameter}, _g=1)(x: [n, 4]) -> [n, 4] = x\n"
    if where == "model":
        text += f"model net = Takes({given})\n"
    else:
        text += f"block Net()(x: [n, 4]) -> [n, 4] = x |> t: Takes({given})\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    (report,) = (each for each in reports if each.code in ("E0203", "E0220"))
    assert report.label is not None
    assert (report.headline, report.label.span.line) == (headline, 2)


@pytest.mark.parametrize(
    "line", ["y = linear(8)", "y = relu", "y = relu + x", "y = [relu, tanh]", "y = -relu"]
)
def test_a_block_is_no_tensor_and_no_number(line: str) -> None:
    assert codes(in_net(f"  {line}\n  return x + y")) == ["E0203"]


def test_weights_of_a_given_block_are_read_in_each_model() -> None:
    text = """
block Tied(fc=linear)(x: [n, d]) -> [n, d]:
  y = x |> a: fc(d)
  return y @ a.weight

expect Tied maps [n, 8] -> [n, 8]
"""
    assert codes(text) == ["N0001"]


def test_blocks_that_apply_themselves_are_refused() -> None:
    text = """
block Again(f: block)(x: [n, d]) -> [n, d]:
  return x |> f(f)

model net = Again(Again)
expect net maps [n, 8] -> [n, 8]
"""
    assert "E0208" in codes(text)


def test_imported_blocks_are_proved_where_they_are_given() -> None:
    library = "block odd()(x: [...s]) -> [...s]:\n  return x |> linear(3)\n"
    text = "from lib import odd\nblock B(f=odd)(x: [n, d]) -> [n, d]:\n  return x |> f\n"
    result = pipeline.check(Source("net.mgn", text), lambda _: Source("lib.mgn", library))
    assert [report.code for report in result.reports if report.severity.value == "error"]


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ("3, times(3)", "3, times(3)", ""),
        ("3, times(3)", "2, times(2)", ""),
        ("3, times(3)", "2, times(3)", "gives f32[m, 3*d], and f32[m, 2*d] is due"),
        ("3, of([3, 1])", "2, of([2])", ""),
        ("3, of([3, 1])", "2, of([3])", "gives f32[m, 3*d], and f32[m, 2*d] is due"),
        ("3, sized(3)", "2, sized(2)", ""),
        ("3, sized(3)", "3, sized(3.0)", "`k` of `sized` takes a whole number from 1"),
        (
            "3, sized(3), sized(3)",
            "3, sized(3), sized(3.0)",
            "`k` of `sized` takes a whole number from 1",
        ),
    ],
)
def test_what_fits_one_configuration_need_not_fit_another(
    first: str, second: str, reason: str
) -> None:
    text = f"""{GIVEN}
block of(k)(a: [m, d]) -> [m, k[0] * d] = a |> times(k[0])
block sized(k: size)(a: [m, d]) -> [m, k * d] = a |> times(k)
block Takes(k, f=times(k), g=sized(k))(x: [n, 4]) -> [n, 4 * k] = (x |> f) + g(x)
block Net()(x: [n, 4]) -> [n, 8]:
  y = x |> a: Takes({first})
  z = x |> b: Takes({second})
  return (y + 1)[:, :8] + (z + 1)[:, :8]
model net = Net()
"""
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    errors = [each for each in reports if each.code not in ("N0001", "E0404")]
    assert [each.code for each in errors] == (["E0221"] if reason else [])
    assert [each.label and each.label.text for each in errors] == ([reason] if reason else [])


def test_what_may_own_weights_in_one_place_may_not_in_another() -> None:
    text = f"""{GIVEN}
block Takes(f=tanh, g=tanh)(x: [n, 4]) -> [n, 4] = x |> a: f |> g
block Net()(x: [n, 4]) -> [n, 4]:
  return x |> t: Takes(biased, relu) |> u: Takes(biased, biased)
model net = Net()
"""
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    headlines = [each.headline for each in reports if each.code == "E0221"]
    assert headlines == ["`biased` cannot stand for `g`"]


def test_what_is_wrong_inside_of_a_given_block_is_not_laid_to_its_inputs() -> None:
    library = "block odd()(x: [...s]) -> [...s]:\n  return x |> two\n"
    library += "block two()(x: [a, b]) -> [a, b] = x\n"
    text = "from lib import odd\nblock B(f=relu)(x: [n, d]) -> [n, d]:\n  return x |> f\n"
    text += "model net = B(odd)\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: Source("lib.mgn", library)).reports
    (report,) = (each for each in reports if each.code == "E0221")
    assert report.label is not None
    assert report.label.text == "`x` of `two` needs [a, b]"


@pytest.mark.parametrize(
    "body",
    [
        "x |> part[1]: fc(d) |> part[1]: linear(d)",
        "x |> part: fc(d) |> part.sub: linear(d)",
        "x |> part.sub: linear(d) |> part: fc(d)",
        "x |> part.sub: fc(d) |> part: fc(d)",
    ],
)
def test_below_a_block_that_may_be_any_no_other_has_a_path(body: str) -> None:
    """One of its layers could have any name there; beside it, and around it, others may stand."""
    text = f"block Net(fc=linear)(x: [n, d]) -> [n, d]:\n  return {body}\n"
    assert codes(text) == ["E0205"]
    apart = text.replace("part: fc", "parts: fc").replace("part[1]: fc", "part[2]: fc")
    assert codes(apart) == []


OF_VALUES = """
block take(c)(ids: i32[m]) -> [m]
    where 0 <= ids, ids < c:
  return gather(zeros([c]), ids)
block less(c)(ids: i32[m]) -> [m]
    where 0 <= ids, ids < c - 1, c > 1:
  return gather(zeros([c - 1]), ids)
block any(_c)(ids: i32[m]) -> [m] = f32(ids)
block Net(c, f=take(c))(ids: i32[n]) -> [n]
    where 0 <= ids, ids < c:
  return f(ids)
"""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("take(3)", ""),
        ("take(4)", ""),
        ("any(1)", ""),
        ("take(2)", "`take` needs `ids < c, that is ids' < 2`"),
        ("less(3)", "`less` needs `ids < c - 1, that is ids' < 2`"),
    ],
)
def test_facts_of_a_header_about_values_are_those_of_what_is_given(given: str, reason: str) -> None:
    text = f"{OF_VALUES}model net = Net(3, {given})\n"
    reports = pipeline.check(Source("net.mgn", text), lambda _: None).reports
    assert [each.code for each in reports] == ["E0221"] * bool(reason)
    assert [each.label.text for each in reports if each.label] == [reason] * bool(reason)
