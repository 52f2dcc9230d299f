"""A plan that was read runs only if each of its places is there, and is large enough for all."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style
from meganeura_runtime.backends.webgpu.plan import (
    Buffer,
    Copy,
    Dispatch,
    DispatchLoop,
    Plan,
    PlanError,
    PlanTensor,
    Role,
    Slot,
)
from meganeura_runtime.backends.webgpu.verify_plan import verify_plan

LIMITS = DeviceLimits(
    buffer_bytes=512, binding_bytes=64, storage_buffers=2, offset_alignment=256, workgroups=3
)
"""Just enough for the plan."""
READS = "@group(0) @binding(0) var<storage, read> a: array<f32>;"
WRITES = "@group(0) @binding(1) var<storage, read_write> b: array<f32>;"
X = Slot(0, 0, 64)
IDS = Slot(0, 256, 8)
W = Slot(1, 0, 64)
Y = Slot(2, 0, 64)
BETWEEN = Slot(3, 0, 64)
DISPATCHES = (
    Dispatch("negated", "map", "", 0, (X, BETWEEN), (1, 2, 3), 16, 128),
    Dispatch("copied", "map", "", 0, (BETWEEN, Y), (1, 1, 1), 0, 128),
)
FIRST, SECOND = DISPATCHES
PLAN = Plan(
    style=Style.GPU,
    buffers=(
        Buffer(Role.INPUTS, 512),
        Buffer(Role.PARAMETERS, 256),
        Buffer(Role.OUTPUTS, 256),
        Buffer(Role.TEMPORARIES, 64),
    ),
    kernels=(f"{READS}\n{WRITES}",),
    dispatches=DISPATCHES,
    copies=(Copy(Y, W),),
    inputs=(PlanTensor("x", DType.F32, (4, 4), X), PlanTensor("ids", DType.F16, (3,), IDS)),
    parameters=(PlanTensor("w", DType.F32, (16,), W),),
    outputs=(PlanTensor("y", DType.F32, (2, 8), Y),),
    least_bytes=64,
)
X_AT, IDS_AT = PLAN.inputs


def buffers(number: int, size: int) -> dict[str, object]:
    """The plan's buffers, one of them of another size."""
    changed = replace(PLAN.buffers[number], bytes=size)
    return {"buffers": (*PLAN.buffers[:number], changed, *PLAN.buffers[number + 1 :])}


def first(**changes: object) -> dict[str, object]:
    return {"dispatches": (replace(FIRST, **changes), SECOND)}


REFUSED: Mapping[str, tuple[dict[str, object], str]] = {
    "a buffer of fewer than no bytes": (buffers(3, -4), "buffer 3 has -4 bytes"),
    "a buffer after the last": (
        {"copies": (Copy(Y, Slot(4, 0, 64)),)},
        "0+64 of buffer 4 is in none of its buffers",
    ),
    "a buffer before the first": (
        first(slots=(Slot(-1, 0, 64), BETWEEN)),
        "0+64 of buffer -1 is in none of its buffers",
    ),
    "one word beyond a buffer": (
        {"copies": (Copy(Y, Slot(3, 0, 68)),)},
        "0+68 of buffer 3 is not in that buffer",
    ),
    "an offset before a buffer": (
        {"copies": (Copy(Slot(2, -256, 64), W),)},
        "-256+64 of buffer 2 is not in that buffer",
    ),
    "fewer than no bytes": (
        {"copies": (Copy(Y, W), Copy(Y, Slot(3, 0, -4)))},
        "0+-4 of buffer 3 is not in that buffer",
    ),
    "an offset that no adapter binds": (
        {"copies": (Copy(Slot(0, 128, 64), W),)},
        "128+64 of buffer 0 begins or ends between words",
    ),
    "half a word": (
        {"copies": (Copy(Slot(2, 0, 62), W),)},
        "0+62 of buffer 2 begins or ends between words",
    ),
    "a word more than an adapter binds": (
        {"copies": (Copy(Slot(0, 0, 68), W),)},
        "0+68 of buffer 0 is more than an adapter binds",
    ),
    "a larger buffer than is used": (
        buffers(3, 257),
        "buffer 3 has 257 bytes, of which 64 are used",
    ),
    "two inputs of one name": (
        {"inputs": (X_AT, replace(IDS_AT, name="x"))},
        "two of its inputs have the same name",
    ),
    "a size below zero": (
        {"inputs": (X_AT, replace(IDS_AT, shape=(-3,)))},
        "`ids` claims an impossible size",
    ),
    "a range larger than its tensor": (
        {"inputs": (X_AT, replace(IDS_AT, shape=(2,)))},
        "`ids: f16[2]` takes 8 bytes",
    ),
    "a range smaller than its tensor": (
        {"outputs": (PlanTensor("y", DType.F32, (17,), Y),)},
        "`y: f32[17]` takes 64 bytes",
    ),
    "an input among temporaries": (
        {"inputs": (replace(X_AT, slot=BETWEEN), IDS_AT)},
        "`x` is not in a buffer of inputs",
    ),
    "inputs that overlap": (
        {"inputs": (*PLAN.inputs, PlanTensor("half", DType.F32, (8,), Slot(0, 0, 32)))},
        "two of its inputs overlap in buffer 0",
    ),
    "a kernel of other letters": (
        {"kernels": (f"{READS}\n{WRITES}\n// é",)},
        "kernel 0 is no text of ours",
    ),
    "a null character": ({"kernels": (f"{READS}\n{WRITES}\0",)}, "kernel 0 is no text of ours"),
    "bindings out of order": (
        {"kernels": (f"{WRITES}\n{READS}",)},
        "kernel 0 does not number its bindings",
    ),
    "a kernel after the last": (first(kernel=1), "there is no kernel 1"),
    "a kernel before the first": (first(kernel=-1), "there is no kernel -1"),
    "a range too many": (
        first(slots=(X, BETWEEN, BETWEEN)),
        "kernel 0 has 2 bindings, and is bound to 3 ranges",
    ),
    "no workgroups": (first(workgroups=(1, 0, 1)), "kernel 0 runs in (1, 0, 1) workgroups"),
    "a workgroup too many": (first(workgroups=(1, 2, 4)), "kernel 0 runs in (1, 2, 4) workgroups"),
    "a dispatch that reads what is written later": (
        {"dispatches": (SECOND, FIRST)},
        "dispatch 0 reads 0+64 of buffer 3, which nothing wrote",
    ),
    "a dispatch that reads what only it writes": (
        first(slots=(BETWEEN, BETWEEN)),
        "dispatch 0 reads 0+64 of buffer 3, which nothing wrote",
    ),
    "a copy of what nothing wrote": (
        {"copies": (Copy(Y, W), Copy(Slot(2, 0, 32), Slot(1, 0, 32)))},
        "a copy reads 0+32 of buffer 2, which nothing wrote",
    ),
    "a loop before the first dispatch": (
        {"loops": (DispatchLoop(-1, 1, 1),)},
        "there cannot be 1 iterations of the dispatches -1 to 1",
    ),
    "a loop beyond the last dispatch": (
        {"loops": (DispatchLoop(1, 3, 1),)},
        "there cannot be 1 iterations of the dispatches 1 to 3",
    ),
    "a loop of nothing": (
        {"loops": (DispatchLoop(1, 1, 1),)},
        "there cannot be 1 iterations of the dispatches 1 to 1",
    ),
    "a loop of no rounds": (
        {"loops": (DispatchLoop(0, 1, 0),)},
        "there cannot be 0 iterations of the dispatches 0 to 1",
    ),
    "loops that overlap": (
        {
            "dispatches": (FIRST, *(SECOND,) * 3),
            "loops": (DispatchLoop(0, 2, 2), DispatchLoop(1, 3, 2)),
        },
        "2 iterations of the dispatches 1 to 3 overlap with those up to 2",
    ),
    "a launch too many": (
        {"loops": (DispatchLoop(0, 1, 1 << 22),)},
        "4194304 iterations of the dispatches 0 to 1 are more than 4,194,304 launches",
    ),
    "a launch too many in a loop in a loop": (
        {"loops": (DispatchLoop(1, 2, 1 << 11), DispatchLoop(0, 2, 1 << 11))},
        "2048 iterations of the dispatches 1 to 2 are more than 4,194,304 launches",
    ),
    "an output that nothing wrote": (
        {"dispatches": (FIRST,), "copies": ()},
        "an output is 0+64 of buffer 2, which nothing wrote",
    ),
}


def test_a_plan_may_be_as_large_as_the_limits() -> None:
    verify_plan(PLAN, LIMITS)


def test_two_names_may_stand_for_one_place_and_a_range_begin_where_another_ends() -> None:
    twice = (*PLAN.outputs, PlanTensor("z", DType.I32, (16,), Y))
    apart = PlanTensor("b", DType.F32, (64,), Slot(4, 0, 256))
    beside = PlanTensor("c", DType.F32, (16,), Slot(4, 256, 64))
    plan = replace(
        PLAN,
        buffers=(*PLAN.buffers, Buffer(Role.INPUTS, 512)),
        inputs=(*PLAN.inputs, apart, beside),
        outputs=twice,
    )
    verify_plan(plan, replace(LIMITS, binding_bytes=256))


@pytest.mark.parametrize(
    "loops",
    [
        (DispatchLoop(0, 1, (1 << 22) - 1),),
        (DispatchLoop(1, 2, 1 << 21), DispatchLoop(0, 1, 1 << 21)),
        (DispatchLoop(0, 2, 2), DispatchLoop(0, 2, 3)),
        (DispatchLoop(0, 2, 1 << 10), DispatchLoop(1, 2, (1 << 12) - 1)),
    ],
)
def test_loops_may_lie_behind_and_inside_of_others(loops: tuple[DispatchLoop, ...]) -> None:
    verify_plan(replace(PLAN, loops=loops), LIMITS)


@pytest.mark.parametrize(
    ("loops", "is_right"),
    [
        ((DispatchLoop(0, 2, 2), DispatchLoop(0, 3, 2)), True),
        ((DispatchLoop(0, 3, 2), DispatchLoop(0, 2, 2), DispatchLoop(0, 1, 2)), True),
        (
            (DispatchLoop(0, 3, 1 << 7), DispatchLoop(1, 3, 1 << 7), DispatchLoop(2, 3, 1 << 8)),
            False,
        ),
        (
            (DispatchLoop(0, 3, 1 << 7), DispatchLoop(1, 3, 1 << 7), DispatchLoop(2, 3, 1 << 7)),
            True,
        ),
        (
            (DispatchLoop(0, 1, 1 << 20), DispatchLoop(1, 2, 1 << 20), DispatchLoop(2, 3, 1 << 20)),
            True,
        ),
    ],
)
def test_rounds_of_rounds_are_counted(loops: tuple[DispatchLoop, ...], *, is_right: bool) -> None:
    """Whichever of two that begin together is told first."""
    plan = replace(PLAN, dispatches=(FIRST, SECOND, SECOND), loops=loops)
    if is_right:
        verify_plan(plan, LIMITS)
        return
    with pytest.raises(PlanError, match="are more than 4,194,304 launches"):
        verify_plan(plan, LIMITS)


@pytest.mark.parametrize(("changes", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_a_plan_has_no_room_for_is_refused(changes: dict[str, object], reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        verify_plan(replace(PLAN, **changes), LIMITS)
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("limit", "less", "reason"),
    [
        ("buffer_bytes", 511, "buffer 0 is larger than an adapter allows"),
        ("binding_bytes", 63, "0+64 of buffer 0 is more than an adapter binds"),
        ("storage_buffers", 1, "kernel 0 is bound to more than an adapter allows"),
        ("offset_alignment", 512, "256+8 of buffer 0 begins or ends between words"),
        ("workgroups", 2, "kernel 0 runs in (1, 2, 3) workgroups"),
    ],
)
def test_what_an_adapter_does_not_allow_is_refused(limit: str, less: int, reason: str) -> None:
    with pytest.raises(PlanError) as caught:
        verify_plan(PLAN, replace(LIMITS, **{limit: less}))
    assert str(caught.value) == reason
