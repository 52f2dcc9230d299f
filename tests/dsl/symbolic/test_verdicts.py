"""The prover says of random questions what stands in `verdicts.txt`."""

from tests.dsl.symbolic.verdicts import FILE, described


def test_the_prover_says_what_it_said() -> None:
    assert "\n".join(described()) + "\n" == FILE.read_text()
