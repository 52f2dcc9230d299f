"""Name lookup: the file's own declarations, an import's, or the standard library's."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache, lru_cache

from meganeura_dsl.diagnostics.problem import Problem, ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import (
    DuplicateDeclaration,
    DuplicateImport,
    ImportCycle,
    NotExported,
    UnknownModule,
)
from meganeura_dsl.resources import standard_models
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import Outline, outline, parse, parse_declaration

Loader = Callable[[tuple[str, ...]], Source | None]
"""Finds the source of an imported module by its dotted name, or None."""

Named = ast.Def | ast.Block | ast.Optimizer | ast.Model

Sources = tuple[tuple[Source, tuple[tuple[str, int], ...]], ...]
"""Texts, each with the names it imports and the positions of the texts that these lead to."""

LIBRARY = ("nn", "loss")
"""The modules whose names are known everywhere."""


class Lazy(Mapping[str, Named]):
    """The declarations of a text, each parsed when it is first used."""

    def __init__(self, source: Source) -> None:
        self._outlines: dict[str, Outline] = {
            found.name: found for found in outline(source) if found.kind != "expect"
        }
        self._parsed: dict[str, Named] = {}

    def __getitem__(self, name: str) -> Named:
        parsed = self._parsed.get(name)
        if parsed is None:
            declaration, problems = parse_declaration(self._outlines[name])
            if problems:
                raise ProblemError(problems[0])
            assert isinstance(declaration, Named)
            parsed = self._parsed[name] = declaration
        return parsed

    def __iter__(self) -> Iterator[str]:
        return iter(self._outlines)

    def __len__(self) -> int:
        return len(self._outlines)


@dataclass
class LinkedModule:
    """A file whose imports have been followed."""

    source: Source
    own: Mapping[str, Named]
    is_library: bool = False
    imported: dict[str, "LinkedModule"] = field(default_factory=dict[str, "LinkedModule"])
    trains: dict[str, ast.Train] = field(default_factory=dict[str, ast.Train])
    expectations: list[ast.Expect] = field(default_factory=list[ast.Expect])
    unread: set[str] = field(default_factory=set[str])
    """The names whose declarations or imports were refused, so that nothing is known of them."""

    def find(self, name: str) -> tuple["LinkedModule", Named] | None:
        """The declaration a name refers to here, and the module that contains it."""
        if name in self.own:
            return self, self.own[name]
        if name in self.imported:
            return self.imported[name].find(name)
        for module in library():
            if module is not self and name in module.own:
                return module, module.own[name]
        return None

    def names(self) -> tuple[str, ...]:
        """Every declaration that can be meant here, for suggestions.

        The formulas of the library are for its own signatures.
        """
        known = [*self.own, *self.imported]
        if not self.is_library:
            known += [
                name
                for module in library()
                for name, declaration in module.own.items()
                if not isinstance(declaration, ast.Def)
            ]
        return tuple(known)

    def sources(self) -> Sources:
        """This text, and all that names here lead to."""
        modules = self._linked()
        positions = {id(each): position for position, each in enumerate(modules)}
        return tuple(
            (each.source, tuple((name, positions[id(to)]) for name, to in each.imported.items()))
            for each in modules
        )

    def block_at(self, span: Span) -> ast.Block | None:
        """The block of this file, or of one that names here lead to, in which a span stands."""
        for module in self._linked():
            if module.source is span.source:
                found = (each for each in module.blocks.values() if each.span.contains(span))
                return next(found, None)
        return None

    def _linked(self) -> "list[LinkedModule]":
        """This file and those that names here lead to, in the order in which they are reached."""
        modules: list[LinkedModule] = [self]
        seen = {id(self)}
        for module in modules:
            for other in module.imported.values():
                if id(other) not in seen:
                    seen.add(id(other))
                    modules.append(other)
        return modules

    @property
    def optimizers(self) -> "dict[str, tuple[LinkedModule, ast.Optimizer]]":
        """The optimizers that this file declares or imports, each with the file it stands in."""
        known = ((name, self.find(name)) for name in (*self.own, *self.imported))
        return {
            name: (found[0], found[1])
            for name, found in known
            if found is not None and isinstance(found[1], ast.Optimizer)
        }

    @property
    def models(self) -> dict[str, ast.Model]:
        """The models this file declares, in order."""
        return {name: node for name, node in self.own.items() if isinstance(node, ast.Model)}

    @property
    def blocks(self) -> dict[str, ast.Block]:
        """The blocks this file declares, in order."""
        return {name: node for name, node in self.own.items() if isinstance(node, ast.Block)}


@cache
def library() -> tuple[LinkedModule, ...]:
    """The standard library; a declaration in it is parsed when it is first used."""
    return tuple(
        LinkedModule(source, Lazy(source), is_library=True)
        for source in map(_standard, LIBRARY)
        if source
    )


def _standard(name: str) -> Source | None:
    file = standard_models() / f"{name}.mgn"
    if not file.is_file():
        return None
    return Source(f"{name}.mgn", file.read_text(encoding="utf-8"))


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known names that look like a mistyped one."""
    return _nearest(name, tuple(dict.fromkeys(known)))


@lru_cache(maxsize=256)
def _nearest(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """Returns `nearest(...)`, cached: a wrong block is elaborated twice to find all problems."""
    return tuple(get_close_matches(name, known, n=3, cutoff=0.6))


@lru_cache(maxsize=64)
def _parsed(source: Source) -> tuple[ast.Module, tuple[Problem, ...]]:
    """The tree of an imported file, the same for all that import it, and what is wrong with it."""
    sink = Sink()
    return parse(source, sink), tuple(sink)


class Linker:
    """Parses a file and all it imports; each file once."""

    def __init__(self, loader: Loader, sink: Sink) -> None:
        self.loader = loader
        self.sink = sink
        self._done: dict[tuple[str, ...], LinkedModule] = {}
        self._active: list[str] = []

    @property
    def imports(self) -> Mapping[tuple[str, ...], LinkedModule]:
        """Every module that was imported, directly or not, by its dotted name."""
        return self._done

    def link(self, source: Source) -> LinkedModule:
        """The module of a source, with its imports resolved as far as they exist."""
        return self._linked(parse(source, self.sink))

    def _linked(self, tree: ast.Module) -> LinkedModule:
        own: dict[str, Named] = {}
        module = LinkedModule(tree.source, own, unread=set(tree.unread))
        seen: dict[str, Span] = {}
        imports: dict[str, Span] = {}
        for declaration in tree.declarations:
            match declaration:
                case ast.Import():
                    self._import(module, declaration, imports)
                case ast.ExpectHas() | ast.ExpectHolds() | ast.ExpectMaps():
                    module.expectations.append(declaration)
                case ast.Train():
                    if self._is_new(seen, declaration.name):
                        module.trains[declaration.name.text] = declaration
                case _:
                    if self._is_new(seen, declaration.name):
                        own[declaration.name.text] = declaration
        return module

    def _is_new(self, seen: dict[str, Span], name: ast.Name) -> bool:
        first = seen.setdefault(name.text, name.span)
        if first is name.span:
            return True
        self.sink.add(DuplicateDeclaration(Location(name.span), name.text, Location(first)))
        return False

    def _import(
        self, module: LinkedModule, declaration: ast.Import, imports: dict[str, Span]
    ) -> None:
        try:
            source = self._load(declaration)
        except ProblemError as error:
            self.sink.add(error.problem)
            module.unread.update(name.text for name in declaration.names)
            return
        for name in declaration.names:
            if name.text not in source.own:
                module.unread.add(name.text)
                if name.text in source.unread:
                    continue
                known = nearest(name.text, source.own)
                title = ".".join(declaration.module)
                self.sink.add(NotExported(Location(name.span), title, name.text, known))
                continue
            first = imports.setdefault(name.text, name.span)
            if module.imported.setdefault(name.text, source) is not source:
                self.sink.add(DuplicateImport(Location(name.span), name.text, Location(first)))

    def _load(self, declaration: ast.Import) -> LinkedModule:
        words, title = declaration.module, ".".join(declaration.module)
        if title in self._active:
            raise ProblemError(ImportCycle(Location(declaration.span), (*self._active, title)))
        if words in self._done:
            return self._done[words]
        source = self.loader(words)
        if source is None:
            from_library = standard_models()
            known = [entry.name.removesuffix(".mgn") for entry in from_library.iterdir()]
            raise ProblemError(
                UnknownModule(Location(declaration.span), title, nearest(title, known))
            )
        for module in library():
            if (source.name, source.text) == (module.source.name, module.source.text):
                return self._done.setdefault(words, module)
        self._active.append(title)
        try:
            tree, problems = _parsed(source)
            for problem in problems:
                self.sink.add(problem)
            module = self._linked(tree)
        finally:
            self._active.pop()
        self._done[words] = module
        return module


MOST_MODELS = 100
"""The longest chain of models defined by models."""


def configuration(
    module: LinkedModule, declaration: ast.Block | ast.Model
) -> tuple[ast.Parameter, ...]:
    """The parameters of a block, or of the block that a chain of models ends in."""
    block = block_behind(module, declaration)
    return () if block is None else block.parameters


def block_behind(module: LinkedModule, declaration: ast.Block | ast.Model) -> ast.Block | None:
    """The block itself, or the one that a chain of models ends in, if it ends."""
    for _ in range(MOST_MODELS):
        if isinstance(declaration, ast.Block):
            return declaration
        found = module.find(declaration.call.callee)
        if found is None or not isinstance(found[1], ast.Block | ast.Model):
            break
        module, declaration = found[0], found[1]
    return None
