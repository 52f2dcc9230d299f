"""Type rules say of what is slightly wrong what stands in `inferred.snap`."""

from tests.dsl.ir.ops.inferred import SNAPSHOT


def test_type_rules_say_what_they_said() -> None:
    SNAPSHOT.check()
