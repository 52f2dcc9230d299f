"""Values that are never used: inputs, configuration and bindings nothing reads, idle layers."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layer_problems import UnappliedLayer
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import UnusedValue
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


def unused_values(
    declaration: ast.Block | ast.Optimizer | ast.Train | ast.Def,
) -> Iterator[UnusedValue | UnappliedLayer]:
    """Each value of a declaration that nothing after it reads, in the order they were written."""
    body: tuple[ast.Node, ...] = (
        (declaration.body,) if isinstance(declaration, ast.Def) else declaration.body
    )
    nodes = [node for statement in body for node in walk(statement)]
    bindings = list(_bindings(nodes))
    reads = list(_reads(nodes, bindings))
    if isinstance(declaration, ast.Def):
        yield from _unread(((p.name, p.span) for p in declaration.parameters), reads)
        return
    signature = list(_signature_reads(declaration))
    if isinstance(declaration, ast.Block):
        yield from _unread(((p.name, p.span) for p in declaration.parameters), [*reads, *signature])
    if isinstance(declaration, ast.Optimizer):  # without its rate it is refused
        given = (each for each in declaration.parameters if each.name != ast.RATE)
        yield from _unread(((p.name, p.span) for p in given), [*reads, *signature])
    yield from _unread(((item.name, item.span) for item in declaration.inputs), reads)
    loops = [node.span for node in nodes if isinstance(node, ast.For | ast.Scan)]
    last_first: dict[str, list[Span]] = {}
    for read, span in sorted(reads, key=lambda each: -each[1].start):
        last_first.setdefault(read, []).append(span)
    for name in bindings:
        again = [loop.end for loop in loops if loop.start <= name.span.start < loop.end]
        after = min([name.span.end, *(loop.start for loop in loops if loop.end in again)])
        if not _is_read(name, after, last_first.get(name.text, ())):
            yield from _unread([(name.text, name.span)], [])
    yield from _unapplied(nodes, reads)


def _is_read(name: ast.Name, after: int, last_first: Iterable[Span]) -> bool:
    """True if a read of the name, of all in the order from the last, begins at `after` or later."""
    later = takewhile(lambda span: span.start >= after, last_first)
    return any(span is not name.span for span in later)


def _unapplied(
    nodes: Iterable[ast.Node], reads: Iterable[tuple[str, Span]]
) -> Iterator[UnappliedLayer]:
    """The declared layers that nothing applies or gives to a block."""
    known = {name for name, _ in reads}
    numbered = {words_of(each.path) for each in nodes if isinstance(each, ast.Call) and each.path}
    for node in nodes:
        if isinstance(node, ast.Layer) and layer_text(node.call) not in known:
            assert node.call.label is not None
            if words_of(node.call.label) not in numbered:
                yield UnappliedLayer(Location(node.span), layer_text(node.call))


def words_of(path: ast.Path) -> tuple[str, ...]:
    """The words of a path, without its numbers."""
    return tuple(part for part in path.parts if isinstance(part, str))


def labels_like(path: ast.Path, declaration: ast.Node | None) -> bool:
    """True if a declaration labels a layer with the words of a path, whatever its numbers are."""
    calls = (
        (node for node in walk(declaration) if isinstance(node, ast.Call)) if declaration else ()
    )
    return any(each.label and words_of(each.label) == words_of(path) for each in calls)


def _unread(
    named: Iterable[tuple[str, Span]], reads: Iterable[tuple[str, Span]]
) -> Iterator[UnusedValue]:
    known = {name for name, _ in reads}
    for name, span in named:
        if name not in known and not name.startswith("_"):
            yield UnusedValue(Location(span), name)


def _signature_reads(
    declaration: ast.Block | ast.Optimizer | ast.Train,
) -> Iterator[tuple[str, Span]]:
    is_train = isinstance(declaration, ast.Train)
    results = () if is_train else declaration.results or ()
    parameters = () if is_train else declaration.parameters
    parts = [part for p in parameters for part in (p.default, p.kind) if part is not None]
    parts += [item.default for item in declaration.inputs if item.default is not None]
    roots = (*(item.type for item in declaration.inputs), *results, *declaration.where, *parts)
    yield from _reads([node for root in roots for node in walk(root)], ())


def _bindings(nodes: Iterable[ast.Node]) -> Iterator[ast.Name]:
    for node in nodes:
        match node:
            case ast.Bind(targets=targets):
                yield from targets
            case ast.Part(target=target):
                yield target
            case _:
                pass


def _reads(nodes: Iterable[ast.Node], bindings: Iterable[ast.Name]) -> Iterator[tuple[str, Span]]:
    """The names that nodes read, which are not those they bind."""
    written = set(map(id, bindings))
    for node in nodes:
        match node:
            case ast.Name(text=text) if id(node) not in written:
                yield text, node.span
            case ast.Rest(name=name):
                yield name, node.span
            case ast.Call(callee=callee, callee_span=span):
                yield callee, span
            case _:
                pass


def layer_text(call: ast.Call) -> str:
    """A layer's label, or its name if it has none or is labelled `.`."""
    if call.path is not None:
        return "".join(call.path.span.text.split())
    if call.label is None or not call.label.parts:
        return call.callee
    return "".join(call.label.span.text.split())
