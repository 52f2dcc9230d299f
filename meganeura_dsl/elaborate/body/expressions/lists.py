"""Lists of numbers, sizes, texts or tensors."""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.static_arithmetic import length_of_list
from meganeura_dsl.elaborate.values import (
    BlockValue,
    ElabValue,
    Tensor,
    TensorList,
    describe,
    is_static,
    is_tensor,
    show_shape,
)
from meganeura_dsl.limits.language_limits import LONGEST_LIST
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax import ast


def evaluate_list(node: ast.ListOf, frame: Frame) -> ElabValue:
    """The value of `[a, b]`."""
    items = [frame.evaluate(item) for item in node.items]
    if items and is_tensor(items[0]):
        pairs = zip(items, node.items, strict=True)
        return TensorList(tuple(_only_tensor(*each, frame) for each in pairs))
    for item, written in zip(items, node.items, strict=True):
        if not is_static(item) or isinstance(item, BlockValue):
            location = frame.location(written.span)
            before = items[: node.items.index(written)]
            wanted, cure = "a number or a size in a list", _size_meant(item, before, node)
            raise ProblemError(WrongKind(location, wanted, describe(item), cure))
    built = [item for item in items if is_static(item)]
    if length_of_list(built) > LONGEST_LIST:
        wanted = f"a list of at most {LONGEST_LIST:,}"
        raise ProblemError(WrongKind(frame.location(node.span), wanted, describe(built)))
    return built


def _size_meant(item: ElabValue, before: Sequence[ElabValue], node: ast.ListOf) -> str | Help:
    """Returns advice for a tensor where one of its sizes is meant; empty for anything else.

    Behind its first sizes in a list, such as a shape, the next one is meant.
    """
    if not is_tensor(item) or item.type.rank == 0:
        return ""
    shape, place, span = item.type.shape, len(before), node.span
    sizes = f"its sizes are {show_shape(shape)}"
    is_last = place == len(node.items) - 1
    if not before or not is_last or tuple(before) != shape[:place] or place >= len(shape):
        return f"{sizes}: name the one that is meant"
    called = re.search(r"(\w+)\($", span.source.text[: span.start])
    is_alone = called is not None and span.source.text[span.end : span.end + 1] == ")"
    listed = show_shape(shape[: place + 1])
    text = f"{sizes}: behind {show_shape(shape[:place])[1:-1]} it is {show(shape[place])}"
    return Help(text, f"{called[1]}({listed})" if called and is_alone else listed)


def _only_tensor(item: ElabValue, written: ast.Expression, frame: Frame) -> Tensor:
    if not is_tensor(item):
        location = frame.location(written.span)
        raise ProblemError(WrongKind(location, "a tensor in a list of tensors", describe(item)))
    return item
