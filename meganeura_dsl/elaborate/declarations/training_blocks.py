"""`train` blocks as graphs, and the settings of their runs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.elaborator import Elaborator
from meganeura_dsl.elaborate.declarations.example_axis import USUAL, counting_size, unclear_inputs
from meganeura_dsl.elaborate.declarations.models import Elaboration, finish, opened
from meganeura_dsl.elaborate.declarations.stated_facts import condition_of
from meganeura_dsl.elaborate.problems.cache_problems import CacheInTraining
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere, WrongKind
from meganeura_dsl.elaborate.problems.objective_problems import (
    MovedTwice,
    NothingOver,
    NothingReached,
)
from meganeura_dsl.elaborate.problems.shape_problems import WhereUnproved
from meganeura_dsl.elaborate.problems.training_problems import (
    LossNotScalar,
    MetricNotScalar,
    NoLoss,
    NoPicture,
    UnclearExamples,
)
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError, Recovery
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame, UndecidableError
from meganeura_dsl.elaborate.scope.state import ElaboratedObjective
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.typecheck.positions import with_symbols
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.signatures import shape_of, without_configuration
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import any_inputs, any_sizes
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import cast
from meganeura_dsl.elaborate.values import (
    BlockValue,
    Evaluated,
    Invocation,
    Static,
    Tensor,
    describe,
    is_initializer,
    is_static,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.objectives import Objective, reached
from meganeura_dsl.ir.reserved_names import COUNTER, LEARNING_RATE, RECORDED, STATES
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.limits.language_limits import CHECK
from meganeura_dsl.limits.work_budget import OutOfWorkError, at_most
from meganeura_dsl.symbolic.conditions import Condition
from meganeura_dsl.symbolic.size import Dim, dim, show
from meganeura_dsl.syntax import ast

FED = (COUNTER, LEARNING_RATE)
"""The names of inputs that the run itself feeds."""
FROZEN = "frozen"
"""The word, in place of an optimizer, for parameters that nothing moves."""
LOSS = "loss"
"""The output a `train` block minimizes."""
SHOWN = "show "
"""How the names of outputs begin that are pictures or matrices to look at."""
COLOURS = (1, 3)
"""Channels of a picture."""


@dataclass(frozen=True)
class WrittenSetting:
    """One line of `run:`, evaluated, and where it stands."""

    value: Static
    span: Span


class TrainElaborator(Elaborator):
    """An elaborator whose outermost frame may minimize and measure."""

    counter: str | None = None
    """The size that counts examples."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[str] = set()

    def train_statement(self, statement: ast.TrainStatement, frame: Frame) -> None:
        """Record the loss or a metric; `run:` is for whoever trains."""
        if frame.parent is not None:
            super().train_statement(statement, frame)
        match statement:
            case ast.Minimize():
                self._minimize(statement, frame)
            case ast.Metric(name=name, value=node):
                if name.text in frame.state.train.outputs or name.text == LOSS:
                    raise ProblemError(
                        NotAllowedHere(
                            frame.location(name.span), f"`{name.text}`", "is measured twice"
                        )
                    )
                if name.text in RECORDED:
                    reason = "is in the records of a run: the metric needs another name"
                    raise frame.refuse(name.span, f"`{name.text}`", reason)
                measured = self.tensor(node, frame)
                if measured.type.rank != 0:
                    location = frame.location(node.span)
                    raise ProblemError(MetricNotScalar(location, name.text, str(measured.type)))
                frame.state.train.outputs[name.text] = measured
            case ast.Show():
                self._show(statement, frame)
            case ast.Run():
                pass

    def _show(self, statement: ast.Show, frame: Frame) -> None:
        """What is looked at when held-out examples are measured; a training step has none of it."""
        state, name = frame.state, statement.name
        if name.text in self.shown:
            raise frame.refuse(name.span, f"`{name.text}`", "is shown twice")
        self.shown.add(name.text)
        if state.context.training:
            return
        known = len(state.body.parameters)
        value = self.tensor(statement.value, frame)
        if len(state.body.parameters) > known:
            raise frame.refuse(statement.value.span, "a layer", "has weights here that none trains")
        if not _can_be_shown(value.type, self.counter):
            location = frame.location(statement.value.span)
            raise ProblemError(NoPicture(location, name.text, str(value.type)))
        state.train.outputs[f"{SHOWN}{name.text}"] = value

    def _minimize(self, statement: ast.Minimize, frame: Frame) -> None:
        """One more objective, and from here on the parameters as it moves them."""
        loss, state = self.tensor(statement.value, frame), frame.state
        if loss.type.rank != 0 or not loss.type.dtype.is_float:
            raise ProblemError(LossNotScalar(frame.location(statement.value.span), str(loss.type)))
        paths = tuple(self.path_text(each, frame) for each in statement.over)
        moves = (
            self._moves(statement, loss, paths, frame)
            if state.context.training
            else frozenset[str]()
        )
        known = state.train.outputs.get(LOSS)
        if known is not None:
            terms = (cast(frame, statement.span, each, DType.F32) for each in (known, loss))
            state.train.outputs[LOSS] = frame.add(statement.span, ops.Add(), *terms)
        else:
            state.train.outputs[LOSS] = loss
        location = frame.location(statement.span)
        state.train.objectives.append(
            ElaboratedObjective(len(state.train.objectives), loss, moves, location, bool(paths))
        )
        frame.names.update((name, state.current(name)) for name in frame.own & moves)

    def _moves(
        self, statement: ast.Minimize, loss: Tensor, paths: tuple[str, ...], frame: Frame
    ) -> frozenset[str]:
        """The names of the parameters that an objective moves."""
        state, below = frame.state, reached(loss)
        moves = below
        if paths:
            over = zip(paths, statement.over, strict=True)
            moves = frozenset[str]().union(*(self._below(path, node, frame) for path, node in over))
        for name in state.body.parameters:
            mover = state.mover(name)
            if name in moves and name in state.body.averaged:
                location = frame.location(statement.span)
                raise ProblemError(MovedTwice(location, name, state.body.averaged[name]))
            if name in moves and mover is not None:
                raise ProblemError(MovedTwice(frame.location(statement.span), name, mover.location))
        if (paths or state.train.objectives) and moves.isdisjoint(below):
            raise ProblemError(NothingReached(frame.location(statement.value.span), paths))
        return moves

    def _below(self, path: str, node: ast.Path, frame: Frame) -> frozenset[str]:
        """The trained parameters of a layer, of a model, or the one of this path."""
        state = frame.state
        trained = [info.name for info in state.body.parameters.values() if info.kind == "param"]
        found = [name for name in trained if name == path or name.startswith(f"{path}.")]
        if not found:
            declared = frame.module.find(path)
            if declared is not None and isinstance(declared[1], ast.Model):
                own = state.body.weights.get(declared[1], [])
                found = [name for name in trained if name in own]
        if not found:
            known = tuple(dict.fromkeys(name.partition(".")[0] for name in trained))
            raise ProblemError(NothingOver(frame.location(node.span), path, known))
        return frozenset(found)


def free_sizes(train: ast.Train) -> tuple[str, ...]:
    """The names in the inputs' shapes, which `run:` has to give a size."""
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
    summaries: Summaries | None = None,
) -> Elaboration:
    """The graph of a `train` block: outputs the loss and the metrics. Raises `ProblemError`.

    With `summaries` the graph is one of a check.
    """
    state = opened(training=training, summaries=summaries)
    try:
        with at_most(CHECK), without_configuration(Location(train.name.span)):
            return _elaborate_train(module, train, sizes, state)
    except OutOfWorkError as error:
        raise ProblemError(
            TooMuchWork(Location(train.name.span), error.reason, train.name.text)
        ) from error


def all_problems(module: LinkedModule, train: ast.Train) -> tuple[Problem, ...]:
    """All that is wrong with the statements of a `train` block that was refused."""
    state, recovery = opened(training=True), Recovery(train)
    stop = (ProblemError, UndecidableError, OutOfWorkError, EndOfPathError)
    with suppress(*stop), at_most(CHECK):
        elaborator, frame = _begun(module, train, {}, state)
        state.recovery = recovery
        elaborator.execute(train.body, frame)
    return recovery.problems


def _elaborate_train(
    module: LinkedModule, train: ast.Train, sizes: Mapping[str, int], state: ElaborationState
) -> Elaboration:
    elaborator, frame = _begun(module, train, sizes, state)
    elaborator.execute(train.body, frame)
    if LOSS not in state.train.outputs:
        raise ProblemError(NoLoss(frame.location(train.name.span), train.name.text))
    found = finish(state, {**state.train.outputs, **_objectives(state)})
    for cache in found.caches:
        raise ProblemError(CacheInTraining(cache.location, cache.name, train.name.text))
    for each in found.parameters:
        if each.name in FED or each.name.startswith(STATES):
            reason = "is the training's own: it needs another name"
            raise ProblemError(NotAllowedHere(each.location, f"`{each.name}`", reason))
    return found


def _begun(
    module: LinkedModule, train: ast.Train, sizes: Mapping[str, int], state: ElaborationState
) -> tuple["TrainElaborator", Frame]:
    """What runs the body of a `train` block, its inputs bound and its `where` assumed."""
    elaborator = TrainElaborator()
    frame = Frame(state, module, train.name.text, {}, declaration=train)
    frame.names.update((name, sizes.get(name, dim(name))) for name in free_sizes(train))
    stated = with_symbols(frame, train)
    for clause in train.where:
        _state(clause, condition_of(clause, elaborator, stated, train), train, frame, sizes)
    for item in train.inputs:
        if any(isinstance(entry, ast.Rest) for entry in item.type.shape.entries):
            raise frame.refuse(item.span, "a rest", "cannot stand in the inputs of a `train` block")
        if item.name in FED:
            raise frame.refuse(
                item.span, f"`{item.name}`", "is fed by the run: it needs another name"
            )
    solved = any_sizes(train.inputs, frame)
    any_inputs(train.inputs, solved, frame, elaborator.evaluate)
    with_symbols(frame, train)
    elaborator.counter = _require_counted(train, module)
    return elaborator, frame


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
    if not state.context.training or not (others or first.is_limited):
        return {}
    names = [info.name for info in state.body.parameters.values()]
    return {
        Objective(
            each.number, tuple(name for name in names if name in each.moves)
        ).output: each.loss
        for each in state.train.objectives
    }


def _can_be_shown(found: TensorType, counter: str | None) -> bool:
    """Whether a value is a matrix that is none of the batch, or one picture for each example."""
    shape = found.shape
    if len(shape) == 2:
        sizes = [size for size in shape if isinstance(size, Dim)]
        return not any(counter in size.variables() for size in sizes)
    return len(shape) == 3 or (len(shape) == 4 and (shape[1] in COLOURS or shape[3] in COLOURS))


def _require_counted(train: ast.Train, module: LinkedModule) -> str | None:
    """The size that counts examples, whatever numbers sizes have; refuses inputs that say none."""
    elaborator = TrainElaborator()
    frame = Frame(ElaborationState(Builder()), module, train.name.text, {}, declaration=train)
    frame.names.update((name, dim(name)) for name in free_sizes(train))
    shapes = {
        item.name: shape_of(item.type.shape, frame, elaborator.evaluate) for item in train.inputs
    }
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


def setting_key(name: str, glob: str | None) -> str:
    """The key of a setting: its name, with the paths it is for: `optimizer["*.bias"]`."""
    return name if glob is None else f'{name}["{glob}"]'


class SettingElaborator(Elaborator):
    """Evaluates settings: numbers, texts, lists, and calls such as `adam(lr=1e-3)` kept as data."""

    def apply(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Evaluated:
        """A call in a setting is not applied: it is data for whoever reads the setting."""
        arguments: dict[str, Static] = {}
        positional: list[Static] = []
        refused = ProblemError(
            WrongKind(frame.location(call.span), "a number, text or list", call.span.text)
        )
        if piped is not None or call.inputs:
            raise refused
        for argument in call.arguments:
            value = (
                None
                if isinstance(argument.value, ast.Rearrangement)
                else self.evaluate(argument.value, frame)
            )
            if value is None or not is_static(value):
                raise refused
            if argument.name is None:
                positional.append(value)
            else:
                arguments[argument.name] = value
        return Invocation(call.callee, arguments, tuple(positional))


def evaluate_setting(module: LinkedModule, node: ast.Expression) -> Static:
    """The value of one setting. Raises `ProblemError`."""
    if isinstance(node, ast.Name) and node.text == FROZEN:
        return Invocation(FROZEN, {})
    frame = Frame(ElaborationState(Builder()), module, "run", {})
    value = SettingElaborator().evaluate(node, frame)
    if not is_static(value) or is_initializer(value) or isinstance(value, BlockValue):
        raise ProblemError(
            WrongKind(frame.location(node.span), "a number, text or list", describe(value))
        )
    return value


def train_settings(module: LinkedModule, train: ast.Train) -> dict[str, WrittenSetting]:
    """The settings under `run:`, evaluated. Raises `ProblemError`."""
    settings: dict[str, WrittenSetting] = {}
    for statement in train.body:
        if isinstance(statement, ast.Run):
            for setting in statement.settings:
                name = setting_key(setting.name.text, setting.glob)
                if name in settings:
                    location = Location(setting.name.span)
                    raise ProblemError(NotAllowedHere(location, f"`{name}`", "is set twice"))
                value = evaluate_setting(module, setting.value)
                settings[name] = WrittenSetting(value, setting.span)
    return settings
