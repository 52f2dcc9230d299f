"""The distance of the optimizer's choice of a graph from the best there is.

    python benchmarks/extraction.py

Compares it with an exact solver, an integer program for HiGHS, on a hundred random e-graphs, on
those of the standard models, and on those of every block of the standard library and of the
models, at sizes that are drawn from what the block asks of them: the cost of both, each class paid
once, and the seconds both take. Needs scipy.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from statistics import mean
from time import perf_counter
from typing import Any, cast

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.subjects import Subject, subjects
from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE
from meganeura_dsl.ir.graph import Graph, Leaf, NotDifferentiableError, Value, continued
from meganeura_dsl.ir.ops import Add, Input, Mul, Parameter, Sum
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.transforms.autodiff import differentiate
from meganeura_dsl.transforms.egraph.extract.extract import ask
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    cheapest_trees,
    components,
)
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from meganeura_dsl.transforms.egraph.saturate.saturate_graph import saturate_graph
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step

SECONDS = 60.0
"""Seconds of the exact solver for one e-graph."""
MODELS: Mapping[tuple[str, str], Mapping[str, int]] = {
    ("digits_cnn", "fit"): {"batch": 32},
    ("resnet", "fit"): {"batch": 32},
    ("repvgg", "digits"): {"batch": 32},
    ("vit", "digits"): {"batch": 8},
    ("unet", "denoise"): {"batch": 4},
    ("whisper", "words"): {"batch": 2},
    ("gpt2", "text"): {"batch": 16},
    ("lm", "text"): {"batch": 16},
}

DRAWS = 3
"""Cases of a block: configurations and sizes."""
LARGEST = 24
"""The largest size that is drawn where the block allows smaller ones."""
TRIES = 40
SAME = 1e-9
"""The part of a gap that rounding may cause."""


def exact(problem: ExtractionProblem) -> float:
    """The least cost of all acyclic choices.

    x[n] says that node n is chosen, y[c] that class c is computed, t[c] when:
    y[root] = 1;  y[c] <= sum of x[n], n in c;  x[n] <= y[need];
    t[need] + 1 <= t[c] + size (1 - x[n]) for needs in the same strongly connected component.
    """
    nodes, classes = len(problem.needs), len(problem.classes)
    rows = _Rows(nodes + 2 * classes)
    component = components(problem)
    for number, choices in enumerate(problem.classes):
        rows.at_most({nodes + number: 1.0, **dict.fromkeys(choices, -1.0)}, 0)
        for node in choices:
            for need in problem.needs[node]:
                rows.at_most({node: 1.0, nodes + need: -1.0}, 0)
                if component[need] == component[number]:
                    earlier, later = nodes + classes + need, nodes + classes + number
                    rows.before(earlier, later, node, classes)
    lower, upper = np.zeros(rows.width), np.ones(rows.width)
    upper[nodes + classes :] = classes
    for root in problem.roots:
        lower[nodes + root] = 1
    prices = [problem.costs[node] for node in range(nodes)]
    costs = np.concatenate([prices, np.zeros(2 * classes)])
    scale = float(np.max(costs)) or 1.0
    found = cast(
        "Any",
        milp(
            costs / scale,
            integrality=np.concatenate([np.ones(nodes), np.zeros(2 * classes)]),
            bounds=Bounds(cast("Any", lower), cast("Any", upper)),
            constraints=rows.constraint(),
            options={"time_limit": SECONDS, "mip_rel_gap": 1e-9},
        ),
    )
    if found.status != 0:
        raise RuntimeError(f"no exact answer: {found.message}")
    return float(found.fun) * scale


class _Rows:
    """Linear conditions, while they are gathered."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: list[dict[int, float]] = []
        self._most: list[float] = []

    def at_most(self, factors: dict[int, float], most: float) -> None:
        self._rows.append(factors)
        self._most.append(most)

    def before(self, earlier: int, later: int, node: int, size: int) -> None:
        """One time is before another, if a node is chosen; nothing is before itself."""
        if earlier == later:
            self.at_most({node: 1.0}, 0)
        else:
            self.at_most({earlier: 1.0, later: -1.0, node: float(size)}, size - 1)

    def constraint(self) -> LinearConstraint:
        places = [number for number, row in enumerate(self._rows) for _ in row]
        columns = [column for row in self._rows for column in row]
        values = [value for row in self._rows for value in row.values()]
        matrix = csr_array((values, (places, columns)), shape=(len(self._rows), self.width))
        return LinearConstraint(cast("Any", matrix), -np.inf, cast("Any", self._most))


def random_problem(seed: int, count: int = 120) -> ExtractionProblem:
    """An e-graph of so many classes: of one to four nodes that need classes before them.

    In every other one some need any class, so that choices may be cyclic.
    """
    draw = random.Random(seed)  # noqa: S311 - no secret
    needs: list[tuple[int, ...]] = []
    classes: list[list[int]] = []
    for number in range(count):
        nodes: list[int] = []
        for place in range(draw.choice((1, 1, 2, 3, 4))):
            anywhere = seed % 2 and place and draw.random() < 0.3
            below = count if anywhere else number
            wanted = draw.randint(0, 3) if number else 0
            nodes.append(len(needs))
            near = [draw.randint(max(0, below - 12), below - 1) for _ in range(wanted)]
            needs.append(tuple(dict.fromkeys(near)))
        classes.append(nodes)
    costs = [float(draw.randint(1, 100)) for _ in needs]
    return ExtractionProblem(classes, needs, costs, (count - 1, count - 2, count - 3))


@dataclass(frozen=True)
class Comparison:
    """The costs of the least tree, of our choice and of the best one, and their seconds."""

    tree: float
    ours: float
    best: float
    seconds: float
    exact_seconds: float

    @property
    def gap(self) -> float:
        """By how much ours costs more than the best; nothing costs nothing."""
        return max(0.0, self.ours / self.best - 1) if self.best else 0.0

    @property
    def tree_gap(self) -> float:
        """By how much the cheapest tree costs more than the best graph."""
        return max(0.0, self.tree / self.best - 1) if self.best else 0.0


def compare(problem: ExtractionProblem) -> Comparison:
    """Extract from an e-graph in both ways."""
    tree = problem.cost(cheapest_trees(problem))
    start = perf_counter()
    ours = problem.cost(extract(problem))
    middle = perf_counter()
    best = exact(problem)
    return Comparison(tree, ours, best, middle - start, perf_counter() - middle)


def model_problems() -> Iterator[tuple[str, ExtractionProblem]]:
    """The e-graphs of the standard models: for inference, before differentiation and after."""
    for (name, train), sizes in MODELS.items():
        program = pipeline.load(name)
        evaluating = pipeline.elaborate_train(program, train, sizes=sizes, training=False).graph
        forward = pipeline.elaborate_train(program, train, sizes=sizes, training=True).graph
        yield f"{name}, infer", model_problem(evaluating, "infer")
        yield f"{name}, forward", model_problem(forward, "forward")
        step = training_step(optimize(forward, mode="forward").graph, TrainingSettings(Sgd()))
        yield f"{name}, train", model_problem(step, "train")


def model_problem(graph: Graph, mode: Mode) -> ExtractionProblem:
    """Returns the choices of the optimizer for a graph."""
    found = saturate_graph(graph, mode).found
    classes = dict(zip((value.id for value in graph.values), found.values, strict=True))
    roots = tuple(dict.fromkeys(classes[value.id] for value in graph.roots))
    return ask(found, roots, DEFAULT_DEVICE, apart=mode == "forward").problem


def block_cases(subject: Subject) -> Iterator[Case]:
    """Some cases of a block that it accepts; the same in every run."""
    draw = random.Random(subject.name)  # noqa: S311 - no secret
    found = 0
    for _ in range(TRIES):
        if found == DRAWS:
            return
        try:
            case = choose_case(draw.choice, subject, LARGEST)
            case.elaborate()
        except (DeadEndError, UndecidableError, ProblemError):
            continue
        found += 1
        yield case


def block_problems(case: Case) -> Iterator[ExtractionProblem]:
    """The e-graphs of a block for inference and, where it has a gradient, before and after."""
    yield model_problem(replace(case, training=False).elaborate().graph, "infer")
    forward = replace(case, training=True).elaborate().graph
    yield model_problem(forward, "forward")
    step = with_gradients(optimize(forward, mode="forward").graph)
    if step is not None:
        yield model_problem(step, "train")


def with_gradients(graph: Graph) -> Graph | None:
    """A graph, and the gradients of what it reads, as if a loss read its outputs, if it has any."""
    build, kept = continued(graph)
    wrt = {leaf.name: value for value in kept.values if (leaf := _moved(value)) is not None}
    outputs = [value for value in dict.fromkeys(kept.outputs.values()) if value.type.dtype.is_float]
    seeds = [
        build.add(Input(f"cotangent.{number}", value.type.dtype, value.type.shape))
        for number, value in enumerate(outputs)
    ]
    terms = [build.add(Mul(), value, seed) for value, seed in zip(outputs, seeds, strict=True)]
    if not wrt or not terms:
        return None
    sums = (build.add(Sum(tuple(range(term.type.rank))), term) for term in terms)
    loss = reduce(lambda total, each: build.add(Add(), total, each), sums)
    try:
        found = differentiate(build, loss, tuple(wrt.values()))
    except NotDifferentiableError:
        return None
    named = {f"gradient.{name}": each for name, each in zip(wrt, found, strict=True)}
    return build.graph({**kept.outputs, **named}, kept.updates)


def _moved(value: Value) -> Leaf | None:
    """The input or the trained parameter that a value is, if it has a gradient."""
    match value.op:
        case Input() | Parameter(kind="param") if value.type.dtype.is_float:
            return value.op
        case _:
            return None


def main() -> None:
    """Print all tables."""
    print("| e-graphs | classes | nodes | tree | mean gap | worst gap | ms | exact, ms |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, seeds in (("acyclic", range(0, 100, 2)), ("cyclic", range(1, 100, 2))):
        problems = [random_problem(seed) for seed in seeds]
        _print_row(f"{len(problems)} random, {kind}", problems)
    for name, problem in model_problems():
        _print_row(name, [problem])
    print("\n| blocks of | blocks | e-graphs | tree | mean gap | worst gap | with a gap |")
    print("|---|---|---|---|---|---|---|")
    for name in standard_model_names():
        _print_blocks(name, subjects(pipeline.load(name).module))


def _print_blocks(name: str, blocks: Iterable[Subject]) -> None:
    found: list[tuple[str, Comparison]] = []
    left_out: list[str] = []
    for block in blocks:
        problems = [problem for case in block_cases(block) for problem in block_problems(case)]
        found += [(block.name, compare(problem)) for problem in problems]
        if not problems:
            left_out.append(block.name)
    if not found:
        return
    each = [comparison for _, comparison in found]
    gaps = [comparison.gap for comparison in each]
    behind = dict.fromkeys(block for block, comparison in found if comparison.gap > SAME)
    cells = [f"{len({block for block, _ in found})}", f"{len(found)}"]
    cells += [f"{mean(comparison.tree_gap for comparison in each):.1%}"]
    cells += [f"{mean(gaps):.2%}", f"{max(gaps):.2%}", ", ".join(behind) or "-"]
    without = f" (no case found: {', '.join(left_out)})" if left_out else ""
    print(f"| {name}{without} | {' | '.join(cells)} |", flush=True)


def _print_row(name: str, problems: Sequence[ExtractionProblem]) -> None:
    found = [compare(problem) for problem in problems]
    classes = mean(len(problem.classes) for problem in problems)
    nodes = mean(len(problem.needs) for problem in problems)
    tree = mean(each.tree_gap for each in found)
    gaps = [each.gap for each in found]
    times = (mean(each.seconds for each in found), mean(each.exact_seconds for each in found))
    cells = [f"{tree:.1%}", f"{mean(gaps):.2%}", f"{max(gaps):.2%}"]
    cells += [f"{1e3 * seconds:.0f}" for seconds in times]
    print(f"| {name} | {classes:.0f} | {nodes:.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
