"""Summaries, by which a check elaborates a layer once for each configuration and type.

A file declares models of several sizes, and each repeats its layers many times. A check asks for
types, names and problems, and not for graphs. So what an application did is summarized, and one of
the same configuration, types and facts, in any model of the file, is not elaborated again: its
results are values without a body. This is the function summary of interprocedural analysis
(Sharir and Pnueli, *Two approaches to interprocedural data flow analysis*, 1981).

An application that leaves more behind than a summary can say is not summarized. Where an
elaboration with summaries fails, one without them gives the verdict and its words.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol, TypeVar

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.bodies import run_body
from meganeura_dsl.elaborate.body.blocks.layer_templates import application_key
from meganeura_dsl.elaborate.body.blocks.signature_match import assume_signature
from meganeura_dsl.elaborate.body.blocks.symbolic_applications import (
    SymbolicApplication,
    symbolic_application,
    with_sizes,
)
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import (
    Applied,
    Summaries,
    Summarized,
    SummarizedValue,
    Summary,
)
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.positions import position_of, whole_number
from meganeura_dsl.elaborate.typecheck.probabilities import normalised_by
from meganeura_dsl.elaborate.values import BlockValue, Tensor, is_tensor
from meganeura_dsl.ir.objectives import reached_values
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.limits.language_limits import DEEPEST, LIBRARY, MOST_ITERATIONS, VALUE
from meganeura_dsl.limits.work_budget import OutOfWorkError, apart, measured, spend
from meganeura_dsl.syntax import ast

_Result = TypeVar("_Result")
MOST_ATTEMPTS = 2
"""A block that no symbols fit so often depends on its numbers."""
MOST_OF_LIBRARY = 1024
"""Applications of standard blocks in symbols that a process remembers; then it begins anew."""


class Elaborates(Protocol):
    """The part of the elaborator that summaries need."""

    def assume_signature(self, inner: Frame, block: ast.Block) -> None:
        """Match inputs and configuration in symbols with the signature, and assume `where`."""
        ...

    def run_body(self, inner: Frame, block: ast.Block) -> tuple[Tensor, ...]:
        """The results of a block whose signature is bound."""
        ...


@cache
def _of_library() -> Summaries:
    """The summaries in symbols of standard blocks, the same for all files."""
    return Summaries()


def with_summaries(
    summaries: Summaries, elaborate: Callable[[Summaries | None], _Result]
) -> _Result:
    """Runs `elaborate` with summaries, or without them if that fails. Raises what it raises."""
    try:
        result, steps = measured(lambda: elaborate(summaries))
    except (ProblemError, OutOfWorkError):
        return elaborate(None)
    spend(steps)
    return result


def apply_summary(
    inner: Frame,
    block: ast.Block,
    summaries: Summaries,
    run: Callable[[], tuple[Tensor, ...]],
) -> tuple[Tensor, ...]:
    """The results of `run`, or what the summary of an equal application says of them."""
    inputs = [value for item in block.inputs if is_tensor(value := inner.names[item.name])]
    key = _key(inner, block, inputs)
    if key is None:
        return run()
    known = summaries.known.get(key)
    if known is None:
        known = _from_symbols(inner, block, inputs, summaries)
        if known is not None:
            summaries.known[key] = known
    if known is not None and _may_stand_here(inner, known):
        return _repeat(inner, known, inputs)
    summarizer = _Summarizer(inner, inputs)
    with _collected(inner.state) as applied:
        results = run()
    summary = summarizer.summary(results, applied)
    if summary is not None:
        summaries.known[key] = summary
    return results


def _key(inner: Frame, block: ast.Block, inputs: Sequence[Tensor]) -> Hashable:
    """Returns a key that is equal for applications with one summary; None without a summary."""
    state = inner.state
    whole = tuple(whole_number(state, value) for value in inputs if value.type.dtype is DType.I32)
    if state.loops.indices or state.scans or None in whole:
        return None
    key = application_key(inner, block, inputs)
    return None if key is None else (key, whole)


def _from_symbols(
    inner: Frame,
    block: ast.Block,
    inputs: Sequence[Tensor],
    summaries: Summaries,
) -> Summary | None:
    """Returns the result of a summary in symbols; None without one, or at its first use."""
    given = (inner.names[each.name] for each in block.parameters)
    if inner.module.is_library and not any(isinstance(each, BlockValue) for each in given):
        for is_any in (True, False):
            symbolic = symbolic_application(inner, block, inputs, is_any=is_any)
            found = symbolic and _of_all_files(symbolic, inner, block)
            if symbolic is not None and found is not None:
                return with_sizes(found, symbolic.sizes, inner)
        return None
    symbolic = symbolic_application(inner, block, inputs)
    if symbolic is None:
        return None
    key = symbolic.key(inner, block)
    if key not in summaries.symbolic:
        if _is_rare(key, block, summaries):
            return None
        found = _summary_in_symbols(symbolic, inner, block, summaries)
        summaries.symbolic[key] = found
        if found is None:
            summaries.attempts[block] = summaries.attempts.get(block, 0) + 1
    known = summaries.symbolic[key]
    return None if known is None else with_sizes(known, symbolic.sizes, inner)


def _of_all_files(symbolic: SymbolicApplication, inner: Frame, block: ast.Block) -> Summary | None:
    """The symbolic summary of a standard block, shared by all files; None if there is none."""
    key = symbolic.key(inner, block)
    if len(_of_library().symbolic) >= MOST_OF_LIBRARY:
        _of_library.cache_clear()
    shared = _of_library()
    if key not in shared.symbolic:
        with apart(LIBRARY):
            shared.symbolic[key] = _summary_in_symbols(symbolic, inner, block, shared)
    return shared.symbolic[key]


def _is_rare(key: Hashable, block: ast.Block, summaries: Summaries) -> bool:
    """True if a block is applied like this for the first time, or no symbols fit it."""
    is_first = key not in summaries.seen
    summaries.seen.add(key)
    return is_first or summaries.attempts.get(block, 0) >= MOST_ATTEMPTS


def _summary_in_symbols(
    symbolic: SymbolicApplication,
    inner: Frame,
    block: ast.Block,
    summaries: Summaries,
) -> Summary | None:
    """The summary of an application in symbols, if it holds for all that they may be.

    Whoever uses it has proved `where` for the sizes that the symbols stand for.
    """

    def elaborate() -> Summary | None:
        frame, inputs = symbolic.frame(inner, block, summaries)
        assume_signature(frame, block)
        summarizer = _Summarizer(frame, inputs)
        results = run_body(frame, block)
        return summarizer.summary(results, frame.state.body.applied)

    try:
        summary, _ = measured(elaborate)
    except (ProblemError, OutOfWorkError, UndecidableError):
        return None
    return summary


def _may_stand_here(inner: Frame, summary: Summary) -> bool:
    """True if no enclosing block is applied in the summary again, and none is nested too deep."""
    below = summary.applied.depths
    depth, frame = 0, inner.parent
    while frame is not None:
        if frame.declaration in below:
            return False
        depth, frame = depth + 1, frame.parent
    return depth + max(below.values(), default=0) < DEEPEST


@contextmanager
def _collected(state: ElaborationState) -> Generator[Applied]:
    """Collects the applications inside of the `with` block, and no others."""
    before, state.body.applied = state.body.applied, Applied()
    try:
        yield state.body.applied
    finally:
        before.add(state.body.applied)
        state.body.applied = before


class _Summarizer:
    """Sees what is done between its creation and `summary`."""

    def __init__(self, inner: Frame, inputs: Sequence[Tensor]) -> None:
        self.inner, self.inputs = inner, inputs
        state = inner.state
        self.before = _Counts.of(state)
        self.effects = _effects(state, state.build.count)
        self.count = state.build.count
        self.updates = dict(state.body.updates)

    def summary(self, results: Sequence[Tensor], applied: Applied) -> Summary | None:
        """Returns a summary of the application, or None if a summary cannot hold its effects."""
        state, before, after = self.inner.state, self.before, _Counts.of(self.inner.state)
        updates = {
            name: value
            for name, value in state.body.updates.items()
            if self.updates.get(name) is not value
        }
        if any(isinstance(node, ast.Model) for node in applied.depths):
            return None
        if not all(self._is_plain(each) for each in (*results, *updates.values())):
            return None
        if self.effects != _effects(state, self.count):
            return None
        relative = self._relative
        declared = list(state.body.parameters.values())[before.parameters :]
        reserved = list(state.body.declared_layers.items())[before.reserved :]
        return Summary(
            tuple(map(self._summarized, results)),
            tuple((relative(name), self._summarized(value)) for name, value in updates.items()),
            tuple((relative(info.name), info) for info in declared),
            tuple((relative(path), number - before.parameters) for path, number in reserved),
            _first_ones(state.body.bindings[before.bindings :]),
            applied.moved(-self.inner.depth),
            after.values - before.values,
            after.iterations - before.iterations,
            tuple(
                replace(each, parameter=relative(each.parameter))
                for each in state.abstract.deferred[before.deferred :]
            ),
            tuple(state.abstract.requirements[before.needs :]),
            self._shapes(),
        )

    def _shapes(self) -> frozenset[Shape]:
        state = self.inner.state
        if not state.abstract.symbols:
            return frozenset()
        total = {value.type.shape for value in state.build.values_from(self.count)}
        return frozenset(total | state.abstract.shapes)

    def _relative(self, name: str) -> str:
        return name.removeprefix(self.inner.join("x")[:-1])

    def _is_plain(self, value: Tensor) -> bool:
        """True if nothing but its type is known of a value."""
        is_whole = value.type.dtype is DType.I32
        if is_whole and (value.type.rank or position_of(self.inner, value) is not None):
            return False
        return value.id not in self.inner.state.values.fill_values

    def _summarized(self, value: Tensor) -> SummarizedValue:
        numbers = {each.id: number for number, each in enumerate(self.inputs)}
        reached = reached_values(value, frozenset(numbers))
        return SummarizedValue(
            value.type,
            tuple(numbers[each.id] for each in reached if each.id in numbers),
            tuple(
                self._relative(each.op.name)
                for each in reached
                if isinstance(each.op, Parameter) and each.id not in numbers
            ),
            normalised_by(value),
        )


def _first_ones(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    """The first of the values that were bound at each place, which is the one reported."""
    found: dict[tuple[Span, str], Binding] = {}
    for each in bindings:
        found.setdefault((each.span, each.name), each)
    return tuple(found.values())


@dataclass(frozen=True)
class _Counts:
    """The lengths of the lists of an elaboration that only grow."""

    parameters: int
    reserved: int
    bindings: int
    values: int
    iterations: int
    deferred: int
    needs: int

    @staticmethod
    def of(state: ElaborationState) -> "_Counts":
        """Returns the present counts."""
        return _Counts(
            len(state.body.parameters), len(state.body.declared_layers), len(state.body.bindings),
            state.build.total, state.body.iterations,
            len(state.abstract.deferred), len(state.abstract.requirements),
        )  # fmt: skip


def _effects(state: ElaborationState, count: int) -> tuple[object, ...]:
    """Returns the effects that an application without a graph must not have, to be compared.

    What is learned of the whole numbers that it makes is of use to no other.
    """
    known = {**state.values.symbolic_ints, **state.values.derived_ints}
    positions = {number: size for number, size in known.items() if number < count}
    body, train = state.body, state.train
    return (
        state.build.facts, positions, len(state.values.unconstrained_indices),
        len(body.notes), dict(body.streams), body.counter, len(train.outputs),
        len(train.objectives), len(body.averaged), dict(body.copies), set(body.unapplied_layers),
    )  # fmt: skip


def _repeat(inner: Frame, summary: Summary, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    state, build = inner.state, inner.build
    spend(VALUE * summary.values)
    build.skip(summary.values)
    state.body.iterations += summary.iterations
    if state.body.iterations > MOST_ITERATIONS:
        raise OutOfWorkError("more iterations than one model may have")
    state.body.applied.add(summary.applied, inner.depth)
    state.body.bindings += summary.bindings
    state.abstract.deferred += [
        replace(each, parameter=inner.join(each.parameter) if each.parameter else "")
        for each in summary.deferred
    ]
    state.abstract.requirements += summary.needs
    if state.abstract.symbols:
        state.abstract.shapes |= summary.shapes
    for relative, number in summary.reserved:
        state.body.declared_layers.setdefault(
            inner.join(relative), len(state.body.parameters) + number
        )
    prefix = inner.join("x")[:-1]
    state.declare_like(summary.parameters, prefix, inner.label)

    def value(each: SummarizedValue) -> Tensor:
        leaves = [state.body.leaves[prefix + name] for name in each.parameters]
        operands = (*[inputs[number] for number in each.inputs], *leaves)
        return build.add_new(
            Summarized(build.count, each.type, each.normalised_by), each.type, *operands
        )

    state.body.updates.update((inner.join(name), value(each)) for name, each in summary.updates)
    return tuple(map(value, summary.results))
