"""Types as they are written: element types, shapes and declared results."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import (
    UnknownConfiguration,
    UnknownDType,
    WrongKind,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.static_arithmetic import ROUNDED
from meganeura_dsl.elaborate.values import Axes, ElabValue, Tensor, describe, is_size, is_tensor
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size
from meganeura_dsl.syntax import ast


def dtype_of(node: ast.Type, frame: Frame) -> DType:
    """The element type written, f32 where none is."""
    if node.dtype is None:
        return DType.F32
    try:
        return DType(node.dtype)
    except ValueError:
        raise ProblemError(UnknownDType(frame.location(node.span), node.dtype)) from None


def shape_of(pattern: ast.Pattern, frame: Frame) -> tuple[Size, ...]:
    """The shape a pattern stands for when every name in it is known."""
    shape: list[Size] = []
    for entry in pattern.entries:
        if isinstance(entry, ast.Rest):
            axes = frame.names.get(entry.name)
            shape.extend(axes if isinstance(axes, Axes) else ())
            continue
        size = frame.evaluate(entry)
        if not is_size(size):
            raise ProblemError(WrongKind(frame.location(entry.span), "a size", describe(size)))
        shape.append(size)
    return tuple(shape)


def declared_types(
    inner: Frame,
    block: ast.Block,
    names: Mapping[str, ElabValue],
    results: Sequence[Tensor] = (),
) -> tuple[TensorType, ...] | None:
    """The result types a signature promises, in terms of what it bound; None if it is silent.

    A result type without an element type is f32, or that of the result where an input is f16.
    """
    if block.results is None:
        return None
    frame = Frame(
        inner.state, inner.module, inner.name, dict(names), inner.path,
        parent=inner.parent, call_span=inner.call_span, choices=inner.choices,
    )  # fmt: skip
    types: list[TensorType] = []
    given = (names[item.name] for item in block.inputs if item.name in names)
    of_halves = any(is_tensor(each) and each.type.dtype is DType.F16 for each in given)
    for index, node in enumerate(block.results):
        dtype = dtype_of(node, frame)
        is_open = of_halves and node.dtype is None and index < len(results)
        if is_open and results[index].type.dtype.is_float:
            dtype = results[index].type.dtype
        types.append(TensorType(dtype, shape_of(node.shape, frame)))
    return tuple(types)


_OF_DATA = (
    "a part of a size of the data is a quotient of whole numbers, as `d // 2` or `3 * d // 4`"
)


@contextmanager
def without_configuration(location: Location) -> Generator[None]:
    """Reports values that depend on a configuration as a `ProblemError` at `location`."""
    try:
        yield
    except UndecidableError as error:
        cure = _OF_DATA if error.reason == ROUNDED else ""
        raise ProblemError(
            UnknownConfiguration(location, "a configuration that is known", error.reason, cure)
        ) from error
