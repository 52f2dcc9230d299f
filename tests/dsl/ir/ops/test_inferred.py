"""Type rules say of what is slightly wrong what stands in `inferred.sums`."""

from tests.dsl.ir.ops.inferred import FILE, described


def test_type_rules_say_what_they_said() -> None:
    assert list(described()) == FILE.read_text().splitlines()
