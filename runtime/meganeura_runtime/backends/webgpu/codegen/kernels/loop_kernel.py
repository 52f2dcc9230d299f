"""The kernels between the iterations of a loop, and of iterations that a loop may skip."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Binding, Kernel, Launch, Shader
from meganeura_runtime.backends.webgpu.config.limits import Target

WORKGROUP = 64
HALF = "f16"
GOING = "going"
"""The word of a workgroup that says whether it has anything to do."""


@dataclass(frozen=True, slots=True)
class Move:
    """So many elements of a tensor, to another one; or to a slice of it, if `inner` says which.

    Element i goes to (i / inner * iterations + counter) * inner + i % inner.
    """

    source: int
    target: int
    count: int
    dtype: DType
    inner: int = 0
    iterations: int = 1


def move_kernel(
    moves: Sequence[Move],
    counter: int,
    words: Mapping[int, str],
    access: Callable[[int], str],
    target: Target,
) -> Kernel:
    """Move elements; the first invocation then sets tensors of one word to what expressions say.

    A kernel that sets the counter must not read it for slices.
    """
    tensors = list(dict.fromkeys([*(t for move in moves for t in (move.source, move.target))]))
    is_read = any(move.inner for move in moves)
    tensors += [counter] if is_read else []
    tensors += words
    number = {tensor: position for position, tensor in enumerate(tensors)}
    types = {tensor: HALF if move.dtype is DType.F16 else "u32" for move in moves
             for tensor in (move.source, move.target)}  # fmt: skip
    types |= dict.fromkeys(words, "u32") | {counter: "i32"}
    count = max([1, *(move.count for move in moves)])
    launch = Launch(count, WORKGROUP, target)
    across, rows, _ = launch.workgroups
    group = f"(group.x + group.y * {across}u)" if rows > 1 else "group.x"
    lines = [f"let i = {group} * {WORKGROUP}u + lane;"]
    if is_read:
        lines.append(f"let iteration = u32(b{number[counter]}[0]);")
    for move in moves:
        position = "i"
        if move.inner:
            before = f"i / {move.inner}u * {move.iterations}u + iteration"
            position = f"({before}) * {move.inner}u + i % {move.inner}u"
        moved = f"b{number[move.target]}[{position}] = b{number[move.source]}[i];"
        lines.append(f"if (i < {move.count}u) {{ {moved} }}")
    for tensor, text in words.items():
        at = f"b{number[tensor]}[0]"
        lines.append(f"if (i == 0u) {{ {at} = {text.format(at)}; }}")
    bindings = tuple(Binding(access(tensor), types[tensor]) for tensor in number)
    shader = Shader(bindings, (), tuple(lines), WORKGROUP)
    return Kernel(shader, tuple(tensors), launch.workgroups)


def guarded(kernel: Kernel, flags: Sequence[int], access: Callable[[int], str]) -> Kernel:
    """The kernel that does nothing where any of the flags, tensors of one u32 each, is 0."""
    if not flags:
        return kernel
    shader, first = kernel.shader, len(kernel.tensors)
    loaded = [f"b{first + number}[0]" for number in range(len(flags))]
    shared = shader.shared
    if any("Barrier" in line or "subgroup" in line for line in shader.body):
        # A whole workgroup has to meet there, so that it returns as a whole.
        shared = (*shared, f"var<workgroup> {GOING}: u32;")
        head = (
            f"if (lane == 0u) {{ {GOING} = {' * '.join(loaded)}; }}",
            f"if (workgroupUniformLoad(&{GOING}) == 0u) {{ return; }}",
        )
    else:
        head = (f"if ({' * '.join(loaded)} == 0u) {{ return; }}",)
    bindings = (*shader.bindings, *(Binding(access(flag), "u32") for flag in flags))
    body = (*head, *shader.body)
    return replace(
        kernel,
        shader=replace(shader, bindings=bindings, shared=shared, body=body),
        tensors=(*kernel.tensors, *flags),
    )
