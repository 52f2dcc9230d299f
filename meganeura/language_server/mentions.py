"""Mentions of names and the meaning of each: a declaration, a local name, a label.

A block has one name space for its parameters, inputs, sizes and values, and another for labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from meganeura.language_server.analysis import Analysis
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Named
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


class Role(Enum):
    """The role of a mentioned name."""

    GLOBAL = auto()
    """A declaration of this file, of an imported one, or of the library; or a built-in."""
    PARAMETER = auto()
    LOCAL = auto()
    """A size, an input or a value."""
    LABEL = auto()
    """The first word of a path."""
    ARGUMENT = auto()
    """The name of a configuration parameter of what is called."""
    SETTING = auto()
    OUTPUT = auto()
    """A metric, or what is shown."""


@dataclass(frozen=True)
class Mention:
    """A name at a place."""

    span: Span
    role: Role
    owner: ast.Declaration
    """The declaration it stands in."""
    callee: str = ""
    """The callee of an argument."""
    defines: bool = False

    @property
    def name(self) -> str:
        """The name itself."""
        return self.span.text


def mentions(declaration: ast.Declaration) -> Iterator[Mention]:
    """All names in a declaration, in no promised order."""
    nodes = tuple(walk(declaration))
    parameters = {node.name for node in nodes if isinstance(node, ast.Parameter)}
    known = set(_local_names(nodes))
    labels = {path.parts[0] for path in _paths(nodes) if path.parts}
    special, defining = dict(_special(nodes)), set(_defining(nodes))

    def role(name: str) -> Role:
        if name in parameters:
            return Role.PARAMETER
        if name in known:
            return Role.LOCAL
        return Role.LABEL if name in labels else Role.GLOBAL

    for node in nodes:
        match node:
            case ast.Name(text=text) if node.span.text == text:
                found = special.get(node) or role(text)
                yield Mention(node.span, found, declaration, defines=node in defining)
            case ast.Parameter(name=name) | ast.Input(name=name):
                span = _word(node.span, name)
                yield Mention(span, role(name), declaration, defines=True)
            case ast.Rest(name=name):
                start = node.span.end - len(name)
                yield Mention(Span(node.span.source, start, node.span.end), Role.LOCAL, declaration)
            case ast.Call(callee=callee):
                for given in (*node.arguments, *node.inputs):
                    if given.name is not None:
                        span = _word(given.span, given.name)
                        yield Mention(span, Role.ARGUMENT, declaration, callee)
                if node.path is None and node.callee_span.text == callee:
                    yield Mention(node.callee_span, role(callee), declaration)
            case ast.Path(parts=(str(first), *_)):
                yield Mention(_word(node.span, first), Role.LABEL, declaration)
            case _:
                pass


def _special(nodes: tuple[ast.Node, ...]) -> Iterator[tuple[ast.Name, Role]]:
    """The names that mean the same whatever a declaration calls its own."""
    for node in nodes:
        match node:
            case ast.Def() | ast.Block() | ast.Optimizer() | ast.Model() | ast.Train():
                yield node.name, Role.GLOBAL
            case ast.Setting():
                yield node.name, Role.SETTING
            case ast.Metric() | ast.Show():
                yield node.name, Role.OUTPUT
            case _:
                pass


def _defining(nodes: tuple[ast.Node, ...]) -> Iterator[ast.Name]:
    for node in nodes:
        match node:
            case ast.Def() | ast.Block() | ast.Optimizer() | ast.Model() | ast.Train():
                yield node.name
            case ast.Bind(targets=targets):
                yield from targets
            case ast.For(variable=variable) | ast.Scan(variable=variable):
                yield variable
            case _:
                pass


def _local_names(nodes: tuple[ast.Node, ...]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Input(name=name) | ast.Rest(name=name):
                yield name
            case ast.Bind(targets=targets):
                yield from (each.text for each in targets)
            case ast.For(variable=variable) | ast.Scan(variable=variable):
                yield variable.text
            case ast.Pattern(entries=entries):
                yield from (each.text for each in entries if isinstance(each, ast.Name))
            case _:
                pass


def _paths(nodes: tuple[ast.Node, ...]) -> Iterator[ast.Path]:
    yield from (node for node in nodes if isinstance(node, ast.Path))


def _word(span: Span, name: str) -> Span:
    return Span(span.source, span.start, span.start + len(name))


def all_mentions(analysis: Analysis) -> Iterator[Mention]:
    """All names of a document, those of its imports included, each place once."""
    seen: set[tuple[int, int]] = set()
    for declaration in (*analysis.imports, *analysis.declarations):
        for each in mentions(declaration):
            place = each.span.start, each.span.end
            if place not in seen:
                seen.add(place)
                yield each


def mention_at(analysis: Analysis, offset: int) -> Mention | None:
    """The name at an offset, or right before it."""
    at = [each for each in all_mentions(analysis) if each.span.start <= offset <= each.span.end]
    return at[0] if at else None


def declared(analysis: Analysis, mention: Mention) -> tuple[LinkedModule, Named] | None:
    """The declaration of a global name, or the one that an argument is given to."""
    if mention.role is Role.ARGUMENT:
        return analysis.module.find(mention.callee)
    return analysis.module.find(mention.name) if mention.role is Role.GLOBAL else None


def same(analysis: Analysis, mention: Mention) -> list[Mention]:
    """All mentions in a document of what one mention means, itself included."""
    role, name, owner = mention.role, mention.name, mention.owner
    if role is Role.ARGUMENT:
        found = declared(analysis, mention)
        if found is None:
            return [mention]
        role, owner = Role.PARAMETER, found[1]

    def is_same(other: Mention) -> bool:
        if other.name != name:
            return False
        if role is Role.PARAMETER and other.role is Role.ARGUMENT:
            target = declared(analysis, other)
            return target is not None and target[1] is owner
        return other.role is role and (role is Role.GLOBAL or other.owner is owner)

    return [each for each in all_mentions(analysis) if is_same(each)]
