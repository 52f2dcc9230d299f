"""In random e-graphs is chosen what stands in `extractions.txt`."""

from tests.dsl.transforms.egraph.extractions import FILE, described


def test_what_is_chosen_is_what_was() -> None:
    assert list(described()) == FILE.read_text().splitlines()
