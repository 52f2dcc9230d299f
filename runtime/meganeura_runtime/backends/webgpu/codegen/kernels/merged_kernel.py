"""Kernels side by side as one: each has its own workgroups, and they do not wait for each other.

A workgroup finds by its number whose work it does. All branch on that number alone, so that the
barriers of each kernel are still met by whole workgroups.
"""

import re
from collections.abc import Sequence

from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Binding, Kernel, Shader
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits

BOUND = re.compile(r"\bb(\d+)(?=\[)")
"""A tensor in the body of a kernel."""


def merged_kernels(kernels: Sequence[Kernel], limits: DeviceLimits) -> list[list[int]]:
    """Returns groups of kernels that may be merged, by index: those of one workgroup size."""
    groups: list[list[int]] = []
    for position, kernel in enumerate(kernels):
        for group in groups:
            if _may_join([kernels[each] for each in group], kernel, limits):
                group.append(position)
                break
        else:
            groups.append([position])
    return groups


def _may_join(others: Sequence[Kernel], one: Kernel, limits: DeviceLimits) -> bool:
    """True if a kernel uses the memory that it shares with others as they do."""
    together = (*others, one)
    if len({kernel.shader.size for kernel in together}) > 1:
        return False
    return (
        all(kernel.workgroups[1:] == (1, 1) for kernel in together)
        and sum(kernel.workgroups[0] for kernel in together) <= limits.workgroups
        and _bindings(together) is not None
        and _shared(together) is not None
    )


def _bindings(kernels: Sequence[Kernel]) -> dict[int, Binding] | None:
    """Returns the binding of each tensor; None if two kernels see different elements in it."""
    found: dict[int, Binding] = {}
    for kernel in kernels:
        for tensor, binding in zip(kernel.tensors, kernel.shader.bindings, strict=True):
            if found.setdefault(tensor, binding) != binding:
                return None
    return found


def _shared(kernels: Sequence[Kernel]) -> list[str] | None:
    """The memory of a workgroup, of which all use as much as one; None if under unlike types."""
    found: dict[str, str] = {}
    for kernel in kernels:
        for declaration in kernel.shader.shared:
            name, _, _ = declaration.partition(":")
            if found.setdefault(name, declaration) != declaration:
                return None
    return list(found.values())


def merged_kernel(kernels: Sequence[Kernel]) -> Kernel:
    """One kernel that does what all of them do, which are a group of `merged_kernels`."""
    bindings, shared = _bindings(kernels), _shared(kernels)
    assert bindings is not None
    assert shared is not None
    numbers = {tensor: number for number, tensor in enumerate(bindings)}
    lines: list[str] = []
    first = 0
    for kernel in kernels:
        last = first + kernel.workgroups[0]
        positions = [numbers[tensor] for tensor in kernel.tensors]
        lines.append(f"if ({f'group.x >= {first}u && ' if first else ''}group.x < {last}u) {{")
        if first:
            lines.append(f"    let group = vec3<u32>(group.x - {first}u, 0u, 0u);")
        lines += (f"    {_renumbered(line, positions)}" for line in kernel.shader.body)
        lines.append("}")
        first = last
    size = kernels[0].shader.size
    shader = Shader(tuple(bindings.values()), tuple(shared), tuple(lines), size)
    return Kernel(shader, tuple(bindings), (first, 1, 1))


def _renumbered(line: str, positions: Sequence[int]) -> str:
    return BOUND.sub(lambda found: f"b{positions[int(found[1])]}", line)
