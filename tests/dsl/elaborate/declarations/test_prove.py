"""Blocks proved for all sizes and configurations, refuted, or left to each model."""

import gc
from collections.abc import Callable
from textwrap import dedent, indent

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.body.blocks import applications
from meganeura_dsl.elaborate.body.statements.induction import UnstableError
from meganeura_dsl.elaborate.declarations import block_proofs
from meganeura_dsl.elaborate.declarations.block_proofs import Prover
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.proof_failures import require_countable
from meganeura_dsl.elaborate.problems.shape_problems import ZeroDivisor
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker, library
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.shape_patterns import Mismatch, spread
from meganeura_dsl.elaborate.values import Axes
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import CheckResult, Program, check, elaborate_model
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import parse


def checked(text: str) -> CheckResult:
    return check(Source("net.mgn", dedent(text)), lambda _: None)


def codes(text: str) -> list[tuple[str, int]]:
    reports = checked(text).reports
    return [(report.code, report.label.span.line) for report in reports if report.label]


def block_of(module: LinkedModule, name: str) -> ast.Block:
    block = module.own[name]
    assert isinstance(block, ast.Block)
    return block


LIBRARY_BLOCKS = [
    (module, name)
    for module in library()
    for name, declaration in module.own.items()
    if isinstance(declaration, ast.Block)
]


@pytest.mark.parametrize(
    ("owner", "name"), LIBRARY_BLOCKS, ids=[name for _, name in LIBRARY_BLOCKS]
)
def test_library_blocks_are_proved(owner: LinkedModule, name: str) -> None:
    block = block_of(owner, name)
    prover = Prover()
    problem = prover.prove(owner, block)
    if any(item.type.dtype == "any" for item in block.inputs):
        assert problem is not None
        assert problem.code == "N0001"
    else:
        assert problem is None, problem.report()
        assert prover.proved == {block: frozenset()}
    assert prover.flags_if_proved(owner, block) == prover.proved.get(block)


@pytest.mark.parametrize("module", library(), ids=[each.source.name for each in library()])
def test_a_block_of_the_library_is_proved_from_those_above_it(module: LinkedModule) -> None:
    """As a file of its own, none of whose blocks is taken for proved before it is."""
    proved = {
        name
        for owner, name in LIBRARY_BLOCKS
        if owner is module and Prover().flags_if_proved(owner, block_of(owner, name)) is not None
    }
    assert {*check(module.source, lambda _: None).proved} == proved


@pytest.mark.parametrize("file", ["net.mgn", "nn.mgn"])
def test_a_block_with_a_standard_name_is_not_taken_for_proved(file: str) -> None:
    text = """\
        block linear(c)(x: [n, d]) -> [n, c]:
          return x

        block Net(c)(x: [n, d]) -> [n, c]:
          return x |> fc: linear(c)
        """
    result = check(Source(file, dedent(text)), lambda _: None)
    assert [each.code for each in result.reports] == ["E0303"]
    assert result.proved == ()


def test_a_choice_on_configuration_is_followed_both_ways() -> None:
    result = checked(
        """\
        block Maybe(c, wide=false)(x: [n, d]) -> [n, c]:
          if wide:
            x = x |> up: linear(4 * d) |> relu
          return x |> out: linear(c)
        """
    )
    assert result.proved == ("Maybe",)
    assert not result.reports


def test_only_one_path_is_wrong() -> None:
    problems = codes(
        """\
        block Maybe(wide=false)(x: [n, d]) -> [n, d]:
          if wide:
            x = x |> up: linear(4 * d)
          return relu(x)
        """
    )
    assert problems == [("E0303", 4)]


def test_a_proof_on_one_path_does_not_leak_into_another() -> None:
    problems = codes(
        """\
        block Leak(c)(x: [n, d]) -> [n, c]:
          y = x |> fc: linear(c)
          if c == d:
            z = x + y
          else:
            z = x + y
          return z
        """
    )
    assert problems == [("E0301", 6)]


@pytest.mark.parametrize(("otherwise", "found"), [("wider", []), ("narrow", [("E0201", 6)])])
def test_a_weight_is_known_on_the_paths_that_have_its_layer(
    otherwise: str, found: list[tuple[str, int]]
) -> None:
    text = """\
        block Net(wide: bool)(x: [n, d]) -> [n, d]:
          if wide:
            x = x |> wider: linear(d)
          else:
            x = x |> OTHERWISE: linear(d)
          return x + wider.bias
        """
    assert codes(text.replace("OTHERWISE", otherwise)) == found


def test_a_loop_of_any_length_is_checked_by_induction() -> None:
    result = checked(
        """\
        block Deep(depth)(x: [n, d]) -> [n, d]:
          for i in 0..depth:
            x = x + (x |> layers[i]: linear(d) |> relu)
          return x
        """
    )
    assert result.proved == ("Deep",)


def test_a_loop_that_changes_a_shape_is_left_to_each_model() -> None:
    text = """\
        block Shrink(depth)(x: [n, 4, h, w]):
          for i in 0..depth:
            x = x |> layers[i]: conv2d(4, 3, 2, pad=1)
          return x
        model small = Shrink(depth=3)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]
    assert what_is_kept_of_failures(lambda: codes(text)) == []


def what_is_kept_of_failures(action: Callable[[], object]) -> list[Exception]:
    """The refusals that an action leaves to the garbage collector, and what their frames hold."""

    def failures() -> list[Exception]:
        kinds = (ProblemError, UndecidableError, UnstableError)
        return [each for each in gc.get_objects() if isinstance(each, kinds)]

    gc.collect()
    gc.disable()
    try:
        before = failures()
        action()
        return [each for each in failures() if each not in before]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("for i in 0..k:\n  x = relu(x)\nif k == 0:\n  return x[:, 0:2]\nreturn x", "E0303"),
        ("for i in 0..k:\n  return relu(x)\nreturn x[:, 0:2]", "E0404"),
        ("for i in 0..k:\n  y = relu(x)\nreturn y", "E0201"),
    ],
    ids=["facts", "return", "name"],
)
def test_a_loop_may_have_no_round(body: str, code: str) -> None:
    text = "block A(k=0)(x: [n, 4]) -> [n, 4]:\n" + indent(body, "  ") + "\n"
    assert [found for found, _ in codes(text)] == [code]
    assert checked(text.replace("k=0", "k=1")).proved == ("A",)


def test_what_a_round_chooses_is_chosen_behind_the_loop() -> None:
    result = checked(
        """\
        block A(k=0, wide=false)(x: [n, 4]) -> [n, 4]:
          y = x
          for i in 0..k:
            if wide:
              x = x + 1
          if wide:
            x = x * y
          return x
        """
    )
    assert result.proved == ("A",)


@pytest.mark.parametrize("change", ["m = 2 * m + 1", "x = concat(x, x, axis=1)"])
def test_a_loop_that_changes_a_value_in_no_regular_way_is_left_to_each_model(change: str) -> None:
    text = f"""\
        block A(k)(x: [n, 8]):
          m = 0
          for i in 0..k:
            {change}
          return x[:, 0 : m + 1]
        model a = A(k=3)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]


GROWING = {
    "by the same step": ("[n, d]", "[n + 3 * k, d]", "x = concat(x, x[:1], x[:1], x[:1], axis=0)"),
    "to nothing but one": ("[n, d]\n    where k < n", "[n - k, d]", "x = x[1:]"),
    "by a size": ("[n, d]", "[n, d + k * c]", "x = concat(x, zeros([n, c]), axis=1)"),
    "on two axes": ("[n, d]", "[n + k, d + 2 * k]", "x = pad(pad(x, 0, 1), 1, 1, 1)"),
    "as its index says": ("[n, d]", "[n + k, d]", "x = x[:n + i] |> pad(0, 0, 1)"),
    "with a number": ("[n, d]", "[n + 2 * k, d]", "x = pad(x[:m], 0, 0, 2)\n    m = m + 2"),
    "with weights of its size": (
        "[n, d]",
        "[n + k, d]",
        "param w{i}: [c + i] = ones\n    x = pad(x, 0, 0, size(w{i}, 0) - c - i + 1)",
    ),
    "in two loops": ("[n, d]", "[n + k * c, d]", "for _j in 0..c:\n      x = pad(x, 0, 0, 1)"),
    "from the second round on": ("[n, d]", "[n + k, c]", "x = pad(x |> fc[i]: linear(c), 0, 0, 1)"),
    "or not, in the first round": (
        "[n, d]", "[n + k - 1, d]", "if i > 0:\n      x = pad(x, 0, 0, 1)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_sizes_that_grow_by_the_same_step_are_proved(name: str) -> None:
    takes, gives, change = GROWING[name]
    header, _, where = takes.partition("\n")
    text = f"""\
block A(k, c)(x: {header}) -> {gives}
    {where.strip() or "where c >= 1"}:
  m = n
  for i in 0..k:
    {change}
  return x + 0 * m

block B(k, c)(x: {header}) -> {gives.replace("]", " + 1]")}
    {where.strip() or "where c >= 1"}:
  m = n
  for i in 0..k:
    {change}
  return x + 0 * m
"""
    reports = [report for report in checked(text).reports if report.code != "E0207"]
    assert [(report.code, report.headline) for report in reports] == [
        ("E0303", "`B` returns another shape than it says")
    ]


def test_a_growing_loop_without_a_round_leaves_its_sizes() -> None:
    text = """\
        block A(k)(x: [n]) -> [n + k - 1]:
          for _i in 1..k:
            x = pad(x, 0, 0, 1)
          return x
        model one = A(1)
        model four = A(4)
        expect one maps [n] -> [n]
        expect four maps [n] -> [n + 3]
        """
    assert checked(text).fine
    assert checked(text).proved == ("A",)


def test_what_is_declared_before_a_failed_attempt_is_declared_once() -> None:
    text = """\
        block A(k)(x: [n, 4]) -> [n, 4 + k]:
          x = x |> fc: linear(4)
          for i in 0..k:
            x = concat(x, x |> grow{i}: linear(1), axis=1)
          return x * fc.weight[0, 0]
        model a = A(3)
        expect a has 8 params
        """
    assert not codes(text)


def test_an_index_is_no_size_of_the_same_name() -> None:
    text = """\
        block A(k)(x: [n, 4]) -> [4]:
          y = sum(x, 0)
          for n in 1..k:
            y = y + sum(x[0:n], 0)
          return y
        """
    assert [code for code, _ in codes(text)] == ["E0305"]


def test_an_axis_of_a_rest_is_no_size_of_its_name() -> None:
    text = """\
        block A()(x: [s0], y: [...s, n]):
          return sum(x) + y[0:s0]
        """
    assert [code for code, _ in codes(text)] == ["E0305"]
    assert checked(text.replace("y: [...s, n]", "y: [s0, ...s]")).proved == ("A",)


def test_a_rest_has_no_axis_of_the_name_of_a_parameter() -> None:
    """`s0` is a number the configuration gives, and says nothing about the axes of `...s`."""
    text = """
        block A(s0)(y: [...s, n]):
          return y[0:s0]
    """
    assert checked(text).proved == ()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_loop_that_changes_an_axis_is_left_to_each_model(axis: int) -> None:
    text = f"""\
        block Grow(k)(x: [n, c, d]):
          for _i in 0..k:
            x = concat(x, x, axis={axis})
          return x
        model twice = Grow(k=2)
        """
    assert [code for code, _ in codes(text)] == ["N0001"]


def test_a_rest_of_one_axis_is_no_proof() -> None:
    text = "block A()(x: [...s]) -> [product(s)]:\n  return x\n"
    assert [code for code, _ in codes(text)] == ["E0303"]


@pytest.mark.parametrize(
    ("configuration", "axes", "said"),
    [
        ("p", "n, d", []),
        ("n", "n, d", ["E0311"]),
        ("d", "n, d", ["E0311"]),
        ("d", "n, 2 * d", ["E0311"]),
    ],
)
def test_what_is_the_size_of_an_axis_is_no_open_real(
    configuration: str, axes: str, said: list[str]
) -> None:
    text = f"block Drop({configuration})(x: [{axes}]) -> [{axes}] = x |> dropout({configuration})\n"
    assert [code for code, _ in codes(text)] == said


def test_a_call_meets_every_part_of_a_where() -> None:
    text = """\
        block A()(x: [n, d]) -> [n, d]
            where n % 2 == 0 and d % 3 == 0:
          return x
        block B()(x: [n, d]) -> [n, d]
            where {}:
          return x |> A
        """
    assert codes(text.format("n % 2 == 0, d % 3 == 0")) == []
    assert [code for code, _ in codes(text.format("n % 2 == 0"))] == ["E0311"]
    assert [code for code, _ in codes(text.format("d % 3 == 0"))] == ["E0311"]


def test_tied_weights_are_found_inside_a_proved_layer() -> None:
    result = checked(
        """\
        block Tied(vocabulary, d)(ids: i32[n, s]) -> [n, s, vocabulary]:
          x = ids |> wte: embedding(vocabulary, d)
          return x @ rearrange(wte.weight, [vocabulary, d] -> [d, vocabulary])
        model tied = Tied(vocabulary=11, d=4)
        expect tied has 1 params, 44 weights
        """
    )
    assert result.proved == ("Tied",)
    assert result.holds == 1


def test_of_a_proof_that_reads_a_weight_inside_a_layer_only_that_layer_is_looked_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """\
        block Rows(d)(x: [n, d]) -> [n, d]:
          return x |> norm: layer_norm |> fc: linear(d)

        block Tied(vocabulary, d)(ids: i32[n]) -> [n, vocabulary]:
          x = ids |> wte: embedding(vocabulary, d) |> rows: Rows(d)
          return x @ rearrange(wte.weight, [vocabulary, d] -> [d, vocabulary])
        """
    checked(text)  # now the standard layers are proved
    bodies: list[str] = []
    run_body = applications.run_body
    for module in (applications, block_proofs):
        monkeypatch.setattr(
            module,
            "run_body",
            lambda inner, block: bodies.append(block.name.text) or run_body(inner, block),
        )
    result = checked(text)
    assert result.proved == ("Rows", "Tied")
    assert bodies[bodies.index("Tied") :].count("embedding") == 1
    assert "linear" not in bodies[bodies.index("Tied") :]


def test_a_layer_is_applied_twice_by_its_label() -> None:
    result = checked(
        """\
        block Siamese(d)(left: [n, 5], right: [n, 5]) -> [n, d]:
          a = left |> tower: linear(d)
          b = right |> tower
          return a - b
        model siamese = Siamese(d=3)
        """
    )
    assert result.fine
    assert result.proved == ("Siamese",)


def test_a_library_block_is_not_taken_at_its_word_outside_what_was_proved() -> None:
    problems = codes(
        """\
        block Odd()(x: [n, d]) -> [n, d] = softmax(x, axis=2)
        """
    )
    assert problems == [("E0302", 1)]


@pytest.mark.parametrize(
    ("inputs", "result"),
    [
        ("x: [n], y: [n]", "[n]"),
        ("x: [n], y: f16[n]", "f16[n]"),
        ("x: f16[n], y: [n]", "[n]"),
        ("x: f16[n], y: f16[n]", "f16[n]"),
    ],
)
def test_an_input_of_another_element_type_is_not_what_was_proved(inputs: str, result: str) -> None:
    """Proofs take inputs for f32: the result is that of the body, and not what the header says."""
    text = f"""\
        block Second()(x: [n], y: [n]) -> [n] = where(x > 0, y, 2 * y)
        block Use()({inputs}) -> {result} = Second(x, y)
        """
    result_ = checked(text)
    assert (result_.fine, result_.proved) == (True, ("Second", "Use"))


@pytest.mark.parametrize(
    ("inputs", "results", "returned", "holds"),
    [
        ("x: [n]", "[n]", "x", True),
        ("x: [n]", "[n]", "f16(x)", False),
        ("x: [n]", "f16[n]", "f16(x)", True),
        ("x: [n]", "f32[n]", "f16(x)", False),
        ("x: f16[n]", "[n]", "x", True),
        ("x: f16[n]", "[n]", "f32(x)", True),
        ("x: f16[n]", "f32[n]", "x", False),
        ("x: f16[n]", "f16[n]", "f32(x)", False),
        ("x: f16[n]", "[n]", "i32(x)", False),
        ("x: [n], y: f16[m]", "[n]", "f16(x) + sum(y)", True),
        ("x: i32[n]", "[n]", "f16(x)", False),
        ("x: i32[n]", "[n]", "x", False),
        ("x: [n], y: f16[n]", "[n], [n]", "y, x", True),
        ("x: [n]", "[n], [n]", "x, f16(x)", False),
        ("x: [n]", "[n], f16[n]", "x, f16(x)", True),
        ("x: [n]", "f16[n], [n]", "x, f16(x)", False),
    ],
)
def test_a_shape_alone_is_f16_where_an_input_is(
    inputs: str, results: str, returned: str, *, holds: bool
) -> None:
    """Proofs take inputs for f32 and rely on the header."""
    text = f"block Of()({inputs}) -> {results}:\n  return {returned}\nmodel of = Of()\n"
    found = [code for code, _ in codes(text) if code != "E0207"]
    assert found == ([] if holds else ["E0303"])


@pytest.mark.parametrize(
    ("condition", "behind", "holds"),
    [
        ("k > 3 and 24 // (k - 3) > 2", "", True),
        ("k <= 3 or 24 // (k - 3) > 2", "", True),
        ("not k <= 3 and 24 // (k - 3) > 2", "", True),
        ("k > 3 or 24 // (k - 3) > 2", "", False),
        ("k <= 3 and 24 // (k - 3) > 2", "", False),
        ("24 // (k - 3) > 2 and k > 3", "", False),
        ("k > 3 and k > 2", "", True),
        ("k > 3 and k > 2", " * (24 // (k - 3))", False),
        ("k > 3 and 24 // (k - 3) > 2", " * (24 // (k - 3))", False),
        ("k <= 3 or 24 // (k - 3) > 2", " * (24 // (k - 3))", False),
        ("(k > 3 and k > 2) == (24 // (k - 3) > 2)", "", False),
        ("(k <= 3) == (24 // (k - 3) > 2)", "", False),
        ("(k > 3) == (24 // (k - 3) > 2)", "", False),
    ],
)
def test_what_a_left_side_decides_is_known_on_the_right_alone(
    condition: str, behind: str, *, holds: bool
) -> None:
    text = f"block Of(k)(x: [n]) -> [n]:\n  y = x * (1 if {condition} else 2)\n  return y{behind}\n"
    assert [code for code, _ in codes(text)] == ([] if holds else ["E0322"])


@pytest.mark.parametrize(
    ("clause", "holds"),
    [
        ("k > 3 and 24 // (k - 3) > 2", True),
        ("k > 1 and k > 3 and 24 // (k - 3) > 2", True),
        ("k > 3 and (k > 5 and 24 // (k - 5) > 2)", True),
        ("k > 3, 24 // (k - 3) > 2", True),
        ("k > 2 and 24 // (k - 3) > 2", False),
        ("24 // (k - 3) > 2 and k > 3", False),
        ("k > 3 or 24 // (k - 3) > 2", False),
    ],
)
def test_what_a_left_side_of_a_clause_says_is_known_on_its_right(
    clause: str, *, holds: bool
) -> None:
    text = f"block Of(k: int)(x: [n]) -> [n] where {clause}:\n  return x\n"
    assert [code for code, _ in codes(text)] == ([] if holds else ["E0322"])


@pytest.mark.parametrize(
    ("k", "found"), [(2, ["E0311"]), (3, ["E0311"]), (4, []), (11, []), (12, ["E0311"])]
)
def test_a_model_is_held_against_both_sides_of_a_clause(k: int, found: list[str]) -> None:
    clause = "k > 3 and 24 // (k - 3) > 2"
    text = f"block Of(k: int)(x: [n]) -> [n] where {clause}:\n  return x\nmodel of = Of(k={k})\n"
    assert [code for code, _ in codes(text)] == found


def test_a_block_that_another_proof_ran_is_checked() -> None:
    text = """\
        block Layers(widths)(x: [n, d]) -> [n, widths[-1]]:
          for i in 0..len(widths):
            x = x |> layers[i]: linear(widths[i])
          return x
        block Use()(x: [n, d]) -> [n, 8] = x |> all: Layers([4, 8])
        """
    result = checked(text)
    assert result.proved == ("Use",)
    assert [report.code for report in result.reports] == ["N0001"]


FOUND = {
    "a layer that is applied where a loop is tried": (
        """\
        block Lay(k)(x: [n, 4]) -> [n, 4]:
          layer a: linear(4, bias=false)
          y = x
          param a.weight: [4, 4] = ones
          for i in 0..k:
            y = concat(y, x |> a, axis=0)[:n]
          return y |> a
        """,
        ["E0205"],
    ),
    "a model that is applied before a scan that is elaborated twice": (
        """\
        block Body()(x: [n, 4]) -> [n, 4] = x |> fc: linear(4)
        model net = Body()
        block Two()(x: [n, 4]) -> [n, 4]:
          y = x |> net
          state s: [4] = zeros
          scan t in 0..n:
            update s = s + y[t]
            z[t] = s
          return z |> net
        model two = Two()
        """,
        [],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_tried_leaves_what_there_was(name: str) -> None:
    text, found = FOUND[name]
    result = checked(text)
    assert [report.code for report in result.reports] == found
    assert bool(result.proved) == (not found)


def test_a_result_shape_that_is_chosen_is_followed_on_each_path() -> None:
    result = checked(
        """\
        block Maybe(c, wide=false)(x: [n, d]) -> [n, 4 * c if wide else c]:
          if wide:
            y = x |> out: linear(4 * c)
          else:
            y = x |> out: linear(c)
          return y

        block Use(c, wide=false)(x: [n, 3]) -> [n, 4 * c if wide else c]:
          return x |> maybe: Maybe(c, wide)

        block Narrow(c, wide=false)(x: [n, 3]) -> [n, c]:
          return x |> maybe: Maybe(c, wide)

        model narrow = Narrow(8)
        expect narrow maps [n, 3] -> [n, 8]
        """
    )
    assert result.proved == ("Maybe", "Use")
    (report,) = result.reports
    assert report.label is not None
    assert (report.code, report.label.span.line) == ("E0303", 12)
    assert ("on the path where", "wide") in [(each.title, each.text) for each in report.remarks]


def test_a_model_s_configuration_is_replaced_by_name_however_it_was_given() -> None:
    result = checked(
        """\
        block Mlp(widths, classes)(x: [n, 3]) -> [n, classes]:
          for i in 0..len(widths):
            x = x |> layers[i]: linear(widths[i]) |> relu
          return x |> head: linear(classes)

        model base = Mlp([64, 32], 10)
        model deep = base(widths=[64, 32, 16])
        expect base(classes=2)               maps [n, 3] -> [n, 2]
        expect deep(widths=[4], classes=3)   maps [n, 3] -> [n, 3]
        """
    )
    assert result.holds == 2
    assert codes("""\
        block Fc(c, bias=true)(x: [n, 3]) -> [n, c]:
          return x |> fc: linear(c, bias)

        model fc = Fc(8)
        train fit(x: [n, 3]):
          minimize mean(x |> fc(2, c=3))
        """) == [("E0202", 6)]


def test_axes_of_one_name_keep_together_or_are_refused() -> None:
    assert codes("""\
        block Turn(side)(x: [n, side, side]) -> [n, side, side]:
          return x |> rearrange([n, h, w] -> [n, w, h])

        block Flat(side)(x: [n, side, side]) -> [n, side * side]:
          return x |> rearrange([n, side, side] -> [n, side * side])

        block Torn(side)(x: [side, n, side]) -> [n, side * side]:
          return x |> rearrange([side, n, side] -> [n, side * side])
        """) == [("E0219", 8)]


@pytest.mark.parametrize(
    "size", ["h * h", "h // 2", "h % 8", "k // h", "h * h // h", "h * (h + 1)"]
)
def test_a_size_from_which_no_name_follows_is_refused_where_it_is_declared(size: str) -> None:
    written = f"block B(k)(x: [n, {size}]) -> [n]:\n  return sum(x, 1) / k\n"
    found = [report.code for report in checked(written).reports]
    assert found == ([] if size == "h * h // h" else ["E0321"])


def test_a_size_chosen_by_configuration_is_solved_for() -> None:
    """The name it stands for is read in either branch, and in the condition not at all."""
    result = checked(
        """\
        block Either(wide=false)(x: [8 if wide else n, m if not wide else 4]):
          return x
        expect Either() maps [7, 5] -> [7, 5]
        expect Either(wide=true) maps [8, 4] -> [8, 4]
        """
    )
    assert not result.reports, result.reports


LOOP = "  y = x\n  for i in 0..depth:\n    y = {}\n  return x\n"
SCAN = "  scan t in 0..4:\n    if deep:\n      return x\n  return x\n"
ROLL = "  return roll(x, 0, k)\n"


@pytest.mark.parametrize(
    ("signature", "body", "codes"),
    [
        ("(depth)(x: [n]) -> [n]", LOOP.format("y == x"), ["N0001"]),
        ("(depth)(x: [n]) -> [n]", LOOP.format("y + x"), []),
        ("(deep: bool)(x: [n]) -> [n]", SCAN, ["E0216"]),
        ("(k)(x: [n]) -> [n] where 0 <= k, k <= n", ROLL, []),
        ("(k)(x: [n]) -> [n] where 0 < k, k <= n", ROLL, []),
        ("(k)(x: [n]) -> [n] where 0 <= k, k < n", ROLL, []),
        ("(k)(x: [n]) -> [n] where 0 < k, k < n", ROLL, []),
    ],
)
def test_what_holds_at_the_edges(signature: str, body: str, codes: list[str]) -> None:
    """A type changes in a loop, a scan is left, and elements are moved by none or by all."""
    value = {"(depth)": "depth=1", "(deep: bool)": "deep=true"}.get(
        signature.partition("(x")[0], "k=1"
    )
    text = f"block F{signature}:\n{body}expect F({value}) maps [4] -> [4]\n"
    result = check(Source("net.mgn", text), lambda _: None)
    assert [each.code for each in result.problems] == codes
    assert result.proved == (() if codes else ("F",))


@pytest.mark.parametrize(
    ("where", "size", "example"),
    [
        ("", "c // k", ()),
        ("", "c // (c - 3)", (("c", 3),)),
        ("where c >= 4", "c // (c - 3)", ()),
        ("where c <= 2", "c % (c - 3)", ()),
        ("", "n % (2 * c - 1)", ()),
        ("", "n // (10 - c)", (("c", 10),)),
        ("", "1 if c > 3 and n % (c - 3) == 0 else 2", ()),
        ("", "1 if c <= 3 or n % (c - 3) == 0 else 2", ()),
        ("", "1 if c <= 3 and n % (c - 3) == 0 else 2", (("c", 3),)),
        ("where c > 3 or k == 1", "1 if k == 1 or (c > 3 and n % (c - 3) == 0) else 2", ()),
    ],
)
def test_no_size_is_divided_by_zero(
    where: str, size: str, example: tuple[tuple[str, int], ...]
) -> None:
    text = f"block F(k)(x: [n, c])\n    {where}:\n  return x + k + ({size})\n"
    text = text.replace("\n    :", ":")
    result = check(Source("net.mgn", text), lambda _: None)
    problems = [each for each in result.problems if isinstance(each, ZeroDivisor)]
    assert [each.example and each.example.sizes for each in problems] == [example] * bool(example)
    assert len(problems) == len(result.problems)
    assert result.proved == (() if example else ("F",))


@pytest.mark.parametrize(
    ("header", "divisor", "code"),
    [
        ("0..depth", "i", "E0322"),
        ("1..depth", "i", None),
        ("0..depth", "(i + 1)", None),
        ("0..depth", "(depth - i)", None),
        ("0..depth", "(i - 2)", "E0322"),
    ],
)
def test_no_round_divides_by_zero(header: str, divisor: str, code: str | None) -> None:
    """A label is computed too: the first round of `x |> norm{1 % i}: batch_norm` has none."""
    for body in (f"x + c // {divisor}", f"x |> fc{{1 % {divisor}}}: linear(c)"):
        text = f"block F(depth=2)(x: [n, c]):\n  for i in {header}:\n    x = {body}\n  return x\n"
        result = check(Source("net.mgn", text), lambda _: None)
        assert {each.code for each in result.problems} <= {code}
        assert result.fine == (code is None)


@pytest.mark.parametrize(
    ("divisor", "code"),
    [("t", "E0322"), ("(t + c - 3)", "E0322"), ("(t + 1)", "E0317"), ("c", None)],
)
def test_no_round_of_a_scan_divides_by_zero(divisor: str, code: str | None) -> None:
    """No `where` can speak of a round, so none is advised; other quotients differ by round."""
    text = (
        "block F()(x: [n, s, c]):\n  h = zeros([n, c])\n"
        f"  scan t in 0..s:\n    h = h + x[:, t] * (s // {divisor})\n  return h\n"
    )
    result = check(Source("net.mgn", text), lambda _: None)
    assert [each.code for each in result.problems] == [code] * (code is not None)
    assert all(each.help is None for each in result.reports if each.code == "E0322")


@pytest.mark.parametrize("divisor", ["(c - 24)", "(sqrt(c - 8) - 4)", "(0.5 * c - 12)"])
def test_no_model_divides_a_tensor_by_zero(divisor: str) -> None:
    """Neither the first that applies a layer, nor one that has it from what others found."""
    text = f"""\
        block Scaled()(x: [n, c]) -> [n, c] = x / {divisor}

        block Net(c)(x: [n, 9]) -> [n, c] = x |> fc: linear(c) |> Scaled
        """
    for widths in ((24,), (30, 40, 24), (24, 30)):
        models = "".join(f"model net{each} = Net({each})\n" for each in widths)
        refused = codes(dedent(text) + models)
        assert refused == [("E0203", 1)]
    assert checked(dedent(text) + "model a = Net(30)\nmodel b = Net(40)\n").fine


def test_a_size_of_data_by_which_a_tensor_cannot_be_divided_is_refused() -> None:
    text = "block Net()(x: [n, s]) -> [n, s] = x / (s - 3)\nmodel net = Net()\n"
    program = Program(Linker(lambda _: None, Sink()).link(Source("net.mgn", text)))
    assert elaborate_model(program, "net", sizes={"s": 4}).graph.outputs
    with pytest.raises(ProblemError, match="a divisor other than zero"):
        elaborate_model(program, "net", sizes={"s": 3})


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_tensor_of_too_many_elements_is_refused_whatever_else_is_empty(first: int) -> None:
    place = Location(Span(Source("net.mgn", ""), 0, 0))
    huge = TensorType(DType.F32, (first, 2**40, 2**40))
    with pytest.raises(ProblemError):
        require_countable(huge, place, Facts())
    require_countable(TensorType(DType.F32, (first, 2, 2**10)), place, Facts())


def test_a_pattern_has_an_entry_for_each_axis() -> None:
    text = "block F()(x: [a, b], y: [a, ...b], z: [...c]) -> [a, b]:\n  return x\n"
    (block,) = parse(Source("net.mgn", text), Sink()).declarations
    assert isinstance(block, ast.Block)
    fits = {
        item.name: [rank for rank in range(5) if _spreads(item.type.shape, rank)]
        for item in block.inputs
    }
    assert fits == {"x": [2], "y": [1, 2, 3, 4], "z": [0, 1, 2, 3, 4]}


def _spreads(pattern: ast.Pattern, rank: int) -> bool:
    try:
        placed = spread(pattern, (3,) * rank)
    except Mismatch:
        return False
    taken = [len(each) if isinstance(each, Axes) else 1 for _, _, each in placed]
    assert [at for at, _, _ in placed] == [sum(taken[:number]) for number in range(len(taken))]
    assert sum(taken) == rank
    return True


@pytest.mark.parametrize(
    ("where", "call", "found"),
    [
        ("p < 1", "g(n + 5, 8)", ["E0311"]),
        ("p < 1", "g(d, 8)", ["E0311"]),
        ("p < 1", "g(k + 1, 8)", ["E0311"]),
        ("p < 1", "g(1.5, 8)", ["E0311"]),
        ("p < 1", "g(k, 8)", []),
        ("p < 1 and c >= 8", "g(k, 1)", ["E0311"]),
        ("c >= 8 and p < 1", "g(k, 1)", ["E0311"]),
        ("c >= 8 and p < 1", "g(k, 8)", []),
        ('p == "a"', "g(k, 8)", ["E0203"]),
        ("p > [1] and c > 3", "g(k, 8)", ["E0203"]),
        ("p > true", "g(k, 8)", ["E0203"]),
    ],
)
def test_a_clause_about_a_real_says_nothing_but_of_that_real(
    where: str, call: str, found: list[str]
) -> None:
    text = f"""\
        block g(p: real, c: size)(x: [n, d]) -> [n, d]
            where {where}:
          return x * p * c
        block U(k)(x: [n, d]) -> [n, d] = k * (x |> {call})
        """
    assert [code for code, _ in codes(text)] == found


def test_what_stands_beside_a_real_is_known_in_the_body() -> None:
    text = """\
        block B(p: real)(x: [n, c]) -> [n, c // 2]
            where c % 2 == 0 and p < 1:
          y = rearrange(x, [n, 2 * m] -> [n, 2, m])
          return sum(y, 1) * p
        """
    assert checked(text).proved == ("B",)


def test_a_block_whose_clause_about_sizes_is_false_stands_for_none() -> None:
    text = """\
        block g(p: real, c: size)(x: [n, d]) -> [n, d]
            where c >= 8 and p < 1:
          return x * p * c
        block H(f: block(p: real, c: size)(x: [n, d]) -> [n, d])(x: [n, d]) -> [n, d]:
          return x |> f(0.5, 1)
        block U()(x: [n, d]) -> [n, d] = x |> H(f=g)
        """
    assert [code for code, _ in codes(text)] == ["E0221"]
