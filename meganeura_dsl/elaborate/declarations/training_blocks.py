"""`train` blocks as graphs, and the settings of their runs."""

from collections.abc import Mapping
from contextlib import suppress

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.example_axis import USUAL, counting_size, unclear_inputs
from meganeura_dsl.elaborate.declarations.models import Elaboration, finish, opened
from meganeura_dsl.elaborate.declarations.ragged_axes import (
    add_derived,
    ragged_of,
    require_moved,
    sizes_not_fixed,
)
from meganeura_dsl.elaborate.declarations.shown_statistics import shown_statistics
from meganeura_dsl.elaborate.declarations.stated_facts import condition_of
from meganeura_dsl.elaborate.declarations.train_statements import LOSS, TRAIN_ELABORATOR
from meganeura_dsl.elaborate.problems.cache_problems import CacheInTraining
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.problems.shape_problems import WhereUnproved
from meganeura_dsl.elaborate.problems.training_problems import NoLoss, UnclearExamples
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError, Recovery
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.meaning import meaning_notes
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import with_symbols
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import any_inputs, any_sizes
from meganeura_dsl.elaborate.typecheck.training_meaning import loss_notes
from meganeura_dsl.elaborate.typecheck.written_types import shape_of, without_configuration
from meganeura_dsl.elaborate.values import Tensor, is_tensor
from meganeura_dsl.ir.graph import Builder, Leaf
from meganeura_dsl.ir.ops import Constant
from meganeura_dsl.ir.outputs import Objective
from meganeura_dsl.ir.reserved_names import COUNTER, LEARNING_RATE, STATES
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.limits.language_limits import CHECK
from meganeura_dsl.limits.work_budget import OutOfWorkError, at_most
from meganeura_dsl.symbolic.conditions import Condition
from meganeura_dsl.symbolic.size import dim, show
from meganeura_dsl.syntax import ast

FED = (COUNTER, LEARNING_RATE)
"""The names of inputs that the run itself feeds."""


def free_sizes(train: ast.Train) -> tuple[str, ...]:
    """The names in the inputs' shapes, which `run:` has to give a size."""
    ragged = ragged_of(train)
    counter = () if ragged.counter is None else (ragged.counter,)
    names = dict.fromkeys((*counter, *_all_sizes(train)))
    return tuple(name for name in names if name not in ragged.names)


def _all_sizes(train: ast.Train) -> tuple[str, ...]:
    """The names in the inputs' shapes, ragged ones too."""
    entries = [entry for item in train.inputs for entry in item.type.shape.entries]
    names = [
        name for entry in entries if not isinstance(entry, ast.Rest) for name in size_names(entry)
    ]
    return tuple(dict.fromkeys(names))


def whole_inputs(train: ast.Train) -> frozenset[str]:
    """The inputs that are fed as they are at every step."""
    return frozenset(item.name for item in train.inputs if item.whole)


def elaborate_train(
    module: LinkedModule,
    train: ast.Train,
    *,
    sizes: Mapping[str, int],
    training: bool,
    shows: bool = False,
    summaries: Summaries | None = None,
) -> Elaboration:
    """The graph of a `train` block: outputs the loss and the metrics. Raises `ProblemError`.

    With `shows` statistics of what the program shows are outputs too. With `summaries` the graph is
    one of a check.
    """
    state = opened(TRAIN_ELABORATOR, training=training, summaries=summaries)
    if shows:
        state.body.named = []
    try:
        with at_most(CHECK), without_configuration(Location(train.name.span)):
            return _elaborate_train(module, train, sizes, state)
    except OutOfWorkError as error:
        raise ProblemError(
            TooMuchWork(Location(train.name.span), error.reason, train.name.text)
        ) from error


def all_problems(module: LinkedModule, train: ast.Train) -> tuple[Problem, ...]:
    """All that is wrong with the statements of a `train` block that was refused."""
    state, recovery = opened(TRAIN_ELABORATOR, training=True), Recovery(train)
    stop = (ProblemError, UndecidableError, OutOfWorkError, EndOfPathError)
    with suppress(*stop), at_most(CHECK):
        frame = _begun(module, train, {}, state)
        state.recovery = recovery
        frame.execute(train.body)
    return recovery.problems


def _elaborate_train(
    module: LinkedModule, train: ast.Train, sizes: Mapping[str, int], state: ElaborationState
) -> Elaboration:
    frame = _begun(module, train, sizes, state)
    frame.execute(train.body)
    if LOSS not in state.train.outputs:
        computed = [
            name for name, value in frame.names.items() if is_tensor(value) and _is_loss(value)
        ]
        raise ProblemError(NoLoss(frame.location(train.name.span), train.name.text, *computed[-1:]))
    if state.context.summaries is not None:
        notes = (*meaning_notes(frame, train), *loss_notes(frame))
        state.body.notes += map(ProblemError, notes)
    statistics = shown_statistics(state.build, state.body.named or ())
    found = finish(state, {**state.train.outputs, **_objectives(state), **statistics})
    require_moved(ragged_of(train), train, found.graph)
    for cache in found.caches:
        raise ProblemError(CacheInTraining(cache.location, cache.name, train.name.text))
    for each in found.parameters:
        if each.name in FED or each.name.startswith(STATES):
            reason = "is the training's own: it needs another name"
            raise ProblemError(NotAllowedHere(each.location, f"`{each.name}`", reason))
    return found


def _is_loss(value: Tensor) -> bool:
    """True if a value can be minimized: a number that was computed, and no whole one."""
    is_given = isinstance(value.op, Leaf | Constant)
    return value.type.rank == 0 and value.type.dtype.is_float and not is_given


def _begun(
    module: LinkedModule, train: ast.Train, sizes: Mapping[str, int], state: ElaborationState
) -> Frame:
    """The frame of a `train` block, its inputs bound and its `where` assumed."""
    frame = Frame(state, module, train.name.text, {}, declaration=train)
    ragged = ragged_of(train)
    for name in sizes_not_fixed(ragged, sizes):
        reason = (
            "is a size of the data, which only `train` and `evaluate` read: nothing is made here"
        )
        raise frame.refuse(train.name.span, f"`{name}`", reason)
    names = (*free_sizes(train), *ragged.names)
    frame.names.update((name, sizes.get(name, dim(name))) for name in names)
    stated = with_symbols(frame, train)
    for clause in train.where:
        _state(clause, condition_of(clause, stated, train), train, frame, sizes)
    for item in train.inputs:
        if any(isinstance(entry, ast.Rest) for entry in item.type.shape.entries):
            raise frame.refuse(item.span, "a rest", "cannot stand in the inputs of a `train` block")
        if item.name in FED:
            raise frame.refuse(
                item.span, f"`{item.name}`", "is fed by the run: it needs another name"
            )
    solved = any_sizes(train.inputs, frame)
    any_inputs(train.inputs, solved, frame)
    with_symbols(frame, train)
    add_derived(ragged, train, frame)
    state.train.counter = ragged.counter or _require_counted(train, module)
    return frame


def _state(
    clause: ast.Expression,
    condition: Condition,
    train: ast.Train,
    frame: Frame,
    sizes: Mapping[str, int],
) -> None:
    """Assume a clause of `where`, which these sizes have to fit in training.

    Where examples are measured, one that they make false is not assumed, since everything would
    follow from it.
    """
    assumed = frame.facts.assume(condition)
    if not assumed.is_contradictory:
        frame.build.facts = assumed
    elif sizes and frame.state.context.training is True:
        given = "  ".join(f"{name}={sizes[name]}" for name in size_names(clause) if name in sizes)
        raise ProblemError(
            WhereUnproved(
                Location(train.name.span), train.name.text, clause.span.text, given,
                Location(clause.span), None, "",
            )
        )  # fmt: skip


def _objectives(state: ElaborationState) -> dict[str, Tensor]:
    """The outputs that say what moves what, where it is not one loss that moves everything."""
    first, *others = state.train.objectives
    projects = any(name in state.body.updates for name in first.moves)
    if not state.context.training or not (others or first.is_limited or projects):
        return {}
    names = [info.name for info in state.body.parameters.values()]
    return {
        Objective(each.number, tuple(name for name in names if name in each.moves)): each.loss
        for each in state.train.objectives
    }


def _require_counted(train: ast.Train, module: LinkedModule) -> str | None:
    """The size that counts examples, whatever numbers sizes have; refuses inputs that say none."""
    frame = Frame(
        ElaborationState(TRAIN_ELABORATOR, Builder()),
        module,
        train.name.text,
        {},
        declaration=train,
    )
    frame.names.update((name, dim(name)) for name in free_sizes(train))
    shapes = {item.name: shape_of(item.type.shape, frame) for item in train.inputs}
    types = {name: TensorType(DType.F32, shape) for name, shape in shapes.items()}
    unclear = unclear_inputs(types, whole_inputs(train))
    if not unclear:
        return counting_size(types, whole_inputs(train))
    counted = [item for item in train.inputs if not item.whole]
    odd = next(item for item in counted if item.name in unclear)
    location = Location(Span(odd.span.source, counted[0].span.start, counted[-1].span.end))
    readings = tuple(
        (item.name, show(shapes[item.name][0]) if shapes[item.name] else "no first size")
        for item in counted
    )
    certain = len(unclear) == 1 < len(counted) - 1 and counting_size(types, {odd.name}) == USUAL
    cure = f"{odd.name}: whole {odd.type.span.text}"
    raise ProblemError(
        UnclearExamples(location, readings, cure, odd.type.span if certain else None)
    )
