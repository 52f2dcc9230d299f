"""Statements of `train` blocks: `minimize`, `repeat`, `project`, `metric` and `show`."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypedDict

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR, run_statement
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.body.statements.scans import run_scan
from meganeura_dsl.elaborate.declarations.projections import project
from meganeura_dsl.elaborate.problems.objective_problems import (
    MovedTwice,
    NothingOver,
    NothingReached,
    NotMoved,
)
from meganeura_dsl.elaborate.problems.training_problems import (
    LossNotScalar,
    MetricNotScalar,
    NoPicture,
)
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.state import ElaboratedObjective
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_tensor
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import reduce_mean
from meganeura_dsl.elaborate.typecheck.tensor_values import cast
from meganeura_dsl.elaborate.values import Results, Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.objectives import Moved, reached, reached_values, used
from meganeura_dsl.ir.outputs import Shown
from meganeura_dsl.ir.reserved_names import RECORDED
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast

LOSS = "loss"
"""The output a `train` block minimizes."""

COLOURS = (1, 3)
"""Channels of a picture."""


def run_train_statement(
    statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
) -> Results | None:
    """Record the loss, a metric or a picture of a `train` block; run any other statement."""
    if frame.parent is not None:
        return run_statement(statement, frame, rest)
    match statement:
        case ast.Minimize():
            _minimize(statement, frame)
        case ast.Repeat():
            _repeat(statement, frame)
        case ast.Project(path=path):
            text = path_text(path, frame)
            project(statement, text, _below(text, path, frame, "project"), frame)
        case ast.Metric(name=name, value=node):
            if name.text in frame.state.train.outputs or name.text == LOSS:
                is_loss = name.text == LOSS
                words = "the loss is one without a line; another" if is_loss else "the second"
                code = f"metric {name.text}_2 = {node.span.text}"
                cure = Help(f"{words} metric needs another name", code)
                raise frame.refuse(name.span, f"`{name.text}`", "is measured twice", cure)
            if name.text in RECORDED:
                reason = "is in the records of a run: the metric needs another name"
                raise frame.refuse(name.span, f"`{name.text}`", reason)
            measured = evaluate_tensor(node, frame)
            if measured.type.rank != 0:
                location = frame.location(node.span)
                raise ProblemError(MetricNotScalar(location, name.text, str(measured.type)))
            frame.state.train.outputs[name.text] = measured
        case ast.Show():
            _show(statement, frame)
        case ast.Run():
            pass  # for whoever trains
        case _:
            return run_statement(statement, frame, rest)
    return None


TRAIN_ELABORATOR = replace(ELABORATOR, run=run_train_statement)
"""Elaborates `train` blocks: their outermost frame may minimize and measure."""


def _show(statement: ast.Show, frame: Frame) -> None:
    """Adds a value that evaluations show; a training step does not compute it."""
    state, name = frame.state, statement.name
    if name.text in state.train.shown:
        raise frame.refuse(name.span, f"`{name.text}`", "is shown twice")
    state.train.shown.add(name.text)
    if state.context.training:
        return
    known = len(state.body.parameters)
    value = evaluate_tensor(statement.value, frame)
    if len(state.body.parameters) > known:
        raise frame.refuse(statement.value.span, "a layer", "has weights here that none trains")
    if not _can_be_shown(value.type, state.train.counter):
        location = frame.location(statement.value.span)
        raise ProblemError(NoPicture(location, name.text, str(value.type)))
    state.train.outputs[Shown(name.text)] = value


def _minimize(statement: ast.Minimize, frame: Frame) -> None:
    """One more objective, and from here on the parameters as it moves them."""
    loss, state = evaluate_tensor(statement.value, frame), frame.state
    if loss.type.rank != 0 or not loss.type.dtype.is_float:
        raise ProblemError(LossNotScalar(frame.location(statement.value.span), str(loss.type)))
    paths = tuple(path_text(each, frame) for each in statement.over)
    moves = _moves(statement, loss, paths, frame) if state.context.training else frozenset[str]()
    location = frame.location(statement.span)
    objective = ElaboratedObjective(len(state.train.objectives), loss, moves, location, bool(paths))
    state.train.objectives.append(objective)
    iteration = _iteration(frame)
    if iteration is None:
        _add_to_loss(statement.span, loss, frame)
    else:
        iteration.losses.append(loss)
        iteration.moved |= moves
        for name in moves:
            leaf = state.body.leaves[name].op
            assert isinstance(leaf, ops.Parameter)
            state.body.updates[name] = state.build.add(Moved.by(objective.number, leaf))
    frame.names.update((name, state.current(name)) for name in frame.own & moves)


def _iteration(frame: Frame) -> OpenScan | None:
    """The iteration of a `repeat` that is being elaborated, if one is."""
    return next(reversed(frame.state.scans.values()), None)


def _add_to_loss(span: Span, loss: Tensor, frame: Frame) -> None:
    """Adds to the output that is the sum of all losses."""
    outputs = frame.state.train.outputs
    known = outputs.get(LOSS)
    if known is None:
        outputs[LOSS] = loss
        return
    terms = (cast(frame, span, each, DType.F32) for each in (known, loss))
    outputs[LOSS] = frame.add(span, ops.Add(), *terms)


def _repeat(statement: ast.Repeat, frame: Frame) -> None:
    """Objectives that move the same parameters at each iteration, one after the other.

    The loss of each is the mean of those of its iterations. What stands behind finds constants.
    """
    train = frame.state.train
    before = len(train.objectives)
    losses = run_scan(statement, frame)
    train = frame.state.train  # an iteration that is elaborated again begins with another
    moving = train.objectives[before:]
    if not moving:
        cure = Help("what moves no weights is a", f"scan {_header(statement)}:")
        raise frame.refuse(statement.variable.span, "`repeat`", "needs a `minimize`", cure)
    for objective, loss in zip(moving, losses, strict=True):
        train.objectives[objective.number] = replace(objective, loss=loss)
        mean = reduce_mean(frame, statement.span, loss, (0,))
        _add_to_loss(statement.span, mean, frame)


def _header(statement: ast.Repeat) -> str:
    """The variable and the range of a `repeat`."""
    start, stop = statement.start.span.text, statement.stop.span.text
    return f"{statement.variable.text} in {start}..{stop}"


def _reached(loss: Tensor, frame: Frame) -> frozenset[str]:
    """The names of the parameters that the gradient of a loss reaches.

    In a `repeat` a parameter is what the iteration finds, and no gradient goes through what was
    computed before.
    """
    iteration = _iteration(frame)
    if iteration is None:
        return reached(loss)
    found_as = {leaf.id: name for name, leaf in iteration.states.items()}
    values = reached_values(loss, frozenset(found_as))
    inside = {found_as[each.id] for each in values if each.id in found_as}
    return frozenset(inside | (reached(loss) - iteration.known))


def _moves(
    statement: ast.Minimize, loss: Tensor, paths: tuple[str, ...], frame: Frame
) -> frozenset[str]:
    """The names of the parameters that an objective moves."""
    state, below = frame.state, _reached(loss, frame)
    moves = below
    if paths:
        over = zip(paths, statement.over, strict=True)
        moves = frozenset[str]().union(*(_below(path, node, frame) for path, node in over))
    for name in state.body.parameters:
        mover, above = state.mover(name), state.train.unprojected.get(name)
        if name in moves and above is not None:
            raise ProblemError(NotMoved(above, name, (frame.location(statement.span),)))
        if name in moves and name in state.body.averaged:
            location = frame.location(statement.span)
            raise ProblemError(MovedTwice(location, name, state.body.averaged[name]))
        if name in moves and mover is not None:
            problem = MovedTwice(frame.location(statement.span), name, mover.location)
            if paths and not mover.is_limited:
                over = _only(_reached(mover.loss, frame), moves, frame)
                problem = replace(problem, open=mover.location, over=over)
            elif not paths:
                problem = replace(problem, over=_only(below, mover.moves, frame))
                if not mover.is_limited:
                    problem = replace(problem, **_shared(mover.loss, loss, frame))
            raise ProblemError(problem)
    trains = any(each.kind == "param" for each in state.body.parameters.values())
    is_repeated = _iteration(frame) is not None
    if (paths or trains or is_repeated) and moves.isdisjoint(below):
        location, is_first = frame.location(statement.value.span), not state.train.objectives
        is_again = any(each.location.span == statement.span for each in state.train.objectives)
        raise ProblemError(NothingReached(location, paths, is_first, is_repeated, is_again))
    return moves


class _Shared(TypedDict):
    each: tuple[tuple[str, ...], tuple[str, ...]]
    known: tuple[str, ...]


def _shared(first: Tensor, second: Tensor, frame: Frame) -> _Shared:
    """The layers that two losses reach, and those that each is to move, if that is plain.

    A loss is that of a layer if one of its terms reaches no other, as that of a critic does on data
    that is given; the other loss is then that of the rest.
    """
    reach = [_only(used(loss), frozenset(), frame) for loss in (first, second)]
    own = [_own(loss, frame) for loss in (first, second)]
    each: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    if own[0] and own[0].isdisjoint(own[1]):
        each = tuple(sorted(own[0])), tuple(name for name in reach[1] if name not in own[0])
    elif own[1] and not own[0]:
        each = tuple(name for name in reach[0] if name not in own[1]), tuple(sorted(own[1]))
    return {"each": each, "known": tuple(dict.fromkeys((*reach[0], *reach[1])))}


def _own(loss: Tensor, frame: Frame) -> set[str]:
    """The layers that some term of a loss reaches without others."""
    reach = [_only(used(each), frozenset(), frame) for each in _terms(loss)]
    return {names[0] for names in reach if len(names) == 1}


def _terms(loss: Tensor) -> Iterator[Tensor]:
    """The values that are added up to a loss, without their signs."""
    if isinstance(loss.op, ops.Add | ops.Sub | ops.Neg):
        for each in loss.operands:
            yield from _terms(each)
    else:
        yield loss


def _only(reached_by: frozenset[str], moved: frozenset[str], frame: Frame) -> tuple[str, ...]:
    """The layers that one objective reaches and that the other does not move, by their names here.

    A model is called by its name, under which `over` finds it as well.
    """
    models = {
        "".join(each.call.label.span.text.split()): each.name.text
        for each in frame.module.own.values()
        if isinstance(each, ast.Model) and each.call.label is not None
    }
    paths = dict.fromkeys(sorted(name.split(".")[0] for name in reached_by))
    taken = {name.split(".")[0] for name in moved}
    return tuple(models.get(path, path) for path in paths if path not in taken)


def _below(path: str, node: ast.Path, frame: Frame, word: str = "over") -> frozenset[str]:
    """The trained parameters of a layer, of a model, or the one of this path, behind a word."""
    state = frame.state
    trained = [info.name for info in state.body.parameters.values() if info.kind == "param"]
    found = [name for name in trained if name == path or name.startswith(f"{path}.")]
    if not found:
        declared = frame.module.find(path)
        if declared is not None and isinstance(declared[1], ast.Model):
            own = state.body.weights.get(declared[1], [])
            found = [name for name in trained if name in own]
            if not found and word == "project":
                raise ProblemError(NotMoved(frame.location(node.span), path, ()))
    if not found:
        known = tuple(dict.fromkeys(name.partition(".")[0] for name in trained))
        raise ProblemError(NothingOver(frame.location(node.span), path, known, word))
    return frozenset(found)


def _can_be_shown(found: TensorType, counter: str | None) -> bool:
    """True if a value is a matrix that is none of the batch, or one picture for each example."""
    shape = found.shape
    if len(shape) == 2:
        sizes = [size for size in shape if isinstance(size, Dim)]
        return not any(counter in size.variables() for size in sizes)
    return len(shape) == 3 or (len(shape) == 4 and (shape[1] in COLOURS or shape[3] in COLOURS))
