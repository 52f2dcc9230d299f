"""Points of a program that a test can see matter: conditions, bounds, operands, rounds of loops.

Each point of a function is written anew so that it tells a `Watch` what it saw, and does what it
did. Coverage says that a line ran; this says that `a` in `a and b` once decided alone, that both
sides of a `<` were once equal, that what is added was once not nothing. What was never seen can be
left out or be off by one, and no test would say so.

Left alone are what stands outside of functions, default values, decorators, asserts and formatted
texts.
"""

import ast
import builtins
import copy
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Kind(Enum):
    """What can be seen of a point. The values name the functions that see it, `__outcome__`, ..."""

    OUTCOME = "outcome"
    """A condition: 1 it was false, 2 it was true."""
    DECIDES = "decides"
    """An operand of `and` or `or`: 1 the others would have said something else."""
    ORDER = "order"
    """A comparison of sizes: 1 less, 2 equal, 4 more."""
    EXTREME = "extreme"
    """The smaller or larger of two: 1 the first is smaller, 2 the second, 4 they are equal."""
    ROUNDS = "rounds"
    """A loop: 1 no round, 2 one, 4 more."""
    RESULT = "result"
    """A sum, product or union: 1 it is not its left operand, 2 not its right one, 4 a division
    leaves a rest, 8 it ran with whole numbers or collections."""
    ONE_OF = "one_of"
    """A choice among several classes, values or patterns: a bit for each that was met."""


@dataclass(frozen=True)
class Point:
    """Where something can be seen: its number, and the text that stands there."""

    number: int
    kind: Kind
    file: str
    line: int
    function: str
    text: str
    choices: int = 0
    """How many bits of `Kind.ONE_OF` there are."""

    def unseen(self, seen: int) -> str | None:
        """What no test saw here, in words; None where all was seen, or can say nothing."""
        match self.kind:
            case Kind.OUTCOME:
                return {0: "never evaluated", 1: "always false", 2: "always true"}.get(seen & 3)
            case Kind.DECIDES:
                return "never decides alone" if seen and not seen & 1 else None
            case Kind.ORDER:
                return "never equal" if seen and not seen & 2 else None
            case Kind.EXTREME:
                only = {1: "the first is always smaller", 2: "the second is always smaller"}
                return only.get(seen & 3, "always equal" if seen == 4 else None)
            case Kind.ROUNDS:
                return "never more than one round" if seen and not seen & 4 else None
            case Kind.RESULT if seen & 8:
                if not seen & 1:
                    return "the right operand never matters"
                if not seen & 2:
                    return "the left operand never matters"
                return None if seen & 4 or not self.choices else "the division leaves no rest"
            case Kind.RESULT:
                return None
            case Kind.ONE_OF:
                missing = [str(at + 1) for at in range(self.choices) if not seen >> at & 1]
                return f"never number {', '.join(missing)}" if seen and missing else None


def watched(path: Path, file: str, first: int) -> tuple[ast.Module, list[Point]]:
    """The tree of a module that tells what it sees, and its points, numbered from `first` on."""
    writer = _Writer(file, first)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    tree.body = [writer.visit(part) if isinstance(part, defined) else part for part in tree.body]
    return ast.fix_missing_locations(tree), writer.points


ORDERS: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
}  # fmt: skip
RESULTS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.BitOr: "or_", ast.BitAnd: "and_",
}  # fmt: skip
MOST_CHOICES = 8
"""As many bits as a point has."""
PURE_FUNCTIONS = frozenset({
    "isinstance", "issubclass", "len", "min", "max", "abs", "set", "frozenset", "tuple", "bool",
    "int", "sum", "all", "any", "sorted", "range", "zip", "type",
})  # fmt: skip
PURE_METHODS = frozenset({
    "startswith", "endswith", "get", "isdisjoint", "issubset", "issuperset", "items", "keys",
    "values", "isidentifier", "count",
})  # fmt: skip
"""What may be asked once more without a difference."""


def _is_pure(node: ast.expr) -> bool:
    for part in ast.walk(node):
        match part:
            case ast.NamedExpr() | ast.Await() | ast.Yield() | ast.YieldFrom():
                return False
            case ast.Call(func=ast.Name(id=name)) if name in PURE_FUNCTIONS:
                pass
            case ast.Call(func=ast.Attribute(attr=name)) if name in PURE_METHODS:
                pass
            case ast.Call():
                return False
            case _:
                pass
    return True


def _is_type(node: ast.BinOp) -> bool:
    """Whether `A | B` is of classes."""
    match node.right:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            builtin = isinstance(getattr(builtins, name, None), type)
            return builtin or (name[:1].isupper() and not name.isupper())
        case ast.Constant(value=None):
            return True
        case ast.Subscript():
            return isinstance(node.op, ast.BitOr)
        case _:
            return False


class _Writer(ast.NodeTransformer):
    """Writes the points of a module anew, and numbers them."""

    def __init__(self, file: str, first: int) -> None:
        self.file = file
        self.first = first
        self.points: list[Point] = []
        self.path: list[str] = []

    def _point(self, kind: Kind, at: ast.expr | ast.pattern, *, choices: int = 0) -> ast.Constant:
        number = self.first + len(self.points)
        where = ".".join(self.path)
        text = ast.unparse(at)
        self.points.append(Point(number, kind, self.file, at.lineno, where, text, choices))
        return ast.Constant(number)

    def _tell(self, kind: Kind, *arguments: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(f"__{kind.value}__", ast.Load()), list(arguments), [])

    # Where points are.

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self._function(node)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self._function(node)
        return node

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.path.append(node.name)
        node.body = [self.visit(part) for part in node.body]
        self.path.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        self.path.append(node.name)
        node.body = [self.visit(part) if isinstance(part, defined) else part for part in node.body]
        self.path.pop()
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        return node

    def visit_TypeAlias(self, node: ast.AST) -> ast.AST:
        return node

    # Conditions.

    def visit_If(self, node: ast.If) -> ast.If:
        node.test = self._condition(node.test)
        self._bodies(node)
        return node

    def visit_While(self, node: ast.While) -> ast.While:
        node.test = self._condition(node.test)
        self._bodies(node)
        return node

    def _bodies(self, node: ast.If | ast.While | ast.For) -> None:
        node.body = [self.visit(part) for part in node.body]
        node.orelse = [self.visit(part) for part in node.orelse]

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        node.test = self._condition(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def _condition(self, node: ast.expr) -> ast.expr:
        """What is read for its truth alone."""
        match node:
            case ast.Constant():
                return node
            case ast.BoolOp():
                return self._operands(node, self._condition)
            case ast.UnaryOp(op=ast.Not()):
                node.operand = self._condition(node.operand)
                return node
            case ast.Compare():
                return self._tell(Kind.OUTCOME, self._point(Kind.OUTCOME, node), self._order(node))
            case _:
                return self._tell(Kind.OUTCOME, self._point(Kind.OUTCOME, node), self.visit(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return self._operands(node, self.visit)

    def _operands(self, node: ast.BoolOp, last: Callable[[ast.expr], ast.expr]) -> ast.expr:
        """Operands, each of which may decide alone; others are asked where that is harmless."""
        plain = copy.deepcopy(node.values)
        conjunction = ast.Constant(isinstance(node.op, ast.And))
        written: list[ast.expr] = []
        for at, value in enumerate(node.values[:-1]):
            others = copy.deepcopy(plain[at + 1 :])
            operand = self._condition(value)
            if all(map(_is_pure, others)):
                rest = others[0] if len(others) == 1 else ast.BoolOp(node.op, others)
                point = self._point(Kind.DECIDES, plain[at])
                nothing = ast.arguments([], [], None, [], [], None, [])
                ask = ast.Lambda(nothing, rest)
                operand = self._tell(Kind.DECIDES, point, conjunction, operand, ask)
            written.append(operand)
        node.values = [*written, last(node.values[-1])]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        point = self._point(Kind.OUTCOME, node)
        return self._tell(Kind.OUTCOME, point, self._order(node))

    def _order(self, node: ast.Compare) -> ast.expr:
        """A comparison that tells which side was larger, or which value it was."""
        match node:
            case ast.Compare(ops=[order], comparators=[right]) if type(order) in ORDERS:
                point = self._point(Kind.ORDER, node)
                name = ast.Constant(ORDERS[type(order)])
                return self._tell(Kind.ORDER, point, name, self.visit(node.left), self.visit(right))
            case ast.Compare(
                ops=[ast.In()], comparators=[ast.Tuple(elts=values) | ast.Set(elts=values)]
            ) if 2 <= len(values) <= MOST_CHOICES and not any(
                isinstance(value, ast.Starred) for value in values
            ):
                point = self._point(Kind.ONE_OF, node, choices=len(values))
                several = ast.Tuple([self.visit(value) for value in values], ast.Load())
                return self._tell(
                    Kind.ONE_OF, point, ast.Constant("in"), self.visit(node.left), several
                )
            case _:
                self.generic_visit(node)
                return node

    # Choices and loops.

    def visit_Match(self, node: ast.Match) -> ast.Match:
        node.subject = self.visit(node.subject)
        cases: list[ast.match_case] = []
        for case in node.cases:
            if case.guard is not None:
                case.guard = self._condition(case.guard)
            case.body = [self.visit(part) for part in case.body]
            match case.pattern:
                case ast.MatchOr(patterns=patterns) if len(patterns) <= MOST_CHOICES:
                    point = self._point(Kind.ONE_OF, case.pattern, choices=len(patterns))
                    for at, pattern in enumerate(patterns):
                        met = ast.Constant("met"), ast.Constant(at), ast.Constant(None)
                        told = ast.Expr(self._tell(Kind.ONE_OF, point, *met))
                        rest = copy.deepcopy((case.guard, case.body))
                        cases.append(ast.match_case(pattern, rest[0], [told, *rest[1]]))
                case _:
                    cases.append(case)
        node.cases = cases
        return node

    def visit_For(self, node: ast.For) -> ast.For:
        node.iter = self._loop(node.iter)
        self._bodies(node)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        node.iter = self._loop(node.iter)
        node.ifs = [self._condition(test) for test in node.ifs]
        return node

    def _loop(self, node: ast.expr) -> ast.expr:
        return self._tell(Kind.ROUNDS, self._point(Kind.ROUNDS, node), self.visit(node))

    # Values.

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node:
            case ast.Call(func=ast.Name(id="super" | "cast")):
                return node
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right], keywords=[]):
                if not isinstance(left, ast.Starred) and not isinstance(right, ast.Starred):
                    point = self._point(Kind.EXTREME, node)
                    both = self.visit(left), self.visit(right)
                    return self._tell(Kind.EXTREME, point, ast.Constant(name), *both)
            case ast.Call(func=ast.Name(id="isinstance"), args=[value, classes]):
                count = ast.unparse(classes).count(" | ") + 1
                if 2 <= count <= MOST_CHOICES:
                    point = self._point(Kind.ONE_OF, node, choices=count)
                    name = ast.Constant("isinstance")
                    return self._tell(Kind.ONE_OF, point, name, self.visit(value), classes)
            case _:
                pass
        self.generic_visit(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        name = RESULTS.get(type(node.op))
        if name is None or _is_type(node) or isinstance(node.left, ast.JoinedStr):
            self.generic_visit(node)
            return node
        divides = isinstance(node.op, ast.FloorDiv)
        point = self._point(Kind.RESULT, node, choices=int(divides))
        both = self.visit(node.left), self.visit(node.right)
        return self._tell(Kind.RESULT, point, ast.Constant(name), *both)
