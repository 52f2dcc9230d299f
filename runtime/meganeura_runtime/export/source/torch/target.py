"""PyTorch: the system that classes with constructors are written for."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.elaborate.values import ElabValue
from meganeura_dsl.ir.types import DType
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.axis import Groups
from meganeura_runtime.export.source.definitions import write_function
from meganeura_runtime.export.source.functions.table import builtin
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.paths import path_key
from meganeura_runtime.export.source.scans import collect_part, scan_as_loop
from meganeura_runtime.export.source.source_file import FORMS, ModelSource, SourceSystem
from meganeura_runtime.export.source.text import (
    ATOM,
    Code,
    Create,
    PathPart,
    call,
    class_name,
    method,
    tuple_text,
)
from meganeura_runtime.export.source.torch.classes import created, write_class
from meganeura_runtime.export.source.torch.followed_widths import (
    begin_widths,
    enter_loop,
    follow_widths,
)
from meganeura_runtime.export.source.torch.functions.table import TABLE
from meganeura_runtime.export.source.torch.layers import apply_block, declare_layer
from meganeura_runtime.export.source.torch.parameters import declare
from meganeura_runtime.export.source.torch.sizes import size_text
from meganeura_runtime.export.source.torch.torch_file import torch_file
from meganeura_runtime.export.source.torch.torch_writer import CarriedWidth, TorchWriter
from meganeura_runtime.export.source.torch.training_file import TAKEN, training_file
from meganeura_runtime.export.source.torch.widths import LostWidth, NeedsWidth, variable_for
from meganeura_runtime.export.source.trace import Event
from meganeura_runtime.export.source.training.training import Training
from meganeura_runtime.export.source.unit import Unit

FLOAT = "torch.get_default_dtype()"
"""The element type of what the language has in single precision."""


class TorchBlock(TorchWriter):
    """A class or a function of PyTorch."""

    def declare(self, statement: ast.Declare) -> None:
        declare(self, statement)

    def declare_layer(self, statement: ast.Layer) -> None:
        declare_layer(self, statement)

    def note_bound(self, statement: ast.Bind) -> None:
        if self.is_class:
            follow_widths(self, statement)

    def note_loop(self, statement: ast.For) -> None:
        enter_loop(self, statement)

    def scan(self, statement: ast.Scan) -> None:
        scan_as_loop(self, statement)

    def collect(self, statement: ast.Part) -> None:
        collect_part(self, statement)

    def replace_part(self, name: str, entries: str, value: Code) -> None:
        self.emit(f"{name} = {name}.clone()", (name,), effect=True)
        self.emit(f"{name}[{entries}] = {value}")

    def updated(self, statement: ast.Update) -> str:
        key = path_key(statement.path)
        if key not in self.paths.kinds:
            raise refuse(statement, "the state of another layer")
        return self.paths.access(self.steps(statement.path, "forward"), key)

    def detach(self, value: Code) -> Code:
        return method(value, "detach")

    def configured(self, name: str) -> str:
        return f"self.{self.attribute(name)}" if self.is_class else self.local(name)

    def created(self, create: Create) -> Sequence[str]:
        return created(create, self)

    def access(self, steps: Sequence[PathPart], key: Sequence[str]) -> str:
        return self.paths.access(steps, self.paths.known(tuple(key)))

    def apply(
        self, node: ast.Call, events: Sequence[Event], nodes: Mapping[str, ast.Expression]
    ) -> Code:
        return apply_block(self, node, events, nodes)

    def builtin(self, node: ast.Call, piped: ast.Expression | None) -> Code:
        return builtin(TABLE, self, node, piped)

    def size(self, node: ast.Call, events: Sequence[Event], name: str) -> Code:
        wanted: list[tuple[Event, ElabValue]] = [(e, e.child.signature[name]) for e in events]
        return size_text(self, node, wanted)

    # --- tensors ---------------------------------------------------------------------------------

    def placement(self) -> Mapping[str, str]:
        inputs = self.unit.inputs
        return {"device": f"{self.local(inputs[0].name)}.device"} if inputs else {}

    def number(self, value: Code) -> Code:
        return call("torch.tensor", value)

    def numbers(self, count: Code) -> Code:
        return call("torch.arange", count, **self.placement())

    def full(self, sizes: Sequence[Code], value: Code) -> Code:
        if not sizes:
            return call("torch.tensor", value, **self.placement())
        return call("torch.full", tuple_text(sizes), value, **self.placement())

    def convert(self, value: Code, before: DType, after: str) -> Code | None:
        as_float = f".to({FLOAT})"
        match after:
            case "f32" if before is DType.F16:
                return method(value, "float")
            case "f32":
                return method(value, "to", FLOAT)
            case "f16":
                return method(value, "half")
            case "bool":
                return method(value, "bool")
            case "i32" if value.text.endswith(as_float):  # of truth values: `one_hot`
                return method(Code(value.text.removesuffix(as_float)), "long")
            case "i32" if before.is_float or before is DType.BOOL:
                return method(value, "long")
            case _:
                return None

    def limit(self, name: str, value: Code, bound: Code) -> Code:
        return method(value, "clamp", **{"min" if name == "maximum" else "max": bound})

    def reduce(self, name: str, value: Code, axes: str) -> Code:
        given = [axes] if axes else []
        match name:
            case "variance":
                return method(value, "var", *given, correction="0")
            case "max" | "min":
                return method(value, f"a{name}", *given)
            case _:
                return method(value, name, *given)

    def move_axis(self, value: Code, start: int, stop: int) -> Code:
        return method(value, "movedim", str(start), str(stop))

    def stack(self, name: str, axis: str) -> Code:
        return call("torch.stack", name, dim=axis)

    def split(self, node: ast.Node, value: Code, groups: Groups) -> Code:
        for place in reversed(range(len(groups))):
            group = groups[place]
            if len(group) == 1:
                continue
            if not group:
                value = method(value, "squeeze", str(place))
                continue
            unknown = [each for each in group if each.size is None]
            if len(unknown) > 1:
                raise refuse(node, "an axis is split into unknown sizes")
            sizes = [Code("-1") if each.size is None else each.size for each in group]
            if not unknown:
                sizes[-1] = Code("-1")
            value = method(value, "unflatten", str(place), tuple_text(sizes))
        return value

    def merge(self, value: Code, groups: Groups) -> Code:
        place = sum(map(len, groups))
        for at in reversed(range(len(groups))):
            group = groups[at]
            place -= len(group)
            if not group:
                value = method(value, "unsqueeze", str(place))
            elif len(group) > 1:
                value = method(value, "flatten", str(place), str(place + len(group) - 1))
        return value

    def permute(self, value: Code, order: Sequence[int]) -> Code:
        moved = [at for at, axis in enumerate(order) if at != axis]
        rank = len(order)
        if not moved:
            return value
        if rank == 2:
            return Code(f"{value.within(ATOM)}.T")
        if len(moved) == 2:
            first, second = (-2, -1) if moved == [rank - 2, rank - 1] else moved
            return method(value, "transpose", str(first), str(second))
        return method(value, "permute", *map(str, order))

    def insert(self, value: Code, axis: int) -> Code:
        return method(value, "unsqueeze", str(axis))

    def repeat(self, value: Code, sizes: Sequence[Code | None]) -> Code:
        return method(value, "expand", *("-1" if each is None else each for each in sizes))


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


class Torch(SourceSystem):
    """PyTorch."""

    names = _BUILT_IN
    helpers = _HELPERS
    loop_names = TAKEN

    def write(self, unit: Unit, source: ModelSource) -> None:
        writer = _run(unit, source)
        if unit.owns:
            write_class(unit, writer)
        else:
            write_function(unit, writer)

    def called(self, block: str, *, owns: bool) -> str:
        return class_name(block) if owns else block

    def is_whole(self, unit: Unit) -> bool:
        return False

    def file(self, body: str, root: Unit, source: ModelSource) -> str:
        return torch_file(body, root, source)

    def training_file(self, body: str, root: Unit, source: ModelSource, training: Training) -> str:
        return training_file(body, root, source, training)


def _run(unit: Unit, source: ModelSource) -> TorchBlock:
    """Writes the statements of a block, with a variable for each width that a loop changes."""
    carried: dict[str, CarriedWidth] = {}
    unfollowed = frozenset[str]()
    while True:
        writer = TorchBlock(unit, source, FORMS, carried, unfollowed)
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


TORCH = Torch()
