"""A block of the language as a class or a function of Python.

The text follows the syntax tree. What was evaluated in all applications of the block in the model
decides what is written: a choice that always went one way is written as that way alone, and a size
that a constructor needs is written as an expression that has its value in every application.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Groups
from meganeura_runtime.export.source.bindings import Bound
from meganeura_runtime.export.source.observed import Observed
from meganeura_runtime.export.source.text import (
    Code,
    Create,
    Line,
    PathPart,
    Statement,
    python_name,
)
from meganeura_runtime.export.source.trace import Event, Instance, Trace
from meganeura_runtime.export.source.unit import Unit


class SourceFile(Protocol):
    """The file that blocks are written into."""

    trace: Trace
    draws_in_scans: bool
    reserved: frozenset[str]
    """Names of Python, of blocks and of functions, which no local name takes."""

    def unit(self, node: ast.Node, children: Sequence[Instance]) -> Unit:
        """Returns the class or function of what a call applies, written."""
        ...

    def helper(self, name: str) -> None:
        """Adds a function that the language has and the system has not to the file, once."""
        ...

    def function(self, module: LinkedModule, definition: ast.Def) -> str:
        """Returns the name of a function of sizes, written."""
        ...


@dataclass(frozen=True)
class Forms:
    """The functions that write each form of syntax.

    They are in modules above this one, and come back to one another through the writer alone.
    """

    static: Callable[["BlockWriter", ast.Expression, str], Code]
    """Writes what is known before any data is, in `init` or in `forward`."""
    expression: Callable[["BlockWriter", ast.Expression], Code]
    """Writes a tensor or several; of anything else, its value."""
    tensor: Callable[["BlockWriter", ast.Expression], Code]
    """Writes a tensor; of a number, the tensor that it is."""
    whole: Callable[["BlockWriter", ast.Expression], Code]
    """Writes a tensor; an optional one that was not given is made."""
    run: Callable[["BlockWriter", Sequence[ast.Statement]], bool]
    """Writes statements; returns True where a `return` ends them."""


class BlockWriter(ABC):
    """Writes one class or function.

    What is the same for all systems is in this class and in the functions that take it; what each
    system writes otherwise is an abstract method.
    """

    namespace: ClassVar[str]
    """The module of functions of tensors, as a file calls it."""
    renamed: ClassVar[Mapping[str, str]]
    """Functions of single elements that are called otherwise there, by our names."""

    def __init__(self, unit: Unit, source: SourceFile, forms: Forms) -> None:
        self.unit = unit
        self._forms = forms
        self.source = source
        self.block = unit.block
        self.instances = unit.instances
        self.seen = Observed(unit.instances)
        self.is_class = False
        self.init: list[list[Statement]] = [[]]
        """The statements of the constructor of a class."""
        self.forward: list[list[Statement]] = [[]]
        self.env: dict[str, str] = {}
        """The kind of each name: `config`, `size`, `rest`, `local`, `static` or `own`, a weight."""
        self.bound: Mapping[str, Bound] = {}
        """The last binding of each tensor that no loop or choice rebinds."""
        self.loops: list[ast.For] = []
        """The loops around what is written, outermost first."""
        self.scans: list[ast.Scan] = []
        """The scans around what is written."""
        self.collected: dict[str, str] = {}
        self.declared: dict[str, ast.Layer | ast.Call] = {}
        self.known_codes: dict[ast.Expression, Code] = {}
        self._bind_signature()
        self.signature_kinds = dict(self.env)
        self._names = names_in(self.block)
        """The names that are taken in the class or function."""
        self._pipes = {
            node.layer: node
            for statement in self.block.body
            for node in walk(statement)
            if isinstance(node, ast.Pipe)
        }

    # --- what was evaluated ----------------------------------------------------------------------
    def fill(self, node: ast.Expression) -> Code | None:
        """The number that a tensor is everywhere, as it is an optional one that was not given."""
        if self.unit.is_whole or (isinstance(node, ast.Name) and node.text not in self.env):
            return None
        return self.seen.fill(node)

    def _bind_signature(self) -> None:
        first = self.instances[0].signature
        for item in self.block.inputs:
            for entry in item.type.shape.entries:
                if isinstance(entry, ast.Rest):
                    self.env[entry.name] = "rest"
                else:
                    for node in walk(entry):
                        if isinstance(node, ast.Name) and node.text in first:
                            self.env.setdefault(node.text, "size")
        for each in self.block.parameters:
            self.env[each.name] = "config"
        for item in self.block.inputs:
            self.env[item.name] = "local"

    def is_number(self, name: str) -> bool:
        """Returns True for a size of the signature that is a number in each application."""
        return all(isinstance(each.signature[name], int) for each in self.instances)

    def local(self, name: str) -> str:
        """A local name as Python has it."""
        return python_name(name, self.source.reserved)

    def emit(self, text: str, binds: tuple[str, ...] = (), *, effect: bool = True) -> None:
        """Appends a line of the function or the method."""
        self.forward[-1].append(Line(text, binds, effect))

    def steps(self, path: ast.Path, where: str) -> tuple[PathPart, ...]:
        """The parts of a path, with their numbers as text."""
        found: list[PathPart] = []
        for part in path.parts:
            match part:
                case str():
                    found.append(PathPart("word", part))
                case ast.Splice(value=value):
                    last = found.pop()
                    text = f"{{{self.static(value, where)}}}"
                    found.append(PathPart("computed", last.text + text))
                case _:
                    found.append(PathPart("index", str(self.static(part, where))))
        return tuple(found)

    def simple(self, code: Code, name: str) -> Code:
        """The text of a tensor that is read twice: a name, which a statement binds if need be.

        The name is `name`, with a number behind it where the block has that name already.
        """
        if re.fullmatch(r"[\w.]+", code.text):
            return code
        new = self.new_name(name)
        self.emit(f"{new} = {code}", (new,))
        return Code(new)

    def new_name(self, wanted: str) -> str:
        """A local name that the block has not, with a number behind it where need be."""
        new, number = wanted, 1
        while new in self._names or new in self.source.reserved:
            number += 1
            new = f"{wanted}{number}"
        self._names.add(new)
        return new

    def pipes(self, node: ast.Call) -> list[ast.Pipe]:
        """The pipe that ends in a call, if one does."""
        return [self._pipes[node]] if node in self._pipes else []

    # --- what the parts of a block are written as ------------------------------------------------

    def static(self, node: ast.Expression, where: str) -> Code:
        """The text of what is known before any data is, in `init` or in `forward`."""
        return self._forms.static(self, node, where)

    def expression(self, node: ast.Expression) -> Code:
        """The text of a tensor or of several; of anything else, its value."""
        return self._forms.expression(self, node)

    def tensor(self, node: ast.Expression) -> Code:
        """The text of a tensor; of a number, the tensor that it is."""
        return self._forms.tensor(self, node)

    def whole(self, node: ast.Expression) -> Code:
        """The text of a tensor; an optional one that was not given is made."""
        return self._forms.whole(self, node)

    def run(self, statements: Sequence[ast.Statement]) -> bool:
        """Writes statements; returns True where a `return` ends them."""
        return self._forms.run(self, statements)

    # --- what each system writes otherwise: statements -------------------------------------------

    @abstractmethod
    def declare(self, statement: ast.Declare) -> None:
        """Writes a parameter or a state."""

    @abstractmethod
    def declare_layer(self, statement: ast.Layer) -> None:
        """Writes a layer that is declared before it is applied."""

    @abstractmethod
    def note_bound(self, statement: ast.Bind) -> None:
        """Notes what a statement bound, which is `bound` from now on."""

    @abstractmethod
    def note_loop(self, statement: ast.For) -> None:
        """Notes the beginning or the end of a loop."""

    @abstractmethod
    def scan(self, statement: ast.Scan) -> None:
        """Writes a scan."""

    @abstractmethod
    def collect(self, statement: ast.Part) -> None:
        """Writes a slice that a scan collects."""

    @abstractmethod
    def replace_part(self, name: str, entries: str, value: Code) -> None:
        """Writes the replacement of a part of a tensor."""

    @abstractmethod
    def updated(self, statement: ast.Update) -> str:
        """The text of the state that a statement gives a new value."""

    @abstractmethod
    def detach(self, value: Code) -> Code:
        """The text of a tensor that no gradient goes through."""

    @abstractmethod
    def configured(self, name: str) -> str:
        """The text of an argument of the block, where tensors are."""

    @abstractmethod
    def created(self, create: Create) -> Sequence[str]:
        """The statements of a constructor that make a layer, a parameter or a state."""

    # --- layers, parameters and functions --------------------------------------------------------

    @abstractmethod
    def access(self, steps: Sequence[PathPart], key: Sequence[str]) -> str:
        """The text of the layer, parameter or state that a path names."""

    @abstractmethod
    def apply(
        self, node: ast.Call, events: Sequence[Event], nodes: Mapping[str, ast.Expression]
    ) -> Code:
        """Writes a block that is applied to tensors, by the names of its inputs."""

    @abstractmethod
    def builtin(self, node: ast.Call, piped: ast.Expression | None) -> Code:
        """Writes a function that the language starts from."""

    @abstractmethod
    def size(self, node: ast.Call, events: Sequence[Event], name: str) -> Code:
        """Writes an argument that no call gives as one number, for a constructor."""

    # --- tensors ---------------------------------------------------------------------------------

    @abstractmethod
    def placement(self) -> Mapping[str, str]:
        """The arguments that say where a new tensor is, by name."""

    @abstractmethod
    def number(self, value: Code) -> Code:
        """The text of the tensor that a number is."""

    @abstractmethod
    def numbers(self, count: Code) -> Code:
        """The text of the numbers from 0 up to a count."""

    @abstractmethod
    def full(self, sizes: Sequence[Code], value: Code) -> Code:
        """The text of a tensor of one number."""

    @abstractmethod
    def convert(self, value: Code, before: DType, after: str) -> Code | None:
        """The text of a tensor of another element type; None where the system has it not."""

    @abstractmethod
    def limit(self, name: str, value: Code, bound: Code) -> Code:
        """The text of the `maximum` or `minimum` of a tensor and a number."""

    @abstractmethod
    def reduce(self, name: str, value: Code, axes: str) -> Code:
        """The text of a reduction along axes, or along all if there are none."""

    @abstractmethod
    def move_axis(self, value: Code, start: int, stop: int) -> Code:
        """The text of a tensor with one of its axes at another place."""

    @abstractmethod
    def stack(self, name: str, axis: str) -> Code:
        """The text of the tensors of a list as one, along a new axis."""

    @abstractmethod
    def split(self, node: ast.Node, value: Code, groups: Groups) -> Code:
        """The text of a tensor with an axis for each of a group; an empty group was one of 1."""

    @abstractmethod
    def merge(self, value: Code, groups: Groups) -> Code:
        """The text of a tensor with each group as one axis; an empty group is one of 1."""

    @abstractmethod
    def permute(self, value: Code, order: Sequence[int]) -> Code:
        """The text of a tensor with its axes in another order."""

    @abstractmethod
    def insert(self, value: Code, axis: int) -> Code:
        """The text of a tensor with a new axis of 1."""

    @abstractmethod
    def repeat(self, value: Code, sizes: Sequence[Code | None]) -> Code:
        """The text of a tensor repeated along axes of 1; None is an axis that it has."""


def names_in(block: ast.Block) -> set[str]:
    """Returns the names that a block reads or binds, or that its signature has."""
    nodes = [*block.body, *(each.type for each in block.inputs)]
    found = {n.text for each in nodes for n in walk(each) if isinstance(n, ast.Name)}
    return found | {each.name for each in (*block.inputs, *block.parameters)}
