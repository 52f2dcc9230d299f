"""Every op has the gradient and the exported form that it had."""

from tests.dsl.ir.ops.forms import FILE, described


def test_every_op_has_the_forms_it_had() -> None:
    assert list(described()) == FILE.read_text().splitlines()
