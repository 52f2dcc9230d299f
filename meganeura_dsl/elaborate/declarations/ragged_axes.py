"""Axes whose size is another one in each example: `x: [each v of batch, 7]` in a `train`.

Below the inputs `v` is one size, the sum over the examples of a batch, so that all is proved of it
as of any other. Whole numbers that `where` bounds by it count within their example: the data moves
them by the rows of the examples before.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import names_in, parts_of
from meganeura_dsl.elaborate.values import is_size
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.index_checks import inputs_that_pick
from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.assumptions import Compare
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.syntax import ast

EXAMPLE_OF = "example_of"
"""The function that gives the example of each row, and the leaf that the data feeds for it."""
OFFSETS = "offsets"
"""The function that gives the first row of each example, and the leaf that is fed for it."""


@dataclass(frozen=True)
class Ragged:
    """The ragged axes of a `train` block; all empty where it has none."""

    sizes: Mapping[str, str]
    """The ragged size of each input that has one, which is its first."""
    shifts: Mapping[str, str]
    """The ragged size whose rows each input of whole numbers picks from."""
    counter: str | None = None
    """The size that counts examples."""

    @property
    def names(self) -> tuple[str, ...]:
        """The ragged sizes, in order."""
        return tuple(dict.fromkeys(self.sizes.values()))


NONE = Ragged({}, {})


def derived_name(function: str, size: str) -> str:
    """The name of the input that `function(size)` is."""
    return f"{function}({size})"


def derived_names(ragged: Ragged) -> frozenset[str]:
    """The names of the inputs that follow from how the rows are divided."""
    return frozenset(
        derived_name(function, size) for size in ragged.names for function in (EXAMPLE_OF, OFFSETS)
    )


@lru_cache(maxsize=256)
def ragged_of(train: ast.Train) -> Ragged:
    """The ragged axes of a `train` block; raises `ProblemError` for what cannot be one."""
    items = [item for item in train.inputs if item.of is not None]
    if not items:
        return NONE
    sizes = {item.name: _first(item) for item in items}
    counter = _counter(train, items)
    names = set(sizes.values())
    for item in train.inputs:
        _require_plain(item, names, counter)
    shifts = {
        item.name: size
        for item in train.inputs
        if (size := _shift(item, train, names, counter)) is not None
    }
    return Ragged(sizes, shifts, counter)


def _refused(node: ast.Node, what: str, reason: str, cure: Help | None = None) -> ProblemError:
    return ProblemError(NotAllowedHere(Location(node.span), what, reason, cure))


def _first(item: ast.Input) -> str:
    entry = item.type.shape.entries[0]
    assert isinstance(entry, ast.Name)
    return entry.text


def _counter(train: ast.Train, items: list[ast.Input]) -> str:
    """The size that counts examples, which the other inputs have first as well."""
    of = items[0].of
    assert of is not None
    others = [
        item for item in train.inputs if item.of is None and not item.whole and _leading(item)
    ]
    for item in others:
        if of.text not in _leading(item) and not any(
            name in {_first(each) for each in items} for name in _leading(item)
        ):
            counts = ", ".join(f"`{name}`" for name in _leading(item))
            reason = f"does not count examples: {item.name} has {counts} first"
            cure = Help(
                "each of the size that counts", f"each {_first(items[0])} of {counts[1:-1]}"
            )
            raise _refused(of, f"`{of.text}`", reason, cure)
    for item in items:
        assert item.of is not None
        if item.of.text != of.text:
            reason = f"is another size than `{of.text}`, which counts examples above"
            raise _refused(item.of, f"`{item.of.text}`", reason)
        if _first(item) == of.text:
            reason = "counts the examples, so it cannot be ragged itself"
            raise _refused(item.type.shape.entries[0], f"`{of.text}`", reason)
    return of.text


def _leading(item: ast.Input) -> list[str]:
    entries = item.type.shape.entries
    first = entries[0] if entries else None
    return [] if first is None or isinstance(first, ast.Rest) else size_names(first)


def _require_plain(item: ast.Input, names: set[str], counter: str) -> None:
    """Refuse a ragged size anywhere but where `each` says so."""
    entries = item.type.shape.entries[1 if item.of is not None else 0 :]
    for axis, entry in enumerate(entries):
        if isinstance(entry, ast.Rest):
            continue
        found = next((name for name in size_names(entry) if name in names), None)
        if found is None:
            continue
        is_first = item.of is None and axis == 0 and isinstance(entry, ast.Name)
        reason = "is ragged: only the first size of an input can be, and `each` declares it"
        cure = Help("write", f"each {found} of {counter}") if is_first else None
        raise _refused(entry, f"`{found}`", reason, cure)


def _shift(item: ast.Input, train: ast.Train, names: set[str], counter: str) -> str | None:
    """The ragged size that an input of whole numbers is stated to be below; None for none."""
    if item.type.dtype in ("i64", "u32") and item.of is not None:
        cure = Help("whole numbers of ragged rows are", f"{item.name}: i32[each ...]")
        reason = "cannot be bounded by `where`, which says what they count"
        raise _refused(item.type, f"{item.type.dtype}", reason, cure)
    if item.type.dtype != "i32":
        return None
    found: str | None = None
    is_bounded = False
    for clause in (part for each in train.where for part in parts_of(each)):
        used = set(names_in(clause))
        if item.name not in used:
            continue
        bound = _bound(clause, item.name)
        if used.isdisjoint(names):
            others = {each.name for each in train.inputs}
            is_bounded |= bound is not None and others.isdisjoint(names_in(bound))
            continue
        if not isinstance(bound, ast.Name) or (found is not None and found != bound.text):
            size = next(name for name in used if name in names)
            reason = "is not a bound by which numbers are moved to the rows of their example"
            raise _refused(clause, "this", reason, Help("write", f"{item.name} < {size}"))
        found = bound.text
    if found is None and not is_bounded and item.of is not None:
        of = item.of.text
        text = "say below what these numbers are: rows of the example, or any number of classes"
        code = f"where 0 <= {item.name}, {item.name} < {min(names)}:"
        raise _refused(item, f"`{item.name}`", f"has numbers of each of `{of}`, and no bound",
                       Help(text, code))  # fmt: skip
    if found is not None and item.of is None and (item.whole or _leading(item) != [counter]):
        reason = f"picks among the rows of an example, so it has one entry for each of `{counter}`"
        raise _refused(item, f"`{item.name}`", reason)
    return found


def _bound(clause: ast.Expression, name: str) -> ast.Expression | None:
    """The `b` of a clause `name < b` or `b > name`."""
    match clause:
        case ast.Binary(operator="<", left=ast.Name(text=text), right=bound) if text == name:
            return bound
        case ast.Binary(operator=">", left=bound, right=ast.Name(text=text)) if text == name:
            return bound
        case _:
            return None


def require_moved(ragged: Ragged, train: ast.Train, graph: Graph) -> None:
    """Refuse whole numbers that pick ragged rows, which no `where` says to move to their example.

    They would pick rows of the first examples for all others.
    """
    inputs = {item.name: item for item in train.inputs}
    for use in inputs_that_pick(graph) if ragged.names else ():
        leaf = use.ids.op
        assert isinstance(leaf, ops.Input)
        size = next((each for each in ragged.names if each in variables_of(use.count)), None)
        if size is None or leaf.name not in inputs or leaf.name in ragged.shifts:
            continue
        reason = (
            f"picks among rows of `{size}`, and no `where` says that it counts within an example"
        )
        text = "numbers that count from 0 in each example are moved to its rows then"
        cure = Help(text, f"where 0 <= {leaf.name}, {leaf.name} < {size}:")
        raise _refused(inputs[leaf.name], f"`{leaf.name}`", reason, cure)


def add_derived(ragged: Ragged, train: ast.Train, frame: Frame) -> None:
    """Make the inputs that `example_of` and `offsets` are, and state what their numbers are."""
    if ragged.counter is None:
        return
    batch = frame.names[ragged.counter]
    assert is_size(batch)
    for size in ragged.names:
        rows = frame.names[size]
        assert is_size(rows)
        item = next(item for item in train.inputs if ragged.sizes.get(item.name) == size)
        for function, shape, least_above in (
            (EXAMPLE_OF, rows, batch),
            (OFFSETS, batch + 1, rows + 1),
        ):
            name = derived_name(function, size)
            leaf = frame.add(item.span, ops.Input(name, DType.I32, (shape,)))
            values = frame.state.values
            values.symbolic_ints[leaf.id] = dim(name)
            values.lasting_symbols.add(name)
            facts = frame.facts.with_lower_bound(name, 0)
            frame.build.facts = facts.assume(Compare("<", dim(name), least_above))
            frame.state.train.derived[name] = leaf


def sizes_not_fixed(ragged: Ragged, sizes: Mapping[str, int]) -> Iterator[str]:
    """The ragged sizes that are to have numbers and have none."""
    if sizes:
        yield from (name for name in ragged.names if name not in sizes)
