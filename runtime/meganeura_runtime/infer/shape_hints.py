"""Hints about an input of a model whose shape is not the declared one."""

from collections.abc import Sequence
from math import prod

from meganeura_dsl.elaborate.values import show_shape
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import show
from meganeura_runtime.io.tensors.shape_mismatch import transposed

Wanted = Sequence[int | None]
"""The sizes of the axes of an input; None for one that may have any."""


def shape_hint(name: str, given: Sequence[int], declared: Shape, wanted: Wanted) -> str:
    """Returns the cure of an input of another shape; empty if there is none.

    `wanted` has the numbers of the declared sizes.
    """
    missing = _missing_axis(given, wanted)
    if missing == 0 and wanted[0] is None:
        batch = show_shape((1, *given))
        return f"an axis is missing: a single example is still a batch, of size 1: {batch}"
    if missing is not None:
        size = wanted[missing] or 1
        whole = show_shape((*given[:missing], size, *given[missing:]))
        return f"axis {missing} is missing, of size {size}: {whole}"
    if None not in wanted and _fits(given[1:], wanted):
        return f"the model takes one of them: for any number, declare {_of_any(name, declared)}"
    return _turned(name, given, declared, wanted) or _flattened(given, wanted)


def _fits(given: Sequence[int], wanted: Wanted) -> bool:
    pairs = zip(given, wanted, strict=False)
    return len(given) == len(wanted) and all(size in (None, number) for number, size in pairs)


def _missing_axis(given: Sequence[int], wanted: Wanted) -> int | None:
    """Returns the first axis without which the declared shape is the one given."""
    if len(given) != len(wanted) - 1:
        return None
    axes = range(len(wanted))
    return next((at for at in axes if _fits(given, (*wanted[:at], *wanted[at + 1 :]))), None)


def _flattened(given: Sequence[int], wanted: Wanted) -> str:
    """Returns the shape of rows, where the axes of an example, or of one, are not joined."""
    if len(wanted) != 2 or wanted[1] is None or len(given) < 2:
        return ""
    if len(given) > 2 and prod(given[1:]) == wanted[1]:
        return f"the axes of an example are not joined: reshape it to {[given[0], wanted[1]]}"
    if prod(given) == wanted[1] and given[1] != wanted[1]:
        return f"the axes of one example are not joined: reshape it to {[1, wanted[1]]}"
    return ""


def _turned(name: str, given: Sequence[int], declared: Shape, wanted: Wanted) -> str:
    """Returns the order of the axes that fits, or the declaration of another number of examples."""
    known = [size for size in wanted if size is not None]
    if len(given) != len(wanted):
        return ""
    if len(known) == len(wanted):
        hint = transposed(given, known)
        if hint or given[0] == wanted[0] or not isinstance(declared[0], int):
            return hint
    if len(given) == 2 and _fits(given[::-1], wanted):
        return f"the axes are the other way round: transpose it to {[*given[::-1]]}"
    if isinstance(declared[0], int) and _fits(given, (None, *wanted[1:])):
        any_number = _of_any(name, declared[1:])
        return f"the model takes {declared[0]} of them: for any number, declare {any_number}"
    return ""


def _of_any(name: str, example: Shape) -> str:
    """Returns the declaration of an input of any number of examples."""
    return f"`{name}: [{', '.join(('n', *map(show, example)))}]`"
