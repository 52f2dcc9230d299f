"""A plan: everything a device needs to run a step again and again, as data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal
from zlib import crc32

from pydantic import TypeAdapter, ValidationError

from meganeura_dsl.ir.types import DType
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.backends.webgpu.config.limits import Style

VERSION = 4
CHECKSUM = b"crc32 %08x\n"
"""The last line of a file of a plan."""
LONGEST = 64
"""Mebibytes of a plan: of many thousand dispatches."""


class PlanError(Exception):
    """A file that holds no plan this version can run."""


class Role(Enum):
    """The role of a buffer, which decides how long its contents last."""

    PARAMETERS = "parameters"
    """Persistent: they live from step to step."""
    INPUTS = "inputs"
    """Written before a step."""
    OUTPUTS = "outputs"
    """They live until the next step."""
    TEMPORARIES = "temporaries"
    """Buffers without a use after the step."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of the device."""

    role: Role
    bytes: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A range of a buffer."""

    buffer: int
    offset: int
    bytes: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.bytes


@dataclass(frozen=True, slots=True)
class CheckedIndex:
    """An index whose largest value an output is: below `count`, as a number without a sign."""

    dtype: DType
    """The type of the index: i32 or u32."""
    count: int
    location: str
    """The line of the program with the index."""


@dataclass(frozen=True, slots=True)
class PlanTensor:
    """A named tensor that the host writes or reads."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    slot: Slot
    check: CheckedIndex | None = None
    """The index that an output checks, if it is no result of the program."""

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype.value}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One run of a kernel; binding i is `slots[i]`."""

    name: str
    """A short description of the kernel."""
    kind: str
    """The first of them: which sum of products, reduction or map it is."""
    origin: str
    kernel: int
    slots: tuple[Slot, ...]
    workgroups: tuple[int, int, int]
    flops: int
    """Additions and multiplications; convolutions count as direct ones."""
    bytes: int
    """The bytes that it reads and writes at least."""


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes moved after all dispatches."""

    source: Slot
    target: Slot


@dataclass(frozen=True, slots=True)
class DispatchLoop:
    """The dispatches from `first` up to `last` are run `rounds` times, in order, one after another.

    Loops lie one behind or one inside of the other.
    """

    first: int
    last: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: `dispatches` in order, those of `loops` repeatedly, then `copies`.

    `kernels` are WGSL texts.
    """

    style: Style
    buffers: tuple[Buffer, ...]
    kernels: tuple[str, ...]
    dispatches: tuple[Dispatch, ...]
    copies: tuple[Copy, ...]
    inputs: tuple[PlanTensor, ...]
    parameters: tuple[PlanTensor, ...]
    outputs: tuple[PlanTensor, ...]
    least_bytes: int
    """The least bytes of the temporaries under any placement."""
    loops: tuple[DispatchLoop, ...] = ()
    choices: str = ""
    """The source of choices that differ from the planner's; empty if none."""
    version: Literal[4] = VERSION

    @property
    def order(self) -> tuple[int, ...]:
        """The numbers of the dispatches in the order in which they run."""
        return tuple(_unrolled(self.loops, 0, len(self.dispatches)))

    def numbers(self, role: Role) -> tuple[int, ...]:
        """Returns the numbers of the buffers of a role."""
        return tuple(n for n, buffer in enumerate(self.buffers) if buffer.role is role)

    def bytes_for(self, role: Role) -> int:
        """Memory taken for a purpose."""
        return sum(buffer.bytes for buffer in self.buffers if buffer.role is role)

    def __str__(self) -> str:
        return "\n".join([*_summary(self), *_steps(self)])

    def as_json(self) -> bytes:
        """The plan as a text that `from_json` reads."""
        return _ADAPTER.dump_json(self)

    @staticmethod
    def from_json(content: bytes) -> "Plan":
        """Read a plan; `PlanError` where the content is none, or one of another version."""
        try:
            return _ADAPTER.validate_json(content)
        except ValidationError as error:
            raise PlanError(f"this is no plan of version {VERSION}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the plan as JSON, and a line with its checksum."""
        text = _ADAPTER.dump_json(self, indent=1) + b"\n"
        path.write_bytes(text + CHECKSUM % crc32(text))

    @staticmethod
    def load(path: Path) -> "Plan":
        """Read a plan; `PlanError` where the file is none, damaged, or one of another version.

        It is as trusted as the program: what it holds is run unchecked.
        """
        try:
            content = read_bytes(path, LONGEST)
            text, mark, _ = content.rpartition(CHECKSUM[:6])
            plan = Plan.from_json(text or content)
        except (PlanError, TooLongError) as error:
            raise PlanError(f"{path}: {error}") from error
        if mark and content != text + CHECKSUM % crc32(text):
            raise PlanError(f"{path}: it is damaged: its checksum is that of another plan")
        return plan


_ADAPTER: TypeAdapter[Plan] = TypeAdapter(Plan)


def _summary(plan: Plan) -> Sequence[str]:
    memory = ", ".join(f"{role.value} {megabytes(plan.bytes_for(role))}" for role in Role)
    tuned = [f"kernels as in {plan.choices}"] if plan.choices else []
    return [
        (
            f"{len(plan.dispatches)} dispatches of {len(plan.kernels)} kernels, "
            f"{len(plan.copies)} copies, style {plan.style.value}"
        ),
        f"memory: {memory} (temporaries at least {megabytes(plan.least_bytes)})",
        *tuned,
    ]


def _unrolled(loops: Sequence[DispatchLoop], first: int, last: int) -> Iterator[int]:
    """The numbers from `first` up to `last`, with those of loops repeated."""
    at = first
    while at < last:
        here = [loop for loop in loops if loop.first == at and loop.last <= last]
        if not here:
            yield at
            at += 1
            continue
        outer = max(here, key=lambda loop: loop.last)
        inside = [loop for loop in loops if loop is not outer]
        body = tuple(_unrolled(inside, outer.first, outer.last))
        for _ in range(outer.rounds):
            yield from body
        at = outer.last


def _steps(plan: Plan) -> Sequence[str]:
    width = max((len(dispatch.name) for dispatch in plan.dispatches), default=0)
    lines: list[str] = []
    for number, dispatch in enumerate(plan.dispatches):
        lines += [f"     {each.rounds} iterations:" for each in plan.loops if each.first == number]
        depth = sum(each.first <= number < each.last for each in plan.loops)
        lines.append(
            f"{number:4} {'  ' * depth}{dispatch.name:{width}} kernel {dispatch.kernel}"
            f" x {' x '.join(map(str, dispatch.workgroups))}"
            f"  {_slots(dispatch)}  {dispatch.origin}"
        )
    return lines


def _slots(dispatch: Dispatch) -> str:
    return " ".join(f"{slot.buffer}:{slot.offset}+{slot.bytes}" for slot in dispatch.slots)


def megabytes(count: int) -> str:
    """A number of bytes for people."""
    return f"{count / (1 << 20):.2f} MiB"
