"""A function of sizes, `def`, as a function of Python."""

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import SourceFile
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.text import (
    ATOM,
    NOT,
    OR,
    SIGN,
    Code,
    binary,
    call,
    python_name,
)


class SizeFunctionWriter:
    """A function of sizes as a function of Python."""

    def __init__(self, source: SourceFile, module: LinkedModule, definition: ast.Def) -> None:
        self.source = source
        self.module = module
        self.definition = definition
        self.names = {each.name for each in definition.parameters}

    def lines(self, name: str) -> list[str]:
        """Its lines."""
        parameters = [self._parameter(each) for each in self.definition.parameters]
        body = self.code(self.definition.body)
        head = f"def {name}({', '.join(parameters)}):"
        return [*laid_out(head, 0), *laid_out(f"return {body}", 4)]

    def _parameter(self, parameter: ast.Parameter) -> str:
        default = "" if parameter.default is None else f"={self.code(parameter.default)}"
        return python_name(parameter.name, self.source.reserved) + default

    def code(self, node: ast.Expression) -> Code:
        """The text of an expression of sizes and numbers."""
        match node:
            case ast.Integer(value=value) | ast.Real(value=value):
                return Code(repr(value), ATOM)
            case ast.Boolean(value=value):
                return Code(str(value))
            case ast.Name(text=text) if text in self.names:
                return Code(python_name(text, self.source.reserved))
            case ast.Unary(operator="not", operand=operand):
                return Code(f"not {self.code(operand).within(NOT)}", NOT)
            case ast.Unary(operand=operand):
                return Code(f"-{self.code(operand).within(SIGN)}", SIGN)
            case ast.Binary(operator=operator, left=left, right=right) if operator != "@":
                return binary(operator, self.code(left), self.code(right))
            case ast.Conditional(condition=condition, then=then, otherwise=otherwise):
                a, b, c = self.code(then), self.code(condition), self.code(otherwise)
                return Code(f"{a.within(OR)} if {b.within(OR)} else {c}", 0)
            case ast.Subscript(base=base, entries=(entry,)) if not isinstance(
                entry, ast.Range | ast.EllipsisEntry
            ):
                return Code(f"{self.code(base).within(ATOM)}[{self.code(entry)}]")
            case ast.Call(callee=callee, arguments=arguments):
                return self._call(node, callee, arguments)
            case _:
                raise refusal(
                    f"`{self.definition.name.text}`", "a function of more than sizes", node.span
                )

    def _call(self, node: ast.Call, callee: str, arguments: tuple[ast.Argument, ...]) -> Code:
        found = self.module.find(callee)
        parts: list[str] = []
        for each in arguments:
            assert not isinstance(each.value, ast.Rearrangement)
            prefix = f"{each.name}=" if each.name else ""
            parts.append(f"{prefix}{self.code(each.value)}")
        if found is not None and isinstance(found[1], ast.Def):
            return call(self.source.function(found[0], found[1]), *parts)
        if callee in ("len", "int", "sum", "min", "max"):
            return call(callee, *parts)
        raise refusal(f"`{self.definition.name.text}`", "a function of more than sizes", node.span)
