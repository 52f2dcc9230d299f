"""Loops whose number of iterations is a symbol: proved for every number by induction.

An iteration at any index is elaborated once. If it leaves every name with the type it found, so do
all iterations. If it does not, sizes may grow by the same step in every iteration: with the step d
that the first iteration takes, an iteration at index i is given the size s + (i - lo) * d and has
to leave s + (i + 1 - lo) * d, and behind the loop the size is s + (hi - lo) * d. Where neither
holds, the first iteration may differ from all others, as that of a recurrent network whose input
has another width: then it is elaborated by itself, if it is known that there is one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.parameter_problems import IterationsOfInput
from meganeura_dsl.elaborate.problems.path_problems import DuplicatePath
from meganeura_dsl.elaborate.problems.shape_problems import UnstableLoop
from meganeura_dsl.elaborate.scope.gradient_names import gradient_names
from meganeura_dsl.elaborate.scope.new_symbols import new_symbol, symbols_in, with_values
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.savepoint import Savepoint
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.state import Repeated
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.values import (
    ElabValue,
    NamedTensors,
    Results,
    Tensor,
    assumed_tensor,
    is_size,
    is_static,
    is_tensor,
)
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import (
    Compare,
    Condition,
    Facts,
    Proved,
    Refuted,
    Unknown,
    Unproved,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, dim, substitute
from meganeura_dsl.syntax import ast

Body = Callable[[], Results | None]
Steps = Mapping[str, tuple[Size, ...]]
"""The growth of sizes in an iteration: of each axis, or of a number."""

_Found = TypeVar("_Found")


class UnstableError(Exception):
    """An iteration leaves a name with another type, or another value, than it finds."""

    def __init__(self, name: str, before: ElabValue, after: ElabValue) -> None:
        super().__init__(name)
        self.name = name
        self.before = before
        self.after = after


class RepeatedError(ProblemError):
    """Each iteration declares what the one before did, though it leaves all names as it should."""


_FAILURES = (UnstableError, ProblemError, UndecidableError)
"""Errors that end an attempt. They are bound to no name: a traceback keeps the whole check."""


@dataclass(frozen=True)
class Loop:
    """A loop over `start..stop`, at least one of which is a symbol, and what runs its body."""

    statement: ast.For
    frame: Frame
    start: Size
    stop: Size
    body: Body

    @property
    def variable(self) -> str:
        """The name of the index."""
        return self.statement.variable.text

    @property
    def has_iteration(self) -> bool:
        """True if the loop is known to have an iteration."""
        return self.frame.facts.proves(Compare("<", self.start, self.stop))

    @property
    def header(self) -> str:
        """The header of the loop, as it is written and without its colon."""
        written = self.statement
        end = written.stop.span.end
        text = written.span.source.text[written.span.start : end]
        return " ".join(text.split())

    @property
    def data_sizes(self) -> tuple[str, ...]:
        """The sizes of the data that its number of iterations depends on.

        In a model all sizes are; in a proof those of the inputs of the block that is proved.
        """
        used = sizes_in(Compare("<=", self.start, self.stop))
        frame = self.frame
        while frame.parent is not None:
            frame = frame.parent
        if frame.state.proof is None:
            return tuple(sorted(used))
        block = frame.declaration
        if not isinstance(block, ast.Block):
            return ()
        entries = (entry for each in block.inputs for entry in each.type.shape.entries)
        axes = {each.text for each in entries if isinstance(each, ast.Name)}
        return tuple(sorted(used & axes - {each.name for each in block.parameters}))

    def behind_first(self) -> "Loop":
        """The iterations but the first."""
        return Loop(self.statement, self.frame, self.start + 1, self.stop, self.body)


def run_by_induction(loop: Loop) -> Results | None:
    """Runs the loop by induction and returns the results of its `return`, if it has one.

    Raises `ProblemError` for a mistake in the body, or for a shape that changes from iteration to
    iteration; in a proof `UndecidableError` for the latter, and for a loop that may begin below 0,
    as a symbol stands for 0 or more.
    """
    if not loop.frame.facts.proves(Compare(">=", loop.start, 0)):
        raise UndecidableError("whether a loop begins at 0 or more is not known")
    try:
        return _by_induction(loop)
    except _FAILURES as error:
        if loop.has_iteration:
            with suppress(*_FAILURES):
                return _undone(loop.frame, lambda: _first_apart(loop))
        if not isinstance(error, UnstableError):
            raise
        raise _refusal(loop, error) from None


def _by_induction(loop: Loop) -> Results | None:
    try:
        return _undone(loop.frame, lambda: _stable(loop))
    except _FAILURES:
        try:
            return _undone(loop.frame, lambda: _growing(loop))
        except RepeatedError:
            raise
        except _FAILURES:
            pass
        raise


def _first_apart(loop: Loop) -> Results | None:
    """The first iteration by itself, and the others by induction."""
    frame = loop.frame
    frame.names[loop.variable] = loop.start
    results = loop.body()
    return results if results is not None else _by_induction(loop.behind_first())


def _refusal(loop: Loop, error: UnstableError) -> Exception:
    name, before, after = error.name, error.before, error.after
    if not is_tensor(before) or not is_tensor(after):
        return UndecidableError(f"a loop changes `{name}` iteration by iteration")
    if loop.frame.state.proof is not None:
        return UndecidableError(f"a loop changes the shape of `{name}` iteration by iteration")
    location = loop.frame.location(loop.statement.span)
    return ProblemError(UnstableLoop(location, name, str(before.type), str(after.type)))


# --- one iteration -------------------------------------------------------------------------------


def _stable(loop: Loop) -> Results | None:
    """One iteration, at any index, that keeps every name's type.

    What holds in an iteration, that there is one among it, is not known behind the loop, unless the
    facts say that there is an iteration.
    """
    frame, before, layers = loop.frame, dict(loop.frame.names), dict(loop.frame.layers)
    facts, has_iteration = frame.facts, loop.has_iteration
    index = dim(new_symbol(loop.variable, frame))
    inside = _run_iteration(loop, index, facts)
    results = inside.results
    for name, value in before.items():
        if name != loop.variable:
            require_same(frame, name, value, _left(frame, name))
    for chosen in _still_known(frame, index, inside.chosen):
        facts = facts.assume(chosen)
    _require_once(loop, inside)
    frame.build.facts = facts.with_lower_bound(str(index), 0)
    if has_iteration:
        frame.state.values.lasting_symbols.add(str(index))
        for name, value in frame.names.items() if results is None else ():
            frame.names[name] = _at_last(loop, index, value)
        return results
    if results is not None:
        raise UndecidableError("whether a loop that returns has an iteration is not known")
    known = before.keys() - {loop.variable}
    frame.names = {name: value for name, value in frame.names.items() if name in known}
    frame.loop_labels |= frame.layers.keys() - layers.keys()
    frame.layers = layers
    return None


def _growing(loop: Loop) -> None:
    """A first iteration, and one at any index, that let sizes grow by the same steps."""
    frame, start, stop = loop.frame, loop.start, loop.stop
    before, layers, facts = dict(frame.names), dict(frame.layers), frame.facts
    if not facts.proves(Compare("<=", start, stop)):
        raise UndecidableError("whether a loop has fewer iterations than none is not known")
    saved = Savepoint.of(frame)
    frame.build.facts = facts.assume(Compare("<", start, stop))
    frame.names[loop.variable] = start
    if loop.body() is not None:
        raise UndecidableError("a loop returns, and whether it has an iteration is not known")
    steps = {
        name: step
        for name, value in before.items()
        if name != loop.variable and (step := _step(name, value, _left(frame, name)))
    }
    saved.undo_attempt(frame)
    facts = frame.facts
    index = dim(new_symbol(loop.variable, frame))
    inside = _run_iteration(loop, index, facts, steps)
    if inside.results is not None:
        raise UndecidableError("a loop returns, and whether it has an iteration is not known")
    for name, value in _after(frame, before, steps, index + 1 - start).items():
        require_same(frame, name, value, _left(frame, name))
    for name in before.keys() - steps.keys() - {loop.variable}:
        require_same(frame, name, before[name], _left(frame, name))
    for chosen in _still_known(frame, index, inside.chosen):
        facts = facts.assume(chosen)
    _require_once(loop, inside)
    frame.build.facts = facts.with_lower_bound(str(index), 0)
    frame.names = {**before, **_after(frame, before, steps, stop - start)}
    frame.names.pop(loop.variable, None)
    frame.loop_labels |= frame.layers.keys() - layers.keys()
    frame.layers = layers


@dataclass(frozen=True)
class _Iteration:
    """The result of an iteration at any index, its choices, and the problem of a second one."""

    results: Results | None
    chosen: tuple[Condition, ...]
    repeated: tuple[Repeated, ...]


def _run_iteration(loop: Loop, index: Dim, facts: Facts, steps: Steps | None = None) -> _Iteration:
    """Run the body at an index that may be any of the loop's, on what has grown until then."""
    frame = loop.frame
    inside = (
        facts.with_lower_bound(str(index), 0)
        .assume(Compare(">=", index, loop.start))
        .assume(Compare("<", index, loop.stop))
    )
    frame.build.facts = inside
    frame.names.update(_after(frame, frame.names, steps or {}, index - loop.start))
    frame.names.update(_any_numbers(loop))
    frame.names[loop.variable] = index
    state, loops = frame.state, frame.state.loops.open
    count, declared = len(state.loops.repeated), len(state.body.parameters)
    state.loops.indices.add(str(index))
    state.loops.open = (*loops, str(index))
    try:
        results = loop.body()
    finally:
        state.loops.indices.discard(str(index))
        state.loops.open = loops
    repeated = (each for each in state.loops.repeated[count:] if each.index == str(index))
    refused = () if results is not None else tuple(repeated)
    if state.proof is None and not refused:
        _require_no_new(loop, list(state.body.parameters.values())[declared:])
    return _Iteration(results, frame.facts.stated[len(inside.stated) :], refused)


def _require_no_new(loop: Loop, declared: Sequence[ParameterInfo]) -> None:
    """Raise `ProblemError` for what each iteration of a loop over data declares anew in a model."""
    for each in declared:
        name = each.name.replace(str(loop.frame.names[loop.variable]), loop.variable)
        raise ProblemError(IterationsOfInput(each.location, name, loop.header, loop.data_sizes))


def _left(frame: Frame, name: str) -> ElabValue:
    """Returns the value of a name after an iteration; a scan inside may have replaced it."""
    if name not in frame.names:
        raise UndecidableError(f"a loop leaves `{name}` to the iterations of a scan in it")
    return frame.names[name]


def _still_known(frame: Frame, index: Dim, chosen: Iterable[Condition]) -> Iterator[Condition]:
    """The choices of an iteration that are known behind the loop.

    What was found of whole numbers of the graph says something of this loop's index alone.
    """
    for each in chosen:
        sizes = sizes_in(each)
        if str(index) not in sizes or sizes.isdisjoint(frame.state.values.lasting_symbols):
            yield each


def _at_last(loop: Loop, index: Dim, value: ElabValue) -> ElabValue:
    """A value of an iteration as it is behind the loop: the iteration was the last one."""
    if str(index) not in symbols_in(value):
        return value
    last = {str(index): loop.stop - 1}
    if is_tensor(value):
        return _tensor_at(loop, last, value)
    if isinstance(value, NamedTensors):
        return value.changed([_tensor_at(loop, last, each) for each in value.tensors])
    return with_values(value, last) if is_static(value) else value


def _tensor_at(loop: Loop, last: Mapping[str, Size], value: Tensor) -> Tensor:
    shape = tuple(substitute(size, last) for size in value.type.shape)
    return any_tensor(loop.frame, value, shape)


def _require_once(loop: Loop, inside: _Iteration) -> None:
    """Raise `RepeatedError` for what a second iteration declares again, if there may be a second.

    Raises `UndecidableError` where that is not known.
    """
    has_one = Compare("<=", loop.stop, loop.start + 1)
    verdicts = [each.facts.decide(has_one) for each in inside.repeated]
    for each, verdict in zip(inside.repeated, verdicts, strict=True):
        if isinstance(verdict, Refuted):
            problem = each.problem
            if isinstance(problem, DuplicatePath):
                problem = replace(problem, loop=loop.header, is_over_data=bool(loop.data_sizes))
            raise RepeatedError(problem)
    if any(isinstance(verdict, Unknown) for verdict in verdicts):
        raise UndecidableError("whether a loop has more than one iteration is not known")


def require_same(frame: Frame, name: str, before: ElabValue, after: ElabValue) -> None:
    """Raise `UnstableError` unless two values have the same type, or are the same number."""
    if after is before or (type(after) is type(before) and after == before):
        return
    if is_size(before) and is_size(after):
        same = isinstance(equal(frame, before, after), Proved)
    elif is_tensor(before) and is_tensor(after):
        same = _is_of_type(frame, before, after)
    elif isinstance(before, NamedTensors) and isinstance(after, NamedTensors):
        pairs = zip(before.tensors, after.tensors, strict=False)
        is_like = type(before) is type(after) and before.names == after.names
        same = is_like and all(_is_of_type(frame, a, b) for a, b in pairs)
    else:
        same = False
    if not same:
        raise UnstableError(name, before, after)


def _is_of_type(frame: Frame, before: Tensor, after: Tensor) -> bool:
    return (
        after.type.dtype is before.type.dtype
        and after.type.rank == before.type.rank
        and all(
            isinstance(equal(frame, a, b), Proved)
            for a, b in zip(before.type.shape, after.type.shape, strict=True)
        )
    )


# --- sizes that grow -----------------------------------------------------------------------------


def _step(name: str, before: ElabValue, after: ElabValue) -> tuple[Size, ...]:
    """Returns the growth of a value's sizes in an iteration; none if they stay.

    Raises `UnstableError` where another thing changes than sizes.
    """
    if after is before or (type(after) is type(before) and after == before):
        return ()
    if is_size(before) and is_size(after):
        return (after - before,)
    if isinstance(before, NamedTensors) and isinstance(after, NamedTensors):
        return ()
    if not is_tensor(before) or not is_tensor(after):
        raise UnstableError(name, before, after)
    if before.type.dtype is not after.type.dtype or before.type.rank != after.type.rank:
        raise UnstableError(name, before, after)
    sizes = zip(before.type.shape, after.type.shape, strict=True)
    step = tuple(later - earlier for earlier, later in sizes)
    return step if any(step) else ()


def _after(
    frame: Frame, before: Mapping[str, ElabValue], steps: Steps, iterations: Size
) -> dict[str, ElabValue]:
    """The values that grow, as they are after some iterations."""
    values: dict[str, ElabValue] = {}
    for name, step in steps.items():
        value = before[name]
        if is_tensor(value):
            grown = zip(value.type.shape, step, strict=True)
            shape = tuple(size + iterations * each for size, each in grown)
            values[name] = any_tensor(frame, value, shape)
        elif is_size(value):
            values[name] = value + iterations * step[0]
    return values


def any_tensor(frame: Frame, like: Tensor, shape: tuple[Size, ...]) -> Tensor:
    """A tensor of which nothing is known but its type."""
    try:
        return assumed_tensor(frame.build, TensorType(like.type.dtype, shape))
    except Unproved as error:
        raise UndecidableError(
            f"whether {show_condition(error.condition)} depends on its configuration"
        ) from error


def _any_numbers(loop: Loop) -> dict[str, ElabValue]:
    """Whole numbers that an iteration binds anew: at its start, nothing is known of what they are.

    Nor is it of what gradients are taken with respect to: no iteration reads what another one
    bound.
    """
    frame = loop.frame
    bound = {
        target.text
        for node in walk(loop.statement)
        if isinstance(node, ast.Bind | ast.Part)
        for target in (node.targets if isinstance(node, ast.Bind) else (node.target,))
    }
    found = ((name, frame.names[name]) for name in sorted(bound & frame.names.keys()))
    return {
        name: any_like(frame, value)
        for name, value in found
        if isinstance(value, NamedTensors)
        or (
            is_tensor(value)
            and (value.type.dtype is DType.I32 or name in gradient_names(frame.declaration))
        )
    }


def any_like(frame: Frame, value: Tensor | NamedTensors) -> Tensor | NamedTensors:
    """A tensor, or weights, of which nothing is known but the type."""
    if isinstance(value, NamedTensors):
        return value.changed([any_tensor(frame, each, each.type.shape) for each in value.tensors])
    return any_tensor(frame, value, value.type.shape)


# --- attempts ------------------------------------------------------------------------------------


def _undone(frame: Frame, attempt: Callable[[], _Found]) -> _Found:
    """Runs an attempt and returns its result; one that fails has no effect."""
    saved = Savepoint.of(frame)
    try:
        return attempt()
    except _FAILURES:
        saved.undo_attempt(frame)
        raise
