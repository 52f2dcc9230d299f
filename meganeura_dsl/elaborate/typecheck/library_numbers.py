"""Whole numbers of the library's layers, checked where the layers are applied.

Their parameters have no kinds: a window, a width or a padding is what its uses make it. Without
this, what is no whole number would be refused inside of the library.
"""

from collections.abc import Iterator

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.name_problems import NoWholeNumber
from meganeura_dsl.elaborate.problems.same_padding import same_padding
from meganeura_dsl.elaborate.problems.window_lists import as_function
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import ElabValue, Opaque, OpenText, describe, is_tensor
from meganeura_dsl.syntax import ast


def is_whole(parameter: ast.Parameter) -> bool:
    """True if a parameter of the library takes a whole number."""
    return parameter.kind is None and isinstance(
        parameter.default, ast.Integer | ast.Name | ast.Unary | None
    )


def require_whole_numbers(
    call: ast.Call, block: ast.Block, arguments: Arguments, frame: Frame
) -> None:
    """Raise `ProblemError` for a fraction, a text or a list where a layer takes a whole number."""
    for parameter, node, value in _given(call, block, arguments):
        if not is_whole(parameter) or not _is_no_whole_number(value, node):
            continue
        name, callee = parameter.name, block.name.text
        cure = habits.of_whole_number(name, value, node.span)
        if cure is None and isinstance(value, list):
            cure = as_function(call.span)
        if name == "pad" and value == "same":
            cure = same_padding(call.span.text, f"pad={node.span.text}")
        raise ProblemError(
            NoWholeNumber(frame.location(node.span), name, describe(value), cure or "", callee)
        )


def _is_no_whole_number(value: ElabValue, node: ast.Expression) -> bool:
    """True if a value is a text, a list or a fraction; one that is not known, by its text."""
    if value is Opaque.NUMBER:  # `2 ** i` may be no number in a proof, and be whole in models
        return habits.is_quotient(habits.bound_before(node.span) or node.span.text)
    return isinstance(value, str | OpenText | list | float)


def _given(
    call: ast.Call, block: ast.Block, arguments: Arguments
) -> Iterator[tuple[ast.Parameter, ast.Expression, ElabValue]]:
    """Each parameter that a call gives, with the argument as it is written, and its value."""
    by_name = {parameter.name: parameter for parameter in block.parameters}
    written = [each for each in call.arguments if not isinstance(each.value, ast.Rearrangement)]
    places = [each for each in written if each.name is None]
    end = len(arguments.positional) - sum(each.name is None for each in call.inputs)
    positional = arguments.positional[end - len(places) : end]
    if len(places) == len(positional):
        numbers = [pair for pair in zip(places, positional, strict=True) if not is_tensor(pair[1])]
        for parameter, (argument, value) in zip(block.parameters, numbers, strict=False):
            assert not isinstance(argument.value, ast.Rearrangement)
            yield parameter, argument.value, value
    for argument in written:
        if argument.name in by_name and argument.name in arguments.named:
            assert not isinstance(argument.value, ast.Rearrangement)
            yield by_name[argument.name], argument.value, arguments.named[argument.name]
