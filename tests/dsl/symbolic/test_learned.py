"""The prover keeps of facts, and does with sizes, what stands in `learned.sums`."""

from tests.dsl.symbolic.learned import FILE, described


def test_the_prover_learns_what_it_learned() -> None:
    assert "\n".join(described()) + "\n" == FILE.read_text()
