"""Cures of results whose axes count something else than declared: examples, places, or classes."""

import re
from collections.abc import Callable, Mapping
from math import prod

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor, show_shape
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax.problems.foreign_layers import free_label

_FIRST = re.compile(r"\b(?P<name>\w+)\[(?P<index>-?\d+)\]")
_AXES = {3: ("c", "t"), 4: ("c", "h", "w"), 5: ("c", "d", "h", "w")}
"""Names of the axes of an example, by the number of axes."""
Same = Callable[[Size, Size], bool]


def second_index_cure(
    value: Tensor, written: str, wanted: Shape, named: Mapping[str, ElabValue], same: Same
) -> Help | None:
    """The index of the axis behind that of the examples, where a result lost the examples."""
    found = _FIRST.search(written)
    whole = named.get(found["name"], "") if found else ""
    if found is None or not is_tensor(whole) or whole.type.rank < 3 or not wanted:
        return None
    first, second = whole.type.shape[:2]
    shape = value.type.shape
    if not same(first, wanted[0]) or not shape or not same(second, shape[0]) or same(first, second):
        return None
    text = f"the index takes one of the `{show(first)}` examples: take a place of the axis behind"
    code = f"{found['name']}[:, {found['index']}]"
    return Help(text, written.replace(found[0], code, 1))


def split_cure(value: Tensor, written: str, wanted: Shape) -> Help | None:
    """The axes that a row of as many numbers is split into."""
    shape = value.type.shape
    if len(shape) != 1 or len(wanted) < 2:
        return None
    numbers = [size for size in wanted if isinstance(size, int)]
    if len(numbers) != len(wanted) or shape[0] != prod(numbers):
        return None
    pattern = f"[{' * '.join(map(str, numbers))}] -> {show_shape(wanted)}"
    call = f"rearrange({written}, {pattern})" if re.fullmatch(r"\w+", written) else ""
    return Help("it has as many numbers: split them", call or f"|> rearrange({pattern})")


def classifier_cure(value: Tensor, wanted: Shape, same: Same, block: str) -> Help | None:
    """The layer behind all others that makes rows of classes of pictures or series."""
    shape = value.type.shape
    if len(wanted) != 2 or len(shape) not in _AXES or not same(shape[0], wanted[0]):
        return None
    first, names = show(shape[0]), _AXES[len(shape)]
    pattern = f"[{', '.join((first, *names))}] -> [{first}, {' * '.join(names)}]"
    label, width = free_label("fc", block), show(wanted[1])
    text = f"no layer makes rows of {width}: join the axes of an example, and let one make them"
    return Help(text, f"|> rearrange({pattern}) |> {label}: linear({width})")
