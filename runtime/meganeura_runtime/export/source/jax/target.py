"""JAX: the system that functions of a dictionary of parameters are written for."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Groups
from meganeura_runtime.export.source.configuration import configuration
from meganeura_runtime.export.source.definitions import write_function
from meganeura_runtime.export.source.functions.table import builtin
from meganeura_runtime.export.source.jax import axes
from meganeura_runtime.export.source.jax.functions import HELPERS, TABLE
from meganeura_runtime.export.source.jax.jax_file import jax_file
from meganeura_runtime.export.source.jax.jax_writer import JaxWriter, access
from meganeura_runtime.export.source.jax.library import FUNCTIONS
from meganeura_runtime.export.source.jax.scans import collect, write_scan
from meganeura_runtime.export.source.jax.training_file import TAKEN, training_file
from meganeura_runtime.export.source.layers import referenced, tensors_of
from meganeura_runtime.export.source.library_use import function_for
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.paths import path_key
from meganeura_runtime.export.source.source_file import FORMS, ModelSource, SourceSystem
from meganeura_runtime.export.source.text import (
    ATOM,
    Code,
    Create,
    PathPart,
    call,
    function_name,
    method,
    tuple_text,
)
from meganeura_runtime.export.source.trace import Event, label_of
from meganeura_runtime.export.source.training.training import Training
from meganeura_runtime.export.source.unit import Unit

_NAMES = frozenset(
    (
        "abs", "float", "getattr", "int", "isinstance", "jax", "jnp", "keys", "len", "list",
        "load_file", "main", "math", "max", "min", "nested", "params", "print", "range", "str",
        "sum", "sys", "training", "tuple", "zip",
    )
)  # fmt: skip
"""Names that a file uses for what it imports, for its `main` and for functions of Python."""


class JaxFunction(JaxWriter):
    """A function of JAX."""

    def declare(self, statement: ast.Declare) -> None:
        pass

    def declare_layer(self, statement: ast.Layer) -> None:
        path = statement.call.label
        assert path is not None
        if statement.source is not None:
            raise refuse(statement, "a layer that begins as a copy")
        self.declared[".".join(path_key(path))] = statement

    def note_bound(self, statement: ast.Bind) -> None:
        pass

    def note_loop(self, statement: ast.For) -> None:
        pass

    def scan(self, statement: ast.Scan) -> None:
        write_scan(self, statement)

    def collect(self, statement: ast.Part) -> None:
        collect(self, statement)

    def replace_part(self, name: str, entries: str, value: Code) -> None:
        self.emit(f"{name} = {name}.at[{entries}].set({value})", (name,))

    def updated(self, statement: ast.Update) -> str:
        return access(self.steps(statement.path, "forward"))

    def detach(self, value: Code) -> Code:
        return call("jax.lax.stop_gradient", value)

    def configured(self, name: str) -> str:
        return self.local(name)

    def created(self, create: Create) -> Sequence[str]:
        raise AssertionError("a function makes no layers")

    def access(self, steps: Sequence[PathPart], key: Sequence[str]) -> str:
        return access(steps)

    def apply(
        self, node: ast.Call, events: Sequence[Event], nodes: Mapping[str, ast.Expression]
    ) -> Code:
        first = events[0].child
        if first.frame.module.is_library and first.block.name.text in FUNCTIONS:
            given = {name: self.tensor(each) for name, each in nodes.items()}
            function = function_for(FUNCTIONS, self, node, events, given)
            assert function is not None
            return function
        unit = self.source.unit(node, [each.child for each in events])
        as_tensor = self.whole if unit.is_whole else self.tensor
        given = {name: as_tensor(each) for name, each in nodes.items()}
        arguments: list[Code | str] = [self._parameters(node)] if unit.owns else []
        arguments += tensors_of(node, unit, given)
        arguments += configuration(self, node, unit, events, "forward")
        if unit.training:
            self.unit.training = True
            arguments.append("training=training")
        if unit.draws:
            arguments.append(f"keys={self.keys()}")
        return call(unit.name, *arguments)

    def _parameters(self, node: ast.Call) -> str:
        """The parameters of a layer: those below its path."""
        path = referenced(self, node)
        if path is None:
            path = label_of(node, self.instances[0].frame.module)
            if path is not None and path.parts:
                self.declared[".".join(path_key(path))] = node
        text = "params" if path is None else access(self.steps(path, "forward"))
        is_frozen = any(
            each.name == "frozen"
            and not isinstance(each.value, ast.Rearrangement)
            and True in self.seen.values(each.value)
            for each in node.arguments
        )
        return f"jax.lax.stop_gradient({text})" if is_frozen else text

    def builtin(self, node: ast.Call, piped: ast.Expression | None) -> Code:
        return builtin(TABLE, self, node, piped)

    def size(self, node: ast.Call, events: Sequence[Event], name: str) -> Code:
        raise AssertionError("a function has no constructor")

    # --- tensors ---------------------------------------------------------------------------------

    def placement(self) -> Mapping[str, str]:
        return {}

    def number(self, value: Code) -> Code:
        return call("jnp.array", value)

    def numbers(self, count: Code) -> Code:
        return call("jnp.arange", count)

    def full(self, sizes: Sequence[Code], value: Code) -> Code:
        return call("jnp.full", tuple_text(sizes) if sizes else "()", value)

    def convert(self, value: Code, before: DType, after: str) -> Code | None:
        names = {"f32": "float", "i32": "int", "bool": "bool", "f16": "jnp.float16"}
        return method(value, "astype", names[after]) if after in names else None

    def limit(self, name: str, value: Code, bound: Code) -> Code:
        return call(f"jnp.{name}", value, bound)

    def reduce(self, name: str, value: Code, axes: str) -> Code:
        given = [axes] if axes else []
        return method(value, "var" if name == "variance" else name, *given)

    def move_axis(self, value: Code, start: int, stop: int) -> Code:
        return call("jnp.moveaxis", value, str(start), str(stop))

    def stack(self, name: str, axis: str) -> Code:
        return call("jnp.stack", name, axis=axis)

    def split(self, node: ast.Node, value: Code, groups: Groups) -> Code:
        return axes.split(self, node, value, groups)

    def merge(self, value: Code, groups: Groups) -> Code:
        return axes.merge(self, value, groups)

    def permute(self, value: Code, order: Sequence[int]) -> Code:
        moved = [at for at, axis in enumerate(order) if at != axis]
        if not moved:
            return value
        if len(order) == 2:
            return Code(f"{value.within(ATOM)}.T")
        if len(moved) == 2:
            first, second = (-2, -1) if moved[1] == len(order) - 1 == moved[0] + 1 else moved
            return method(value, "swapaxes", str(first), str(second))
        return method(value, "transpose", *map(str, order))

    def insert(self, value: Code, axis: int) -> Code:
        entries = [":"] * axis if axis >= 0 else ["..."]
        behind = [":"] * (-1 - axis) if axis < 0 else []
        return Code(f"{value.within(ATOM)}[{', '.join([*entries, 'None', *behind])}]")

    def repeat(self, value: Code, sizes: Sequence[Code | None]) -> Code:
        return axes.repeat(self, value, sizes)


class Jax(SourceSystem):
    """JAX."""

    names = _NAMES
    helpers = HELPERS
    loop_names = TAKEN

    def write(self, unit: Unit, source: ModelSource) -> None:
        writer = JaxFunction(unit, source, FORMS)
        writer.run(unit.block.body)
        write_function(unit, writer)

    def called(self, block: str, *, owns: bool) -> str:
        return function_name(block)

    def is_whole(self, unit: Unit) -> bool:
        return unit.owns and unit.instances[0].frame.module.is_library

    def file(self, body: str, root: Unit, source: ModelSource) -> str:
        return jax_file(body, root, source)

    def training_file(self, body: str, root: Unit, source: ModelSource, training: Training) -> str:
        return training_file(body, root, source, training)


JAX = Jax()
