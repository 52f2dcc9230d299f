"""The numbers that a check of gradients feeds: within what they index, and positive where due."""

from collections.abc import Callable
from random import Random
from typing import Literal

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs, indices_of
from meganeura_dsl.gradcheck.subjects import Subject, block_subject
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.types import DType, TensorType


def subject(text: str) -> Subject:
    sink = Sink()
    module = Linker(lambda _: None, sink).link(Source("net.mgn", text))
    assert not sink.has_errors, sink.reports
    return block_subject(module, module.blocks["Net"])


@pytest.mark.parametrize(
    ("where", "body", "allowed"),
    [
        ("0 <= p, p < s", "x[:, p]", [0, 1, 2, 3, 4, 5]),
        ("0 <= p, p + 2 <= s", "sum(x[:, p:p + 2], 1)", [0, 1, 2, 3, 4]),
        ("1 <= p, p + 2 <= s", "sum(x[:, p:p + 2], 1) + x[:, p - 1]", [1, 2, 3, 4]),
        ("1 <= p, p < s, 2 * p <= s", "x[:, p] + x[:, 2 * p - 1]", [1, 2, 3]),
    ],
)
def test_a_position_is_any_for_which_all_parts_are_within(
    where: str, body: str, allowed: list[int]
) -> None:
    checked = subject(
        f"block Net()(x: [n, s], p: i32[]) -> [n]\n    where {where}:\n  return {body}\n"
    )
    inputs = (("x", TensorType(DType.F32, (2, 6))), ("p", TensorType(DType.I32, ())))
    graph = Case(checked, {}, {}, inputs, training=False, seed=0).elaborate().graph
    assert indices_of(graph).allowed == {"p": allowed}
    drawn = {int(RandomInputs(seed).feeds(graph)["p"]) for seed in range(60)}
    assert drawn == {*allowed}


@pytest.mark.parametrize("kind", ["state", "cache"])
@pytest.mark.parametrize("distribution", InputDistribution)
def test_states_and_caches_are_positive(
    distribution: InputDistribution, kind: Literal["state", "cache"]
) -> None:
    """A variance may be among them."""
    build = Builder()
    leaf = build.add(Parameter("variance", DType.F32, (200,), kind))
    fed = RandomInputs(1, distribution).feeds(build.graph({"y": leaf}))["variance"]
    assert np.asarray(fed).min() >= 0.5


def test_facts_of_one_mode_are_kept_in_it() -> None:
    checked = subject(
        "block Net()(x: [n, c]) -> [n, c]\n    where n >= 3 or not training:\n  return x\n"
    )
    cases = [choose_case(Random(seed).choice, checked) for seed in range(40)]
    assert {case.training for case in cases} == {True, False}
    assert all(case.sizes["n"] >= 3 for case in cases if case.training)
    assert {case.sizes["n"] for case in cases if not case.training} == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("config", "where", "holds"),
    [
        ("a: real, b: real = 2.0", "a > 1, a < b, 3 <= b", lambda a, b, _: 1 < a < b >= 3),
        ("a: real = 1e-5, b: real", "0.2 < b, b < 0.3", lambda a, b, _: a * 1e3 < 0.2 < b < 0.3),
        ("a: real, b: real", "a * d >= 8, b <= 0", lambda a, b, d: a * d >= 8 and b <= 0),
    ],
)
def test_real_numbers_are_those_of_which_the_facts_hold(
    config: str, where: str, holds: Callable[[StaticValue, StaticValue, int], bool]
) -> None:
    checked = subject(f"block Net({config})(x: [n, d]) -> [n, d]\n    where {where}:\n  return x\n")
    for seed in range(20):
        case = choose_case(Random(seed).choice, checked)
        assert holds(case.config["a"], case.config["b"], case.sizes["d"]), case
