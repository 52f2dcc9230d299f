"""A class or a function of the source: one block, as it is applied in some ways."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import BlockValue, ElabValue, StaticValue, is_tensor
from meganeura_dsl.symbolic.polynomial import Dim
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.trace import Instance


@dataclass(eq=False)
class Unit:
    """Applications of a block that become one class, if it has weights, or one function."""

    block: ast.Block
    instances: list[Instance] = field(default_factory=list[Instance])
    name: str = ""
    owns: bool = False
    lines: list[str] = field(default_factory=list[str])
    configuration: list[str] = field(default_factory=list[str])
    """The configuration that the constructor or the function takes, by name, in order."""
    sizes: list[str] = field(default_factory=list[str])
    """The sizes of inputs that the constructor takes, by name, in order."""
    keywords: set[str] = field(default_factory=set[str])
    """The configuration that is given by name alone."""
    late_read: list[str] = field(default_factory=list[str])
    """The configuration that a class takes with the tensors, by name, in order."""
    training: bool = False
    """True for a function that takes `training`."""
    draws: bool = False
    """True for a function that takes `keys`, as it draws random numbers."""
    is_whole: bool = False
    """True where all inputs are tensors: an optional one that was not given is made before."""
    base: str = ""
    """The class that this one inherits from, as text; nothing where there is none."""
    is_written: bool = False

    def is_like(self, other: "Unit") -> bool:
        """Returns True for a class or a function that is another one, but for its name."""
        own, its = self.lines, other.lines
        return (
            self.block is other.block
            and own[0].replace(self.name, other.name) == its[0]
            and own[1:] == its[1:]
            and [each.name for each in self.inputs] == [each.name for each in other.inputs]
            and self.configuration == other.configuration
        )

    @property
    def late(self) -> list[str]:
        """The configuration that comes with the data, as a number of rows does."""
        return [
            each.name
            for each in self.block.parameters
            if any(is_size(i.signature[each.name]) for i in self.instances)
        ]

    @property
    def inputs(self) -> list[ast.Input]:
        """The tensors that it takes: those with a default that are never given are left out."""
        return [each for each in self.block.inputs if self.is_whole or self.fill(each.name) is None]

    def fill(self, name: str) -> StaticValue | None:
        """The number that an optional input is, where it is never given."""
        first = self.instances[0]
        return first.fill_of(first.signature[name])


def is_size(value: ElabValue) -> bool:
    """Returns True for a size that is no number, since data decides it."""
    return isinstance(value, Dim)


def key_of(instance: Instance) -> Hashable:
    """Returns a key that is equal for applications that are written as one class or function."""
    inputs = [(name, instance.signature[name.name]) for name in instance.block.inputs]
    types = tuple(
        (value.type.dtype, value.type.rank, repr(instance.fill_of(value)))
        for _, value in inputs
        if is_tensor(value)
    )
    blocks = tuple(_block(instance.signature[each.name]) for each in instance.block.parameters)
    return instance.block, types, blocks, instance.owns, _bases(instance)


def _bases(instance: Instance) -> tuple[bool, ...]:
    """The choices that decide which class this one inherits from."""
    return tuple(
        way
        for statement in instance.block.body
        for node in walk(statement)
        if isinstance(node, ast.If) and _is_base(node.then) and _is_base(node.otherwise)
        for way in instance.choices.get(node, ())
    )


def _is_base(statements: Sequence[ast.Statement]) -> bool:
    """Returns True where a layer has the path of the block itself."""
    return any(
        isinstance(node, ast.Call) and node.label is not None and not node.label.parts
        for statement in statements
        for node in walk(statement)
    )


def _block(value: ElabValue) -> Hashable:
    return repr(value) if isinstance(value, BlockValue | str) else None


def units_of(instances: Iterable[Instance]) -> dict[Instance, Unit]:
    """The class or function of each application."""
    units: dict[Hashable, Unit] = {}
    found: dict[Instance, Unit] = {}
    for each in instances:
        unit = units.setdefault(key_of(each), Unit(each.block, owns=each.owns))
        unit.instances.append(each)
        found[each] = unit
    return found
