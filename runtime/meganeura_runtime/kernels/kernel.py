"""A kernel as data, and the frame that all kernels share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.graph.core import Value
from meganeura_dsl.ops.rules import concrete_shape
from meganeura_dsl.shapes.tensor import DType
from meganeura_runtime.kernels.affine import Affine, Axis, unravel
from meganeura_runtime.kernels.expression import Expressions
from meganeura_runtime.kernels.library import functions
from meganeura_runtime.kernels.limits import Target
from meganeura_runtime.kernels.reader import Reader
from meganeura_runtime.kernels.writer import Writer


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compute shader and one way to run it; binding i is the tensor `tensors[i]`."""

    text: str
    tensors: tuple[int, ...]
    workgroups: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Work:
    """What one kernel computes: at most some reductions or one contraction, then `stores`.

    The values of `stores` have the elements of `anchors` in the same row-major order, and read
    the anchors there only.
    """

    anchors: tuple[Value, ...]
    stores: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Memory:
    """Where values lie: the tensor of each one stored, and how a tensor may be used."""

    tensors: Mapping[int, int]
    access: Callable[[int], str]

    def before(self, work: Work) -> dict[int, int]:
        """The tensors a kernel may read: those it does not make itself."""
        made = {value.id for value in (*work.anchors, *work.stores)}
        return {value: tensor for value, tensor in self.tensors.items() if value not in made}


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a kernel's results: its position, and the condition under which it exists."""

    position: Affine
    registers: Mapping[int, str]
    exists: Sequence[str] = ()


def write_element(
    writer: Writer, make: Expressions, work: Work, memory: Memory, element: Element
) -> None:
    """Compute and store an element of every result; all are computed before any is stored."""
    reader = Reader(make, memory.before(work), element.registers)
    texts: list[str] = []
    for value in work.stores:
        at = unravel(element.position, concrete_shape(value.type.shape))
        texts.append(writer.value(reader.at(value, at)))
    if not element.exists:
        _store(writer, work, memory, element.position, texts)
        return
    with writer.condition(" && ".join(element.exists)):
        _store(writer, work, memory, element.position, texts)


def _store(
    writer: Writer, work: Work, memory: Memory, position: Affine, texts: Sequence[str]
) -> None:
    for value, text in zip(work.stores, texts, strict=True):
        writer.store(memory.tensors[value.id], value.type.dtype, position, text)


@dataclass(frozen=True, slots=True)
class Launch:
    """So many invocations, in workgroups of one size.

    Workgroups beyond what one dimension of a dispatch holds are folded into a second one.
    """

    invocations: int
    size: int
    target: Target

    @property
    def workgroups(self) -> tuple[int, int, int]:
        """The dispatch: as few rows of workgroups as there can be."""
        groups = -(-self.invocations // self.size)
        most = self.target.limits.workgroups
        rows = -(-groups // most)
        return -(-groups // rows), rows, 1

    def declare(self, writer: Writer, name: str) -> tuple[Axis, str | None]:
        """A variable that numbers the invocations, and the condition that tells off the surplus.

        The surplus ones do the work of the last one, but must not store it.
        """
        across, rows, _ = self.workgroups
        group = f"group.x + group.y * {across}u" if rows > 1 else "group.x"
        number = (
            f"({group}) * {self.size}u + lane" if rows > 1 else f"{group} * {self.size}u + lane"
        )
        axis = Axis(name, self.invocations)
        if across * rows * self.size == self.invocations:
            writer.axis(axis, number)
            return axis, None
        writer.line(f"let number = {number};")
        writer.axis(axis, f"min(number, {self.invocations - 1}u)")
        return axis, f"number < {self.invocations}u"

    def kernel(self, writer: Writer, memory: Memory) -> Kernel:
        """The finished kernel around a body."""
        body = "\n".join(f"    {line}" for line in writer.lines)
        entry = (
            f"@compute @workgroup_size({self.size})\n"
            "fn main(@builtin(workgroup_id) group: vec3<u32>, "
            "@builtin(local_invocation_index) lane: u32) {\n"
            f"{body}\n}}\n"
        )
        enable = ["enable f16;\n"] if DType.F16 in writer.dtypes.values() or "f16(" in body else []
        bindings = "\n".join(writer.declarations(memory.access))
        text = "\n".join([*enable, f"{bindings}\n", *functions(body), entry])
        return Kernel(text, tuple(writer.tensors), self.workgroups)


def all_of(*conditions: str | None) -> tuple[str, ...]:
    """The conditions that there are."""
    return tuple(condition for condition in conditions if condition is not None)
