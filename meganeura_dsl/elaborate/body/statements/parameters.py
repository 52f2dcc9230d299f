"""Parameters, states and caches: their declaration, first value and update."""

from dataclasses import replace
from typing import Protocol

from meganeura_dsl.diagnostics.other_names import Answer
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.deferred_numbers import defer
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.body.layers.layer_copies import update_layer
from meganeura_dsl.elaborate.body.statements.bindings import with_part
from meganeura_dsl.elaborate.builtins.initial_values import WORDS, as_initializer
from meganeura_dsl.elaborate.problems.cache_problems import CacheNotCleared
from meganeura_dsl.elaborate.problems.layout_cures import channels_moved
from meganeura_dsl.elaborate.problems.name_problems import UnknownName
from meganeura_dsl.elaborate.problems.origin_cures import channels_kept
from meganeura_dsl.elaborate.problems.parameter_problems import (
    CHANNELS_FIRST,
    InputSizedParameter,
    MissingInitial,
    UnfitInitial,
)
from meganeura_dsl.elaborate.problems.proof_failures import refusal
from meganeura_dsl.elaborate.problems.shape_problems import ElementTypeMismatch
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_tensor
from meganeura_dsl.elaborate.typecheck.tensor_values import cast, require_fit
from meganeura_dsl.elaborate.typecheck.written_types import dtype_of, shape_of
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Builder, Origin
from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    Ones,
    Sinusoids,
    Zeros,
    fits,
    holds,
    spell,
)
from meganeura_dsl.ir.ops.primitive.broadcast import full
from meganeura_dsl.ir.ops.primitive.leaf import Kind, Number
from meganeura_dsl.ir.reserved_names import BEGUN
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Unproved
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.syntax import ast

KINDS: dict[str, Kind] = {
    "param": "param",
    "frozen param": "frozen",
    "state": "state",
    "cache": "cache",
}
UPDATED: tuple[Kind, ...] = ("state", "cache")
"""The kinds of what an `update` may change."""
Entries = tuple[ast.Entry, ...]


class Evaluates(Protocol):
    """The part of the elaborator that declarations need."""

    def evaluate(self, node: ast.Expression, frame: Frame) -> ElabValue:
        """The value of an expression."""
        ...

    def tensor(self, node: ast.Expression, frame: Frame) -> Tensor:
        """The value of an expression that must be a tensor."""
        ...

    def path_text(self, path: ast.Path, frame: Frame) -> str:
        """A path with its indices evaluated."""
        ...

    def with_part(
        self, span: Span, base: Tensor, entries: Entries, value: ast.Expression, frame: Frame
    ) -> Tensor:
        """A tensor with a part of it replaced."""
        ...


def declare_parameter(statement: ast.Declare, frame: Frame) -> None:
    """Make a parameter or state known under its path."""
    relative = path_text(statement.path, frame)
    stored, dtype = _dtypes(statement, frame)
    type_ = TensorType(dtype, shape_of(statement.type.shape, frame))
    location = frame.location(statement.span).outside()
    initializer = _initializer(statement, frame, relative)
    _check_fit(initializer, type_, frame, statement)
    info = ParameterInfo(
        frame.join(relative), type_, KINDS[statement.kind], stored, initializer, location
    )
    with frame.build.at(Origin(frame.user_span(statement.span), frame.path)):
        try:
            leaf = frame.state.declare(info, frame.label)
        except ProblemError as error:
            raise _of_input(error, frame) from error
        number = _number_of(initializer, dtype)
        if info.kind == "cache" and number:
            leaf = _begun(info, number, frame)
    if "." not in relative:
        frame.own.add(relative)
        frame.names[relative] = leaf


def _of_input(error: ProblemError, frame: Frame) -> ProblemError:
    """The problem of a weight that is sized by data, with what made the last axis of the input."""
    block = frame.declaration
    if not isinstance(error.problem, InputSizedParameter) or not isinstance(block, ast.Block):
        return error
    value = frame.names.get(block.inputs[0].name, "")
    if not frame.module.is_library or not is_tensor(value):
        return error
    cure = channels_kept(value)
    if cure is None and frame.parent is not None:
        span, is_first = error.problem.location.span, block.name.text in CHANNELS_FIRST
        if is_first or block.name.text in ("layer_norm", "rms_norm"):
            text, known = span.source.text, frame.caller_names()
            around = text[: span.start], text[span.end :]
            cure = channels_moved(value.type.shape, known, span.text, around, is_first=is_first)
    return ProblemError(replace(error.problem, cure=cure))


def _dtypes(statement: ast.Declare, frame: Frame) -> tuple[str, DType]:
    if statement.kind == "state" and statement.type.dtype == "i64":
        return "i64", DType.I32
    dtype = dtype_of(statement.type, frame)
    if statement.kind == "param" and not dtype.is_float:
        what = "a trainable parameter holds real numbers"
        cure = "use `state` or `frozen param` for values that are not trained"
        raise ProblemError(
            ElementTypeMismatch(frame.location(statement.type.span), what, dtype.value, cure)
        )
    return dtype.value, dtype


def _check_fit(
    initializer: Initializer, type_: TensorType, frame: Frame, statement: ast.Declare
) -> None:
    """Raise `ProblemError` unless a parameter of this type can begin so, for every size."""
    location, name = frame.location(statement.span), statement.path.span.text
    if statement.kind == "cache" and _number_of(initializer, type_.dtype) is None:
        place = frame.location((statement.initial or statement).span)
        raise ProblemError(CacheNotCleared(place, name))
    if not holds(type_.dtype, initializer):
        words = {DType.BOOL: "`zeros` or `ones`"}.get(type_.dtype, "a whole number up to 2**24")
        wanted = f"it begins as {words}"
        unfit = UnfitInitial(location, name, str(type_), spell(initializer), wanted)
        raise ProblemError(unfit)
    if not isinstance(initializer, Sinusoids):
        return
    sizes = tuple(size for size in type_.shape if isinstance(size, int))
    if type_.rank != 2 or (len(sizes) == type_.rank and not fits(initializer, sizes)):
        wanted = "it needs two axes, the second of an even size from 4"
        unfit = UnfitInitial(location, name, str(type_), spell(initializer), wanted)
        raise ProblemError(unfit)
    channels, what = type_.shape[1], f"the channels of `{name}`, a table of sinusoids"
    try:
        frame.facts.require(Compare("==", channels % 2, 0), f"{what}, are even")
        frame.facts.require(Compare(">=", channels, 4), f"{what}, are 4 at least")
    except Unproved as error:
        raise ProblemError(refusal(location, error, frame.facts, ())) from error


def _initializer(statement: ast.Declare, frame: Frame, name: str) -> Initializer:
    given, node = frame.initials.get(name), statement.initial
    if given is not None:
        return given
    if node is None:
        if statement.kind == "param":
            raise ProblemError(MissingInitial(frame.location(statement.span), name, ""))
        return Zeros()
    if isinstance(node, ast.Call) and node.callee in WORDS and not node.arguments:
        return WORDS[node.callee]
    try:
        initializer = as_initializer(frame.evaluate(node), frame)
    except UndecidableError:
        if not frame.state.abstract.symbols:
            raise
        defer(node, frame, frame.join(name))
        return Zeros()
    if initializer is None:
        raise ProblemError(MissingInitial(frame.location(node.span), name, node.span.text))
    return initializer


def _number_of(initializer: Initializer, dtype: DType) -> Number | None:
    """The number that all elements begin as, if they begin as one."""
    match initializer:
        case Zeros():
            number = 0.0
        case Ones():
            number = 1.0
        case Full(number):
            pass
        case _:
            return None
    if dtype is DType.BOOL:
        return number != 0
    return number if dtype.is_float else int(number)


def _begun(info: ParameterInfo, number: Number, frame: Frame) -> Tensor:
    """The value of a cache that begins as this number.

    A session clears what it keeps, so a cache beside it says whether it was kept before.
    """
    state, build = frame.state, frame.build
    name, of = info.name + BEGUN, TensorType(DType.I32, ())
    flag = ParameterInfo(name, of, "cache", DType.I32.value, Zeros(), info.location)
    is_first = build.add(ops.Compare("eq"), state.declare(flag, frame.label), _whole(build, 0))
    kept, first = state.current(info.name), full(build, info.type, number)
    if info.type.shape:
        is_first = build.add(ops.Broadcast(info.type.shape, ()), is_first)
    value = build.add(ops.Where(), is_first, first, kept)
    state.body.updates |= {info.name: value, flag.name: _whole(build, 1)}
    return value


def _whole(build: Builder, number: int) -> Tensor:
    return full(build, TensorType(DType.I32, ()), number)


def set_update(statement: ast.Update, frame: Frame) -> None:
    """Let a state or cache have a new value from here on, and after the step.

    With the label of a layer it is evaluated for each tensor of the layer. Its name is bound to the
    new value. Other names keep their values, so a block may
    update by name what it declares itself, and by path what its layers do: no other block that is
    still running has a name for those.
    """
    path, entries = _split(statement, frame)
    relative = path_text(path, frame)
    name = frame.join(relative)
    if relative in frame.layers and not entries:
        update_layer(statement, relative, frame)
        return
    info = frame.state.body.parameters.get(name)
    if "." not in relative and relative not in frame.own:
        info = None
    if info is None or info.kind not in UPDATED:
        kind = "state" if info is None else "state (a parameter is updated by the optimizer)"
        location, answer = frame.location(path.span), _projection(statement, relative, frame)
        raise ProblemError(UnknownName(location, relative, kind, (), answer))
    if entries:
        now = frame.state.current(name)
        value = with_part(statement.span, now, entries, statement.value, frame)
    else:
        value = evaluate_tensor(statement.value, frame)
    if (
        value.type.dtype is not info.type.dtype
        and value.type.dtype.is_float
        and info.type.dtype.is_float
    ):
        value = cast(frame, statement.span, value, info.type.dtype)
    require_fit(frame, statement.value.span, f"update {relative}", info.type, value)
    frame.state.body.updates[name] = value
    if "." not in relative:
        frame.names[relative] = value


def _projection(statement: ast.Update, path: str, frame: Frame) -> Answer | None:
    """The answer to an update of weights that an objective of this `train` block moves."""
    state, found = frame.state, frame.module.find(path)
    is_model = found is not None and isinstance(found[1], ast.Model)
    is_label = any(name == path or name.startswith(f"{path}.") for name in state.body.parameters)
    if not state.train.objectives or not (is_model or is_label) or statement.entries:
        return None
    value = " ".join(statement.value.span.text.split())
    return Answer(f"what weights become after their move is `project {path} = {value}`", ())


def _split(statement: ast.Update, frame: Frame) -> tuple[ast.Path, Entries]:
    """The path of what is updated, and the entries of the part.

    `update mean[i] = x` reads like a path; it is an entry if `mean` is declared here.
    """
    path = statement.path
    match path.parts:
        case (str(first), entry) if first in frame.own and not isinstance(entry, str | ast.Splice):
            span = Span(path.span.source, path.span.start, path.span.start + len(first))
            return ast.Path(span, (first,)), (entry,)
        case _:
            return path, statement.entries
