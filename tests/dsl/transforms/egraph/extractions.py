"""Choices in random e-graphs, in a line each.

`extractions.txt` has of each problem, by its seed, the cost of what is chosen, how many classes and
nodes were left to search, and checksums of the choice, of the cheapest trees and of what is always
needed. A search that finds less, or another choice of the same cost, is seen there; that choices
are acyclic and nearly the best is judged in `test_extract`.

`python -m tests.dsl.transforms.egraph.extractions` writes the file anew; read the difference before
you keep it.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from benchmarks.extraction import random_problem
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    always_needed,
    cheapest_trees,
    components,
)
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract
from meganeura_dsl.transforms.egraph.extract.presolve import condense, reduced

FILE = Path(__file__).with_suffix(".txt")
SIZES = (12, 30, 40, 50, 80)
"""Classes of a problem, by turns."""
SEEDS = (*range(100, 150), 1106, 1109, 1155)
SHARED = range(60)
"""Problems in which more is shared."""


def shared_problem(seed: int, count: int = 60) -> ExtractionProblem:
    """Classes whose nodes are dear or cheap, and need a few of the eight classes before them.

    In every third problem some need one of the next four, so that choices may be cyclic.
    """
    draw = random.Random(seed)
    needs: list[tuple[int, ...]] = []
    classes: list[list[int]] = []
    costs: list[float] = []
    for number in range(count):
        nodes: list[int] = []
        for place in range(draw.choice((1, 2, 2, 3)) if number > 3 else 1):
            nodes.append(len(needs))
            ahead = min(count, number + 4) if place and seed % 3 == 0 else number
            near = range(max(0, number - 8), ahead)
            needs.append(
                tuple(dict.fromkeys(draw.choices(near, k=draw.randint(1, 3)))) if number else ()
            )
            costs.append(float(draw.choice((0, 1, 2, 5, 20, 20, 60))))
        classes.append(nodes)
    return ExtractionProblem(classes, needs, costs, tuple(range(count - 6, count)))


def described() -> Iterator[str]:
    """All lines of the file."""
    for seed in SEEDS:
        yield _line(f"{seed}", random_problem(seed, SIZES[seed % len(SIZES)]))
    for seed in SHARED:
        yield _line(f"shared {seed}", shared_problem(seed))


def _line(name: str, problem: ExtractionProblem) -> str:
    choice = extract(problem)
    small = condense(problem, components(problem))
    smaller = reduced(small.problem, small.component)
    nodes = sum(map(len, smaller.classes))
    trees = [cheapest_trees(problem, split=split) for split in (False, True)]
    sums = " ".join(map(_sum, (choice, *trees, sorted(always_needed(problem)))))
    left = f"{len(smaller.classes)} classes, {nodes} nodes, {len(smaller.roots)} roots"
    return f"{name}: {problem.cost(choice):g}; {left}; {sums}"


def _sum(numbers: object) -> str:
    return f"{crc32(str(numbers).encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
