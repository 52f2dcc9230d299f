"""The kernels between the rounds of a loop: they move what is carried and what is collected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Binding, Kernel, Launch, Shader
from meganeura_runtime.backends.webgpu.config.limits import Target

WORKGROUP = 64
HALF = "f16"


@dataclass(frozen=True, slots=True)
class Move:
    """So many elements of a tensor, to another one; or to a slice of it, if `inner` says which.

    Element i goes to (i / inner * rounds + counter) * inner + i % inner.
    """

    source: int
    target: int
    count: int
    dtype: DType
    inner: int = 0
    rounds: int = 1


def move_kernel(
    moves: Sequence[Move],
    counter: int,
    set_counter: str,
    access: Callable[[int], str],
    target: Target,
) -> Kernel:
    """Move elements; the first invocation then sets the counter, where an expression says to what.

    A kernel that sets the counter must not read it for slices.
    """
    tensors = list(dict.fromkeys([*(t for move in moves for t in (move.source, move.target))]))
    is_read = any(move.inner for move in moves)
    if is_read or set_counter:
        tensors.append(counter)
    number = {tensor: position for position, tensor in enumerate(tensors)}
    types = {tensor: HALF if move.dtype is DType.F16 else "u32" for move in moves
             for tensor in (move.source, move.target)} | {counter: "i32"}  # fmt: skip
    count = max([1, *(move.count for move in moves)])
    launch = Launch(count, WORKGROUP, target)
    across, rows, _ = launch.workgroups
    group = f"(group.x + group.y * {across}u)" if rows > 1 else "group.x"
    lines = [f"let i = {group} * {WORKGROUP}u + lane;"]
    if is_read:
        lines.append(f"let round = u32(b{number[counter]}[0]);")
    for move in moves:
        position = "i"
        if move.inner:
            before = f"i / {move.inner}u * {move.rounds}u + round"
            position = f"({before}) * {move.inner}u + i % {move.inner}u"
        moved = f"b{number[move.target]}[{position}] = b{number[move.source]}[i];"
        lines.append(f"if (i < {move.count}u) {{ {moved} }}")
    if set_counter:
        at = f"b{number[counter]}[0]"
        lines.append(f"if (i == 0u) {{ {at} = {set_counter.format(at)}; }}")
    bindings = tuple(Binding(access(tensor), types[tensor]) for tensor in number)
    shader = Shader(bindings, (), tuple(lines), WORKGROUP)
    return Kernel(shader, tuple(tensors), launch.workgroups)
