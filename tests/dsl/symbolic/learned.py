"""What the prover keeps of random facts, and what it does with random sizes under them.

`learned.sums` has of each question, by its seed, what is kept of its facts, and a checksum: of
sizes in normal form with their parts, of what is answered about them, and of the steps all that
took. The questions are quick ones. Their verdicts stand in `verdicts.txt`; here a prover is seen
that comes to them in another way.

`python -m tests.dsl.symbolic.learned` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from zlib import crc32

from meganeura_dsl.limits.work_budget import measured
from meganeura_dsl.symbolic.assumptions import Compare, Facts
from meganeura_dsl.symbolic.conditions import show_condition
from meganeura_dsl.symbolic.polynomial import (
    Monomial,
    as_size,
    common_monomial,
    divide,
    floors_of,
    is_plainly_nonnegative,
    leading_monomial,
    length_of,
    terms_of,
)
from meganeura_dsl.symbolic.prover.missing_facts import suggestions
from meganeura_dsl.symbolic.prover.residue_classes import is_zero_everywhere, periods_of
from meganeura_dsl.symbolic.prover.solver_state import SolverState
from meganeura_dsl.symbolic.size import Dim, Size, dim, show
from tests.dsl.symbolic.expressions import size_of
from tests.dsl.symbolic.questions import NAMES, Question, condition_of, question, tree

FILE = Path(__file__).with_suffix(".sums")
SIZES = 5
"""Random sizes of each question."""


def described() -> Iterator[str]:
    """All lines of the file."""
    for line in FILE.read_text().splitlines():
        seed = int(line.partition(" ")[0])
        asked = question(seed)
        (known, kept), steps = measured(lambda asked=asked: _learned(asked))
        said, more = measured(lambda s=seed, k=known, a=asked: list(_answers(s, k, a)))
        total = crc32("\n".join((*said, f"{steps} {more}")).encode())
        yield f"{seed} {total:08x} {kept}".rstrip()


def _learned(asked: Question) -> tuple[Facts, str]:
    known = asked.known()
    return known, _kept(known._known)  # pyright: ignore[reportPrivateUsage]


def _kept(state: SolverState) -> str:
    if state.is_contradictory:
        return "contradictory"
    parts = [
        *(f"{name} >= {least}" for name, least in state.least.items()),
        *(f"{name} := {show(value)}" for name, value in state.values.items()),
        *(f"{name} means {show(meaning)}" for name, meaning in state.quotients.items()),
        *(f"{name} is {value}" for name, value in state.flags.items()),
        *map(show_condition, state.unsolved_part()),
        *(f"0 <= {show(size)}" for size in state.raised_facts),
    ]
    return "; ".join(parts)


def _answers(seed: int, known: Facts, asked: Question) -> Iterator[str]:
    random = Random(seed)
    domain = known.domain(NAMES)
    chosen: dict[str, int] = {}
    for name in domain.unknowns:
        found = domain.choices(name, chosen, random.randint(1, 9))
        yield f"{name} {found}"
        if not found:
            break
        chosen[name] = random.choice(found)
    else:
        yield str(sorted(domain.complete(chosen).items()))
    claim = condition_of(asked.claim)
    yield f"{show_condition(claim)}: {known.truth(claim)}"
    offered = suggestions(claim, known._known)  # pyright: ignore[reportPrivateUsage]
    yield from map(show_condition, offered)
    sizes = [size for _ in range(SIZES) if (size := _attempt(lambda: size_of(tree(random, 3))))]
    for left, right in zip(sizes, [*sizes[1:], 0], strict=True):
        assert isinstance(left, int | Dim)
        assert isinstance(right, int | Dim)
        yield f"{show(left)} with {show(right)}"
        yield from _of_one(left, known)
        yield from _of_two(left, right, known)


def _of_one(size: Size, known: Facts) -> Iterator[str]:
    yield str(_attempt(lambda: show(known.normalize(size))))
    yield f"{known.least_value(size)} {length_of(size)} {is_plainly_nonnegative(size)}"
    if isinstance(size, Dim):
        yield f"{periods_of(size)} {is_zero_everywhere(size)} {_shown(leading_monomial(size))}"
        yield _shown(common_monomial(terms_of(size)))
        for floor in floors_of(size):
            yield " and ".join(map(show, size.split(floor)))


def _of_two(left: Size, right: Size, known: Facts) -> Iterator[str]:
    yield from (show(each) for each in (left + right, left - right, left * right))
    for divide_by in (lambda: left // right, lambda: left % right):
        yield str(_attempt(lambda d=divide_by: show(d())))
    for operator in ("==", "!=", ">="):
        yield str(known.truth(Compare(operator, left, right)))
    if isinstance(right, Dim) and right.terms[leading_monomial(right)] > 0:
        yield " and ".join(map(show, divide(left, right)))
    for pattern in (dim("new") + left, 2 * dim("new"), left * dim("new")):
        solved = known.solve_for(pattern, "new", right)
        yield "unsolved" if solved is None else show(solved)


def _shown(monomial: Monomial) -> str:
    return show(as_size(*monomial))


def _attempt(compute: Callable[[], object]) -> object:
    try:
        return compute()
    except ZeroDivisionError:
        return None


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
