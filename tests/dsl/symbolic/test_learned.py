"""The prover keeps of facts, and does with sizes, what stands in `learned.snap`."""

from functools import partial
from random import Random

from meganeura_dsl.limits.work_budget import measured
from meganeura_dsl.symbolic import polynomial
from meganeura_dsl.symbolic.polynomial import floors_of
from meganeura_dsl.symbolic.prover import nonnegativity
from meganeura_dsl.symbolic.size import Dim, dim, show
from tests.dsl.symbolic.expressions import size_of
from tests.dsl.symbolic.learned import SNAPSHOT
from tests.dsl.symbolic.questions import tree


def test_the_prover_learns_what_it_learned() -> None:
    SNAPSHOT.check()


def test_equal_sizes_take_the_same_steps_whichever_of_them_came_first() -> None:
    """Results for a size are reused for one whose terms stand in another order."""
    random = Random(0)
    sizes = [size_of(tree(random, 3)) for _ in range(400)]
    for size in sizes:
        if not isinstance(size, Dim):
            continue
        turned = Dim(dict(sorted(size.terms.items(), key=lambda _: random.random())))
        assert turned == size
        assert len({measured(partial(_floor_and_sign, each)) for each in (size, turned)}) == 1


def _floor_and_sign(size: Dim) -> tuple[str, tuple[str, ...], bool]:
    """Both computed anew: the floor as it is written, its floors in their order, and the sign."""
    for computed in (polynomial._measured_floor, nonnegativity._measured):  # pyright: ignore[reportPrivateUsage]
        computed.cache_clear()
    floor = size // (dim("h") + 2)
    parts = tuple(map(str, floors_of(floor)))
    return show(floor), parts, nonnegativity.is_nonnegative(size, (size + 3 * dim("w") - 1,))
