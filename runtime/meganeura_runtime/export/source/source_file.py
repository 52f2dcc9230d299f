"""A whole model as one file of Python."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import Forms, names_in
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.size_functions import SizeFunctionWriter
from meganeura_runtime.export.source.statements import run
from meganeura_runtime.export.source.static_code import static_code
from meganeura_runtime.export.source.tensor_code import expression, tensor, whole
from meganeura_runtime.export.source.text import python_name
from meganeura_runtime.export.source.trace import Instance, Trace, traced
from meganeura_runtime.export.source.training.train_block import LossModel
from meganeura_runtime.export.source.training.training import Training
from meganeura_runtime.export.source.unit import Unit, units_of

FORMS = Forms(static_code, expression, tensor, whole, run)


class SourceSystem(ABC):
    """A system that source is written for."""

    names: ClassVar[frozenset[str]]
    """Names that a file uses for what it imports, for its `main` and for functions of Python."""
    helpers: ClassVar[Mapping[str, str]]
    """Functions that the language has and the system has not, as text."""
    loop_names: ClassVar[frozenset[str]]
    """Names that a file uses for the loop of a training."""

    @abstractmethod
    def write(self, unit: Unit, source: "ModelSource") -> None:
        """Writes a block as a class or a function."""

    @abstractmethod
    def called(self, block: str, *, owns: bool) -> str:
        """The name of a block, which has weights or none, as that of a class or a function."""

    @abstractmethod
    def is_whole(self, unit: Unit) -> bool:
        """Returns True for a block that is given all tensors, also optional ones."""

    @abstractmethod
    def file(self, body: str, root: Unit, source: "ModelSource") -> str:
        """The whole file, with a function that is or makes the model, and a `main`."""

    @abstractmethod
    def training_file(
        self, body: str, root: Unit, source: "ModelSource", training: Training
    ) -> str:
        """The whole file of a training, with its loop and a `main`."""


class ModelSource:
    """The classes and functions of a model, each behind those that it uses."""

    def __init__(
        self, trace: Trace, target: SourceSystem, model: str, more: frozenset[str] = frozenset()
    ) -> None:
        """`more` are names that the file uses beside those of the target."""
        self.trace = trace
        self.target = target
        self._own = target.names | more
        self.units = units_of(trace)
        for each in self.units.values():
            each.is_whole = target.is_whole(each)
        self.order: list[Unit] = []
        self.draws_in_scans = False
        """True where a scan draws random numbers, for which it is given keys in any mode."""
        self._functions: dict[ast.Def, str] = {}
        self._function_lines: list[list[str]] = []
        self._helpers: list[str] = []
        defs = {
            name
            for each in trace
            for name, found in each.frame.module.own.items()
            if isinstance(found, ast.Def)
        }
        taken = self._own | set(target.helpers)
        self.model = python_name(model, taken | defs)
        """The name of the function that is or makes the model."""
        blocks = {self._called(each.block, owns=owns) for each in trace for owns in (False, True)}
        self.reserved = frozenset(taken | defs | blocks | {self.model})
        """Names of Python, of blocks and of functions, which no local name takes."""
        self._names = {*taken, self.model}
        self._of_blocks = {name for each in {i.block for i in trace} for name in names_in(each)}

    def unit(self, node: ast.Node, children: Sequence[Instance]) -> Unit:
        """The class or function of what a call applies, written."""
        found = {self.units[each] for each in children}
        if len(found) != 1:
            name = children[0].block.name.text
            raise refusal(f"`{name}`", "it is applied in several ways by one call", node.span)
        unit = found.pop()
        if not unit.name:
            self._write(unit)
        if not unit.is_written:
            raise refusal(f"`{unit.name}`", "it applies itself", node.span)
        return unit

    def helper(self, name: str) -> None:
        """Adds a function of the target to the file, once."""
        if name not in self._helpers:
            self._helpers.append(name)

    def function(self, module: LinkedModule, definition: ast.Def) -> str:
        """The name of a function of sizes, written."""
        if definition not in self._functions:
            self._functions[definition] = self._new_name(definition.name.text)
            writer = SizeFunctionWriter(self, module, definition)
            self._function_lines.append(writer.lines(self._functions[definition]))
        return self._functions[definition]

    def _called(self, block: ast.Block, *, owns: bool) -> str:
        name = self.target.called(block.name.text, owns=owns)
        return f"{name}_block" if name == self.model else name

    def _new_name(self, wanted: str) -> str:
        """Returns a name for a class or a function, with a number if `wanted` is taken."""
        name, number = python_name(wanted, self._own), 1
        while name in self._names or (number > 1 and name in self._of_blocks):
            number += 1
            name = f"{wanted}{number}"
        self._names.add(name)
        return name

    def _write(self, unit: Unit) -> None:
        unit.name = self._new_name(self._called(unit.block, owns=unit.owns))
        self.target.write(unit, self)
        unit.is_written = True
        for each in self.order:
            if unit.is_like(each):
                self._names.discard(unit.name)
                unit.name = each.name
                return
        self.order.append(unit)

    def text(self) -> str:
        """The whole file, without what runs it."""
        parts = [self.target.helpers[each].splitlines() for each in self._helpers]
        parts += self._function_lines
        parts += [each.lines for each in self.order]
        return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def source_text(
    target: SourceSystem,
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
) -> str:
    """Returns the source of a model. Raises `ProblemError`."""
    trace = traced(module, model, config, sizes)
    _require_weights(trace, model)
    source = ModelSource(trace, target, model.name.text)
    root = source.unit(trace.roots[0].block, trace.roots)
    return target.file(source.text().rstrip("\n"), root, source)


def training_text(target: SourceSystem, loss: LossModel, training: Training) -> str:
    """Returns the source of a training. Raises `ProblemError`."""
    sizes = training.input_spec.sizes
    fixed = {name: size for name, size in sizes.items() if name != training.counter}
    trace = traced(loss.module, loss.model, {}, fixed)
    _require_weights(trace, loss.model)
    source = ModelSource(trace, target, loss.model.name.text, target.loop_names)
    root = source.unit(trace.roots[0].block, trace.roots)
    return target.training_file(source.text().rstrip("\n"), root, source, training)


def _require_weights(trace: Trace, model: ast.Model) -> None:
    if not any(each.owns for each in trace.roots):
        raise refusal(f"`{model.name.text}`", "it has no weights", model.name.span)
