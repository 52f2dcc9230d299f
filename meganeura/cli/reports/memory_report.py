"""The memory of a training run as a table for people, and as data for machines."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.plain_table import table

if TYPE_CHECKING:
    from meganeura_runtime.train.spec.memory_fit import Fit

MEBI = 1 << 20
UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (MEBI, "MiB"), (1 << 10, "KiB"))


def memory_data(train: str, found: "Sequence[Fit]") -> dict[str, object]:
    """All that was found, in bytes."""
    return {"train": train, "devices": [_data(each) for each in found]}


def _data(found: "Fit") -> dict[str, object]:
    memory = found.memory
    return {
        "device": found.device,
        "description": found.description,
        "batch": found.batch,
        "step": None if memory is None else dict(memory.step.roles),
        "step_bytes": None if memory is None else memory.step.bytes,
        "evaluation_bytes": None if memory is None else memory.evaluation.bytes,
        "bytes": None if memory is None else memory.bytes,
        "recomputes": found.recomputes,
        "available": found.available,
        "fits": found.fits,
        "largest_batch": found.largest,
        "limit": found.limit,
    }


def memory_text(train: str, found: "Sequence[Fit]") -> str:
    """A column for each device, a row for each role, and the largest batches."""
    unit, name = _unit(found)
    rows = [[name, *(each.device for each in found)], *_rows(found, unit)]
    examples = "1 example" if found[0].batch == 1 else f"{found[0].batch:,} examples"
    lines = [
        f"a training step of `{train}` on {examples}",
        "",
        table(rows, right=range(1, len(found) + 1)),
        "",
        *(f"{each.device}: {each.description}" for each in found),
    ]
    lines += [
        f"{each.device}: iterations of scans are recomputed to take no more than `memory`"
        for each in found
        if each.recomputes
    ]
    if found[0].available is not None:
        lines += ["", f"largest batch in {_amount(found[0].available)}"]
        lines += [f"  {each.device}: {_largest(each)}" for each in found]
    lines += [f"\n{each.device}: {each.limit}" for each in found if each.limit]
    return "\n".join(lines)


def _unit(found: "Sequence[Fit]") -> tuple[int, str]:
    """Mebibytes, or kibibytes where all is small."""
    largest = max((each.memory.bytes for each in found if each.memory), default=MEBI)
    return (MEBI, "MiB") if largest >= 16 * MEBI else (1 << 10, "KiB")


def _rows(found: "Sequence[Fit]", unit: int) -> Iterator[list[str]]:
    """Yields the memory of each role, without roles that are always empty, and the sums."""
    from meganeura_runtime.backends.memory_roles import MemoryRole

    memories = [each.memory for each in found]
    for role in MemoryRole:
        sizes = [each and each.step.roles.get(role, 0) for each in memories]
        if any(sizes):
            yield [role, *(_in(unit, size) for size in sizes)]
    yield ["step", *(_in(unit, each and each.step.bytes) for each in memories)]
    yield ["evaluation", *(_in(unit, each and each.evaluation.bytes) for each in memories)]
    yield ["both", *(_in(unit, each and each.bytes) for each in memories)]


def _amount(size: int) -> str:
    """`8 GiB`, `1.5 MiB`, `300 bytes`."""
    unit, name = next((each for each in UNITS if size >= each[0]), (1, "bytes"))
    return f"{size / unit:,.4g} {name}"


def _in(unit: int, size: int | None) -> str:
    return "-" if size is None else f"{size / unit:,.1f}"


def _largest(found: "Fit") -> str:
    from meganeura_runtime.train.spec.memory_fit import MOST

    if found.largest is None:
        return "none fits"
    if found.largest == MOST:
        return f"{found.largest:,}, and larger ones were not tried"
    why = "; a larger one exceeds a limit" if found.limit else ""
    return f"{found.largest:,}{why}"
