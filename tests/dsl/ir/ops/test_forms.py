"""Every op has the gradient and the exported form that it had."""

from tests.dsl.ir.ops.forms import SNAPSHOT


def test_every_op_has_the_forms_it_had() -> None:
    SNAPSHOT.check()
