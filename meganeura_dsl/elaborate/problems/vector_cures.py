"""Cures of vectors and tables that meet along other axes: all pairs, or the rows that are used."""

import re
from collections.abc import Mapping, Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.shape_cures import Side
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Compare, Facts, show_condition
from meganeura_dsl.symbolic.size import Size, show

_FIRST = re.compile(r"(?P<table>\w+)\[:(?P<stop>[^\[\],:]+)\]")


def pairs_cure(
    pair: tuple[Tensor, Tensor],
    sides: tuple[Side, Side],
    operator: str,
    axes: Mapping[str, Sequence[str]],
) -> Help | None:
    """Positions and a vector, each repeated along the axis of the other: one value for each pair.

    The axes stand in the order that they have in an input, by the `axes` of the inputs; else the
    vector's comes first, as it is of examples. None unless one side counts from 0.
    """
    if any(each.type.rank != 1 for each in pair):
        return None
    counted = [isinstance(each.op, ops.Iota) for each in pair]
    if counted.count(True) != 1 and not all(counted):
        return None
    names = [side.axes[0] for side in sides]
    order = names[::-1] if counted[0] else names
    for given in axes.values():
        if set(names) <= set(given):
            order = sorted(names, key=list(given).index)
    repeated = [side.moved("expand", order) for side in sides]
    if repeated[0] is None or repeated[1] is None:
        return None
    text = f"for each pair of `{order[0]}` and `{order[1]}`, repeat both"
    return Help(text, f"{repeated[0]} {operator} {repeated[1]}")


def first_rows(
    written: str, names: Mapping[str, ElabValue], wanted: Size, facts: Facts
) -> Help | None:
    """As many rows of a table as meet the other side, for the first ones up to another number.

    `written` is the side, as `table[:limit]`.
    """
    found = _FIRST.fullmatch(written)
    table = names.get(found["table"], "") if found else ""
    if found is None or not is_tensor(table) or not table.type.rank:
        return None
    fits = Compare("<=", wanted, table.type.shape[0])
    text = f"it meets {show(wanted)} rows: take as many"
    if not facts.proves(fits):
        text += f", with `where {show_condition(fits)}`"
    return Help(text, f"{found['table']}[:{show(wanted)}]")
