"""Attention that a library makes: which is, and that it is the attention of the program."""

from dataclasses import replace

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.ops import Add, Input, Log, Mul, Parameter, Sum
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.symbolic.assumptions import Unproved
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.xla.compile import Program
from meganeura_runtime.backends.xla.open_device import XlaDevice
from meganeura_runtime.backends.xla.ops.attention import (
    Library,
    LibraryAttention,
    LibraryAttentionGradient,
)
from meganeura_runtime.backends.xla.passes.fuse_attention import CUDNN, fuse_into, supports
from meganeura_runtime.backends.xla.passes.reuse_attention_weights import reuse_attention_weights
from meganeura_runtime.backends.xla.session import XlaSession
from tests.effort import effort
from tests.runtime.backends.xla.device.test_compiler_options import gpu

PLAIN = Attention(0.3, causal=False)
SQUARE = (2, 4, 6, 6)
FORMS = {
    "plain": (PLAIN, 7, 5),
    "causal": (Attention(0.3, causal=True), 6, 6),
    "window": (Attention(0.3, causal=True, window=3), 6, 6),
    "shared": (Attention(0.3, causal=True, shared=2), 6, 6),
}


def step(whole: Attention, rows: int, keys: int, *, swapped: bool = False) -> Graph:
    """An attention and its gradients, as reverse mode writes them."""
    build = Builder()

    def given(name: str, heads: int, length: int) -> Value:
        return build.add(Input(name, DType.F32, (2, heads, length, 8)))

    q = given("q", 4, rows)
    k, v = (given(name, 4 // whole.shared, keys) for name in "kv")
    dy = given("dy", 4, rows)
    mean, logs = build.add_all(whole, q, k, v)
    product = build.add(Mul(), mean, dy) if swapped else build.add(Mul(), dy, mean)
    level = build.add(Sum((3,)), product)
    gradients = build.add_all(whole.gradient, q, k, v, dy, logs, level)
    return build.graph({"mean": mean, **dict(zip(("dq", "dk", "dv"), gradients, strict=True))})


def kinds(graph: Graph) -> set[type]:
    return {type(value.op) for value in graph.values}


@pytest.mark.parametrize(
    ("form", "multiple"),
    [("plain", 1), ("causal", 4), ("shared", 4), *effort([], [("plain", 4), ("window", 1)])],
)
def test_a_library_gives_the_attention_and_its_gradients(form: str, multiple: int) -> None:
    graph = step(*FORMS[form], swapped=form == "causal")
    fused = fuse_into(graph, [Library("xla", multiple)], lambda *_: True)
    assert kinds(fused) == {Input, LibraryAttention, LibraryAttentionGradient}
    types = {name: value.type for name, value in graph.outputs.items()}
    assert {name: value.type for name, value in fused.outputs.items()} == types
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape)).astype(
            np.float32
        )
        for value in graph.values
        if isinstance(value.op, Input)
    }
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)
    program = replace(device.program(graph), graph=fused, precision=ComputePrecision.BF16)
    with XlaSession(program) as session:
        found = session.step(feeds)
        for name, value in evaluate(graph, feeds).outputs.items():
            np.testing.assert_allclose(found[name], value, 0, 0.02 * np.abs(value).max())
            np.testing.assert_allclose(evaluate(fused, feeds).outputs[name], value, 1e-5, 1e-6)


@pytest.mark.parametrize("trained", ["k", "v", "kv"])
def test_gradients_of_keys_and_values_are_updates_of_their_own(trained: str) -> None:
    """On one GPU each is computed before it is read; that of the queries, which none reads, is not.

    All are of one shape.
    """
    build = Builder()
    given = {
        name: build.add(
            Parameter(name, DType.F32, SQUARE, "param")
            if name in trained
            else Input(name, DType.F32, SQUARE)
        )
        for name in ("q", "k", "v", "dy")
    }
    q, k, v, dy = given.values()
    mean, rows = build.add_all(PLAIN, q, k, v)
    level = build.add(Sum((3,)), build.add(Mul(), dy, mean))
    gradients = build.add_all(PLAIN.gradient, q, k, v, dy, rows, level)
    slopes = dict(zip("qkv", gradients, strict=True))
    graph = build.graph({"y": mean}, {name: slopes[name] for name in trained})
    generator = np.random.default_rng(0)
    feeds = {name: generator.standard_normal(SQUARE).astype(np.float32) for name in given}
    expected = evaluate(graph, feeds).updates
    with XlaSession(Program(taken(graph), ComputePrecision.BF16, gpu())) as session:
        session.load({name: feeds.pop(name) for name in trained})
        session.step(feeds)
        for name in trained:
            tolerance = 0.02 * np.abs(expected[name]).max()
            np.testing.assert_allclose(session.read(name), expected[name], 0, tolerance)


def test_a_library_takes_what_the_attention_takes() -> None:
    """As many keys as values, and queries as wide as keys."""
    build = Builder()
    q, k, more, wider = (
        build.add(Input(name, DType.F32, (2, 4, rows, width)))
        for name, rows, width in (("q", 7, 8), ("k", 5, 8), ("more", 6, 8), ("wider", 5, 9))
    )
    for op in (LibraryAttention(PLAIN, Library("xla")), PLAIN):
        assert build.add(op, q, k, wider).type.shape == (2, 4, 7, 9)
    gradient = LibraryAttentionGradient(PLAIN, Library("xla"))
    assert [each.type for each in build.add_all(gradient, q, k, k, q, q)] == [
        q.type,
        k.type,
        k.type,
    ]
    for operands in ((q, k, more), (q, wider, k)):
        for op, others in ((LibraryAttention(PLAIN, Library("xla")), ()), (gradient, (q, q))):
            with pytest.raises(Unproved):
                build.add(op, *operands, *others)


def test_what_looks_into_an_attention_keeps_it() -> None:
    build = Builder()
    q, k, v, dy = (
        build.add(Input(name, DType.F32, (1, 2, 4, 8))) for name in ("q", "k", "v", "dy")
    )
    mean, rows = build.add_all(PLAIN, q, k, v)
    level = build.add(Sum((3,)), build.add(Mul(), dy, mean))
    other = build.add(Sum((3,)), build.add(Mul(), dy, dy))

    def gradient(op: AttentionGradient, keys: Value, level: Value) -> Graph:
        return build.graph({"dq": build.add(op, q, keys, v, dy, rows, level)})

    assert LibraryAttention in kinds(taken(gradient(PLAIN.gradient, k, level)))
    assert LibraryAttention in kinds(taken(build.graph({"mean": mean})))
    moved = build.add(Add(), level, other)
    for graph in (
        build.graph({"mean": mean, "rows": rows}),
        build.graph({"mean": mean, "rows": build.add(Add(), rows, rows)}),
        gradient(PLAIN.gradient, v, level),
        gradient(AttentionGradient(0.4, causal=False), k, level),
        gradient(PLAIN.gradient, k, moved),
        gradient(PLAIN.gradient, k, other),
        gradient(PLAIN.gradient, k, rows),
        gradient(PLAIN.gradient, k, build.add(Sum((3,)), build.add(Add(), dy, mean))),
        gradient(PLAIN.gradient, k, build.add(Sum((3,)), build.add(Mul(), v, mean))),
        gradient(PLAIN.gradient, k, build.add(Sum((3,)), build.add(Mul(), dy, v))),
        gradient(PLAIN.gradient, k, build.add(Sum((3,)), build.add(Mul(), mean, mean))),
    ):
        assert LibraryAttention not in kinds(taken(graph))
    mask = build.add(Input("mask", DType.F32, (1, 2, 4, 4)))
    of_masked = build.add(PLAIN.gradient, q, k, v, dy, rows, level, mask)
    assert LibraryAttention not in kinds(taken(build.graph({"dq": of_masked})))
    masked = build.graph({"mean": build.add(PLAIN, q, k, v, mask)})
    assert LibraryAttention not in kinds(taken(masked))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_read_the_weights_of_their_attention(form: str) -> None:
    graph = step(*FORMS[form])
    found = reuse_attention_weights(graph)
    assert AttentionGradient not in kinds(found)
    generator = np.random.default_rng(0)
    feeds = {
        value.op.name: generator.standard_normal(concrete_shape(value.type.shape), np.float32)
        for value in graph.values
        if isinstance(value.op, Input)
    }
    expected = evaluate(graph, feeds).outputs
    for name, value in evaluate(found, feeds).outputs.items():
        np.testing.assert_allclose(value, expected[name], 1e-5, 1e-6)
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)
    placement = device.program(graph).placement
    assert Log not in kinds(Program.of(graph, ComputePrecision.F32, placement).graph)
    assert Log in kinds(Program.of(graph, ComputePrecision.BF16, placement).graph)


def test_a_gradient_of_other_scores_recomputes_its_weights() -> None:
    build = Builder()
    q, k, v, dy, mask = (
        build.add(Input(name, DType.F32, (1, 2, 4, width)))
        for name, width in (("q", 8), ("k", 8), ("v", 8), ("dy", 8), ("mask", 4))
    )
    mean, rows = build.add_all(PLAIN, q, k, v, mask)
    level = build.add(Sum((3,)), build.add(Mul(), dy, mean))

    def is_kept(op: AttentionGradient, *operands: Value) -> bool:
        graph = build.graph({"dq": build.add(op, *operands)})
        return AttentionGradient not in kinds(reuse_attention_weights(graph))

    assert is_kept(PLAIN.gradient, q, k, v, dy, rows, level, mask)
    assert not is_kept(PLAIN.gradient, q, k, v, dy, rows, level)
    assert not is_kept(PLAIN.gradient, q, v, v, dy, rows, level, mask)
    assert not is_kept(PLAIN.gradient, q, k, v, dy, level, level, mask)
    assert not is_kept(AttentionGradient(0.4, causal=False), q, k, v, dy, rows, level, mask)


def taken(graph: Graph) -> Graph:
    return fuse_into(graph, [Library("xla")], lambda *_: True)


def test_cudnn_is_asked_and_is_not_on_a_cpu() -> None:
    device = choose_device("xla:cpu")
    assert isinstance(device, XlaDevice)
    graph = step(*FORMS["plain"])
    qkv = [value for value in graph.values if isinstance(value.op, Input)][:3]
    assert not any(supports(library, PLAIN, qkv, bool(qkv)) for library in CUDNN)
    program = Program.of(graph, ComputePrecision.BF16, device.program(graph).placement)
    assert kinds(program.graph).isdisjoint({LibraryAttention, Attention})


def test_the_numbers_of_rows_are_sums_along_them() -> None:
    """A square has as many columns."""
    build = Builder()
    q, k, v, dy = (
        build.add(Input(name, DType.F32, (1, 2, 8, 8))) for name in ("q", "k", "v", "dy")
    )
    mean, rows = build.add_all(PLAIN, q, k, v)
    for axis in (2, 3):
        level = build.add(Sum((axis,)), build.add(Mul(), dy, mean))
        graph = build.graph({"dq": build.add(PLAIN.gradient, q, k, v, dy, rows, level)})
        assert (LibraryAttention in kinds(taken(graph))) == (axis == 3)


@pytest.mark.parametrize("trained", [False, True])
def test_a_library_is_asked_for_floats_of_32_bits_alone(*, trained: bool) -> None:
    """Values in bfloat16 have that type in the program."""
    build = Builder()
    for dtype in (DType.F32, DType.F16):
        qkv = [build.add(Input(f"{dtype}{name}", dtype, (2, 4, 6, 8))) for name in "qkv"]
        assert supports(Library("xla"), PLAIN, qkv, trained) == (dtype is DType.F32)


def test_the_first_library_that_takes_an_attention_makes_it() -> None:
    graph = step(*FORMS["plain"])

    def takes(library: Library, *_: object) -> bool:
        return library.multiple > 1

    fused = fuse_into(graph, [Library("xla", each) for each in (1, 2, 4)], takes)
    made = {value.op.library for value in fused.values if isinstance(value.op, LibraryAttention)}
    assert made == {Library("xla", 2)}
