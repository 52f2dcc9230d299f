"""A session with packed weights is one with the numbers that they stand for."""

from collections.abc import Mapping
from math import prod

import numpy as np
import pytest

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.fused import Dequantize
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import DType
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.pack_parameters import pack_parameters
from meganeura_runtime.backends.base import persistent_first
from meganeura_runtime.backends.inference_session import open_inference
from meganeura_runtime.backends.packed_session import open_packed
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.backends.webgpu.analysis.materialize import materialized_values
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, WITH_MATRICES, Style, Target
from tests.effort import effort
from tests.narrow import NARROW
from tests.runtime.backends.test_inference import values

CASES = [
    ("lm_tiny", 4, "cpu"),
    *effort([], [("lm_tiny", 4, "xla:cpu")]),
    *(
        pytest.param(name, bits, "wgpu", marks=pytest.mark.adapter)
        for name, bits in (("lm_tiny", 8), ("resnet18", 8), *effort([], [("whisper_tiny", 4)]))
    ),
]
TARGETS = [
    Target(PORTABLE),
    Target(PORTABLE, Style.SOFTWARE_VULKAN),
    Target(WITH_MATRICES),
]


def levels_of(graph: Graph, bits: int) -> dict[str, Quantization]:
    """Levels of all matrices and kernels of a graph."""
    shapes = {
        value.op.name: concrete_shape(value.type.shape)
        for value in graph.values
        if isinstance(value.op, Parameter) and value.op.dtype is DType.F32 and value.type.rank > 1
    }
    return {
        name: Quantization(bits, 4 if prod(shape[1:]) % 4 == 0 else 0)
        for name, shape in shapes.items()
    }


def on_levels(given: Mapping[str, Array], levels: Mapping[str, Quantization]) -> dict[str, Array]:
    return {
        name: levels[name].dequantize(*levels[name].quantize(each), each.shape)
        if name in levels
        else each
        for name, each in given.items()
    }


@pytest.mark.parametrize(("name", "bits", "device"), CASES)
def test_it_gives_what_the_levels_give(name: str, bits: int, device: str) -> None:
    graph = NARROW[name].elaborate().graph
    levels = levels_of(graph, bits)
    given = on_levels(values(graph, kept=True), levels)
    open_session, fed = choose_device(device).open, values(graph, kept=False)
    with open_inference(graph, open_session, RewriteOptions()) as plain:
        plain.load(given)
        expected = plain.step(fed)["output"]
    with open_inference(graph, open_packed(open_session, levels), RewriteOptions()) as packed:
        packed.load(given)
        found = packed.step(fed)["output"]
        for each, array in packed.persistent().items():
            np.testing.assert_array_equal(array, given[each], each)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_what_is_written_is_rounded_to_levels() -> None:
    graph = NARROW["lm_tiny"].elaborate().graph
    levels, given = levels_of(graph, 4), values(graph, kept=True)
    session = open_packed(ReferenceSession, levels)(graph)
    session.load(given)
    for name, array in on_levels(given, levels).items():
        np.testing.assert_array_equal(session.read(name), array)


def test_it_shares_what_it_keeps() -> None:
    graph = NARROW["lm_tiny"].elaborate().graph
    levels = levels_of(graph, 8)
    first, second = (
        open_packed(ReferenceSession, levels)(persistent_first(graph)) for _ in range(2)
    )
    second.share(first)
    first.load(values(graph, kept=True))
    fed = values(graph, kept=False)
    np.testing.assert_array_equal(second.step(fed)["output"], first.step(fed)["output"])


def test_a_parameter_that_is_updated_is_not_packed() -> None:
    graph = NARROW["digits_cnn"].elaborate().graph
    name = next(iter(levels_of(graph, 8)))
    leaf = next(v for v in graph.values if isinstance(v.op, Parameter) and v.op.name == name)
    updated = Graph(graph.values, graph.outputs, {name: leaf})
    packed = pack_parameters(updated, {name: Quantization(8)})
    assert not any(isinstance(value.op, Dequantize) for value in packed.values)


@pytest.mark.parametrize("target", TARGETS, ids=["gpu", "software", "matrix-units"])
def test_products_and_lookups_read_words(target: Target) -> None:
    graph = NARROW["lm_tiny"].elaborate().graph
    packed = pack_parameters(graph, levels_of(graph, 4))
    stored = materialized_values(packed, target)
    unpacked = [value for value in packed.values if isinstance(value.op, Dequantize)]
    assert unpacked
    assert not stored.intersection(value.id for value in unpacked)
