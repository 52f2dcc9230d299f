"""Values by the names that a program gives them: labels of layers, names, and what it shows.

A name that is bound several times is the last of its values; those before are `h#1`, `h#2` and so
on. A value that differs between iterations of a scan is not among them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.value_problems import UnknownValue
from meganeura_dsl.elaborate.scope.binding import NamedValue
from meganeura_dsl.elaborate.values import is_tensor
from meganeura_dsl.ir.graph import Bound

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.scope.scope import Frame
    from meganeura_dsl.elaborate.values import ElabValue, Results, Tensor

NUMBER = "#"
"""Stands between a name that is bound several times and the number of one of its values."""


def note_value(frame: Frame, name: str, value: ElabValue, *, is_shown: bool = False) -> None:
    """Remember what a name of this frame is, if this elaboration is asked for values.

    Of a library layer the labels are known, and not the names that it binds.
    """
    named = frame.state.body.named
    is_known = is_shown or not frame.module.is_library
    if named is not None and is_known and is_tensor(value):
        named.append(NamedValue(frame.join(name), value, is_shown))


def note_results(frame: Frame, path: str, results: Results, names: Sequence[str]) -> None:
    """Remember what the layer of a path gave.

    Several results have their names behind its path, or numbers if they have none.
    """
    named = frame.state.body.named
    if named is None:
        return
    several = len(results) > 1
    for number, each in enumerate(results):
        name = names[number] if names else number
        named.append(NamedValue(f"{path}.{name}" if several else path, each))


def chosen_values(
    named: Sequence[NamedValue], patterns: Iterable[str], *, shown: bool
) -> dict[str, Tensor]:
    """Returns the values that patterns such as `layers.*` name, in the order of the program.

    With `shown` also those that the program shows. Raises E0669 for a pattern that names none.
    """
    outside, inside = _numbered(named)
    names = {name for name, each in outside.items() if shown and each.is_shown}
    for pattern in dict.fromkeys(patterns):
        found = [name for name in outside if fnmatchcase(name, pattern)]
        if not found:
            in_scan = [name for name in inside if fnmatchcase(name, pattern)]
            raise ProblemError(UnknownValue(pattern, tuple(outside), tuple(in_scan)))
        names.update(found)
    return {name: each.value for name, each in outside.items() if name in names}


def _numbered(
    named: Sequence[NamedValue],
) -> tuple[dict[str, NamedValue], Mapping[str, NamedValue]]:
    """Returns the values by the names they are asked for: those outside and those inside scans."""
    by_iteration = _by_iteration([each.value for each in named])
    found: tuple[dict[str, list[NamedValue]], dict[str, list[NamedValue]]] = ({}, {})
    for each in named:
        values = found[each.value.id in by_iteration].setdefault(each.name, [])
        if not values or values[-1].value is not each.value:
            values.append(each)
        elif each.is_shown:
            values[-1] = each
    order: dict[int, int] = {}
    for place, each in enumerate(named):
        order.setdefault(id(each), place)
    outside, inside = (
        {
            (name if number == len(values) else f"{name}{NUMBER}{number}"): each
            for name, values in sorted_values.items()
            for number, each in enumerate(values, start=1)
        }
        for sorted_values in found
    )
    in_order = sorted(outside.items(), key=lambda item: order[id(item[1])])
    return dict(in_order), inside


def _by_iteration(values: Iterable[Tensor]) -> set[int]:
    """Returns the ids of those of some values, and of their operands, that differ by iteration."""
    known: dict[int, bool] = {}
    for root in values:
        stack = [root]
        while stack:
            value = stack[-1]
            waiting = [each for each in value.operands if each.id not in known]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            is_leaf = isinstance(value.op, Bound)
            known[value.id] = is_leaf or any(known[each.id] for each in value.operands)
    return {number for number, is_by_iteration in known.items() if is_by_iteration}
