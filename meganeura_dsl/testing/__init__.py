"""Tools for tests of programs and compilers: Hypothesis strategies, and gradient checks.

@given(case=cases(block("net.mgn", "Head")))
def test_the_gradient_of_my_head(case):
    assert_gradients(case.elaborate().graph, seed=case.seed)
"""

from hypothesis import strategies as st

from meganeura_dsl import pipeline
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients, check_graph
from meganeura_dsl.gradcheck.cases import Case, cases
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.gradcheck.random_sizes import sizes
from meganeura_dsl.gradcheck.subjects import Subject, subjects
from meganeura_dsl.gradcheck.verdict_text import describe, describe_fault
from meganeura_dsl.gradcheck.verdicts import Failed, Skipped
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.testing.random_graphs import GraphExample, graphs

__all__ = [
    "Case",
    "GraphExample",
    "InputDistribution",
    "assert_gradients",
    "assert_gradients_of",
    "block",
    "cases",
    "graphs",
    "parameters",
    "sizes",
    "tensors",
]

SEEDS = st.integers(0, 2**16 - 1)


def block(target: str, name: str) -> Subject:
    """A block or model of a program, to draw `cases` of. Raises `ProblemError`, `KeyError`."""
    found = subjects(pipeline.load(target).module, name)
    if not found:
        raise KeyError(name)
    return found[0]


def tensors(
    of: TensorType, distribution: InputDistribution = InputDistribution.SMOOTH
) -> st.SearchStrategy[Array]:
    """Numbers for a tensor of known sizes: away from kinks, positive, or deliberately on kinks."""
    return SEEDS.map(lambda seed: RandomInputs(seed, distribution).tensor("", of))


def parameters(
    elaboration: Elaboration, distribution: InputDistribution = InputDistribution.SMOOTH
) -> st.SearchStrategy[dict[str, Array]]:
    """Numbers for all parameters and states of what was elaborated."""
    leaves = {
        value.op.name for value in elaboration.graph.values if isinstance(value.op, Parameter)
    }
    return SEEDS.map(
        lambda seed: {
            name: numbers
            for name, numbers in RandomInputs(seed, distribution).feeds(elaboration.graph).items()
            if name in leaves
        }
    )


def assert_gradients(graph: Graph, seed: int = 0) -> None:
    """Reverse mode agrees with finite differences, for numbers that the seed gives."""
    fault = check_graph(graph, SearchBudget(seed=seed))
    assert fault is None, describe_fault(fault)


def assert_gradients_of(target: str, name: str, examples: int = 100, seed: int = 0) -> None:
    """The gradients of a block or model are right in all cases tried, of which it has some."""
    verdict = check_gradients(block(target, name), SearchBudget(examples, seed))
    assert not isinstance(verdict, Failed | Skipped), describe(verdict)
