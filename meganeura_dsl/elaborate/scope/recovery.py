"""Recovery inside a block: what is known, and what is not, behind a statement that was refused.

A block that a check has refused is run again with a `Recovery` in its outermost frame. A statement
that fails leaves what it binds unknown; one that speaks of something unknown is left out, because
what could be said of it would follow from the problem before. So no problem is reported twice, and
none that only follows from another. A problem that a further fact would cure hides what is behind
it: the block is run once more with that fact.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Problem, Report
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.name_problems import UnknownName
from meganeura_dsl.elaborate.problems.shape_problems import RearrangeMismatch
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.unused_values import walk, words_of
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import children


class EndOfPathError(Exception):
    """The results of a block are unknown on this path: nothing after it is run."""


class Recovery:
    """The problems of one declaration, and the names of which nothing is known any more."""

    def __init__(self, declaration: ast.Block | ast.Train) -> None:
        self.declaration = declaration
        self.unknown: set[str] = set()
        self.bindings: list[Binding] = []
        """The values that are known."""
        self.parameters: tuple[ParameterInfo, ...] = ()
        """The weights that the last run declared."""
        self._found: dict[int, Problem] = {}
        self._roots: set[str | None] = set()
        """The names that are unknown and the facts that are missing: each is reported once."""
        self._failed: set[ast.Statement] = set()
        self.lacking: dict[str, None] = {}
        """The facts that would cure problems, as clauses of `where`, in the order found."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems that were found, in the order of the text."""
        return tuple(problem for _, problem in sorted(self._found.items()))

    def add(self, problem: Problem) -> None:
        """Keep a problem of this declaration, the first at its place."""
        report, span = problem.report(), self.declaration.span
        label = report.label
        if label is None or isinstance(problem, TooMuchWork):
            return
        if label.span.source is not span.source:
            return
        is_here = span.start <= label.span.start < span.end
        if not is_here:
            return
        fact: str = getattr(problem, "fact", "")
        if fact:
            self.lacking.setdefault(fact)
        known = self._found.get(label.span.start)
        if known is not None:
            if isinstance(known, RearrangeMismatch) and known.fact and fact:
                if fact not in known.fact.split(", "):
                    both = replace(known, fact=f"{known.fact}, {fact}")
                    self._found[label.span.start] = both
            elif _says_more(report, known.report()):
                self._found[label.span.start] = problem
            return
        root = problem.name if isinstance(problem, UnknownName) else f"where {fact}"
        if root != "where ":
            if root in self._roots:
                return
            self._roots.add(root)
        self._found[label.span.start] = problem

    def begin_again(self) -> None:
        """Forget what failed, for another run that takes the lacking facts for true."""
        self.unknown.clear()
        self._failed.clear()

    def add_failure(self, statement: ast.Statement, problem: Problem) -> None:
        """Keep why a statement failed, on the first of the paths through it."""
        if statement not in self._failed:
            self._failed.add(statement)
            self.add(problem)

    def is_affected(self, statement: ast.Statement) -> bool:
        """True if a statement reads something of which nothing is known."""
        return any(self.speaks(node) for node in _read(statement))

    def speaks(self, node: ast.Node) -> bool:
        """True if a node, or what is in it, names something of which nothing is known."""
        return bool(self.unknown) and not self.unknown.isdisjoint(_names(node))

    def learn(self, statement: ast.Statement) -> None:
        """Marks the names that a statement binds as known."""
        if not isinstance(statement, ast.If | ast.For | ast.Scan):
            self.unknown.difference_update(_bound(statement))

    def forget(self, statement: ast.Statement, layers: Container[str]) -> None:
        """Marks the names that a statement binds, and the layers it may apply first, as unknown."""
        self.unknown.update(_bound(statement))
        applied = (each.callee for each in walk(statement) if isinstance(each, ast.Call))
        self.unknown.update(name for name in applied if name in layers)

    def forget_new(self, statement: ast.Statement, is_known: Callable[[str], bool]) -> None:
        """Marks the new names of a statement as unknown, so that they are reported once."""
        named = (each.text for each in walk(statement) if isinstance(each, ast.Name))
        self.unknown.update(name for name in named if not is_known(name))


def _says_more(report: Report, known: Report) -> bool:
    """True if one report is another with more remarks, or with code for its cure.

    The first run takes proved layers for their results, and this one knows what they computed.
    """
    is_same = (report.code, report.headline, report.label) == (
        known.code,
        known.headline,
        known.label,
    )
    is_cured = report.help is not None and known.help is None
    if report.help is not None and known.help is not None and not known.help.edits:
        is_cured = report.help.code is not None and known.help.code is None
    return is_same and (is_cured or len(report.remarks) > len(known.remarks))


def _read(statement: ast.Statement) -> tuple[ast.Node, ...]:
    """Returns the nodes that a statement reads before it binds anything; all of a loop."""
    match statement:
        case ast.Bind(value=value) | ast.Minimize(value=value):
            return (value,)
        case ast.Metric(value=value) | ast.Show(value=value):
            return (value,)
        case ast.If(condition=condition):
            return (condition,)
        case ast.Run():
            return ()
        case _:
            return (statement,)


def _names(node: ast.Node) -> Iterator[str]:
    """The names that a node reads: values, functions, layers, and sizes of its shapes."""
    for each in walk(node):
        match each:
            case ast.Name(text=text):
                yield text
            case ast.Attribute():
                yield "".join(each.span.text.split())
            case ast.Rest(name=name):
                yield name
            case ast.Call(callee=callee):
                yield callee
                yield callee.partition(".")[0]
            case ast.Update(path=path) | ast.Project(path=path):
                yield ".".join(words_of(path))
            case _:
                pass


def _bound(statement: ast.Statement) -> Iterator[str]:
    """The names, labels, parameters and sizes that a statement may bind."""
    for each in walk(statement):
        match each:
            case ast.Bind(targets=targets):
                yield from (target.text for target in targets)
            case ast.Part(target=target):
                yield target.text
            case ast.For(variable=variable) | ast.Scan(variable=variable):
                yield variable.text
            case ast.Declare(path=path):
                yield ".".join(words_of(path))
            case ast.Call(label=ast.Path() as label):
                yield ".".join(words_of(label))
            case _:
                pass


def calls_of(node: ast.Node) -> tuple[tuple[ast.Call, bool], ...]:
    """The calls that are evaluated whatever is true, in their order, and whether each is piped."""
    found: list[tuple[ast.Call, bool]] = []
    stack: list[ast.Node] = [node]
    while stack:
        each = stack.pop()
        match each:
            case ast.Conditional() | ast.Binary(operator="and" | "or"):
                continue
            case ast.Pipe(source=source, layer=layer):
                found.append((layer, True))
                stack += [source, *layer.arguments, *layer.inputs]
            case ast.Call():
                found.append((each, False))
                stack += [*each.arguments, *each.inputs]
            case _:
                stack += children(each)
    return tuple(sorted(found, key=lambda item: item[0].callee_span.start))


def is_plain(node: ast.Node) -> bool:
    """True if a node is made of names, numbers and operators alone."""
    open_ = ast.Call | ast.Subscript | ast.Attribute | ast.Conditional | ast.Rearrangement
    return not any(isinstance(each, open_) for each in walk(node))
