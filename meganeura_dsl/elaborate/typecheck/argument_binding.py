"""Matching of arguments with parameters.

Tensors and configuration, by position, name and default.
"""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.location import counted
from meganeura_dsl.elaborate.problems.name_problems import WrongArguments
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.config_kinds import fitted
from meganeura_dsl.elaborate.typecheck.input_matching import constant_tensor
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of
from meganeura_dsl.elaborate.values import NamedTensors, TensorList, is_tensor
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


def signature(
    name: str, parameters: Sequence[ast.Parameter], inputs: Sequence[ast.Input] = ()
) -> str:
    """A declaration's first line as one would call it."""
    config = [parameter.span.text for parameter in parameters]
    tensors = f"({', '.join(item.name for item in inputs)})" if inputs else ""
    return f"{name}({', '.join(config)}){tensors}"


def bind_inputs(inner: Frame, block: ast.Block, arguments: Arguments, span: Span) -> Arguments:
    """Bind the tensors of a call to the inputs of a block; what is left is configuration."""
    tensors = [value for value in arguments.positional if is_tensor(value)]
    named = dict(arguments.named)
    fault = None
    for item in block.inputs:
        value = named.pop(item.name, None)
        if value is None and tensors:
            value = tensors.pop(0)
        if value is None and item.default is not None:
            continue
        if value is not None and not is_tensor(value) and not item.type.shape.entries:
            value = constant_tensor(inner, span, TensorType(dtype_of(item.type, inner), ()), value)
        if value is None:
            fault = f"needs a tensor `{item.name}`"
            break
        if not is_tensor(value):
            fault = f"needs a tensor as `{item.name}`"
            break
        inner.names[item.name] = value
    if fault is None and tensors:
        fault = f"takes {counted(len(block.inputs), 'tensor')}, and got {len(tensors)} more"
    if fault is not None:
        form = signature(block.name.text, block.parameters, block.inputs)
        raise ProblemError(
            WrongArguments(inner.caller_location(span), block.name.text, fault, form)
        )
    return Arguments(tuple(value for value in arguments.positional if not is_tensor(value)), named)


def bind_config(
    inner: Frame,
    name: str,
    parameters: Sequence[ast.Parameter],
    arguments: Arguments,
    span: Span,
) -> None:
    """Bind configuration by position, by name, and by default, in that order."""
    positional, named = list(arguments.positional), dict(arguments.named)
    fault, is_repeated = None, False
    for parameter in parameters:
        default = None
        if positional:
            if parameter.name in named:
                fault, is_repeated = f"got `{parameter.name}` twice", True
                break
            value = positional.pop(0)
        elif parameter.name in named:
            value = named.pop(parameter.name)
        elif parameter.default is not None:
            default = parameter.default
            value = inner.evaluate(default)
        else:
            fault = f"needs `{parameter.name}`"
            break
        if parameter.kind is not None or isinstance(value, TensorList | NamedTensors | Dim):
            location = inner.location(default.span) if default else inner.caller_location(span)
            value = fitted(inner, name, parameter, value, location)
        inner.names[parameter.name] = value
    names = [parameter.name for parameter in parameters]
    unknown = next((each for each in arguments.named if each not in names), "")
    if unknown:
        none = f"has no argument `{unknown}`"
        fault = none if fault is None else f"{none}, and {fault}"
    elif fault is None and positional:
        fault = f"got {counted(len(positional), 'argument')} too many"
    if fault is not None:
        form = signature(name, parameters)
        left = parameters[len(arguments.positional) :]
        known = tuple(each.name for each in left if each.name not in arguments.named)
        given_at = inner.caller_location(span)
        raise ProblemError(WrongArguments(given_at, name, fault, form, unknown, known, is_repeated))


def require_once(
    inner: Frame, name: str, parameters: Sequence[ast.Parameter], arguments: Arguments, span: Span
) -> None:
    """Raise `ProblemError` for an argument that is given twice, and for one too many."""
    names = [parameter.name for parameter in parameters]
    count = sum(not is_tensor(value) for value in arguments.positional)
    twice = next((each for each in names[:count] if each in arguments.named), None)
    if twice is None and count <= len(names):
        return
    over = counted(count - len(names), "argument")
    fault = f"got {over} too many" if twice is None else f"got `{twice}` twice"
    form, location = signature(name, parameters), inner.location(span)
    raise ProblemError(WrongArguments(location, name, fault, form, is_repeated=twice is not None))
