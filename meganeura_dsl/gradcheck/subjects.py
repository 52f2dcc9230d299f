"""Subjects of a check: a block with any configuration, or a model with its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import cast

from hypothesis.vendor.pretty import RepresentationPrinter

from meganeura_dsl.elaborate.declarations.block_domain import BlockDomain, model_configuration
from meganeura_dsl.elaborate.declarations.models import elaborate_model
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.typecheck.config_kinds import is_named
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.syntax import ast

HEAVY = 500_000
"""A model of more weights is checked by its block, which is drawn narrow."""


@dataclass(frozen=True)
class Subject:
    """A block, and what its configuration can be."""

    name: str
    module: LinkedModule
    block: ast.Block
    is_model: bool = False
    given: Mapping[str, StaticValue] = field(default_factory=dict[str, StaticValue])
    """The configuration of a model; empty for a block."""
    truths: frozenset[str] = frozenset()
    """Configuration that is true or false although no default says so."""
    lists: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Configuration that is a list, and the largest numbers in it: a model's, or the default's."""
    tables: Mapping[str, tuple[tuple[int, ...], ...]] = field(
        default_factory=dict[str, tuple[tuple[int, ...], ...]]
    )
    """Configuration that is a list of rows by its default, and the first rows of that."""
    reals: frozenset[str] = frozenset()
    """Configuration without a default for which a model uses a real number."""
    largest_real: float = 1 / 8
    """The largest such number that is drawn: small, as widths are multiples of them."""
    domains: dict[str, BlockDomain] = field(default_factory=dict[str, BlockDomain], compare=False)
    """Domains of sizes, for parts of the configuration that were tried."""

    def drawn(self, config: Mapping[str, StaticValue]) -> dict[str, StaticValue]:
        """Returns the part of a configuration that differs between cases."""
        return {name: value for name, value in config.items() if name not in self.given}

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def _repr_pretty_(self, printer: RepresentationPrinter, _cycle: object) -> None:
        """Prints the name for Hypothesis, which would else print the tree of the whole file."""
        printer.text(repr(self))


def block_subject(module: LinkedModule, block: ast.Block) -> Subject:
    """A block with all the configurations it can have."""
    truths = frozenset(_truths(module, block, frozenset()))
    lists = {each.name: items for each in block.parameters if (items := _items(each))}
    written = dict(lists)
    reals: set[str] = set()
    for given in _given(module, block):
        lists |= written | _integer_lists(given)
        reals |= {name for name, value in given.items() if isinstance(value, float)}
    names = {each.name for each in block.parameters if each.default is None}
    tables = {each.name: rows for each in block.parameters if (rows := _rows(each.default))}
    lengths = _lengths(block, {**lists, **tables})
    return Subject(
        block.name.text, module, block,
        truths=truths,
        lists={name: each[: lengths[name]] for name, each in lists.items()},
        tables={name: rows[: lengths[name]] for name, rows in tables.items()},
        reals=frozenset(reals & names),
    )  # fmt: skip


def _items(parameter: ast.Parameter) -> tuple[int, ...]:
    """The whole numbers of a list's default, if its kind gives no length; else none."""
    match parameter.kind:
        case None | ast.NamedKind(name="list", length=None):
            is_open = True
        case _:
            is_open = False
    default = parameter.default
    items = default.items if is_open and isinstance(default, ast.ListOf) else ()
    numbers = tuple(item.value for item in items if isinstance(item, ast.Integer))
    return numbers if len(numbers) == len(items) else ()


def _lengths(block: ast.Block, lists: Mapping[str, Sequence[object]]) -> dict[str, int]:
    """The length of each list, of which a `where` makes some as long as the shortest of them."""
    lengths = {name: len(each) for name, each in lists.items()}
    pairs = [pair for fact in block.where if (pair := _of_one_length(fact)) <= lengths.keys()]
    for _ in pairs:  # a length passes from pair to pair
        for pair in pairs:
            lengths |= dict.fromkeys(pair, min((lengths[name] for name in pair), default=0))
    return lengths


def _of_one_length(fact: ast.Expression) -> set[str]:
    """The names of a fact `len(a) == len(b)`; none of any other."""
    match fact:
        case ast.Binary(
            operator="==",
            left=ast.Call(callee="len", arguments=(ast.Argument(value=ast.Name(text=left)),)),
            right=ast.Call(callee="len", arguments=(ast.Argument(value=ast.Name(text=right)),)),
        ):
            return {left, right}
        case _:
            return set()


def _rows(default: ast.Expression | None) -> tuple[tuple[int, ...], ...]:
    """The first two rows of a list of lists of whole numbers; none of anything else."""
    items = default.items if isinstance(default, ast.ListOf) else ()
    rows = [row.items for row in items if isinstance(row, ast.ListOf)]
    return tuple(
        tuple(item.value for item in row if isinstance(item, ast.Integer)) for row in rows[:2]
    )


def model_subject(module: LinkedModule, model: ast.Model) -> Subject:
    """A model as it is declared, or its block if it has many weights. Raises `ProblemError`."""
    home, block, given = model_configuration(module, model)
    elaboration = elaborate_model(module, model, config={}, sizes=None, training=False)
    weights = sum(
        prod(size for size in each.type.shape if isinstance(size, int))
        for each in elaboration.parameters
    )
    if weights <= HEAVY:
        return Subject(model.name.text, home, block, is_model=True, given=given)
    narrow = block_subject(home, block)
    lists = {**narrow.lists, **_integer_lists(given)}
    return replace(narrow, name=f"{model.name.text}, narrowed", lists=lists)


def subjects(module: LinkedModule, chosen: str | None = None) -> list[Subject]:
    """Every block and model of a file, or the one that is chosen. Raises `ProblemError`.

    A model of many weights is left to its block, where that is checked anyway.
    """
    blocks = [block for name, block in module.blocks.items() if chosen in (None, name)]
    models = [
        model_subject(module, model)
        for name, model in module.models.items()
        if chosen in (None, name)
    ]
    return [
        *(block_subject(module, block) for block in blocks),
        *(model for model in models if model.is_model or model.block not in blocks),
    ]


def _given(module: LinkedModule, block: ast.Block) -> Iterator[Mapping[str, StaticValue]]:
    """Yields the arguments that models of the same file give a block."""
    for model in module.models.values():
        _, used, given = model_configuration(module, model)
        if used is block:
            yield given


def _integer_lists(given: Mapping[str, StaticValue]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(item for item in value if isinstance(item, int))
        for name, value in given.items()
        if isinstance(value, list) and all(isinstance(item, int) for item in value)
    }


def _truths(module: LinkedModule, block: ast.Block, above: frozenset[ast.Block]) -> Iterator[str]:
    """The arguments that a block, or one that it applies, takes as true or false."""
    if block in above:
        return
    nodes = list(_nodes(block))
    for parameter in block.parameters:
        is_boolean = isinstance(parameter.default, ast.Boolean) or is_named(parameter.kind, "bool")
        if is_boolean or (
            parameter.default is None
            and any(_is_truth(module, node, parameter.name, above | {block}) for node in nodes)
        ):
            yield parameter.name


def _is_truth(module: LinkedModule, node: ast.Node, name: str, above: frozenset[ast.Block]) -> bool:
    match node:
        case ast.If(condition=ast.Name(text=text)):
            return text == name
        case ast.Call():
            passed = _passed_to(module, node, name)
            return bool(passed) and not passed.isdisjoint(_taken(module, node, above))
        case _:
            return False


def _taken(module: LinkedModule, call: ast.Call, above: frozenset[ast.Block]) -> Iterator[str]:
    found = module.find(call.callee)
    if found is not None and isinstance(found[1], ast.Block):
        yield from _truths(found[0], found[1], above)


def _passed_to(module: LinkedModule, call: ast.Call, name: str) -> set[str]:
    """The parameters that a call gives the value of a name."""
    found = module.find(call.callee)
    known = found[1].parameters if found is not None and isinstance(found[1], ast.Block) else ()
    names = [parameter.name for parameter in known]
    passed = [
        argument.name or names[position]
        for position, argument in enumerate(call.arguments)
        if isinstance(argument.value, ast.Name)
        and argument.value.text == name
        and (argument.name or position < len(names))
    ]
    return set(passed)


def _nodes(node: ast.Node) -> Iterator[ast.Node]:
    """A node and all below it."""
    yield node
    for each in fields(node):
        value: object = getattr(node, each.name)
        parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        for part in parts:
            if isinstance(part, ast.Node):
                yield from _nodes(part)
