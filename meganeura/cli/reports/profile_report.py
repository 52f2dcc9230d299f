"""A profile as tables for people, and as data for machines."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.plain_table import table

if TYPE_CHECKING:
    from meganeura.cli.driver.workload import Subject
    from meganeura_runtime.backends.timing.profile import Profile, Row

FAST = 1e12
"""Operations a second above which they are counted in TFLOP/s."""
MOST_PLACES = 5
"""The most lines of the program that are listed for one kernel."""
MEBI = 1 << 20


def profile_data(subject: "Subject", device: str, found: "Profile") -> dict[str, object]:
    """All that was measured, times in seconds."""
    return {
        "name": subject.name,
        "mode": subject.mode,
        "sizes": dict(subject.sizes),
        "device": device,
        "choices": found.choices,
        "clock": found.clock,
        "peaks": asdict(found.peaks),
        "step": found.step,
        "kernels": found.kernels,
        "host": dict(found.host),
        "memory": dict(found.memory),
        "least_temporaries": found.least,
        "rows": [{**asdict(row), "roofline": found.roofline(row)} for row in found.rows],
    }


def profile_text(subject: "Subject", device: str, found: "Profile", most: int) -> str:
    """A header, the kernels, and the sums of each kind."""
    return "\n".join(
        [*_header(subject, device, found), "", *_kernels(found, most), "", _kinds(found)]
    )


def _header(subject: "Subject", device: str, found: "Profile") -> Iterator[str]:
    peaks, (unit, size) = found.peaks, _unit(found)
    yield f"{subject}; on {device}"
    if found.choices:
        yield f"kernels as in {found.choices}"
    yield f"times: {found.clock}"
    yield (
        f"peaks, measured just now ({peaks.how}): "
        f"{_number(peaks.flops / size)} {unit}, {_number(peaks.bandwidth / 1e9)} GB/s"
    )
    host = ", ".join(f"{what} {seconds(each)}" for what, each in found.host.items())
    whole = f"; the host's share of it: {host}" if host else ""
    yield f"step: {seconds(found.step)}, the times below together {seconds(found.kernels)}{whole}"
    memory = ", ".join(f"{what} {each / MEBI:,.1f} MiB" for what, each in found.memory.items())
    least = "" if found.least is None else f" (at least {found.least / MEBI:,.1f} MiB)"
    yield f"memory: {memory}{least}"


def _kernels(found: "Profile", most: int) -> Iterator[str]:
    rows = [("kernel", "line", *_head(found))]
    rows += [
        (row.name, locations(row.locations), *_numbers(found, row)) for row in found.rows[:most]
    ]
    yield table(rows, right=range(2, 8))
    left = found.rows[most:]
    if left:
        rest = seconds(sum(row.seconds for row in left))
        yield f"and {len(left)} more, {rest} together (--rows shows more)"


def _kinds(found: "Profile") -> str:
    rows = [("kind", *_head(found))]
    rows += [(row.kind, *_numbers(found, row)) for row in found.kinds()]
    return table(rows, right=range(1, 7))


def _head(found: "Profile") -> tuple[str, ...]:
    return "calls", "time", _unit(found)[0], "GB/s", "roofline", "step"


def _unit(found: "Profile") -> tuple[str, float]:
    """Returns the unit in which operations are counted, so that a peak has few digits."""
    return ("TFLOP/s", 1e12) if found.peaks.flops >= FAST else ("GFLOP/s", 1e9)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _numbers(found: "Profile", row: "Row") -> tuple[str, ...]:
    time = max(row.seconds, 1e-12)
    return (
        str(row.calls),
        seconds(row.seconds),
        _number(row.flops / time / _unit(found)[1]),
        _number(row.bytes / time / 1e9),
        f"{100 * found.roofline(row):.0f} %",
        f"{100 * row.seconds / max(found.kernels, 1e-12):.1f} %",
    )


def seconds(time: float) -> str:
    """`12.3 ms`, `4.5 us`."""
    if time >= 1:
        return f"{time:.3g} s"
    return f"{1e3 * time:.3g} ms" if time >= 1e-3 else f"{1e6 * time:.3g} us"


def locations(origins: Sequence[str]) -> str:
    """`resnet.mgn:8,9`, and the layer where there is only one."""
    split = [origin.partition(" ") for origin in origins if origin]
    split_lines = (line.rpartition(":") for line, _, _ in split)
    lines = sorted({(name, int(line)) for name, _, line in split_lines})
    shown = [
        f"{name}:{','.join(str(line) for _, line in same)}"
        for name, same in groupby(lines[:MOST_PLACES], key=lambda each: each[0])
    ]
    layer = [split[0][2]] if len(split) == 1 and split[0][2] else []
    return " ".join([*shown, *(["..."] if len(lines) > MOST_PLACES else []), *layer])
