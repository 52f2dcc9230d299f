"""A mixture of experts computes what is routed, drops nothing, and asks no other expert."""

from collections.abc import Iterator
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import MatMul
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.registry import choose_device

WIDTH, FFN = 6, 5
TEXT = """\
from mixtral import SparseMoe

block Net()(x: [1, s, 6]) -> [1, s, 6], [{experts}], [{experts}]:
  y, load, chance = x |> moe: SparseMoe({experts}, 5, {top}, {tile})
  return y, load, chance

model net = Net()
"""


@cache
def layer(tokens: int, experts: int, top: int = 2, tile: int = 64) -> Elaboration:
    sink = Sink()
    text = TEXT.format(experts=experts, top=top, tile=tile)
    module = Linker(loader_beside(Path("net.mgn")), sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return elaborate_model(Program(module), sizes={"s": tokens})


def values(elaboration: Elaboration) -> dict[str, Array]:
    generator = np.random.default_rng(0)
    return {
        info.name: generator.normal(size=concrete_shape(info.type.shape))
        for info in elaboration.parameters
    }


def products(elaboration: Elaboration) -> Iterator[tuple[int, ...]]:
    """Of each matrix product, the number of rows, of columns and of terms."""
    for value in optimize(elaboration.graph, mode="infer").graph.values:
        if isinstance(value.op, MatMul):
            *rows, columns = concrete_shape(value.type.shape)
            yield int(np.prod(rows)), columns, concrete_shape(value.operands[0].type.shape)[-1]


def dense(x: Array, kept: dict[str, Array], top: int) -> Array:
    """Every expert for every row, and only the best of them counted."""
    scores = np.exp(x @ kept["moe.gate.weight"].T)
    scores /= scores.sum(1, keepdims=True)
    share = np.where(scores >= np.sort(scores, 1)[:, -top, None], scores, 0)
    share /= share.sum(1, keepdims=True)
    hidden = np.einsum("rd,efd->erf", x, kept["moe.experts.gate_up_proj"])
    gate, up = hidden[..., :FFN], hidden[..., FFN:]
    hidden = gate / (1 + np.exp(-gate)) * up
    return np.einsum("erf,edf,re->rd", hidden, kept["moe.experts.down_proj"], share)


SIZES = [(1, 8, 2, 64), (7, 3, 2, 2), (300, 8, 2, 64), (64, 16, 4, 8), (5, 4, 1, 1)]


@pytest.mark.parametrize(("tokens", "experts", "top", "tile"), SIZES)
def test_the_products_are_of_routed_tiles(tokens: int, experts: int, top: int, tile: int) -> None:
    routed = tokens * top
    tall = ceil(routed / (experts * ceil(routed / (experts * tile))))
    rows = (routed + experts * (tall - 1)) // tall * tall
    assert sorted(products(layer(tokens, experts, top, tile))) == sorted(
        [(tokens, experts, WIDTH), (rows, 2 * FFN, WIDTH), (rows, WIDTH, FFN)]
    )
    assert tall <= tile
    assert routed <= rows < 2 * routed
    if tall == 1:
        assert rows == routed


@pytest.mark.parametrize(("tokens", "experts", "top", "tile"), SIZES)
def test_no_token_is_dropped(tokens: int, experts: int, top: int, tile: int) -> None:
    elaboration = layer(tokens, experts, top, tile)
    kept = values(elaboration)
    for bias in (0, 40):  # with the second, all tokens go to the same experts
        x = np.random.default_rng(1).normal(size=(tokens, WIDTH))
        x[:, 0] += bias
        found = Interpreter(elaboration.graph, Precision.DOUBLE).run({**kept, "x": x[None]}).outputs
        np.testing.assert_allclose(found["output0"][0], dense(x, kept, top), rtol=1e-10, atol=1e-12)
        assert found["output1"].sum() == pytest.approx(top)
        assert found["output2"].sum() == pytest.approx(1)


@pytest.mark.parametrize("device", ["cpu", pytest.param("wgpu", marks=pytest.mark.adapter)])
def test_an_expert_that_nobody_goes_to_is_not_asked(device: str) -> None:
    elaboration = layer(1, 8)
    kept = values(elaboration)
    x = np.random.default_rng(1).normal(size=(1, 1, WIDTH))
    wanted = dense(x[0], kept, 2)
    best = np.argsort(x[0] @ kept["moe.gate.weight"].T)[0, -2:]
    for name in ("gate_up_proj", "down_proj"):
        kept[f"moe.experts.{name}"][[each for each in range(8) if each not in best]] = np.nan
    with choose_device(device).open(elaboration.graph) as session:
        session.load({name: array.astype(np.float32) for name, array in kept.items()})
        found = session.step({"x": x.astype(np.float32)})["output0"]
    np.testing.assert_allclose(found[0], wanted, rtol=1e-4, atol=1e-5)
