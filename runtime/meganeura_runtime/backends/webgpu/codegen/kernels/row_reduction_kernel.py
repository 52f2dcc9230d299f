"""The kernel of rows on a GPU: a workgroup reduces whole rows, and may go over them again.

A row is what one element of a sum or maximum is taken of. Its lanes reduce it together, then all of
them know the result, so that a further reduction of the same rows may use it, and so may values of
every term: a softmax, a normalization and their gradients are each one kernel.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import gcd, prod

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import ArgMax, Sum
from meganeura_dsl.ir.ops.primitive.reduce import ReduceMax
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Result,
    Work,
    all_of,
    result_of,
    vec4s_of,
    write_result,
    write_results,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.axis_reduction import merged, reduction
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import Kind, neutral
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Expression,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import literal, register_type
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits, Style, Target

FEWEST_TERMS = 32
"""Terms for which it is worth to work together."""
MANY_COLUMNS = 1 << 14
"""Rows whose terms lie far apart keep a GPU busy by themselves if they are so many."""
FEW_ROWS, SOME_ROWS = 128, 1024
"""Rows so few that they are done the sooner, the less each lane does."""
LONG = 256
"""Terms that one invocation should not sum alone."""
LONG_ABREAST = 48
"""The same for an invocation that takes four neighbouring rows."""
SECTOR = 16
"""Halves in a sector of the cache of a GPU, which it reads as a whole."""
ABREAST, BUSY_TEAMS = 8, 256
"""Lanes side by side that take four neighbouring rows each, and teams that need as many."""


@dataclass(frozen=True, slots=True)
class RowReduction:
    """The rows of a sum or maximum: how many, how long, and where they lie in its operand."""

    count: int
    terms: int
    contiguous: bool
    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def side_by_side(self) -> int:
        """Neighbouring rows that fill a sector of the cache with short runs of terms, else 1.

        So the channels of a group lie where they are the last axis.
        """
        rank = len(self.shape)
        run = next(size for size in range(1, rank + 1) if rank - 1 - size not in self.axes)
        if not self.contiguous or run == len(self.axes):
            return 1
        length, neighbours = prod(self.shape[rank - run :]), self.shape[rank - 1 - run]
        if length % 4 or length >= 2 * SECTOR:
            return 1
        return gcd(neighbours, SECTOR // gcd(SECTOR, length))

    def position(self, row: Affine, term: Affine) -> Affine:
        """The row-major position of a term."""
        inside = tuple(self.shape[axis] for axis in self.axes)
        outside = tuple(size for axis, size in enumerate(self.shape) if axis not in self.axes)
        index = merged(len(self.shape), self.axes, unravel(row, outside), unravel(term, inside))
        return ravel(index, self.shape)


def row_reduction_of(anchor: Value, target: Target) -> RowReduction | None:
    """The rows of a value, if it is such that workgroups reduce it together."""
    match anchor.op:
        case ArgMax(axis=axis) if target.style is Style.GPU:
            axes = (axis,)
        case Sum(axes=axes) | ReduceMax(axes=axes) if target.style is Style.GPU:
            pass
        case _:
            return None
    shape = concrete_shape(anchor.operands[0].type.shape)
    terms = prod(shape[axis] for axis in axes)
    rows = RowReduction(prod(shape) // terms, terms, len(shape) - 1 in axes, shape, axes)
    longest = LONG_ABREAST if rows_abreast(rows, [anchor], target) > 1 else LONG
    alone = not rows.contiguous and rows.count > MANY_COLUMNS and terms <= longest
    return None if alone or terms < FEWEST_TERMS else rows


def rows_abreast(rows: RowReduction, anchors: Sequence[Value], target: Target) -> int:
    """Returns the number of neighbouring rows that a lane takes: 4 of sums along leading axes.

    So lanes side by side read 64 bytes of f16 in a row, where one row each would be 16. In f32
    the fewer workgroups would have to be measured.
    """
    sums = all(isinstance(anchor.op, Sum) and anchor.type.dtype is DType.F32 for anchor in anchors)
    fits = not rows.contiguous and rows.shape[-1] % 4 == 0
    return 4 if fits and sums and target.limits.matrix_units is not None else 1


@dataclass(frozen=True, slots=True)
class _Team:
    """The lanes of a workgroup: so many rows, so many lanes in each, so many terms at once each.

    A lane takes `abreast` neighbouring rows, which counts as one row here.
    """

    rows: int
    lanes: int
    each: int
    contiguous: bool
    abreast: int = 1
    interleaved: bool = True
    """True if neighbouring lanes take neighbouring rows, not terms of one row."""

    @staticmethod
    def of(rows: RowReduction, words: int, abreast: int, limits: DeviceLimits) -> "_Team":
        """Returns the team of lanes for so many words of shared memory per row of a lane."""
        most = min(limits.invocations, limits.workgroup_bytes // (4 * words * abreast))
        each = 4 if rows.terms % 4 == 0 else 1
        if abreast > 1:
            beside = _power(max(1, rows.count // (abreast * BUSY_TEAMS)), 2, ABREAST)
            lanes = _power(rows.terms // each, 1, min(256, most) // beside)
            return _Team(beside, lanes, each, contiguous=False, abreast=abreast)
        if rows.contiguous:
            busy = 1024 if rows.count < 512 else 256
            beside = rows.side_by_side
            most = most // beside
            lanes = _power(rows.terms // (_turns(rows.count) * each), 8, min(busy, most))
            if beside > 1:
                return _Team(beside, lanes, each, contiguous=True)
            together = _power(rows.count, 1, max(1, min(128, most) // lanes))
            return _Team(together, lanes, each, contiguous=True, interleaved=False)
        together = 8 if rows.count < 2048 else 32
        turns = _turns(rows.count // together)
        lanes = _power(rows.terms // (turns * each), 1, min(1024, most) // together)
        return _Team(together, lanes, each, contiguous=False)

    @property
    def size(self) -> int:
        """Invocations of a workgroup."""
        return self.rows * self.lanes

    def split(self, lane: Affine) -> tuple[Affine, Affine]:
        """The row a lane works on, and its number among those that work on it."""
        if not self.interleaved:
            row, number = unravel(lane, (self.rows, self.lanes))
            return row, number
        number, row = unravel(lane, (self.lanes, self.rows))
        return row, number

    @property
    def apart(self) -> int:
        """The distance between lanes of one row."""
        return self.rows if self.interleaved else 1


def _turns(teams: int) -> int:
    """Returns the least number of reads of a lane: few teams wait for memory, many keep it busy."""
    if teams < FEW_ROWS:
        return 1
    return 2 if teams < SOME_ROWS else 4


def _elements(value: Value) -> int:
    return prod(concrete_shape(value.type.shape))


def _power(wanted: int, least: int, most: int) -> int:
    """The largest power of two that is at most `wanted`, within bounds."""
    power = 1 << wanted.bit_length() - 1
    return max(least, min(power, 1 << most.bit_length() - 1))


def row_reduction_kernel(work: Work, memory: Memory, target: Target, rows: RowReduction) -> Kernel:
    """Reduce stage by stage, then store what has an element for each term, then for each row."""
    return _Writing(work, memory, target, rows).kernel(work)


@dataclass(frozen=True, slots=True)
class _Sum:
    """A reduction, and the terms that a lane adds to it in one turn."""

    number: int
    anchor: Value
    elements: tuple[Expression, ...]

    @property
    def dtype(self) -> DType:
        """The type of the terms."""
        return self.anchor.operands[0].type.dtype

    @property
    def has_positions(self) -> bool:
        """True if the result is the place of a term."""
        return reduction(self.anchor).kind is Kind.ARG_MAX

    def declare(self, emitter: WgslEmitter) -> None:
        """Declares the result of a lane for no terms."""
        nothing = neutral(reduction(self.anchor).kind, self.dtype)
        emitter.line(f"var a{self.number} = {literal(nothing, self.dtype)};")
        if self.has_positions:
            emitter.line(f"var p{self.number} = 0i;")

    def add(self, emitter: WgslEmitter, element: str, position: str) -> None:
        """Take in a term of a lane, which sees them in order."""
        name = f"a{self.number}"
        if not self.has_positions:
            emitter.line(f"{name} = {self._combined(name, element)};")
            return
        with emitter.block(f"if ({self._exceeds(element, name)})"):
            emitter.line(f"{name} = {element};")
            emitter.line(f"p{self.number} = i32({position});")

    def share(self, emitter: WgslEmitter) -> None:
        """Let the other lanes know what this one has found."""
        emitter.line(f"all{self.number}[l] = a{self.number};")
        if self.has_positions:
            emitter.line(f"places{self.number}[l] = p{self.number};")

    def join(self, emitter: WgslEmitter, apart: int) -> None:
        """Take in what the lane so far behind has found; of equal terms, the first counts."""
        own, other = (f"all{self.number}[l{at}]" for at in ("", f" + {apart}u"))
        if not self.has_positions:
            emitter.line(f"{own} = {self._combined(own, other)};")
            return
        position, behind = (f"places{self.number}[l{at}]" for at in ("", f" + {apart}u"))
        tie = f"!({self._exceeds(own, other)}) && {behind} < {position}"
        with emitter.block(f"if ({self._exceeds(other, own)} || ({tie}))"):
            emitter.line(f"{own} = {other};")
            emitter.line(f"{position} = {behind};")

    def shared(self, lanes: int) -> list[str]:
        """Declarations of what the lanes of a workgroup share."""
        elements = register_type(self.dtype)
        found = [f"var<workgroup> all{self.number}: array<{elements}, {lanes}>;"]
        if self.has_positions:
            found.append(f"var<workgroup> places{self.number}: array<i32, {lanes}>;")
        return found

    def _combined(self, a: str, b: str) -> str:
        """Returns the combination of two terms."""
        if reduction(self.anchor).kind is Kind.SUM:
            return f"{a} + {b}"
        return f"larger({a}, {b})" if self.dtype.is_float else f"max({a}, {b})"

    def _exceeds(self, a: str, b: str) -> str:
        """WGSL that is true if one term is larger than another; NaN is the largest."""
        return f"exceeds({a}, {b})" if self.dtype.is_float else f"{a} > {b}"


def stages_of(anchors: Sequence[Value]) -> list[list[Value]]:
    """The reductions, each after those that its terms are computed from."""
    stages: dict[int, int] = {}
    for anchor in anchors:
        stages[anchor.id] = max(
            (stages[one] + 1 for one in _reached(anchor, stages.keys())), default=0
        )
    return [
        [anchor for anchor in anchors if stages[anchor.id] == stage]
        for stage in range(max(stages.values()) + 1)
    ]


def _reached(value: Value, wanted: Collection[int]) -> set[int]:
    """Returns those of the wanted values from which a value is computed."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(value.operands)
    while stack:
        operand = stack.pop()
        if operand.id in wanted:
            found.add(operand.id)
        elif operand.id not in seen:
            seen.add(operand.id)
            stack.extend(operand.operands)
    return found


class _Writing:
    """One row kernel, while it is being written."""

    def __init__(self, work: Work, memory: Memory, target: Target, rows: RowReduction) -> None:
        self._memory, self._rows = memory, rows
        self._before = memory.before(work)
        words = sum(2 if isinstance(anchor.op, ArgMax) else 1 for anchor in work.anchors)
        abreast = rows_abreast(rows, work.anchors, target)
        self._team = team = _Team.of(rows, words, abreast, target.limits)
        count = rows.count // abreast
        self._launch = Launch(-(-count // team.rows) * team.size, team.size, target)
        self._emitter, self._make = WgslEmitter(memory.halves), Expressions()
        group, exists = self._launch.declare_group(self._emitter, "rows")
        self._exists = all_of(exists)
        self._lane = Axis("l", team.size)
        self._emitter.axis(self._lane, "lane")
        row, self._number = team.split(variable(self._lane))
        self._row = BoundsCheck(variable(group) * team.rows + row, 1, count)
        self._each_row = [self._row.index * abreast + position for position in range(abreast)]
        runs = rows.terms // team.each
        self._turn = Axis("turn", -(-runs // team.lanes))
        self._run = BoundsCheck(variable(self._turn) * team.lanes + self._number, 1, runs)
        self._terms = [self._run.index * team.each + position for position in range(team.each)]
        self._registers = [
            {anchor.id: f"r{n * abreast + v}" for n, anchor in enumerate(work.anchors)}
            for v in range(abreast)
        ]

    def kernel(self, work: Work) -> Kernel:
        """Everything is computed as expressions first, so that it is known what is read how."""
        stages = self._stages(work.anchors)
        per_row = [value for value in work.stores if _elements(value) == self._rows.count]
        per_term = [value for value in work.stores if value not in per_row]
        again = self._of_terms(per_term) if per_term else []
        last = [self._of_row(per_row)] if per_row else []
        if self._team.abreast == 4 or (self._team.contiguous and self._team.each == 4):
            reads = [one for stage in stages for total in stage for one in total.elements]
            self._emitter.vec4s = vec4s_of(reads, self._memory, [*again, *last])
        for stage in stages:
            self._reduce(stage)
        if again:
            with self._emitter.loop(self._turn):
                write_results(self._emitter, self._memory, again)
            self._emitter.line("storageBarrier();")
        for result in last:
            write_result(self._emitter, self._memory, result)
        totals = sorted((one for stage in stages for one in stage), key=lambda one: one.number)
        shared = [line for total in totals for line in total.shared(self._team.size)]
        return self._launch.kernel(self._emitter, self._memory, shared)

    def _stages(self, anchors: Sequence[Value]) -> list[list[_Sum]]:
        numbers = {anchor.id: number for number, anchor in enumerate(anchors)}
        known: set[int] = set()
        stages: list[list[_Sum]] = []
        for stage in stages_of(anchors):
            readers = [
                ElementInliner(self._make, self._before, {one: names[one] for one in known})
                for names in self._registers
            ]
            stages.append(
                [
                    self._sum(numbers[anchor.id] * len(readers) + v, anchor, readers[v], row)
                    for anchor in stage
                    for v, row in enumerate(self._each_row)
                ]
            )
            known |= {anchor.id for anchor in stage}
        return stages

    def _sum(self, number: int, anchor: Value, reader: ElementInliner, of: Affine) -> _Sum:
        found = reduction(anchor)
        row = unravel(of, concrete_shape(anchor.type.shape))
        dtype = anchor.operands[0].type.dtype
        nothing = self._make.literal(neutral(found.kind, dtype), dtype)
        terms = (
            found.term(reader, row, unravel(term, found.shape)).element for term in self._terms
        )
        return _Sum(
            number, anchor, tuple(self._make.choice(self._run, term, nothing) for term in terms)
        )

    def _of_terms(self, values: Sequence[Value]) -> list[Result]:
        """The terms of a lane's row in one, or of its rows side by side."""
        guards = (self._row, self._run)
        rows = [
            [
                Element(self._rows.position(row, term), registers, self._exists, guards)
                for term in self._terms
            ]
            for row, registers in zip(self._each_row, self._registers, strict=True)
        ]
        together = rows if len(rows) == 1 else [list(each) for each in zip(*rows, strict=True)]
        return [result_of(self._make, values, self._before, each) for each in together]

    def _of_row(self, values: Sequence[Value]) -> Result:
        guards = (self._row, BoundsCheck(self._number, 1, 1))
        elements = [
            Element(row, registers, self._exists, guards)
            for row, registers in zip(self._each_row, self._registers, strict=True)
        ]
        return result_of(self._make, values, self._before, elements)

    def _reduce(self, stage: Sequence[_Sum]) -> None:
        """Each lane alone, then all lanes of a row together, in halves."""
        emitter, team = self._emitter, self._team
        for total in stage:
            total.declare(emitter)
        with emitter.loop(self._turn):
            for total in stage:
                for one, term in zip(total.elements, self._terms, strict=True):
                    position = emitter.index(term) if total.has_positions else ""
                    total.add(emitter, emitter.value(one), position)
        number = emitter.index(self._number)
        for total in stage:
            total.share(emitter)
        emitter.line("workgroupBarrier();")
        half = team.lanes // 2
        while half:
            with emitter.block(f"if ({number} < {half}u)"):
                for total in stage:
                    total.join(emitter, half * team.apart)
            emitter.line("workgroupBarrier();")
            half //= 2
        first = emitter.index(variable(self._lane) - self._number * team.apart)
        for total in stage:
            found = "places" if total.has_positions else "all"
            emitter.line(f"let r{total.number} = {found}{total.number}[{first}];")
