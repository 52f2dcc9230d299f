"""Contracts: the blocks that a configuration parameter takes, those of a header or any."""

from functools import cache

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import FUNCTIONS
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration

AnyBlock = ast.BlockKind
"""The kind `block` without a header, for which each model is checked."""


def contract_of(parameter: ast.Parameter, frame: Frame) -> BoundBlock | AnyBlock | None:
    """The header that blocks given for a parameter have to fit; None if it takes no blocks.

    It is that of the parameter's kind, or else of its default. The frame is that of the block which
    has the parameter.
    """
    match parameter.kind:
        case ast.BlockKind(header=ast.Block() as header):
            return BoundBlock(header, is_contract=True, module=frame.module)
        case ast.BlockKind() as kind:
            return kind
        case ast.NamedKind() | ast.TextKind() | None:
            pass
    default = None if parameter.default is None else frame.evaluate(parameter.default)
    if not isinstance(default, BoundBlock):
        return None
    if isinstance(default.declaration, ast.Model) or not _says_all(default.declaration):
        return AnyBlock(parameter.span, None)
    return BoundBlock(default.declaration, default.config, is_contract=True, module=default.module)


def _says_all(header: ast.Block) -> bool:
    """True if a header alone tells the types of the results."""
    types = (*(item.type for item in header.inputs), *(header.results or ()))
    return header.results is not None and all(each.dtype != "any" for each in types)


def header_text(contract: BoundBlock) -> str:
    """The header of a contract as it is written: `(out)(x: [...batch, d]) -> [...batch, out]`."""
    header = contract.declaration
    assert isinstance(header, ast.Block)
    given = dict(contract.config)
    config = [each.span.text for each in header.parameters if each.name not in given]
    inputs = ", ".join(item.span.text for item in header.inputs)
    results = ", ".join(each.span.text for each in header.results or ())
    settings = f"({', '.join(config)})" if config else ""
    return f"{settings}({inputs}) -> {results}"


@cache
def function_block(name: str) -> BoundBlock:
    """A built-in function of one tensor and no configuration, such as `tanh`, as a block."""
    text = f"block {name}()(x: [...s]) -> [...s] = {name}(x)\n"
    source = Source(FUNCTIONS, text)
    declaration, problems = parse_declaration(outline(source)[0])
    assert isinstance(declaration, ast.Block)
    assert not problems
    return BoundBlock(declaration, module=LinkedModule(source, {}, is_library=True))
