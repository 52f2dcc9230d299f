"""A session of a model optimized for inference is one of the model as it is written."""

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Builder, Graph, Leaf
from meganeura_dsl.ir.interpreter import FeedError, storage_type
from meganeura_dsl.ir.ops import Add, Broadcast, Conv, Input, Mul, Parameter
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.optimizer_problems import FoldedOverflow
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Session, SessionError, persistent_first
from meganeura_runtime.backends.inference_session import (
    Derivation,
    InferenceSession,
    open_inference,
    shared_form,
)
from meganeura_runtime.backends.reference.session import ReferenceSession
from tests.dsl.transforms.egraph.compare import numbers
from tests.narrow import NARROW

NAMES = ("digits_cnn", "repvgg_a0", "whisper_tiny")


def model(name: str) -> Graph:
    return NARROW[name].elaborate().graph


def values(graph: Graph, *, kept: bool) -> dict[str, Array]:
    leaves = [value.op for value in graph.values if isinstance(value.op, Leaf)]
    return {
        leaf.name: numbers(leaf).astype(np.float32) if leaf.dtype.is_float else numbers(leaf)
        for leaf in leaves
        if leaf.is_persistent is kept
    }


def opened(graph: Graph) -> Session:
    session = open_inference(graph, ReferenceSession, RewriteOptions())
    session.load(values(graph, kept=True))
    return session


@pytest.mark.parametrize("name", NAMES)
def test_it_gives_what_the_model_gives(name: str) -> None:
    graph = model(name)
    plain = ReferenceSession(graph)
    plain.load(values(graph, kept=True))
    fed = values(graph, kept=False)
    expected, found = plain.step(fed)["output"], opened(graph).step(fed)["output"]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("name", NAMES)
def test_it_keeps_the_parameters_of_the_program(name: str) -> None:
    graph = model(name)
    given = values(graph, kept=True)
    session = opened(graph)
    session.step(values(graph, kept=False))
    assert isinstance(session, InferenceSession)
    assert session.names == tuple(given)
    for key, array in session.persistent().items():
        np.testing.assert_array_equal(array, given[key], strict=True)


def test_a_parameter_written_later_counts() -> None:
    graph = model("digits_cnn")
    fed = values(graph, kept=False)
    session, anew = opened(graph), values(graph, kept=True)
    before = session.step(fed)["output"]
    for name in ("stem.weight", "fc.bias"):
        anew[name] = anew[name] + 1
        session.write(name, anew[name])
    plain = ReferenceSession(graph)
    plain.load(anew)
    found = session.step(fed)["output"]
    assert np.abs(found - before).max() > 0.5
    np.testing.assert_allclose(found, plain.step(fed)["output"], rtol=1e-3, atol=1e-3)


def test_a_kernel_that_is_read_itself_and_folded_counts_in_both() -> None:
    build = Builder()
    x = build.add(Input("x", DType.F32, (1, 2, 3, 3)))
    w = build.add(Parameter("w", DType.F32, (2, 2, 1, 1), "param"))
    scale = build.add(Parameter("scale", DType.F32, (2,), "param"))
    first = build.add(Conv((1, 1), (0, 0), (1, 1), 1), x, w)
    first = build.add(Mul(), first, build.add(Broadcast((1, 2, 3, 3), (1,)), scale))
    second = build.add(Conv((1, 1), (0, 0), (1, 1), 1), build.add(Mul(), x, x), w)
    graph = build.graph({"y": build.add(Add(), first, second)})
    session, anew = opened(graph), values(graph, kept=True)
    assert isinstance(session, InferenceSession)
    fed = values(graph, kept=False)
    session.step(fed)
    anew["w"] = anew["w"] + 1
    session.write("w", anew["w"])
    plain = ReferenceSession(graph)
    plain.load(anew)
    np.testing.assert_allclose(session.step(fed)["y"], plain.step(fed)["y"], rtol=1e-4, atol=1e-4)


def test_what_was_written_is_not_shared() -> None:
    graph = model("digits_cnn")
    session, mine = opened(graph), values(graph, kept=True)["stem.weight"]
    session.write("stem.weight", mine)
    mine[:] = 0
    session.read("stem.weight")[:] = 0
    assert session.read("stem.weight").any()


def test_names_and_missing_values_are_those_of_the_program() -> None:
    graph = model("repvgg_a0")
    session = open_inference(graph, ReferenceSession, RewriteOptions())
    with pytest.raises(SessionError, match=r"stem\.conv_kxk\.conv\.weight"):
        session.step(values(graph, kept=False))
    with pytest.raises(FeedError, match=r"there is no `stem\.derived\.0`"):
        session.write("stem.derived.0", np.zeros(1, np.float32))


def test_without_the_optimizer_it_is_a_plain_session() -> None:
    session = open_inference(model("digits_cnn"), ReferenceSession, RewriteOptions(enabled=False))
    assert isinstance(session, ReferenceSession)


def test_a_form_that_is_shared_is_optimized_unless_that_is_off() -> None:
    """Either way no parameter is added, and those there are come first, by name."""
    graph = model("digits_cnn")
    plain = shared_form(graph, RewriteOptions(enabled=False))
    assert format_graph(plain) == format_graph(persistent_first(graph))
    optimized = shared_form(graph, RewriteOptions())
    assert len(optimized.values) < len(plain.values)
    names = sorted(values(graph, kept=True))
    for form in (plain, optimized):
        first = [value.op for value in form.values[: len(names)]]
        assert [op.name for op in first if isinstance(op, Parameter)] == names


def folded(dtype: DType, weight: float) -> tuple[InferenceSession, dict[str, Array]]:
    """A convolution of 1e-3 and the batch norm behind it, whose scale is about 316."""
    build = Builder()
    x = build.add(Input("x", dtype, (1, 2, 3, 3)))
    w = build.add(Parameter("w", dtype, (2, 2, 1, 1), "param"))
    scale = build.add(Parameter("scale", dtype, (2,), "param"))
    y = build.add(Conv((1, 1), (0, 0), (1, 1), 1), x, w)
    y = build.add(Mul(), y, build.add(Broadcast((1, 2, 3, 3), (1,)), scale))
    session = open_inference(build.graph({"y": y}), ReferenceSession, RewriteOptions())
    assert isinstance(session, InferenceSession)
    stored = storage_type(dtype)
    kept = {"w": np.full((2, 2, 1, 1), weight), "scale": np.full(2, 300.0)}
    session.load({name: array.astype(stored) for name, array in kept.items()})
    return session, {"x": np.full((1, 2, 3, 3), 1e-3, stored)}


@pytest.mark.parametrize(("dtype", "largest"), [(DType.F32, 3e38), (DType.F16, 6e4)])
def test_a_folded_weight_that_overflows_is_told(dtype: DType, largest: float) -> None:
    session, feeds = folded(dtype, largest)
    with pytest.raises(ProblemError, match="E0572") as caught:
        session.step(feeds)
    problem = caught.value.problem
    assert isinstance(problem, FoldedOverflow)
    assert (problem.dtype, sorted(problem.sources)) == (dtype.value, ["scale", "w"])
    session.load({"w": np.full((2, 2, 1, 1), largest / 1000, storage_type(dtype))})
    assert np.isfinite(session.step(feeds)["y"]).all()


@pytest.mark.parametrize("weight", [np.inf, np.nan])
def test_weights_that_are_not_finite_are_folded_as_they_are(weight: float) -> None:
    session, feeds = folded(DType.F32, weight)
    with np.errstate(invalid="ignore"):
        assert not np.isfinite(session.step(feeds)["y"]).any()


def test_each_weight_is_derived_in_double_precision_of_what_it_names() -> None:
    """A square that f32 cannot hold may be a factor; only the sources of one that ends so count."""
    build = Builder()
    a, b, c = (build.add(Parameter(name, DType.F32, (2,), "param")) for name in "abc")
    square = build.add(Mul(), a, a)
    derive = Derivation(build.graph({"scaled": build.add(Mul(), square, b), "same": c}))
    assert derive.names == {"a", "b", "c"}
    given = {"a": np.full(2, 1e30), "b": np.full(2, 1e-30), "c": np.arange(2), "d": np.ones(3)}
    found = derive({name: array.astype(np.float32) for name, array in given.items()})
    np.testing.assert_allclose(found["scaled"], [1e30, 1e30], rtol=1e-6)
    assert [array.dtype for array in found.values()] == [np.float32, np.float32]
    given["b"] = np.array([1e-30, 1])
    with pytest.raises(ProblemError) as caught:
        derive({name: array.astype(np.float32) for name, array in given.items()})
    assert caught.value.problem == FoldedOverflow("scaled", "f32", ("a", "b"))
