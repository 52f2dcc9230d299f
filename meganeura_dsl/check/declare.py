"""Parameters and states: their declaration, first value and update."""

from collections.abc import Iterator
from functools import cache
from typing import Protocol

from meganeura_dsl.check.apply import dtype_of, shape_of
from meganeura_dsl.check.frame import Frame, ParameterInfo
from meganeura_dsl.check.problems import MissingInitial, UnknownName
from meganeura_dsl.check.shape_problems import ElementTypeMismatch, ResultMismatch
from meganeura_dsl.check.tensors import cast, equal
from meganeura_dsl.check.usage import walk
from meganeura_dsl.check.values import Evaluated, Tensor, Unknown
from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Origin
from meganeura_dsl.initialize import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Sinusoids,
    Uniform,
    Zeros,
)
from meganeura_dsl.ops.leaf import Kind
from meganeura_dsl.shapes.solve import Proved
from meganeura_dsl.shapes.tensor import DType, TensorType
from meganeura_dsl.syntax import ast

KINDS: dict[str, Kind] = {"param": "param", "frozen param": "frozen", "state": "state"}


class Evaluates(Protocol):
    """The part of the elaborator that declarations need."""

    def evaluate(self, node: ast.Expression, frame: Frame) -> Evaluated:
        """The value of an expression."""
        ...

    def tensor(self, node: ast.Expression, frame: Frame) -> Tensor:
        """The value of an expression that must be a tensor."""
        ...

    def path_text(self, path: ast.Path, frame: Frame) -> str:
        """A path with its indices worked out."""
        ...


def declare_parameter(statement: ast.Declare, frame: Frame, elaborator: Evaluates) -> None:
    """Make a parameter or state known under its path."""
    relative = elaborator.path_text(statement.path, frame)
    stored, dtype = _dtypes(statement, frame)
    type_ = TensorType(dtype, shape_of(statement.type.shape, frame, elaborator.evaluate))
    place = frame.place(statement.span).outside()
    initializer = _initializer(statement, frame, elaborator, relative)
    info = ParameterInfo(
        frame.join(relative), type_, KINDS[statement.kind], stored, initializer, place
    )
    label = frame.path.rsplit(".", 1)[-1]
    with frame.build.at(Origin(frame.user_span(statement.span), frame.path)):
        leaf = frame.state.declare(info, label)
    if "." not in relative:
        frame.own.add(relative)
        frame.names[relative] = leaf


def _dtypes(statement: ast.Declare, frame: Frame) -> tuple[str, DType]:
    if statement.kind == "state" and statement.type.dtype == "i64":
        return "i64", DType.I32
    dtype = dtype_of(statement.type, frame)
    if statement.kind == "param" and not dtype.is_float:
        what = "a trainable parameter holds real numbers"
        cure = "use `state` or `frozen param` for values that are not trained"
        raise ProblemError(
            ElementTypeMismatch(frame.place(statement.type.span), what, dtype.value, cure)
        )
    return dtype.value, dtype


def _initializer(
    statement: ast.Declare, frame: Frame, elaborator: Evaluates, name: str
) -> Initializer:
    node = statement.initial
    if node is None:
        if statement.kind == "param":
            raise ProblemError(MissingInitial(frame.place(statement.span), name, ""))
        return Zeros()
    match node:
        case ast.Name(text="zeros") | ast.Call(callee="zeros", arguments=()):
            return Zeros()
        case ast.Name(text="ones") | ast.Call(callee="ones", arguments=()):
            return Ones()
        case ast.Call(callee="kaiming_uniform", arguments=()):
            return KaimingUniform()
        case ast.Call(callee="sinusoids", arguments=()):
            return Sinusoids()
        case ast.Call(callee="uniform", arguments=(ast.Argument(value=value),)):
            return Uniform(_number(value, frame, elaborator, name))
        case ast.Call(callee="normal", arguments=(ast.Argument(value=value),)):
            return Normal(_number(value, frame, elaborator, name))
        case _:
            return Full(_number(node, frame, elaborator, name))


def _number(
    node: ast.Expression | ast.Rearrangement, frame: Frame, elaborator: Evaluates, name: str
) -> float:
    value = None if isinstance(node, ast.Rearrangement) else elaborator.evaluate(node, frame)
    if isinstance(value, Unknown):
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if frame.state.generic:
        return 0.0
    raise ProblemError(MissingInitial(frame.place(node.span), name, node.span.text))


def set_update(statement: ast.Update, frame: Frame, elaborator: Evaluates) -> None:
    """Let a state have a new value from here on, and after the step.

    Its name is bound to the new value. Another name keeps what it was bound to, so a block may
    update by name what it declares itself, and by path what its layers do: no other block that is
    still running has a name for those.
    """
    relative = elaborator.path_text(statement.path, frame)
    name = frame.join(relative)
    info = frame.state.parameters.get(name)
    if "." not in relative and relative not in frame.own:
        info = None
    if info is None or info.kind != "state":
        kind = "state" if info is None else "state (a parameter is updated by the optimizer)"
        raise ProblemError(UnknownName(frame.place(statement.path.span), relative, kind, ()))
    value = elaborator.tensor(statement.value, frame)
    if (
        value.type.dtype is not info.type.dtype
        and value.type.dtype.is_float
        and info.type.dtype.is_float
    ):
        value = cast(frame, statement.span, value, info.type.dtype)
    same = (
        value.type.dtype is info.type.dtype
        and value.type.rank == info.type.rank
        and all(
            isinstance(equal(frame, a, b), Proved)
            for a, b in zip(value.type.shape, info.type.shape, strict=True)
        )
    )
    if not same:
        place = frame.place(statement.value.span)
        raise ProblemError(
            ResultMismatch(place, f"update {relative}", str(info.type), str(value.type), None)
        )
    frame.state.updates[name] = value
    if "." not in relative:
        frame.names[relative] = value


def own_parameters(block: ast.Block) -> tuple[str, ...]:
    """The names of what a block itself declares, whatever its configuration."""
    return tuple(path.span.text for path in _declared(block.body))


@cache
def own_paths(block: ast.Block) -> tuple[str, ...]:
    """Where a block keeps weights: the names it declares, and the labels of its layers."""
    labels = [
        "".join(node.label.span.text.split())
        for statement in block.body
        for node in walk(statement)
        if isinstance(node, ast.Call) and node.label is not None
    ]
    return tuple(dict.fromkeys([*own_parameters(block), *labels]))


def _declared(statements: tuple[ast.Statement, ...]) -> Iterator[ast.Path]:
    for statement in statements:
        match statement:
            case ast.Declare(path=path):
                yield path
            case ast.If(then=then, otherwise=otherwise):
                yield from _declared(then)
                yield from _declared(otherwise)
            case ast.For(body=body):
                yield from _declared(body)
            case _:
                pass
