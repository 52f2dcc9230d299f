"""Blocks proved for all sizes and configurations, refuted, or left to each model."""

from textwrap import dedent

import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.body.blocks import block_application
from meganeura_dsl.elaborate.declarations import block_proofs
from meganeura_dsl.elaborate.declarations.block_proofs import Prover
from meganeura_dsl.elaborate.scope.linker import LinkedModule, library
from meganeura_dsl.elaborate.typecheck.shape_patterns import Mismatch, spread
from meganeura_dsl.elaborate.values import Axes
from meganeura_dsl.pipeline import check
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import parse
from tests.dsl.elaborate.declarations.proving import checked, codes


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
    run_body = block_application.run_body
    for module in (block_application, block_proofs):
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
