"""Reports on a plan's memory.

Its size, the part that stays, and the writers of the largest parts.
"""

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.memory_estimate import NAMED, gigabytes
from meganeura_runtime.backends.webgpu.config.limits import Style
from meganeura_runtime.backends.webgpu.memory.memory_usage import memory_of_plan
from meganeura_runtime.backends.webgpu.plan import Buffer, Dispatch, Plan, PlanTensor, Role, Slot


def test_the_largest_tensors_are_named_by_what_writes_them_first() -> None:
    sizes = [256 * (number + 1) for number in range(NAMED + 1)]
    slots = [Slot(2, sum(sizes[:number]), size) for number, size in enumerate(sizes)]
    weights = Slot(0, 0, 1 << 20)
    dispatches = [
        Dispatch(
            f"kernel {number}", "map", f"net.mgn:{number}", 0, (weights, slot), (1, 1, 1), 0, 0
        )
        for number, slot in enumerate([*slots, slots[-1]])
    ]
    roles = {Role.PARAMETERS: 1 << 20, Role.INPUTS: 1 << 10, Role.TEMPORARIES: sum(sizes)}
    plan = Plan(
        style=Style.GPU,
        buffers=tuple(Buffer(role, size) for role, size in roles.items()),
        kernels=("",),
        dispatches=tuple(dispatches),
        copies=(),
        inputs=(),
        parameters=(PlanTensor("w", DType.F32, (1 << 18,), weights),),
        outputs=(),
        least_bytes=0,
    )
    found = memory_of_plan(plan)
    assert (found.bytes, found.persistent) == (sum(roles.values()), 1 << 20)
    assert list(found.largest) == [
        f"{gigabytes(sizes[number])}: kernel {number} net.mgn:{number}"
        for number in reversed(range(1, NAMED + 1))
    ]
