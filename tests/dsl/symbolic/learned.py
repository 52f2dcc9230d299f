"""Facts that the prover keeps of random ones, and its results for random sizes under them.

`learned.snap` has of some questions, by their seeds, what is kept of their facts. It has checksums
of that of all questions, and of sizes in normal form with their parts, of what is answered about
them, and of the steps all that took. The questions are quick ones. Their verdicts stand in
`verdicts.txt`; here a prover is seen that comes to them in another way.

`python -m tests.dsl.symbolic.learned` writes the file anew; read the difference before you keep it.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from random import Random

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
from tests.snapshots import Snapshot, Text

FIRST = 50_000
"""Seed of the first question."""
QUICK = (
    0, 2, 4, 8, 10, 12, 13, 15, 18, 22, 24, 25, 26, 28, 29, 31, 32, 34, 37, 38, 40, 41, 43, 44,
    45, 46, 47, 49, 55, 57, 61, 63, 67, 70, 71, 73, 74, 75, 78, 82, 84, 85, 86, 88, 91, 92, 94,
    95, 98, 99, 100, 102, 104, 106, 109, 110, 112, 113, 115, 116, 117, 118, 120, 121, 124, 127,
    131, 134, 135, 136, 137, 139, 140, 141, 147, 149, 152, 153, 154, 155, 156, 157, 160, 161, 162,
    163, 165, 166, 167, 170, 177, 178, 180, 184, 187, 188, 189, 190, 192, 195, 196, 199, 200, 202,
    205, 206, 207, 213, 216, 218, 219, 220, 223, 225, 226, 231, 232, 235, 237, 240, 241, 242, 244,
    246, 250, 253, 256, 257, 259, 264, 265, 266, 267, 268, 273, 274, 277, 278, 280, 283, 284, 285,
    287, 288, 290, 291, 292, 293, 295, 297, 299, 303, 305, 310, 311, 313, 314, 316, 319, 320, 322,
    323, 324, 325, 326, 328, 329, 333, 335, 336, 338, 339, 344, 346, 347, 349, 351, 354, 356, 357,
    358, 359, 361, 365, 368, 370, 373, 377, 378, 379, 381, 382, 383, 384, 386, 387, 391, 392, 394,
    395, 399, 402, 403, 404, 406, 407, 408, 412, 414, 415, 419, 420, 421, 422, 432, 433, 435, 436,
    437, 439, 442, 445, 448, 449,
)  # fmt: skip
"""Questions of 450 that take a moment."""
SIZES = 5
"""Random sizes of each question."""


SHOWN = tuple(f"kept: {seed}" for seed in (0, 10, 55, 82, 124, 156, 190, 250, 433, 445))
"""Questions of which is shown what is kept of their facts."""


def texts() -> Iterator[Text]:
    """Of each question what is kept of its facts, and what is answered about random sizes."""
    for number in QUICK:
        yield Text("kept", str(number), partial(_said, number, "kept"))
        yield Text("answers", str(number), partial(_said, number, "answers"))


def _said(number: int, of: str) -> str:
    """The text about one question in a group."""
    return _both(number)[of]


@lru_cache(maxsize=1)
def _both(number: int) -> dict[str, str]:
    seed = FIRST + number
    asked = question(seed)
    (known, kept), steps = measured(lambda: _learned(asked))
    said, more = measured(lambda: list(_answers(seed, known, asked)))
    return {"kept": kept, "answers": "\n".join((*said, f"{steps} {more}"))}


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
    return "\n".join(parts)


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


SNAPSHOT = Snapshot("tests.dsl.symbolic.learned", texts, SHOWN)

if __name__ == "__main__":
    SNAPSHOT.main()
