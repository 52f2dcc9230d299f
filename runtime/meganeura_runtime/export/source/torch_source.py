"""A whole model as one file of PyTorch source."""

from collections.abc import Sequence

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter, CarriedWidth, Forms, names_in
from meganeura_runtime.export.source.definitions import write_class, write_function
from meganeura_runtime.export.source.followed_widths import begin_widths
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.size_functions import SizeFunctionWriter
from meganeura_runtime.export.source.statements import run
from meganeura_runtime.export.source.static_code import static_code
from meganeura_runtime.export.source.tensor_code import expression, tensor, whole
from meganeura_runtime.export.source.text import class_name, python_name
from meganeura_runtime.export.source.trace import Instance, Trace
from meganeura_runtime.export.source.unit import Unit, units_of
from meganeura_runtime.export.source.widths import LostWidth, NeedsWidth, variable_for

_BUILT_IN = frozenset(
    (
        "F", "abs", "float", "getattr", "int", "len", "load_file", "main", "math", "max", "min",
        "nn", "print", "range", "self", "setattr", "str", "sum", "super", "sys", "torch",
        "zip",
    )
)  # fmt: skip
"""Names that a file uses for what it imports, for its `main` and for functions of Python."""

_HELPERS = {
    "sinusoids": '''\
def sinusoids(length, channels):
    """Sines and cosines of each position, over 10000 ** (i / (channels / 2 - 1))."""
    rate = 10000 ** (-torch.arange(channels // 2) / (channels // 2 - 1))
    angle = torch.arange(length)[:, None] * rate
    return torch.cat([angle.sin(), angle.cos()], dim=1)
''',
    "linear_recurrence": '''\
def linear_recurrence(a, b, dim):
    """h with h[t] = a[t] h[t - 1] + b[t] along an axis, where h[-1] = 0."""
    state = torch.zeros_like(b.select(dim, 0))
    states = []
    for step_a, step_b in zip(a.unbind(dim), b.unbind(dim), strict=True):
        state = step_a * state + step_b
        states.append(state)
    return torch.stack(states, dim=dim)
''',
}

FORMS = Forms(static_code, expression, tensor, whole, run)


class TorchSource:
    """The classes and functions of a model, each behind those that it uses."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.units = units_of(trace)
        self.bases: dict[Unit, str] = {}
        self.order: list[Unit] = []
        self._functions: dict[ast.Def, str] = {}
        self._function_lines: list[list[str]] = []
        self._helpers: list[str] = []
        blocks = {each.block.name.text for each in trace}
        defs = {
            name
            for each in trace
            for name, found in each.frame.module.own.items()
            if isinstance(found, ast.Def)
        }
        self.reserved = _BUILT_IN | blocks | {*map(class_name, blocks)} | defs | set(_HELPERS)
        self._names: set[str] = set(_BUILT_IN | set(_HELPERS))
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
        """Adds a function of `_HELPERS` to the file, once."""
        if name not in self._helpers:
            self._helpers.append(name)

    def function(self, module: LinkedModule, definition: ast.Def) -> str:
        """The name of a function of sizes, written."""
        if definition not in self._functions:
            self._functions[definition] = self._new_name(definition.name.text)
            writer = SizeFunctionWriter(self, module, definition)
            self._function_lines.append(writer.lines(self._functions[definition]))
        return self._functions[definition]

    def _new_name(self, wanted: str) -> str:
        """Returns a name for a class or a function, with a number if `wanted` is taken."""
        name, number = python_name(wanted, _BUILT_IN), 1
        while name in self._names or (number > 1 and name in self._of_blocks):
            number += 1
            name = f"{wanted}{number}"
        self._names.add(name)
        return name

    def _write(self, unit: Unit) -> None:
        name = unit.block.name.text
        unit.name = self._new_name(class_name(name) if unit.owns else name)
        writer = self._run(unit)
        if unit.owns:
            write_class(unit, writer, self.bases.get(unit))
        else:
            write_function(unit, writer)
        unit.is_written = True
        self.order.append(unit)

    def _run(self, unit: Unit) -> BlockWriter:
        """Writes the statements of a block, with a variable for each width that a loop changes."""
        carried: dict[str, CarriedWidth] = {}
        unfollowed = frozenset[str]()
        while True:
            writer = BlockWriter(unit, self, FORMS, carried, unfollowed)
            begin_widths(writer)
            try:
                writer.run(unit.block.body)
            except NeedsWidth as needed:
                taken = [each.variable for each in carried.values()]
                followed = variable_for(unit.block, needed.axis, needed.rank, taken)
                carried = {**carried, needed.tensor: followed}
            except LostWidth as lost:
                carried = {name: each for name, each in carried.items() if name != lost.tensor}
                unfollowed |= {lost.tensor}
            else:
                return writer

    def text(self) -> str:
        """The whole file, without what runs it."""
        parts = [_HELPERS[each].splitlines() for each in self._helpers]
        parts += self._function_lines
        parts += [each.lines for each in self.order]
        return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def source_of(trace: Trace) -> tuple[str, Unit, TorchSource]:
    """The classes and functions of a model, and the class of the whole."""
    source = TorchSource(trace)
    root = source.unit(trace.roots[0].block, trace.roots)
    return source.text(), root, source
