"""Positions of a kernel's lines: as far out as can be, but in the condition they depend on."""

import re

import pytest

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Launch
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Target


@pytest.mark.parametrize(
    ("position", "step", "size", "text"),
    [
        (variable(Axis("i", 6)), 1, 5, "i < 5u"),
        (variable(Axis("i", 6)), 2, 3, "i % 2u == 0u"),
        (variable(Axis("i", 7)), 2, 3, "i % 2u == 0u && i / 2u < 3u"),
        (variable(Axis("i", 5)) - 1, 2, 3, "n0 % 2u == 0u && n0 / 2u < 3u"),
    ],
)
def test_a_guard_asks_no_more_than_it_must(
    position: Affine, step: int, size: int, text: str
) -> None:
    """A position before the first is a very large one, and a multiple as likely as any."""
    emitter = WgslEmitter()
    emitter.axis(Axis("i", 7), "id.x")
    emitter.guard(BoundsCheck(position, step, size))
    assert emitter.lines[-1].endswith(f" = {text};")


def test_what_is_read_in_a_condition_is_read_there_only() -> None:
    """A load that a condition keeps within the tensor must not precede the condition."""
    emitter, lane, turn = WgslEmitter(), Axis("lane", 8), Axis("turn", 2)
    read = Expressions().load(0, variable(lane), DType.F32)
    emitter.axis(lane, "id.x")
    with emitter.loop(turn):
        with emitter.condition("lane < 3u"):
            emitter.line(f"use({emitter.value(read)});")
            with emitter.condition("turn == 1u"):
                emitter.line(f"again({emitter.value(read)});")
        emitter.line(f"after({emitter.value(read)});")
    assert emitter.lines == [
        "let lane = id.x;",
        "let v1 = b0[lane];",
        "for (var turn = 0u; turn < 2u; turn++) {",
        "    if (lane < 3u) {",
        "        let v0 = b0[lane];",
        "        use(v0);",
        "        if (turn == 1u) {",
        "            again(v0);",
        "        }",
        "    }",
        "    after(v1);",
        "}",
    ]


def test_what_a_loop_does_not_change_is_read_before_it() -> None:
    emitter, make, outer, inner = WgslEmitter(), Expressions(), Axis("i", 4), Axis("j", 4)
    with emitter.loop(outer), emitter.loop(inner):
        row = variable(outer) * 4
        for position in (row, row + variable(inner)):
            emitter.line(f"use({emitter.value(make.load(0, position, DType.F32))});")
    assert emitter.lines == [
        "for (var i = 0u; i < 4u; i++) {",
        "    let v0 = b0[i * 4u];",
        "    let n1 = i * 4u;",
        "    for (var j = 0u; j < 4u; j++) {",
        "        use(v0);",
        "        let v2 = b0[n1 + j];",
        "        use(v2);",
        "    }",
        "}",
    ]


def test_four_neighbours_are_read_at_once_only_where_they_are_aligned() -> None:
    """Else the element would be another one of the four, and nobody would notice."""
    emitter, make, four, tap = WgslEmitter(), Expressions(), Axis("i", 8), Axis("tap", 4)
    emitter.vec4s = frozenset({0})
    emitter.axis(four, "id.x")
    emitter.axis(tap, "id.y")
    start = variable(four) * 4
    assert emitter.value(make.load(0, start + 2, DType.F32)) == "v1"
    assert emitter.lines[2:] == ["let q0 = b0[i];", "let v1 = q0.z;"]
    with pytest.raises(ValueError, match="not aligned"):
        emitter.value(make.load(0, start + variable(tap), DType.F32))
    with pytest.raises(ValueError, match="not aligned"):
        emitter.store_vec4(0, DType.F32, start + variable(tap), ["v1"] * 4)


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
@pytest.mark.parametrize("most", [3, 4, 8])
@pytest.mark.parametrize("groups", [1, 3, 4, 5, 7, 8, 9, 12, 16])
def test_workgroups_of_several_rows_do_each_part_once(
    groups: int, most: int, *, together: bool
) -> None:
    """Beyond what one dimension holds they are folded; those that are left over store nothing."""
    if -(-groups // most) > most:
        return
    emitter = WgslEmitter()
    launch = Launch(groups * 4, 4, Target(DeviceLimits(workgroups=most)))
    declare = launch.declare_group if together else launch.declare
    axis, exists = declare(emitter, "part")
    across, rows, deep = launch.workgroups
    assert max(across, rows) <= most
    assert (axis.size, deep) == (groups if together else 4 * groups, 1)
    (number,) = (line for line in emitter.lines if "group.x" in line)
    row = re.search(r"group\.x \+ group\.y \* (\d+)u", number)
    assert (row is None) == (rows == 1)
    step = int(row[1]) if row else 0
    found = [x + y * step for y in range(rows) for x in range(across)]
    assert [each for each in found if each < groups] == list(range(groups))
    assert exists == (None if len(found) == groups else f"number < {axis.size}u")
