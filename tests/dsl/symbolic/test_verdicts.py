"""The prover says of random questions what stands in `verdicts.txt`."""

from tests.dsl.symbolic.verdicts import FILE, described
from tests.effort import effort


def test_the_prover_says_what_it_said() -> None:
    written = FILE.read_text().splitlines()[:: effort(3, 1)]
    assert list(described(written)) == written
