"""Graphs as text: what is written reads back, and what cannot be read says its line."""

from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.ir.graph import Builder, Graph, Origin, Value
from meganeura_dsl.ir.ops import OPS, Add, Concat, Constant, Conv, Input, Iota, Neg, Parameter, Sum
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.symbolic.size import Size, dim
from tests.folded import each_of
from tests.samples import SAMPLES, Sample

TEXT = """\
%0 = Input(name="x", dtype=f32, shape=[n, 3, h]) : f32[n, 3, h]
%1 = Parameter(name="conv.weight", dtype=f32, shape=[8, 3, 3], kind="param") : f32[8, 3, 3]
%2 = Conv(%0, %1, stride=[2], padding=[1], dilation=[1], groups=1) : f32[n, 8, ceil(h/2)]  # conv (net.mgn:2)
%3 = Sum(%2, axes=[0, 1, 2]) : f32[]  # head
%4 = Add(%1, %1) : f32[8, 3, 3]
output "loss" = %3
update "conv.weight" = %4
"""  # noqa: E501 - as it is printed


def network() -> Graph:
    span = Span(Source("net.mgn", "line one\nconv\n"), 9, 13)
    build = Builder()
    x = build.add(Input("x", DType.F32, (dim("n"), 3, dim("h"))))
    weight = build.add(Parameter("conv.weight", DType.F32, (8, 3, 3), "param"))
    build.add(Neg(), x)
    with build.at(Origin(span, "conv")):
        out = build.add(Conv((2,), (1,), (1,), 1), x, weight)
    with build.at(Origin(path="head")):
        loss = build.add(Sum((0, 1, 2)), out)
    return build.graph({"loss": loss}, {"conv.weight": build.add(Add(), weight, weight)})


def test_one_line_for_each_value() -> None:
    assert format_graph(network()) == TEXT


def assert_same(left: Graph, right: Graph) -> None:
    assert [_content(value, left) for value in left.values] == [
        _content(value, right) for value in right.values
    ]
    for ours, theirs in ((left.outputs, right.outputs), (left.updates, right.updates)):
        assert list(ours) == list(theirs)
        assert [left.values.index(root) for root in ours.values()] == [
            right.values.index(root) for root in theirs.values()
        ]


def _content(value: Value, graph: Graph) -> tuple[object, ...]:
    return (
        value.op,
        value.index,
        value.type,
        [graph.values.index(operand) for operand in value.operands],
    )


def test_what_is_written_reads_back() -> None:
    graph = parse_graph(TEXT, OPS)
    assert_same(graph, network())
    verify(graph)
    assert parse_graph(format_graph(graph), OPS).outputs.keys() == {"loss"}


@each_of("sample", SAMPLES, ids=lambda sample: sample.name)
def test_every_op_reads_back(sample: Sample) -> None:
    build = Builder()
    operands = [
        build.add(Input(f"operand {index}", each.dtype, each.shape))
        for index, each in enumerate(sample.types)
    ]
    results = build.add_all(sample.op, *operands)
    graph = build.graph({f"out {each.index}": each for each in results})
    text = format_graph(graph)
    assert_same(parse_graph(text, OPS), graph)
    assert format_graph(parse_graph(text, OPS)) == text


def read_back(*ops: Constant) -> list[Constant]:
    build = Builder()
    graph = build.graph({str(index): build.add(op) for index, op in enumerate(ops)})
    values = parse_graph(format_graph(graph), OPS).outputs.values()
    return [value.op for value in values if isinstance(value.op, Constant)]


@given(st.floats())
def test_floats_read_back_exactly(number: float) -> None:
    constant = Constant(number, DType.F32)
    assert read_back(constant) == [constant]


def test_numbers_that_look_alike_stay_apart() -> None:
    numbers = [0.0, -0.0, inf, -inf, nan, 1e-300, 0.1]
    floats = [Constant(number, DType.F32) for number in numbers]
    others = [
        Constant(1, DType.I32),
        Constant(1, DType.U32),
        Constant(value=True, dtype=DType.BOOL),
        Constant(1.0, DType.F32),
        Constant(1.0, DType.F16),
        Constant(-7, DType.I32),
        Constant(2 * dim("n") - 1, DType.F32),
    ]
    assert read_back(*floats, *others) == [*floats, *others]
    assert len({*floats, *others}) == len(floats) + len(others)


NAMES = st.sampled_from(["n", "h", "stride", "class", "layer.0", "n'", "true_size", "f32", "ceil"])


def sizes() -> st.SearchStrategy[Size]:
    leaves = st.one_of(st.integers(-9, 9), NAMES.map(dim))
    return st.recursive(leaves, _larger, max_leaves=6)


def _larger(parts: st.SearchStrategy[Size]) -> st.SearchStrategy[Size]:
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda pair: pair[0] + pair[1]),
        pairs.map(lambda pair: pair[0] - pair[1]),
        pairs.map(lambda pair: pair[0] * pair[1]),
        st.tuples(parts, st.integers(2, 32)).map(lambda pair: pair[0] // pair[1]),
        st.tuples(parts, NAMES).map(lambda pair: pair[0] // dim(pair[1])),
    )


@given(sizes())
def test_sizes_read_back_exactly(size: Size) -> None:
    graph = Graph(
        (Value(0, Constant(size, DType.I32), (), Constant(0, DType.I32).infer(FACTS)),), {}
    )
    assert parse_graph(format_graph(graph), OPS).values[0].op == graph.values[0].op


FACTS = Builder().facts


@given(st.text())
def test_names_read_back_exactly(name: str) -> None:
    build = Builder()
    graph = build.graph({name: build.add(Input(name, DType.F32, ()))})
    again = parse_graph(format_graph(graph), OPS)
    assert list(again.outputs) == [name]
    assert again.values[0].op == graph.values[0].op


def test_an_op_may_have_any_number_of_operands_and_no_attributes() -> None:
    build = Builder()
    x = build.add(Iota(3))
    out = build.add(Neg(), build.add(Concat(0), x, x, x))
    graph = build.graph({"out": out})
    assert "%1 = Concat(%0, %0, %0, axis=0) : i32[9]\n%2 = Neg(%1) : i32[9]" in format_graph(graph)
    assert_same(parse_graph(format_graph(graph), OPS), graph)


def test_empty_lines_and_comments_are_skipped() -> None:
    assert_same(parse_graph("# a graph\n\n" + TEXT.replace("\n", "\n\n"), OPS), network())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Conv(", "Convolve(", "line 3: there is no op `Convolve`"),
        ("%2 = Conv", "%5 = Conv", "line 3: the next value is %2"),
        ("Conv(%0, %1", "Conv(%0, %7", "line 3: %7 is not defined above"),
        ("Conv(%0, %1", "Conv(%0, %2", "line 3: %2 is not defined above"),
        ("= %3\n", "= %9\n", "line 6: %9 is not defined above"),
        ("= %3\n", "= %5\n", "line 6: %5 is not defined above"),
        ('kind="param"', 'kind="other"', "line 2: `kind` is a text that it cannot be"),
        ('kind="param"', "kind=7", "line 2: `kind` is 7, which it cannot be"),
        ("f32[n, 3, h]\n", "f32[n, n**65, h]\n", "line 1: 65 is too high a power for a size"),
        (", groups=1", "", "line 3: `Conv` has the attributes stride, padding, dilation, groups"),
        (
            "dilation=[1], groups=1",
            "groups=1, dilation=[1]",
            "line 3: `Conv` has the attributes stride, padding, dilation, groups",
        ),
        ("Add(%1, %1)", "Add(%1, %1, axis=0)", r"line 5: `Add` has the attributes \(none\)"),
        ("f32[n, 3, h]\n", "f31[n, 3, h]\n", "line 1: 'f31' is not a valid DType"),
        *(
            ("f32[n, 3, h]\n", f"f32[n, {size}, h]\n", f"line 1: {words} for a graph")
            for size, words in (
                (f"{2**64 + 1}", "a number is too large"),
                (f"{2**32} * {2**32} + 1", "a number is too large"),
                ("9999999999 * 9999999999", "a number is too large"),
                ("9999999999 * 9999999999 // 9999999999", "a number is too large"),
                (" * ".join("n" * 500), "a size is too long"),
            )
        ),
        ("f32[n, 3, h]\n", "f32[n, 3, h\n", "line 1: `,` is expected before `the end`"),
        ("f32[n, 3, h]\n", "f32[n, 3, h] h\n", "line 1: a end is expected, not `h`"),
        ("axes=[0, 1, 2]", "axes=[0; 1, 2]", "line 4: `; 1, 2.* cannot be read"),
        ('output "loss"', "output loss", "line 6: a text or a role is expected, not `loss`"),
        ('output "loss"', "result loss", "line 6: a value is expected, not `result`"),
    ],
)
def test_what_cannot_be_read_says_its_line(old: str, new: str, words: str) -> None:
    assert old in TEXT
    with pytest.raises(GraphTextError, match=words):
        parse_graph(TEXT.replace(old, new, 1), OPS)


@pytest.mark.parametrize(
    ("written", "size"),
    [(str(2**64), 2**64), (f"-{2**64}", -(2**64)), ("n**3", dim("n") * dim("n") * dim("n")),
     ("n**64", dim("n") ** 64), ("(n + 1)**2", dim("n") ** 2 + 2 * dim("n") + 1)],
)  # fmt: skip
def test_the_largest_numbers_and_powers_are_read(written: str, size: Size) -> None:
    text = f'%0 = Input(name="x", dtype=f32, shape=[{written}]) : f32[{written}]\n'
    assert parse_graph(text, OPS).values[0].type.shape == (size,)


SCANNED = """\
%0 = Input(name="h", dtype=f32, shape=[n]) : f32[n]
body @0:
  %0 = Input(name="iteration", dtype=i32, shape=[]) : i32[]
  %1 = Input(name="carry.0", dtype=f32, shape=[n]) : f32[n]
  %2 = Neg(%1) : f32[n]
  output "carry.0" = %2
%1 = Scan(%0, body=@0, iterations=s, carried=1, sliced=[], collected=[], backward=false, stops=false).0 : f32[n]
%2 = Scan(%1, body=@0, iterations=3, carried=1, sliced=[], collected=[], backward=true, stops=false).0 : f32[n]
output "y" = %2
"""  # noqa: E501 - as it is printed


def test_a_body_stands_above_the_ops_that_have_it() -> None:
    graph = parse_graph(SCANNED, OPS)
    verify(graph)
    assert format_graph(graph) == SCANNED
    lines = SCANNED.splitlines()
    for count in range(len(lines)):
        values = [line for line in lines[:count] if line.startswith("%")]
        assert len(parse_graph("\n".join(lines[:count]), OPS).values) == len(values)
    with pytest.raises(GraphTextError, match="line 7: @1 is not defined above"):
        parse_graph(SCANNED.replace("body=@0", "body=@1"), OPS)
    first, second = (value.op.bodies[0] for value in graph.values[1:])
    assert first == second


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("body @0:", "body @1:", "line 2: the next body is @0"),
        ("%1, body=@0", "%1, body=@7", "line 8: @7 is not defined above"),
        ("  %2 = Neg(%1)", "  %2 = Neg(%9)", "line 5: %9 is not defined above"),
        ("%0, body=@0", "%0, body=3", "line 7: a body is expected"),
    ],
)
def test_a_body_that_cannot_be_read_says_its_line(old: str, new: str, words: str) -> None:
    with pytest.raises(GraphTextError, match=words):
        parse_graph(SCANNED.replace(old, new, 1), OPS)


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("RandomBits(%0, stream=n, shape=[2]) : u32[2]", "`stream` is the size n"),
        ("RandomBits(%0, stream=true, shape=[2]) : u32[2]", "`stream` is true or false"),
        ("RandomBits(%0, stream=0.5, shape=[2]) : u32[2]", "`stream` is a real number"),
        ('RandomBits(%0, stream="0", shape=[2]) : u32[2]', "`stream` is a text"),
        ("RandomBits(%0, stream=[0], shape=[2]) : u32[2]", "`stream` is a list"),
        ("RandomBits(%0, stream=0, shape=2) : u32[2]", "`shape` is 2"),
        ("Concat(%0, %0, axis=n) : u32[4]", "`axis` is the size n"),
        ('Compare(%0, %0, kind="less") : bool[2]', "`kind` is a text"),
        ("MatMul(%0, %0, transpose_left=0, transpose_right=false) : u32[2]", "is 0, which"),
    ],
)
def test_an_attribute_has_the_type_of_its_field(op: str, words: str) -> None:
    """A size as a stream would be compared with every one that there is."""
    text = f'%0 = Input(name="x", dtype=u32, shape=[2]) : u32[2]\n%1 = {op}\noutput "y" = %1\n'
    with pytest.raises(GraphTextError, match=f"line 2: .*{words}"):
        parse_graph(text, OPS)


def test_without_origins_a_text_is_what_the_graph_means() -> None:
    """A name that looks like a comment hides nothing behind it."""

    def leaf(size: int, name: str, path: str) -> str:
        build = Builder()
        with build.at(Origin(path=path)):
            x = build.add(Input(name, DType.F32, (size,)))
        graph = build.graph({"y": x})
        assert path in format_graph(graph)
        return format_graph(graph, origins=False)

    text = leaf(2, "a  # b", "head")
    assert text == '%0 = Input(name="a  # b", dtype=f32, shape=[2]) : f32[2]\noutput "y" = %0\n'
    assert text == leaf(2, "a  # b", "tail")
    assert text != leaf(3, "a  # b", "head")


def test_without_origins_a_check_of_an_index_has_no_location() -> None:
    def text(location: str, below: int, *, origins: bool) -> str:
        build = Builder()
        largest = build.add(Input("x", DType.U32, ()))
        graph = build.graph({IndexCheck(0, DType.I32, below, location): largest})
        return format_graph(graph, origins=origins)

    assert text("a.mgn:1", 5, origins=False) == text("a.mgn:2", 5, origins=False)
    assert text("a.mgn:1", 5, origins=False) != text("a.mgn:1", 6, origins=False)
    assert 'location="a.mgn:1"' in text("a.mgn:1", 5, origins=True)
