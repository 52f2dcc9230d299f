"""`example_of(v)` and `offsets(v)`: which rows of a ragged axis are of which example."""

from collections.abc import Callable

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.builtins.builtin_call import BuiltinCall
from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.syntax import ast


def of_ragged(function: str) -> Callable[[BuiltinCall], ElabValue]:
    """The input by which the data says how the rows of a ragged size are divided."""

    def given(call: BuiltinCall) -> ElabValue:
        call.size(0, "size")
        node = call.node.arguments[0].value
        derived = call.frame.state.train.derived
        is_of_train = isinstance(call.frame.declaration, ast.Train)
        value = derived.get(f"{function}({node.span.text})")
        if not is_of_train or not isinstance(node, ast.Name) or value is None:
            reason = "is of a size that a `train` has once for each example"
            declared = f"x: [each {node.span.text} of batch, 7]"
            if not is_of_train:
                reason = "stands in the `train` that declares the size: a block takes its result"
                declared = f"net({function}({node.span.text}))"
            raise call.frame.refuse(call.span, f"`{function}`", reason, Help("as in", declared))
        return value

    return given
