"""Random blocks that take gradients: each is the derivative of what it is taken of.

`scripts/random_programs.py` goes on where this ends: a tenth of its programs have such a block.
"""

from random import Random

from tests.effort import effort
from tests.folded import each_of
from tests.properties.gradient_programs import gradient_program
from tests.properties.soundness import Outcome, examine


@each_of("seed", range(effort(5, 60)))
def test_slopes(seed: int) -> None:
    tally = examine(gradient_program(Random(seed)), Random(seed))
    assert tally.outcome is Outcome.ACCEPTED
    assert tally.slopes
