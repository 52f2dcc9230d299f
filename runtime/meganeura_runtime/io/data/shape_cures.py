"""Cures of a tensor of the data whose shape is not that of the input it feeds."""

from collections.abc import Collection, Sequence
from math import prod

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.layout_cures import layout_pattern
from meganeura_dsl.elaborate.values import show_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

ONE_EXAMPLE = "an axis is missing: a single example is still a batch, of size 1"


def shape_cure(
    name: str,
    tensor: StoredTensor,
    wanted: TensorType,
    shape: Sequence[int],
    examples: Collection[int],
) -> Help | None:
    """The cure of a tensor that does not have the shape of an input, which is given in numbers.

    `examples` are the numbers of examples that tensors of other inputs have. None if the data has
    no axis that could count examples.
    """
    stored, first = tensor.shape, wanted.shape[0]
    if not stored:
        return Help(ONE_EXAMPLE, f"{name}: {show_shape((1,))}") if shape[1:] == () else None
    is_row = len(stored) == 1 and not tensor.is_float
    if stored == tuple(shape[1:]) and not is_row and stored[0] not in examples:
        return _single(name, stored, first)
    if _are_classes(tensor, wanted, shape):
        names = f"`{name}: i32{show_shape((first, *stored[1:]))}`"
        text = f"declare class numbers, {names}, and where a row of each is needed, write"
        return Help(text, f"one_hot({name}, {shape[-1]})")
    return class_rows(name, tensor, wanted) or _declared(name, stored, wanted, shape, examples)


def _single(name: str, stored: Sequence[int], first: Size) -> Help:
    """The cure of one example without the axis of examples, or of several declared as one."""
    one = f"{ONE_EXAMPLE}: {show_shape((1, *stored))}"
    if len(stored) == 1:
        several = "if several were meant, `[i]` has taken one of them: `[i:i + k]` takes k"
        return Help(f"{one}\n{several}")
    if stored[0] == 1:
        return Help(one)
    declared = f"{name}: {show_shape((first, *stored[1:]))}"
    return Help(f"{one}\nif these are {stored[0]} examples, declare", declared)


def class_rows(name: str, tensor: StoredTensor, wanted: TensorType) -> Help | None:
    """The cure of rows of numbers, one for each class, that feed an input of class numbers."""
    stored = tensor.shape
    if not wanted.dtype.is_integer or len(stored) != wanted.rank + 1 or stored[-1] < 2:
        return None
    declared = f"`{name}: {show_shape((wanted.shape[0], *stored[1:]))}`"
    text = f"declare the rows that the data has, {declared}, and where a class is needed, write"
    return Help(text, f"argmax({name}, {len(stored) - 1})")


def _are_classes(tensor: StoredTensor, wanted: TensorType, shape: Sequence[int]) -> bool:
    """True for whole numbers, where an input has a row of several numbers for each."""
    is_whole = not tensor.is_float and wanted.dtype.is_float
    fits = len(tensor.shape) == len(shape) - 1 and tensor.shape[1:] == tuple(shape[1:-1])
    return is_whole and fits and shape[-1] > 1


def _declared(
    name: str,
    stored: Sequence[int],
    wanted: TensorType,
    shape: Sequence[int],
    examples: Collection[int],
) -> Help:
    """The input with the shape of its tensor, and how it comes to the shape that it is to have."""
    first = wanted.shape[0]
    dtype = wanted.dtype.value if wanted.dtype.is_integer else ""
    declared = f"{name}: {dtype}{show_shape((first, *stored[1:]))}"
    text = f"declare the input as the data has it, `{declared}`, and where it is used, write"
    wanted_of_data = show_shape((stored[0], *shape[1:]))
    if tuple(shape) == (*shape[: len(stored)], 1) and tuple(shape[1:-1]) == tuple(stored[1:]):
        return Help(text, f"insert_axis({name}, {len(stored)}, 1)")
    found = layout_pattern((first, *stored[1:]), (first, *shape[1:]), (), same=lambda a, b: a == b)
    pattern = found[1] if found else _split(first, stored, shape)
    if pattern:
        return Help(text, f"rearrange({name}, {pattern})")
    axis = _extra_axis(stored, shape)
    if axis:
        picked = ", ".join((*":" * axis, "-1"))
        text = (
            f"give one for each example, {wanted_of_data}, or declare the input as the data has "
            f"it,\n`{declared}`, and where it is used, write the place that is meant"
        )
        return Help(text, f"{name}[{picked}]")
    is_turned = len(stored) == len(shape) == 2 and stored[0] == shape[1]
    if is_turned and stored[0] not in examples:
        return Help(f"the axes are the other way round: store {show_shape(stored[::-1])}")
    return Help(
        f"give data of {wanted_of_data}, or declare the input as the data has it and let what it\n"
        "meets have this size too",
        declared,
    )


def _extra_axis(stored: Sequence[int], shape: Sequence[int]) -> int:
    """The one axis behind the first without which a tensor has the shape of an input; else 0."""
    left = (axis for axis in range(1, len(stored)) if len(stored) == len(shape) + 1)
    fits = [axis for axis in left if (*stored[1:axis], *stored[axis + 1 :]) == tuple(shape[1:])]
    return fits[0] if len(fits) == 1 else 0


def _split(first: Size, stored: Sequence[int], shape: Sequence[int]) -> str:
    """The pattern that splits rows into axes, in the order of memory; else empty."""
    if len(stored) != 2 or stored[1] != prod(shape[1:]) or len(shape) < 3:
        return ""
    factors = " * ".join(str(size) for size in shape[1:] if size > 1)
    return f"[{first}, {factors}] -> {show_shape((first, *shape[1:]))}"
