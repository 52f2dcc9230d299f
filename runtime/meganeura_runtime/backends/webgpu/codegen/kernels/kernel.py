"""A kernel as data, and the frame that all kernels share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Expression,
    unravel,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter, is_aligned
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions, Load, walk
from meganeura_runtime.backends.webgpu.codegen.wgsl.math_library import functions
from meganeura_runtime.backends.webgpu.config.limits import Style, Target

FEWEST_VEC4S = {Style.GPU: 1 << 15, Style.SOFTWARE_VULKAN: 1}
"""Quads that keep a device busy; with fewer of them, invocations count for more than wide loads."""


@dataclass(frozen=True, slots=True)
class Binding:
    """The access of a kernel to a tensor, and the type of the elements it sees."""

    access: str
    element: str


@dataclass(frozen=True)
class Shader:
    """A compute shader in parts. In its body, binding i is the array `b{i}`."""

    bindings: tuple[Binding, ...]
    shared: tuple[str, ...]
    """The declarations of what a workgroup shares."""
    body: tuple[str, ...]
    size: int
    """Invocations of a workgroup."""

    @cached_property
    def text(self) -> str:
        """The WGSL."""
        body = "\n".join(f"    {line}" for line in self.body)
        declared = (*(each.element for each in self.bindings), *self.shared)
        half = any("f16" in each for each in declared) or "f16" in body
        bindings = (
            f"@group(0) @binding({position}) var<storage, {each.access}> b{position}: "
            f"array<{each.element}>;"
            for position, each in enumerate(self.bindings)
        )
        matrices = "subgroupMatrix" in body
        subgroup = ", @builtin(subgroup_id) subgroup: u32" if matrices else ""
        entry = (
            f"@compute @workgroup_size({self.size})\n"
            "fn main(@builtin(workgroup_id) group: vec3<u32>, "
            f"@builtin(local_invocation_index) lane: u32{subgroup}) {{\n"
            f"{body}\n}}\n"
        )
        head = "\n".join([*bindings, *self.shared])
        enable = ["enable f16;\n"] if half else []
        if matrices:
            enable += ["enable subgroups;\n", "enable chromium_experimental_subgroup_matrix;\n"]
        return "\n".join([*enable, f"{head}\n", *functions(body), entry])


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compute shader and one way to run it; binding i is the tensor `tensors[i]`."""

    shader: Shader
    tensors: tuple[int, ...]
    workgroups: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one kernel: at most some reductions or one contraction, then `stores`.

    The values of `stores` have the elements of `anchors` in the same row-major order, and read
    the anchors there only. Of an attention with several results, that is true of the first of them.
    """

    anchors: tuple[Value, ...]
    stores: tuple[Value, ...]

    def stores_of(self, anchor: Value) -> tuple[Value, ...]:
        """Returns the values stored at the elements of an anchor, if each has its own."""
        first, *others = self.anchors
        if anchor is not first:
            return (anchor,)
        return tuple(value for value in self.stores if value not in others)


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of values: the tensor of each one stored, and its permitted access."""

    tensors: Mapping[int, int]
    access: Callable[[int], str]
    bytes: Callable[[int], int]
    halves: frozenset[int] = frozenset()
    """Tensors of f32 whose elements lie in memory as f16."""

    def type_of(self, value: Value) -> TensorType:
        """The type of a value as it is stored; its own if it is not."""
        is_half = self.tensors.get(value.id) in self.halves
        return value.type.with_dtype(DType.F16) if is_half else value.type

    def before(self, work: Work) -> dict[int, int]:
        """The tensors a kernel may read: those it does not make itself."""
        results = {value.id for value in (*work.anchors, *work.stores)}
        return {value: tensor for value, tensor in self.tensors.items() if value not in results}


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a kernel's results: its position, and the conditions it exists under."""

    position: Affine
    registers: Mapping[int, str]
    exists: Sequence[str] = ()
    guards: Sequence[BoundsCheck] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """Elements that exist together, and of each value stored an expression for each of them."""

    values: tuple[Value, ...]
    elements: tuple[Element, ...]
    expressions: tuple[tuple[Expression, ...], ...]


def result_of(
    make: Expressions,
    values: Sequence[Value],
    before: Mapping[int, int],
    elements: Sequence[Element],
) -> Result:
    """Returns the store of elements, computed from registers and from tensors made `before`."""
    readers = [ElementInliner(make, before, element.registers) for element in elements]
    expressions = tuple(
        tuple(
            reader.at(value, unravel(element.position, concrete_shape(value.type.shape)))
            for reader, element in zip(readers, elements, strict=True)
        )
        for value in values
    )
    return Result(tuple(values), tuple(elements), expressions)


def write_result(emitter: WgslEmitter, memory: Memory, result: Result) -> None:
    """Compute and store; everything is computed before anything is stored."""
    write_results(emitter, memory, [result])


def write_results(emitter: WgslEmitter, memory: Memory, results: Sequence[Result]) -> None:
    """The same of several: no load waits for a store, which may be to the same buffer.

    A step of GPT-2 in f16 takes 56.5 ms so on an H200, and 60.6 where each result is stored before
    the next is computed.
    """
    computed = [
        [[emitter.value(one) for one in expressions] for expressions in result.expressions]
        for result in results
    ]
    for result, texts in zip(results, computed, strict=True):
        _write(emitter, memory, result, texts)


def _write(
    emitter: WgslEmitter, memory: Memory, result: Result, texts: Sequence[Sequence[str]]
) -> None:
    first = result.elements[0]
    guards = [emitter.guard(guard) for guard in first.guards if not guard.always_holds]
    if not first.exists and not guards:
        _store(emitter, memory, result, texts)
        return
    with emitter.condition(" && ".join([*first.exists, *guards])):
        _store(emitter, memory, result, texts)


def _store(
    emitter: WgslEmitter, memory: Memory, result: Result, texts: Sequence[Sequence[str]]
) -> None:
    positions = [element.position for element in result.elements]
    for value, each in zip(result.values, texts, strict=True):
        tensor, dtype = memory.tensors[value.id], value.type.dtype
        if tensor in emitter.vec4s:
            emitter.store_vec4(tensor, dtype, positions[0], each)
        else:
            for position, text in zip(positions, each, strict=True):
                emitter.store(tensor, dtype, position, text)


def vec4s_of(
    reads: Iterable[Expression], memory: Memory, results: Sequence[Result]
) -> frozenset[int]:
    """The tensors that a kernel reads and writes four neighbours at a time, or could do so."""
    used: dict[int, bool] = {}
    for load in walk([*reads, *(one for r in results for row in r.expressions for one in row)]):
        if isinstance(load, Load):
            fits = _holds_vec4s(memory, load.tensor, load.dtype) and is_aligned(load.index)
            used[load.tensor] = used.get(load.tensor, True) and fits
    for result in results:
        whole = is_vec4([element.position for element in result.elements])
        for value in result.values:
            tensor = memory.tensors[value.id]
            fits = whole and _holds_vec4s(memory, tensor, value.type.dtype)
            used[tensor] = used.get(tensor, True) and fits
    return frozenset(tensor for tensor, fits in used.items() if fits)


def vec8s_of(reads: Iterable[Expression], memory: Memory, results: Sequence[Result]) -> set[int]:
    """The tensors in f16 that a kernel reads eight neighbours at a time, or could do so."""
    used: dict[int, bool] = {}
    for load in walk([*reads, *(one for r in results for row in r.expressions for one in row)]):
        if isinstance(load, Load) and load.tensor in memory.halves:
            fits = memory.bytes(load.tensor) % 16 == 0 and is_aligned(load.index, 8)
            used[load.tensor] = used.get(load.tensor, True) and fits
    written = {memory.tensors[value.id] for result in results for value in result.values}
    return {tensor for tensor, fits in used.items() if fits} - written


def are_many_vec4s(count: int, target: Target) -> bool:
    """True if a device stays busy with one invocation for every four elements."""
    return count % 4 == 0 and count >= 4 * FEWEST_VEC4S[target.style]


def _holds_vec4s(memory: Memory, tensor: int, dtype: DType) -> bool:
    if tensor in memory.halves:
        return memory.bytes(tensor) % 8 == 0
    return dtype.bytes == 4 and memory.bytes(tensor) % 16 == 0


def is_vec4(positions: Sequence[Affine]) -> bool:
    """True if these are four neighbours that can be read or written at once."""
    return is_run(positions, 4)


def is_run(positions: Sequence[Affine], width: int) -> bool:
    """True if these are so many neighbours, the first at a multiple of their number."""
    first = positions[0]
    return (
        len(positions) == width
        and first.constant % width == 0
        and is_aligned(first, width)
        and all(at == first + position for position, at in enumerate(positions))
    )


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

    def declare(self, emitter: WgslEmitter, name: str) -> tuple[Axis, str | None]:
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
            emitter.axis(axis, number)
            return axis, None
        emitter.line(f"let number = {number};")
        emitter.axis(axis, f"min(number, {self.invocations - 1}u)")
        return axis, f"number < {self.invocations}u"

    def declare_group(self, emitter: WgslEmitter, name: str) -> tuple[Axis, str | None]:
        """The same for workgroups, each of which works together."""
        across, rows, _ = self.workgroups
        number = f"group.x + group.y * {across}u" if rows > 1 else "group.x"
        axis = Axis(name, self.invocations // self.size)
        if across * rows == axis.size:
            emitter.axis(axis, number)
            return axis, None
        emitter.line(f"let number = {number};")
        emitter.axis(axis, f"min(number, {axis.size - 1}u)")
        return axis, f"number < {axis.size}u"

    def kernel(self, emitter: WgslEmitter, memory: Memory, shared: Sequence[str] = ()) -> Kernel:
        """The finished kernel around a body; `shared` declares memory of a workgroup."""
        bindings = tuple(
            Binding(memory.access(tensor), emitter.bound_type(tensor)) for tensor in emitter.tensors
        )
        shader = Shader(bindings, tuple(shared), tuple(emitter.lines), self.size)
        return Kernel(shader, tuple(emitter.tensors), self.workgroups)


def all_of(*conditions: str | None) -> tuple[str, ...]:
    """The conditions that there are."""
    return tuple(condition for condition in conditions if condition is not None)
