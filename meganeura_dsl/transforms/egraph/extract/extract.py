"""Extraction: which node computes each class, and in inference which classes only once, at load."""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.ir.cost_model import DeviceModel
from meganeura_dsl.ir.graph import Leaf
from meganeura_dsl.ir.ops import Broadcast, Constant, Iota
from meganeura_dsl.transforms.egraph.cost.kernel_cost_model import OpCosts
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import (
    EGraphSnapshot,
    Node,
    applications,
)
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    cheapest_trees,
)
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract


@dataclass(frozen=True)
class Extraction:
    """A node for each class: for every run, and for the run that loads.

    `order` holds the classes of every run, each after what it needs; those in `stored` have no
    node there, as they are read from memory.
    """

    run: Mapping[int, int]
    load: Mapping[int, int]
    order: tuple[int, ...]
    stored: tuple[int, ...]


@dataclass(frozen=True)
class ExtractionQuery:
    """The nodes to choose from, those that stand for stored values, and how these are loaded."""

    problem: ExtractionProblem
    stored: frozenset[int]
    load: Mapping[int, int]


def ask(
    found: EGraphSnapshot, roots: tuple[int, ...], device: DeviceModel, *, apart: bool
) -> ExtractionQuery:
    """Builds the query; values of constants alone are free if they are small to read.

    An application of an op with several results is a separate class, beyond those of `found`,
    with one node. Its results need that class alone, so that it is paid for once. With `apart` each
    op counts as a kernel.
    """
    applied = applications(found.nodes)
    costs = OpCosts(found, [first for first, *_ in applied], roots, device, apart=apart)
    needs = [tuple(dict.fromkeys(node.operands)) for node in found.nodes]
    classes = list(found.classes)
    for results in applied:
        needs.append(needs[results[0]])
        for result in results:
            needs[result] = (len(classes),)
        classes.append((len(needs) - 1,))
    known = len(needs)
    load: dict[int, int] = {}
    if found.constant:
        # A node that needs what is not constant has no tree, as that has no nodes.
        constant = [
            nodes if number in found.constant or number >= len(found.classes) else ()
            for number, nodes in enumerate(classes)
        ]
        trees = cheapest_trees(ExtractionProblem(constant, needs, costs, ()))
        load = {number: node for number, node in enumerate(trees) if node >= 0}
    for number in sorted(found.constant):
        kept = tuple(node for node in classes[number] if _runs(found, number, found.nodes[node]))
        if not kept:
            kept = (len(needs),)
            needs.append(())
        classes[number] = kept
    stored = frozenset(range(known, len(needs)))
    return ExtractionQuery(ExtractionProblem(classes, needs, costs, roots), stored, load)


def extract_graph(
    found: EGraphSnapshot, roots: tuple[int, ...], device: DeviceModel, *, apart: bool
) -> Extraction:
    """The cheapest plan."""
    question = ask(found, roots, device, apart=apart)
    choice = extract(question.problem)
    known = len(found.classes)
    order = tuple([number for number in question.problem.reached(choice) if number < known])
    stored = tuple(number for number in order if choice[number] in question.stored)
    return Extraction(dict(enumerate(choice[:known])), question.load, order, stored)


def _runs(found: EGraphSnapshot, number: int, node: Node) -> bool:
    """True if a node of a constant class is better read through than stored: it moves nothing.

    What is spread to the shape that it has is itself, from which nothing is computed.
    """
    if isinstance(node.op, Broadcast):
        return number not in node.operands and found.constant.issuperset(node.operands)
    return isinstance(node.op, Leaf | Constant | Iota)
