"""Small mistakes made in the functions of a module, one at a time: the mutants of a mutation test.

A mutant is a place in a syntax tree and one of the changes that make sense there. Left alone are
docstrings, texts for people (those with a space, and parts of formatted ones), default values,
annotations, asserts, `strict=`, and classes outside of their methods: these are no behaviour of a
function, or are bound before one is called.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.MatMult: ast.Mult,
}
NAMES = {
    "Add": "Sub", "Sub": "Add", "Mul": "Div", "Div": "Mul", "Sin": "Cos", "Cos": "Sin",
    "Maximum": "Minimum", "Minimum": "Maximum", "max": "min", "min": "max", "any": "all",
    "all": "any", "Proved": "Unknown", "And": "Or", "Or": "And",
}  # fmt: skip
"""Names that are mistaken for each other."""
COMMUTATIVE = ("Add", "Mul", "Maximum", "Minimum")
SYMMETRIC = (
    "isinstance", "max", "min", "maximum", "minimum", "swapaxes", "plus", "times", "issubdtype",
    "not_equal", "gcd",    "require_same_type", "require_same_dtype",
)  # fmt: skip
"""Functions whose last two arguments may change places, but for the order in a message."""
ESTIMATES = "flops"
"""How the names of functions end whose results are estimates: another one is not wrong."""


@dataclass(frozen=True)
class Mutant:
    """A change of one expression or statement: what stood there, and what stands there now."""

    file: str
    number: int
    """Its place among the mutants of the file."""
    function: str
    line: int
    before: str
    after: str

    @property
    def title(self) -> str:
        """What identifies it whatever else changes in the file."""
        return f"{self.file} {self.function}: `{self.before}` becomes `{self.after}`"


@dataclass(frozen=True)
class Site:
    """A change that can be made in a tree, in place."""

    function: str
    node: ast.AST
    before: str
    after: str
    change: Callable[[], None]


def mutants(root: Path, file: str) -> list[Mutant]:
    """All mutants of a file below `root`, in the order of its text."""
    tree = ast.parse((root / file).read_text(encoding="utf-8"))
    return [
        Mutant(file, number, site.function, _line(site.node), site.before, site.after)
        for number, site in enumerate(_sites(tree))
    ]


def compiled(root: Path, mutant: Mutant) -> ast.Module:
    """The tree of the file with the mutant in it."""
    tree = ast.parse((root / mutant.file).read_text(encoding="utf-8"))
    list(_sites(tree))[mutant.number].change()
    return ast.fix_missing_locations(tree)


def _line(node: ast.AST) -> int:
    match node:
        case ast.comprehension(target=found) | ast.match_case(pattern=found):
            return found.lineno
        case _:
            assert isinstance(node, ast.expr | ast.stmt)
            return node.lineno


def _sites(tree: ast.Module) -> Iterator[Site]:
    yield from _within(tree, "")


def _within(node: ast.AST, path: str) -> Iterator[Site]:
    """The sites of the functions in a module or class."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() if not child.name.endswith(ESTIMATES):
                name = f"{path}{child.name}"
                for statement in child.body:
                    yield from _of(statement, child, name)
            case ast.ClassDef():
                yield from _within(child, f"{path}{child.name}.")
            case _:
                pass


def _of(node: ast.AST, parent: ast.AST, function: str) -> Iterator[Site]:
    """The sites of a node and of those below it."""
    if _is_left_alone(node, parent):
        return
    for before, after, change in _changes(node, parent):
        yield Site(function, node, before, after, change)
    for child in _below(node):
        yield from _of(child, node, function)


def _is_left_alone(node: ast.AST, parent: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())) | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="assert_never"))):
            return True
        case ast.Constant(value=str() as text):
            return " " in text or isinstance(parent, ast.Raise)
        case _:
            return False


def _below(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.AnnAssign(value=ast.expr() as value):
            yield value
        case ast.FunctionDef():
            yield from node.body
        case ast.Call():
            yield from (node.func, *node.args)
            yield from (each.value for each in node.keywords if each.arg != "strict")
        case ast.match_case():
            yield from (node.guard,) if node.guard else ()
            yield from node.body
        case _:
            yield from ast.iter_child_nodes(node)


Change = tuple[str, str, Callable[[], None]]


def _changes(node: ast.AST, parent: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[operator]):
            for other in COMPARISONS[type(operator)]:
                yield _set(node, "ops", [other()])
        case ast.BinOp(op=operator):
            yield _set(node, "op", OPERATORS[type(operator)]())
        case ast.AugAssign(op=operator):
            yield _set(node, "op", OPERATORS[type(operator)]())
        case ast.BoolOp(op=operator, values=values):
            yield _set(node, "op", ast.Or() if isinstance(operator, ast.And) else ast.And())
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                if len(rest) > 1:
                    yield _set(node, "values", rest)
                else:
                    yield _replace(node, parent, rest[0])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield _replace(node, parent, operand)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield _set(node, "test", _negated(test), of=test)
            for always in (True, False) if not isinstance(node, ast.While) else (False,):
                constant = ast.copy_location(ast.Constant(always), test)
                yield _set(node, "test", constant, of=test)
        case ast.match_case(guard=ast.expr() as guard):
            yield _set(node, "guard", None, of=guard)
        case ast.comprehension(ifs=[_, *_]):
            yield _set(node, "ifs", list[ast.expr](), of=node.ifs[0])
        case ast.Constant(value=value):
            yield from _constants(node, value)
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            yield _set(node, "id", NAMES[name])
        case ast.Expr(value=ast.Call()):
            yield _replace(node, parent, ast.copy_location(ast.Pass(), node))
        case ast.Break() | ast.Continue():
            other = ast.Continue() if isinstance(node, ast.Break) else ast.Break()
            yield _replace(node, parent, ast.copy_location(other, node))
        case ast.Return(value=ast.Tuple(elts=[first, second])):
            yield _set(node.value, "elts", [second, first])
        case ast.Call(args=[*_, first, second]) if _has_an_order(node):
            yield _set(node, "args", [*node.args[:-2], second, first])
        case _:
            pass


def _constants(node: ast.Constant, value: object) -> Iterator[Change]:
    match value:
        case bool():
            yield _set(node, "value", not value)
        case int() | float():
            yield _set(node, "value", value + 1)
        case str():
            yield _set(node, "value", f"{value}?")
        case _:
            pass


def _has_an_order(call: ast.Call) -> bool:
    """Whether its last two arguments can be exchanged, and mean something else then."""
    match call:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in SYMMETRIC:
            return False
        case ast.Call(args=[*_, first, second]) if ast.unparse(first) == ast.unparse(second):
            return False
        case ast.Call(args=[ast.Call(func=ast.Name(id=name)), _, _]) if name in COMMUTATIVE:
            return False
        case _:
            return not any(isinstance(each, ast.Starred) for each in call.args)


def _negated(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _set(node: ast.AST | None, field: str, value: object, of: ast.AST | None = None) -> Change:
    """A field of a node gets another value; shown is the node, or the part `of` it."""
    assert node is not None
    before, old = ast.unparse(of or node), getattr(node, field)
    setattr(node, field, value)
    shown = value if isinstance(value, ast.AST) and of is not None else node
    after = "true" if of is not None and value in ([], None) else ast.unparse(shown)
    setattr(node, field, old)
    return before, after, lambda: setattr(node, field, value)


def _replace(node: ast.AST, parent: ast.AST, by: ast.AST) -> Change:
    """A node gives way to another one."""

    def change() -> None:
        for field, value in ast.iter_fields(parent):
            if value is node:
                setattr(parent, field, by)
            elif isinstance(value, list):
                known = cast("list[object]", value)
                setattr(parent, field, [by if each is node else each for each in known])

    return ast.unparse(node), ast.unparse(by), change
