"""The kernel of reductions over the same loops: one invocation for each element of the result."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from typing import assert_never

from meganeura_dsl.ir.graph import Op, Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Launch,
    Memory,
    Work,
    all_of,
    are_many_vec4s,
    result_of,
    vec4s_of,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering import (
    axis_reduction,
    gather_scatter,
    pool,
    prefix,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.element_inliner import ElementInliner
from meganeura_runtime.backends.webgpu.codegen.lowering.reduction import (
    Kind,
    Reduction,
    Term,
    neutral,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Expression,
    Index,
    ravel,
    unravel,
    variable,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import Expressions, integer
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import literal
from meganeura_runtime.backends.webgpu.config.limits import Target

WORKGROUP = 64

REDUCTIONS: Mapping[type[Op], Callable[[Value], Reduction]] = {
    **dict.fromkeys(axis_reduction.REDUCES, axis_reduction.reduction),
    **dict.fromkeys(gather_scatter.REDUCES, gather_scatter.reduction),
    **dict.fromkeys(pool.REDUCES, pool.reduction),
    **dict.fromkeys(prefix.REDUCES, prefix.reduction),
}
"""Ops whose elements each combine many terms."""


def reduction_of(value: Value) -> Reduction:
    """The terms that an element of a value combines."""
    return REDUCTIONS[type(value.op)](value)


@dataclass(frozen=True, slots=True)
class _Accumulator:
    """The state of a reduction, in variables of the kernel."""

    name: str
    reduction: Reduction
    dtype: DType

    @property
    def result(self) -> str:
        """The variable that holds the result once all terms are in."""
        return f"{self.name}_at" if self.reduction.kind is Kind.ARG_MAX else self.name

    def declare(self, emitter: WgslEmitter) -> None:
        """The result of no terms."""
        emitter.line(
            f"var {self.name} = {literal(neutral(self.reduction.kind, self.dtype), self.dtype)};"
        )
        if self.reduction.kind is Kind.ARG_MAX:
            emitter.line(f"var {self.result} = 0i;")

    def add(self, emitter: WgslEmitter, term: Term, at: Index) -> None:
        """Take one more term in."""
        if term.counts is None:
            self._combine(emitter, term, at)
            return
        with emitter.condition(emitter.guard(term.counts)):
            self._combine(emitter, term, at)

    def _combine(self, emitter: WgslEmitter, term: Term, at: Index) -> None:
        element = emitter.value(term.element)
        match self.reduction.kind:
            case Kind.SUM:
                emitter.line(f"{self.name} += {element};")
            case Kind.MAX:
                larger = "larger" if self.dtype.is_float else "max"
                emitter.line(f"{self.name} = {larger}({self.name}, {element});")
            case Kind.MIN:
                smaller = "smaller" if self.dtype.is_float else "min"
                emitter.line(f"{self.name} = {smaller}({self.name}, {element});")
            case Kind.ONLY:
                emitter.line(f"{self.name} = {element};")
            case Kind.ARG_MAX:
                position = emitter.index(ravel(at, self.reduction.shape))
                better = f"{self.name}_beaten"
                emitter.line(f"let {better} = {self._exceeds(element)};")
                emitter.line(f"{self.result} = select({self.result}, i32({position}), {better});")
                emitter.line(f"{self.name} = select({self.name}, {element}, {better});")
            case _:
                assert_never(self.reduction.kind)

    def _exceeds(self, element: str) -> str:
        """WGSL that is true if an element is larger than all before; NaN is the largest."""
        if self.dtype.is_float:
            return f"exceeds({element}, {self.name})"
        return f"{element} > {self.name}"


def reduction_kernel(work: Work, memory: Memory, target: Target) -> Kernel:
    """Combine all terms of an element one after another, then compute what is stored of it."""
    shape = concrete_shape(work.anchors[0].type.shape)
    reductions = [reduction_of(anchor) for anchor in work.anchors]
    each = 4 if are_many_vec4s(prod(shape), target) and all(map(_is_plain, reductions)) else 1
    launch = Launch(prod(shape) // each, WORKGROUP, target)
    emitter, make = WgslEmitter(memory.halves), Expressions()
    axis, exists = launch.declare(emitter, "i")
    before = memory.before(work)
    reader = ElementInliner(make, before)
    reduction = reductions[0]
    loops = reduction.axes()
    accumulators: list[tuple[_Accumulator, Term]] = []
    elements: list[Element] = []
    for number in range(each):
        position = variable(axis) * each + number
        kept = unravel(position, shape)
        registers: dict[int, str] = {}
        for anchor, one in zip(work.anchors, reductions, strict=True):
            accumulator = _Accumulator(f"r{len(accumulators)}", one, _term_type(anchor))
            term = one.term(reader, kept, one.index(loops))
            accumulators.append((accumulator, term))
            registers[anchor.id] = accumulator.result
        elements.append(Element(position, registers, all_of(exists)))
    result = result_of(make, work.stores, before, elements)
    if each == 4:
        read = [_all_of_term(make, term) for _, term in accumulators]
        emitter.vec4s = vec4s_of(read, memory, [result])
    for accumulator, _ in accumulators:
        accumulator.declare(emitter)
    with ExitStack() as stack:
        for loop in loops if reduction.links is None else ():
            stack.enter_context(emitter.loop(loop))
        if reduction.links is not None:
            first = reduction.links.first(reader, unravel(variable(axis), shape))
            stack.enter_context(emitter.walk(loops[0], integer(first)))
        for accumulator, term in accumulators:
            accumulator.add(emitter, term, accumulator.reduction.index(loops))
        if reduction.links is not None:
            on = integer(reduction.links.following(reader, reduction.index(loops)))
            emitter.line(f"{loops[0].name} = {emitter.index(on)};")
    write_result(emitter, memory, result)
    return launch.kernel(emitter, memory)


def _all_of_term(make: Expressions, term: Term) -> Expression:
    """An expression of all that a term reads: what says whether it counts, too."""
    if term.counts is None:
        return term.element
    return make.choice(term.counts, term.element, make.literal(0, term.element.dtype))


def _is_plain(reduction: Reduction) -> bool:
    """True if all elements have their terms at the same loop indices."""
    return reduction.links is None and reduction.kind is not Kind.ARG_MAX


def _term_type(anchor: Value) -> DType:
    """The type terms are combined in: an index is found among values of the operand's type."""
    found = reduction_of(anchor).kind is Kind.ARG_MAX
    return anchor.operands[0].type.dtype if found else anchor.type.dtype
