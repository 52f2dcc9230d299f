"""A block of the language as a class or a function of PyTorch.

The text follows the syntax tree. What was evaluated in all applications of the block in the model
decides what is written: a choice that always went one way is written as that way alone, and a size
that a constructor needs is written as an expression that has its value in every application.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.module_attributes import ATTRIBUTES
from meganeura_runtime.export.source.observed import Observed
from meganeura_runtime.export.source.paths import Key, Paths, path_key
from meganeura_runtime.export.source.text import Code, Create, Line, Statement, Step, python_name
from meganeura_runtime.export.source.trace import Instance, Trace
from meganeura_runtime.export.source.unit import Unit


class SourceFile(Protocol):
    """The file that blocks are written into."""

    trace: Trace
    reserved: frozenset[str]
    """Names of Python, of blocks and of functions, which no local name takes."""
    bases: dict[Unit, str]
    """The class that another one inherits from, as text."""

    def unit(self, node: ast.Node, children: Sequence[Instance]) -> Unit:
        """Returns the class or function of what a call applies, written."""
        ...

    def helper(self, name: str) -> None:
        """Adds a function that the language has and PyTorch has not to the file, once."""
        ...

    def function(self, module: LinkedModule, definition: ast.Def) -> str:
        """Returns the name of a function of sizes, written."""
        ...


@dataclass(frozen=True)
class CarriedWidth:
    """An axis of a tensor that a loop rebinds, and the variable that has its size."""

    axis: int
    variable: str


@dataclass(frozen=True)
class Bound:
    """The value that a name was bound to, its place among several, and the bindings before it."""

    value: ast.Expression
    result: int
    before: "Mapping[str, Bound]"


@dataclass
class Following:
    """The tensors whose widths variables of the constructor follow, as far as it is written."""

    carried: Mapping[str, CarriedWidth]
    """Tensors that loops rebind, and the variables that have their widths."""
    unfollowed: frozenset[str]
    """Those whose widths no variable follows."""
    touched: set[str] = field(default_factory=set[str])
    """The names that a loop has rebound by now."""
    lost: set[str] = field(default_factory=set[str])
    """Those whose width is not known any more."""
    bound: Mapping[str, Bound] = field(default_factory=dict[str, Bound])
    """The last binding of each other tensor."""


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


class BlockWriter:
    """Writes one class or function."""

    def __init__(
        self,
        unit: Unit,
        source: SourceFile,
        forms: Forms,
        carried: Mapping[str, CarriedWidth],
        unfollowed: frozenset[str],
    ) -> None:
        self.unit = unit
        self._forms = forms
        self.source = source
        self.block = unit.block
        self.instances = unit.instances
        self.seen = Observed(unit.instances)
        self.is_class = unit.owns
        self.init: list[list[Statement]] = [[]]
        self.forward: list[list[Statement]] = [[]]
        self.env: dict[str, str] = {}
        """The kind of each name: `config`, `size`, `rest`, `local`, `static` or `own`, a weight."""
        self.widths: list[ast.Expression] = []
        """The first arguments of the layers so far: the widths of what they gave."""
        self.follow = Following(carried, unfollowed)
        self.loops: list[ast.For] = []
        """The loops around what is written, outermost first."""
        self.scans: list[ast.Scan] = []
        """The scans around what is written."""
        self.base: Unit | None = None
        self.base_text = ""
        self.inherited: frozenset[str] = frozenset()
        """The paths of the parameters and states that the base has."""
        self.collected: dict[str, str] = {}
        self.declared: dict[str, ast.Layer | ast.Call] = {}
        self.known_codes: dict[ast.Expression, Code] = {}
        self.made: set[Key] = set()
        self.late: list[Statement] = []
        """Statements that put layers into lists, behind the loops that fill them."""
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
        self.paths = Paths(self.block, self.instances)

    # --- what was evaluated ----------------------------------------------------------------------
    def fill(self, node: ast.Expression) -> Code | None:
        """The number that a tensor is everywhere, as it is an optional one that was not given."""
        if isinstance(node, ast.Name) and node.text not in self.env:
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

    def attribute(self, name: str) -> str:
        """The attribute that has an argument of the constructor."""
        taken = {key[0] for key in self.paths.kinds if len(key) == 1} | ATTRIBUTES[self._holder(())]
        if self.base is not None:
            taken |= set(self.base.configuration)
        return python_name(name, frozenset(taken))

    def _holder(self, key: Key) -> str:
        """Returns what has the parts of paths below a path: `module`, `list` or `dict`."""
        kind = self.paths.kinds.get(key, "module")
        return kind if kind in ATTRIBUTES else "module"

    def emit(self, text: str, binds: tuple[str, ...] = (), *, effect: bool = True) -> None:
        """Appends a line of the function or the method."""
        self.forward[-1].append(Line(text, binds, effect))

    def create(
        self, path: ast.Path, value: str, kind: str = "module", then: Iterable[str] = ()
    ) -> None:
        """Makes a layer, parameter or state in the constructor."""
        key = path_key(path)
        for at, name in enumerate(key):
            if name in ATTRIBUTES[self._holder(key[:at])]:
                reason = "each module of PyTorch has an attribute of that name"
                raise refusal(f"`{name}`", reason, path.span)
        create = Create(key, self.steps(path, "init"), value, kind, tuple(then))
        if not self.paths.is_late(key):
            self.init[-1].append(create)
        elif self.loops or len(self.init) > 1:
            raise refusal(
                f"`{'.'.join(key)}`", "it is put into a list that a loop fills", path.span
            )
        else:
            self.late.append(create)

    def steps(self, path: ast.Path, where: str) -> tuple[Step, ...]:
        """The parts of a path, with their numbers as text."""
        found: list[Step] = []
        for part in path.parts:
            match part:
                case str():
                    found.append(Step("word", part))
                case ast.Splice(value=value):
                    last = found.pop()
                    text = f"{{{self.static(value, where)}}}"
                    found.append(Step("computed", last.text + text))
                case _:
                    found.append(Step("index", str(self.static(part, where))))
        return tuple(found)

    def simple(self, code: Code, name: str) -> Code:
        """The text of a tensor that is read twice: a name, which a statement binds if need be.

        The name is `name`, with a number behind it where the block has that name already.
        """
        if re.fullmatch(r"[\w.]+", code.text):
            return code
        new, number = name, 1
        while new in self._names or new in self.source.reserved:
            number += 1
            new = f"{name}{number}"
        self._names.add(new)
        self.emit(f"{new} = {code}", (new,))
        return Code(new)

    def pipes(self, node: ast.Call) -> list[ast.Pipe]:
        """The pipe that ends in a call, if one does."""
        return [self._pipes[node]] if node in self._pipes else []

    def anchor(self) -> str:
        """Returns the device of the first input, where new tensors are, as text; "" without one."""
        inputs = self.unit.inputs
        return f"{self.local(inputs[0].name)}.device" if inputs else ""

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


def names_in(block: ast.Block) -> set[str]:
    """Returns the names that a block reads or binds, or that its signature has."""
    nodes = [*block.body, *(each.type for each in block.inputs)]
    found = {n.text for each in nodes for n in walk(each) if isinstance(n, ast.Name)}
    return found | {each.name for each in (*block.inputs, *block.parameters)}
