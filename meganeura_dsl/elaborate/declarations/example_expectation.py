"""Examples of an `expect` for a block, with numbers for its configuration."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import LinkedModule, library
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of, shape_of
from meganeura_dsl.elaborate.values import Axes, BlockValue, ElabValue, StaticValue
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import dim, show
from meganeura_dsl.syntax import ast

SIZE = 8
LIST: list[StaticValue] = [8, 4]
"""The example of a list; `SIZE` is the example of a number."""


def example_expectation(module: LinkedModule, block: ast.Block, reason: str) -> str:
    """`expect A(widths=[8, 4]) maps [n, 8] -> [n, 4]`, as far as the signature tells.

    `reason` says why the block cannot be proved without a configuration.
    """
    given: dict[str, ElabValue] = {
        each.name: _example(block, each, reason)
        for each in block.parameters
        if each.default is None
    }
    written = ", ".join(f"{name}={_text(value)}" for name, value in given.items())
    try:
        inputs, results = _types(module, block, given)
    except (ProblemError, UndecidableError):
        inputs = [item.type.span.text for item in block.inputs]
        results = [each.span.text for each in block.results or ()]
    maps = f"{', '.join(inputs)} -> {', '.join(results) or '[...]'}"
    return f"expect {block.name.text}{f'({written})' if written else ''} maps {maps}"


def _example(block: ast.Block, parameter: ast.Parameter, reason: str) -> ElabValue:
    match parameter.kind:
        case ast.TextKind(options=options):
            return options[0].value
        case ast.NamedKind(name="int"):
            return 0
        case ast.NamedKind(name="real"):
            return 1.0
        case ast.NamedKind(name="bool"):
            return True
        case ast.NamedKind(name="text"):
            return "a"
        case ast.BlockKind():
            found = library()[0].find("relu")
            assert found is not None
            assert isinstance(found[1], ast.Block)
            return BoundBlock(found[1], module=found[0])
        case ast.NamedKind(name="list", length=None):
            return LIST
        case ast.NamedKind(name="list", length=ast.Integer(value=length)):
            return [*LIST, *[LIST[-1]] * length][:length]
        case _:
            is_list = f"`{parameter.name}` is a list" in reason
            return LIST if is_list else _value(block, parameter.name)


def _value(block: ast.Block, name: str) -> ElabValue:
    """A list for what is taken apart, a truth for what is asked, or else a number."""
    for statement in block.body:
        for node in walk(statement):
            match node:
                case ast.Subscript(base=ast.Name(text=text)) if text == name:
                    return LIST
                case ast.Call(callee="len" | "sum" | "product", arguments=arguments) if any(
                    isinstance(each.value, ast.Name) and each.value.text == name
                    for each in arguments
                ):
                    return LIST
                case ast.If(condition=ast.Name(text=text)) if text == name:
                    return True
                case _:
                    pass
    return SIZE


def _text(value: ElabValue) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, BlockValue):
        return value.name
    return "true" if value is True else str(value)


def _types(
    module: LinkedModule, block: ast.Block, given: dict[str, ElabValue]
) -> tuple[list[str], list[str]]:
    """Returns the types of the inputs and results of a block, by its signature alone."""
    frame = Frame(
        ElaborationState(ELABORATOR, Builder()),
        module,
        block.name.text,
        dict(given),
        declaration=block,
    )
    for parameter in block.parameters:
        if parameter.default is not None:
            frame.names[parameter.name] = frame.evaluate(parameter.default)
    types = [*(item.type for item in block.inputs), *(block.results or ())]
    for entry in (entry for type_ in types for entry in type_.shape.entries):
        if isinstance(entry, ast.Rest):
            frame.names.setdefault(entry.name, Axes([dim(entry.name)]))
            continue
        for name in size_names(entry):
            frame.names.setdefault(name, dim(name))
    texts = [_type(type_, frame) for type_ in types]
    return texts[: len(block.inputs)], texts[len(block.inputs) :]


def _type(node: ast.Type, frame: Frame) -> str:
    dtype = DType.F32 if node.dtype == "any" else dtype_of(node, frame)
    sizes = ", ".join(map(show, shape_of(node.shape, frame)))
    return f"{'' if dtype is DType.F32 else dtype.value}[{sizes}]"
