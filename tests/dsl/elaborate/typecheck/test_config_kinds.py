"""Kinds of configuration: what is given fits them, and proofs take all of them."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Problem, ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.block_proofs import prove_block
from meganeura_dsl.elaborate.problems.name_problems import CheckedPerModel, KindMismatch
from meganeura_dsl.elaborate.scope.linker import Linker


def _check(text: str) -> pipeline.CheckResult:
    return pipeline.check(Source("kinds.mgn", text), lambda _: None)


def _proof(header: str) -> Problem | None:
    """Returns the problem of a block's proof; the block has no name."""
    text = f"block A{header.format(twice=TWICE)}\n"
    module = Linker(lambda _: None, Sink()).link(Source("kinds.mgn", text))
    (block,) = module.blocks.values()
    return prove_block(module, block)


TWICE = "concat(x, x, axis=0)"
"""A tensor of another shape than x, so that a path with it is refuted."""

SIX_TEXTS = ", ".join(f't{index}: "a" or "b"' for index in range(6))

PROVED = {
    "a size is 1 at least": (
        "(k: size)(x: [n]) -> [n + k - 1] = {twice}[:n + k - 1] if k <= n else full([n + k - 1], 1)"
    ),
    "an int is 0, or below, or above": (
        "(k: int)(x: [n]) -> [n] = x if k >= 0 or k < 0 else {twice}"
    ),
    "a negative end counts from the last": (
        "(k: int)(x: [n]) -> [n + k] where k < 0, n + k >= 1 = x[:k]"
    ),
    "a positive one from the first": "(k: int)(x: [n]) -> [k] where 0 < k, k <= n = x[:k]",
    "a real is any number": "(r: real)(x: [n]) -> [n] = r ** 0.5 * x",
    "a bool goes both ways": "(b: bool)(x: [n]) -> [n] = x if b else -x",
    "a text is one of some": (
        '(t: "a" or "b")(x: [n]) -> [n] = x if t == "a" or t == "b" else {twice}'
    ),
    "where leaves out a text": (
        '(t: "a" or "b")(x: [n]) -> [n] where t != "b" = x if t == "a" else {twice}'
    ),
    "a list has its length": (
        "(w: list[2])(x: [n, w[0]]) -> [n, w[1] * w[0]] = repeat(x, 1, w[1])"
    ),
    "sixty-four paths": f"({SIX_TEXTS})(x: [n]) -> [n] = x",
    "a condition is of texts either way": (
        '(t: "a" or "b")(x: [n]) -> [n] = x if "a" == t or t == "b" else {twice}'
    ),
    "the longest list": "(w: list[100000])(x: [n]) -> [n] = x * len(w)",
    "a list of one": "(w: list[1])(x: [n]) -> [n, w[0]] = insert_axis(x, 1, w[0])",
    "a length can be computed": "(w: list[1 + 1])(x: [n]) -> [n] = x if len(w) == 2 else {twice}",
}

REFUTED = {
    "a size may be 1": "(k: size)(x: [n]) -> [n] = {twice} if k < 2 else x",
    "an int may be 0": "(k: int)(x: [n]) -> [n] = {twice} if k == 0 else x",
    "an int may be below 0": "(k: int)(x: [n]) -> [n] = {twice} if k < 0 else x",
    "the second text": '(t: "a" or "b")(x: [n]) -> [n] = {twice} if t == "b" else x',
    "a bool is false too": "(b: bool = true)(x: [n]) -> [n] = x if b else {twice}",
    "entries of a list differ": "(w: list[2])(x: [n, w[0]]) -> [n, w[1]] = x",
}

NINE_TEXTS = ", ".join(f't{index}: "a" or "b"' for index in range(9))
SEVEN_INTS = ", ".join(f"k{index}: int" for index in range(7))
FORTY_TEXTS = ", ".join(f't{index}: "a" or "b"' for index in range(40))

LEFT_TO_MODELS = {
    "an axis": "(axis: int)(x: [n, d]) -> [n, d] = softmax(x, axis)",
    "a text": '(t: text)(x: [n]) -> [n] = x if t == "a" else -x',
    "a list": "(w: list)(x: [n]) -> [n] = len(w) * x",
    "a length": "(k: size, w: list[k])(x: [n]) -> [n] = len(w) * x",
    "many texts": f"({NINE_TEXTS})(x: [n]) -> [n] = x",
    "many more texts": f"({FORTY_TEXTS})(x: [n]) -> [n] = x",
    "many signs": f"({SEVEN_INTS})(x: [n]) -> [n] = x",
}


@pytest.mark.parametrize("name", PROVED)
def test_proved_for_all(name: str) -> None:
    assert _proof(PROVED[name]) is None


@pytest.mark.parametrize("name", REFUTED)
def test_refuted_for_one(name: str) -> None:
    problem = _proof(REFUTED[name])
    assert problem is not None
    assert problem.code == "E0303", problem.report()


@pytest.mark.parametrize("name", LEFT_TO_MODELS)
def test_left_to_models(name: str) -> None:
    assert isinstance(_proof(LEFT_TO_MODELS[name]), CheckedPerModel)


GIVEN = {
    "size": ("3", ["0", "-1", "1.0", "true", '"a"', "[1]"]),
    "int": ("-3", ["1.0", "true", '"a"', "[1]"]),
    "real": ("3", ["true", '"a"', "[1]"]),
    "bool": ("true", ["1", "0.5", '"a"', "[true]"]),
    "text": ('"a"', ["1", "true", '["a"]']),
    '"a" or "b"': ('"b"', ['"c"', "1", "true"]),
    "list": ("[[1, 2], true]", ["1", '"a"', "true"]),
    "list[2]": ("[1, 2]", ["[1]", "[1, 2, 3]", "[1, 0]", "[1, true]", "[1, [2]]", "2"]),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_what_is_given_is_of_the_kind(kind: str) -> None:
    good, bad = GIVEN[kind]
    header = f"block A(_k: {kind})(x: [n]) -> [n] = x\n"
    default = "block A(_k: {} = {})(x: [n]) -> [n] = x\n"
    assert _check(f"{header}expect A(_k={good}) maps [n] -> [n]\n").fine
    assert _check(default.format(kind, good) + "expect A maps [n] -> [n]\n").fine
    for value in bad:
        for text in (
            f"{header}expect A(_k={value}) maps [n] -> [n]\n",
            f"{header}model a = A({value})\n",
            default.format(kind, value) + "expect A maps [n] -> [n]\n",
        ):
            assert "E0220" in {each.code for each in _check(text).reports}, text


FLAG = "block A(b: bool)(x: [n]) -> [n] = x if b else -x\n"
SWITCH = "block A(b=true)(x: [n]) -> [n] = x if b else -x\n"
CHOICE = "block A(b)(x: [n]) -> [n] = x if b else -x\n"
TEXT = 'block A(t: text)(x: [n]) -> [n] = x if t == "a" else -x\nmodel a = A(t="a")\n'
EITHER = 'block A(t: "a" or "b")(x: [n]) -> [n] = x\n'
PAIR = "block A(w: list[2])(x: [n]) -> [n] = x * len(w)\n"
SIZE = "block A(k: size)(x: [n]) -> [n] = x * k\n"
NO_CONDITION = ("E0203", "this needs a condition", "this is the size 2*c")
FINE, TAKES_BOOL = ("", "", ""), "`b` of `A` takes true or false"
HANDED_ON = {
    f"{FLAG}block B(c)(x: [n]) -> [n] = x |> A(c)": FINE,
    f"{FLAG}block B(d, c)(x: [n]) -> [n] = x * d |> A(c)": FINE,
    f"{FLAG}block B(c)(x: [n]) -> [n] = x * c |> A(n)": ("E0220", TAKES_BOOL, "this is the size n"),
    f"{FLAG}block B(c=1)(x: [n]) -> [n] = x |> A(c)": ("E0220", TAKES_BOOL, "this is the size c"),
    f"{FLAG}block B(c: size)(x: [n]) -> [n] = x |> A(c)": (
        "E0220",
        TAKES_BOOL,
        "this is the size c",
    ),
    f"{FLAG}block B(d, c)(x: [n]) -> [n] = x * d * c |> A(c)": (
        "E0220",
        "`c` is used as a condition, and this needs a size",
        "this is a condition in line 2",
    ),
    f"{SWITCH}block B(d, c)(x: [n]) -> [n] = x * d * c |> A(c)": (
        "E0220",
        "`c` is used as a condition, and this needs a size",
        "this is a condition in line 2",
    ),
    f"{CHOICE}block B(d, c)(x: [n]) -> [n] = x * d * c |> A(c)": (
        "E0220",
        "`c` is used as a condition, and this needs a size",
        "this is a condition in line 1",
    ),
    f"{SWITCH}block B(c)(x: [n]) -> [n] = x |> A(2 * c)": NO_CONDITION,
    f"{CHOICE}block B(c)(x: [n]) -> [n] = x |> A(2 * c)": NO_CONDITION,
    f"{CHOICE}block B()(x: [n]) -> [n] = x |> A(n)": (
        "E0203",
        "this needs a condition",
        "this is the size n",
    ),
    "block B(d, c)(x: [n]) -> [n]:\n  for i in 0..c:\n    x = x + d\n  return x if c else -x": (
        "E0220",
        "`c` is used as a condition, and this needs a size",
        "this is a condition in line 4",
    ),
    "block B(c, d)(x: [n]) -> [n] = x * d if c else x": FINE,
    f"{TEXT}block B(c: text)(x: [n]) -> [n] = x |> A(c)": (
        "E0404",
        "nothing checks `B`",
        "a choice depends on a text the configuration gives, and no model uses it",
    ),
    f"{EITHER}block B(c: text)(x: [n]) -> [n] = x |> A(c)": (
        "E0220",
        '`t` of `A` takes "a" or "b"',
        "this is the text `c`",
    ),
    f'{EITHER}block B(c: "b" or "a")(x: [n]) -> [n] = x |> A(c)': FINE,
    f'{EITHER}block B(c: "a" or "c")(x: [n]) -> [n] = x |> A(c)': (
        "E0220",
        '`t` of `A` takes "a" or "b"',
        'this is the text "c"',
    ),
    "block B(k: size, w: list[k])(x: [n]) -> [n] = x * w[0] * k\n"
    "block C(j: size)(x: [n]) -> [n] = x |> B(j, [1, 2])\nmodel b = B(1, [2])": (
        "E0404",
        "nothing checks `C`",
        "the length of a list is j, and no model uses it",
    ),
    f"{PAIR}block B(j: size)(x: [n]) -> [n] = x |> A([j + 1, j])": FINE,
    f"{PAIR}block B(j: int)(x: [n]) -> [n] = x |> A([j, 1])": (
        "E0220",
        "`w` of `A` takes a list of 2 sizes",
        "this is a list of 2",
    ),
    f"{PAIR}block B(j: size)(x: [n]) -> [n] = x |> A([j, j - 1])": (
        "E0220",
        "`w` of `A` takes a list of 2 sizes",
        "this is a list of 2",
    ),
    f"{SIZE}block B(a: size, b: size)(x: [n]) -> [n] = x |> A(a * b)": FINE,
    f"{SIZE}block B(a: size)(x: [n]) -> [n] = x |> A(a - 1)": (
        "E0220",
        "`k` of `A` takes a whole number from 1",
        "this is the size a - 1",
    ),
    f"{SIZE}block B(a, b)(x: [n]) -> [n] = x |> A((a - b) ** 2 + 1)": (
        "E0404",
        "nothing checks `B`",
        "whether a**2 + b**2 + 1 - 2*a*b >= 1 depends on its configuration, and no model uses it",
    ),
    "block B(k: siez)(x: [n]) -> [n] = x * k": (
        "E0201",
        "nothing here is called `siez`",
        "no kind of this name",
    ),
    "block B(k: foo)(x: [n]) -> [n] = x * k": ("E0220", "`foo` is no kind of configuration", ""),
    "block B(k: size[2])(x: [n]) -> [n] = x * k": (
        "E0220",
        "`size` has no length",
        "this is a length",
    ),
    **{
        f"block B(k: list[{length}])(x: [n]) -> [n] = x * k": (
            "E0220",
            "the length of a list is a whole number from 1 to 100,000",
            f"this is {found}",
        )
        for length, found in (
            ("100001", "the size 100001"),
            ("0", "the size 0"),
            ("1.5", "the number 1.5"),
        )
    },
    "block B(k: size)(x: [n]) -> [n] = x if k else -x": (
        "E0220",
        "`k` is a number, as its kind is `size`, and this needs a condition",
        "",
    ),
    "block B(k=3)(x: [n]) -> [n] = x if k else -x": (
        "E0220",
        "`k` is a size, and this needs a condition",
        "",
    ),
    "block B(k)(x: [n]) -> [n] = x if n else -x * k": (
        "E0203",
        "this needs a condition",
        "this is the size n",
    ),
    'block B(j: "c" or "d", t: "a" or "b")(x: [n]) -> [n] = x if j == "c" and "c" == t else x': (
        "E0220",
        '`t` is never "c"',
        "",
    ),
}
"""Blocks that give their configuration to others, or read it: what is said of the last one."""


@pytest.mark.parametrize("text", HANDED_ON)
def test_what_is_handed_on_is_of_the_kind(text: str) -> None:
    reports = [each for each in _check(f"{text}\n").reports if each.code not in ("N0001", "E0207")]
    said = [(each.code, each.headline, each.label.text if each.label else "") for each in reports]
    assert (said or [FINE]) == [HANDED_ON[text]]


def test_a_function_has_kinds_too() -> None:
    text = "def f(k: size, r: real = 2) = k * r\nblock A()(x: [n]) -> [n] = f({}) * x\n"
    assert _check(text.format("3")).fine
    assert "E0220" in {each.code for each in _check(text.format("0.5")).reports}


def test_a_whole_number_is_a_real_one() -> None:
    result = _check(
        "block A(r: real)(x: [n]) -> [n] = x * (r // 2)\n"
        "block B()(x: [n]) -> [n] = x * (3 // 2)\n"
        "model a = A(3)\nmodel b = B()\n"
    )
    assert result.fine
    half = pipeline.elaborate_model(result.program, "a").graph
    assert "1.0" in str([value.op for value in half.values])


def test_from_python() -> None:
    result = _check("block A(b: bool)(x: [n]) -> [n] = x if b else -x\nmodel a = A(true)\n")
    assert len(pipeline.elaborate_model(result.program, config={"b": False}).graph.values) == 2
    with pytest.raises(ProblemError) as caught:
        pipeline.elaborate_model(result.program, config={"b": 1})
    assert isinstance(caught.value.problem, KindMismatch)


@pytest.mark.parametrize("count", [1, 2])
def test_a_condition_of_an_imported_block_is_one_each_time(count: int) -> None:
    text = "from lib import A\nblock B(c)(x: [n]) -> [n] = x * c |> A(c)\n"
    source = Source("net.mgn", text)
    results = [pipeline.check(source, lambda _: Source("lib.mgn", CHOICE)) for _ in range(count)]
    assert [report.code for report in results[-1].reports] == ["E0220"]


ASSUMED = [
    ('k="a"', 'k == "a"', 'k="a"', "", True),
    ('k="a"', 'k == "a"', "", "", True),
    ('k="a"', 'k == "a"', "c", 'c="a"', True),
    ('k="a"', 'k == "a"', 'k="b"', "", False),
    ("k=3", "k >= 1", "c", "c", True),
    ("k=3", "k >= 1", "c - 1", "c", False),
    ("k=0", "k >= 0", "c - 1", "c", True),
    ("k=0", "k >= 0", "c - 2", "c", False),
    ("k=0", "k >= 0", "0", "", True),
    ("k=1", "k >= 1", "0", "", False),
    ("k=-1", "k == -1", "-1", "", True),
    ("k=-1", "k == -1", "1", "", False),
    ("k=-1", "k == -1", "-2", "", False),
    ("k=-1", "k == -1", "c", "c", False),
    ("k", "k >= 1", "c", "c", True),
    ("k", "k >= 1", "c - 1", "c", False),
    ("k", "k >= 1", "0", "", False),
    ("k: size", "k >= 1", "c", "c", True),
    ("k: size", "k >= 1", "c + 2", "c", True),
    ("k=0.5", "0 < 1", "2", "", True),
    ("k=0.5", "k < 2", "2", "", False),
    ("k=true", "k or not k", "false", "", True),
    ("k=true", "k", "false", "", False),
    ("k=[1, 2]", "k[0] == 1", "[2, 2]", "", False),
]
"""A parameter, when its block keeps a shape, what a caller gives, and whether that is right."""


@pytest.mark.parametrize(("parameter", "keeps", "given", "own", "right"), ASSUMED)
def test_a_signature_is_taken_for_proved_where_it_was(
    parameter: str, keeps: str, given: str, own: str, *, right: bool
) -> None:
    """Wherever it was not, the body is looked into: it gives twice as many channels there."""
    result = _check(f"""\
block Inner({parameter})(x: [n, d]) -> [n, d]:
  return x if {keeps} else concat(x, x, axis=1)
block Outer({own})(x: [n, d]) -> [n, d]:
  return x |> Inner({given})
""")
    assert ("Outer" in result.proved) is right
    wrong = [each.label and each.label.span.line for each in result.reports if each.code == "E0303"]
    assert wrong == ([] if right else [2])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_what_was_proved_in_single_precision_gives_half_of_half(dtype: str) -> None:
    result = _check(f"""\
block Inner()(x: [n, d]) -> [n, d] = 2 * x
block Outer()(x: {dtype}[n, d]) -> {dtype}[n, d] = x |> Inner
""")
    assert (result.proved, result.reports) == (("Inner", "Outer"), ())


@pytest.mark.parametrize(
    ("header", "is_proved"),
    [
        ("(c)(x: [n, d]) -> [n, d]", True),
        ("(c)(x: [n, c]) -> [n, c]", False),
        ("(c)(x: [n, d]) -> [n, c + d]", False),
        ("(c: real)(x: [n, d]) -> [n, d]", True),
    ],
)
def test_a_rate_that_is_a_size_of_an_axis_is_no_open_number(
    header: str, *, is_proved: bool
) -> None:
    """A number that may be a fraction obeys the facts of a rate once it is known."""
    body = "  y = x |> dropout(c)\n"
    if "c + d" in header:
        body += "  y = concat(y, zeros([size(x, 0), c]), axis=1)\n"
    result = _check(f"block Net{header}:\n{body}  return y\n")
    assert [each.code for each in result.problems] == ([] if is_proved else ["E0311"])


DROPS_ONE = """\
block U(k)(x: [n, d]) -> [n, d - 1]
    where d >= 2:
  for i in 0..k:
    x = x[:, 1:] if i == 0 else x
  return x
"""
PROVED_FROM_ONE = {
    "iterations": (f"{DROPS_ONE}model m = U(k=0)\n", "k", "m = U"),
    "iterations below 0": (f"{DROPS_ONE}model m = U(k=-2)\n", "k", "m = U"),
    "in an expectation": (f"{DROPS_ONE}expect U(k=0) maps [n, 5] -> [n, 4]\n", "k", "expect U"),
    "in a training": (
        f"{DROPS_ONE}train t(x: [b, 5]):\n  y = x |> fc: linear(5)\n  minimize mean(U(k=0)(y))\n",
        "k",
        "minimize",
    ),
    "through another block": (
        f"{DROPS_ONE}block O(j)(x: [n, d]) -> [n, d - 1] where d > 1 = x |> U(j)\nmodel m = O(0)\n",
        "k",
        "block O",
    ),
    "the size of an axis": (
        "block Q(k)(_x: [n]) -> [n, k] = full([n, k], 1)\nmodel m = Q(k=0)\n",
        "k",
        "m = Q",
    ),
    "a divisor": (
        "block W(k)(x: [n, d]) -> [n, d // k] where d >= k = x[:, :d // k]\nmodel m = W(k=0)\n",
        "k",
        "m = W",
    ),
    "a weight, beside a rate": (
        (
            "block W(p, k)(x: [n, 4]) -> [n, k]:\n"
            "  param w: [4, k] = zeros\n"
            "  return x @ w |> dropout(p)\n"
            "model m = W(p=0, k=0)\n"
        ),
        "k",
        "m = W",
    ),
    "less than a default": (
        "block Q(k = 3)(_x: [n]) -> [n, k] = full([n, k], 1)\nmodel m = Q(k=0)\n",
        "k",
        "m = Q",
    ),
}


@pytest.mark.parametrize("name", PROVED_FROM_ONE)
def test_a_number_that_no_proof_takes_is_refused_where_it_is_given(name: str) -> None:
    """The block is proved, so what fails is what it was given; the message blamed the block."""
    text, parameter, line = PROVED_FROM_ONE[name]
    (report,) = _check(text).reports
    assert (report.code, report.label is not None) == ("E0220", True)
    assert report.label is not None
    assert f"`{parameter}` of" in report.headline
    assert "takes a whole number from 1" in report.headline
    span = report.label.span
    assert line in span.source.line(span.line)


HOLD_AT_ZERO = [
    "block P(p)(x: [n, d]) -> [n, d] = x |> dropout(p)\nmodel m = P(p=0)\n",
    (
        "block P(p)(x: [n, d]) -> [n, d + p]:\n"
        "  return full([n, d + p], 0) if p > d else concat(x, x, axis=1)[:, :d + p]\n"
        "model m = P(p=0)\n"
    ),
    (
        "block T(depth)(x: [n, d]) -> [n, d]:\n"
        "  for i in 0..depth:\n"
        "    x = x |> l[i]: linear(d)\n"
        "  return x\n"
        "model m = T(depth=0)\n"
    ),
    "block S(s)(x: [n, d]) -> [n, d] = x * s\nmodel m = S(s=0)\nmodel o = S(s=-2)\n",
]


@pytest.mark.parametrize("text", HOLD_AT_ZERO)
def test_what_holds_for_less_than_was_proved_is_fine(text: str) -> None:
    assert _check(text).reports == ()


def test_what_fails_for_another_reason_is_no_matter_of_the_number() -> None:
    """No proof covers the block, or it fails as its weights or its caller have it."""
    undecided = _check(
        "block B(k)(x: any[n, d]) -> any[n, d + 1] = x * k if k == 0 else x\nmodel m = B(k=0)\n"
    )
    assert "E0220" not in [each.code for each in undecided.reports]
    initial = _check(
        "block B(k)(x: [n, d]) -> [n, d]:\n"
        "  for i in 0..k:\n"
        "    x = x |> l[i]: linear(d)\n"
        "  return x\n"
        "model m = B(k=0, l.0.weight=zeros)\n"
    )
    assert "E0220" not in [each.code for each in initial.reports]
    assert not undecided.fine
    assert not initial.fine
