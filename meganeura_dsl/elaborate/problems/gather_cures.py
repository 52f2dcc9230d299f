"""Cures of entries that ids pick: along an axis, or one entry of each row.

`gather(x, ids, axis=1)` takes all ids of every row. One entry of each row, as `x[arange(n), ids]`
takes it elsewhere, has the axes of the ids in common: `axis=k, batch=k` for ids of k axes.
"""

import re
from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.origin_cures import main_operand
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import show
from meganeura_dsl.syntax.problems.block_text import block_before, split_top

_ROWS = re.compile(r"(?:iota|arange)\(")
"""The ids of all rows, as a subscript has them elsewhere."""


def picked_by_ids(
    span: Span, written: str, entries: Sequence[str], at: int, ids: Tensor, base: Tensor
) -> Help:
    """Returns the `gather` for a subscript by ids, `written[entries]` with the ids at place `at`.

    It is one entry of each row, if the ids have the first axes of the tensor and stand behind them,
    and the entries along the axis of the subscript, if they cannot be. Between these, the rank that
    the block declares decides where the subscript is what it returns; where it does not, a vector
    of scores for each row is one entry of each, and the other reading is shown as well.
    """
    rank = ids.type.rank
    rows = [each for each in entries if _ROWS.match(each)]
    at = entries.index(rows[-1]) + 1 if rows and entries[-1] not in rows else at
    entry = entries[at]
    is_one_each = ids.type.shape == base.type.shape[:rank] and 0 < rank < base.type.rank
    moved = f"gather({written}, {entry}, axis={at})"
    if not is_one_each:
        return Help("entries are gathered along an axis", moved)
    along = " and ".join(f"`{show(size)}`" for size in ids.type.shape)
    of_each = Help(f"one entry for each of {along}", of_each_row(written, entry, rank))
    declared = _declared_rank(span)
    if at >= rank or declared == base.type.rank - 1:
        return of_each
    if declared == base.type.rank:
        return Help("entries are gathered along an axis", moved)
    if rank == base.type.rank - 1:
        return Help(f"{of_each.text}; to move whole entries it is `{moved}`", of_each.code)
    words = f"entries are gathered along an axis; one for each of {along} is\n`{of_each.code}`"
    return Help(words, moved)


def _declared_rank(span: Span) -> int | None:
    """The number of axes that a block declares of what it returns, if that is the code at a place.

    None for a block of several results.
    """
    text = span.source.text
    if not re.search(r"\n *return $", text[: span.start]) or text[span.end : span.end + 1] != "\n":
        return None
    header = block_before(text[: span.start]).partition(":\n")[0].partition("->")[2]
    results = re.findall(r"\[([^\]]*)\]", header.partition("where")[0])
    return len(split_top(results[0])) if len(results) == 1 and results[0] else None


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
    text = f"here each row is paired with the ids of every row: gather in batches over {rows}"
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
