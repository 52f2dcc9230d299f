"""What is chosen in random e-graphs, in a line each.

`extractions.txt` has of each problem, by its seed, the cost of what is chosen, how many classes and
nodes were left to search, and checksums of the choice, of the cheapest trees and of what is always
needed. A search that finds less, or another choice of the same cost, is seen there; that choices
are acyclic and nearly the best is judged in `test_extract`.

`python -m tests.dsl.transforms.egraph.extractions` writes the file anew; read the difference before
you keep it.
"""

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

from benchmarks.extraction import random_problem
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    always_needed,
    cheapest_trees,
    components,
)
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract
from meganeura_dsl.transforms.egraph.extract.presolve import condense, reduced

FILE = Path(__file__).with_suffix(".txt")
SIZES = (12, 30, 40, 50, 80)
"""Classes of a problem, by turns."""
SEEDS = range(100, 150)


def described() -> Iterator[str]:
    """All lines of the file."""
    for seed in SEEDS:
        problem = random_problem(seed, SIZES[seed % len(SIZES)])
        choice = extract(problem)
        small = condense(problem, components(problem))
        smaller = reduced(small.problem, small.component)
        nodes = sum(map(len, smaller.classes))
        trees = [cheapest_trees(problem, split=split) for split in (False, True)]
        sums = " ".join(map(_sum, (choice, *trees, sorted(always_needed(problem)))))
        left = f"{len(smaller.classes)} classes, {nodes} nodes, {len(smaller.roots)} roots"
        yield f"{seed}: {problem.cost(choice):g}; {left}; {sums}"


def _sum(numbers: object) -> str:
    return f"{crc32(str(numbers).encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
