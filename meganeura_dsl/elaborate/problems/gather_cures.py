"""Cures of entries that ids pick: along an axis, or one entry of each row.

`gather(x, ids, axis=1)` takes all ids of every row. One entry of each row, as `x[arange(n), ids]`
takes it elsewhere, has the axes of the ids in common: `axis=k, batch=k` for ids of k axes.
"""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.origin_cures import main_operand
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax.problems.block_text import split_top

_CLASSES = frozenset(
    (
        *("y", "label", "labels", "target", "targets", "gold", "classes", "cls", "class_ids"),
        *("action", "actions", "act", "a", "tokens", "next_ids", "answers", "length", "lengths"),
        *("last", "end", "ends", "lens", "start", "starts", "start_positions", "end_positions"),
    )
)
"""Usual names of ids that are one for each row."""
_ROWS = re.compile(r"(?:iota|arange)\(")
"""The ids of all rows, as a subscript has them elsewhere."""
_SCORES = re.compile(r"\b(?:log_)?softmax\b|\blog_sigmoid\b|\blog\(")


def picked_by_ids(written: str, entries: Sequence[str], at: int, ids: Tensor, base: Tensor) -> Help:
    """Returns the `gather` for a subscript by ids, `written[entries]` with the ids at place `at`.

    It is one entry of each row, if the ids have the first axes of the tensor and stand behind them
    or count classes by their name; else the entries along the axis of the subscript.
    """
    rank = ids.type.rank
    rows = [each for each in entries if _ROWS.match(each)]
    at = entries.index(rows[-1]) + 1 if rows and entries[-1] not in rows else at
    entry = entries[at]
    is_one_each = ids.type.shape == base.type.shape[:rank] and 0 < rank < base.type.rank
    named = re.match(r"[A-Za-z_]\w*", entry)
    counts_classes = named is not None and named[0] in _CLASSES
    scored = _SCORES.search(written) is not None and rank == base.type.rank - 1
    if is_one_each and (at >= rank or counts_classes or scored):
        along = " and ".join(f"`{show(size)}`" for size in ids.type.shape)
        return Help(f"one entry for each of {along}", of_each_row(written, entry, rank))
    return Help("entries are gathered along an axis", f"gather({written}, {entry}, axis={at})")


def of_each_row(table: str, ids: str, rank: int) -> str:
    """Returns the call that takes one entry of each row, where the ids have `rank` axes."""
    one = f"insert_axis({ids}, {rank}, 1)"
    return f"gather({table}, {one}, axis={rank}, batch={rank})[{', '.join([*':' * rank, '0'])}]"


def _of_each_example(op: ops.Gather, table: Tensor, ids: Tensor, call: str) -> Help | None:
    """The `gather` along an axis behind those that the table and the ids have in common."""
    first = op.axis
    if op.batch or not first or table.type.shape[:first] != ids.type.shape[:first]:
        return None
    if not re.fullmatch(r"gather\(.+, axis=\d+\)", call):
        return None
    rows = " and ".join(f"`{show(size)}`" for size in ids.type.shape[:first])
    text = f"each row takes the ids of all rows here: for those of its own of {rows}"
    return Help(text, f"{call[:-1]}, batch={first})")


def one_of_each_row(value: Tensor) -> Help | None:
    """The `gather` of one entry of each row, where one of all rows was gathered for each.

    None unless as many entries were gathered as there are rows.
    """
    behind = False
    while not isinstance(value.op, ops.Gather):
        is_part = isinstance(value.op, ops.Slice | ops.Reshape)
        before = value.operands[0] if is_part else main_operand(value)
        if before is None or (not is_part and before.type.shape != value.type.shape):
            return None
        behind = behind or is_part
        value = before
    table, ids = value.operands
    span = value.origin.span
    if span is not None and ids.type.rank > 1:
        return _of_each_example(value.op, table, ids, " ".join(span.text.split()))
    is_all = (value.op.axis, value.op.batch) == (1, 0) and ids.type.rank == 1 and not behind
    if not is_all or table.type.shape[0] != ids.type.shape[0] or span is None:
        return None
    found = re.fullmatch(r"gather\((.+), (?:axis=)?(?:1|-1)\)", " ".join(span.text.split()))
    given = split_top(found[1]) if found else []
    if len(given) != 2 or table.type.rank != 2:
        return None
    rows = show(ids.type.shape[0])
    text = f"`gather` takes all {rows} entries of each row here: for one of each row"
    return Help(text, of_each_row(given[0], given[1], 1))
