"""Two graphs that are one but for the names of their leaves."""

from meganeura_dsl.ir.graph import Graph, Leaf, Value


def first_difference(one: Graph, other: Graph) -> str | None:
    """The first place where two graphs differ by more than names; None where they do not.

    Outputs are compared in order, from the first operand on; a leaf stands for one leaf alone.
    """
    mine, its = [*one.outputs.values()], [*other.outputs.values()]
    if len(mine) != len(its):
        return f"{len(mine)} and {len(its)} outputs"
    pairs: dict[Value, Value] = {}
    stands_for: dict[Value, Value] = {}
    pending = list(zip(mine, its, strict=True))[::-1]
    while pending:
        left, right = pending.pop()
        if left in pairs or right in stands_for:
            if pairs.get(left) is not right or stands_for.get(right) is not left:
                return f"{left.op} is used where another value is"
            continue
        pairs[left], stands_for[right] = right, left
        is_leaf = isinstance(left.op, Leaf) and type(left.op) is type(right.op)
        is_same = is_leaf or left.op == right.op
        if not is_same or left.type != right.type or left.index != right.index:
            return f"{_shown(left)} and {_shown(right)}"
        if len(left.operands) != len(right.operands):
            return f"{left.op} of {len(left.operands)} and {len(right.operands)}"
        pending += list(zip(left.operands, right.operands, strict=True))[::-1]
    return None


def _shown(value: Value) -> str:
    op = type(value.op).__name__ if value.op.bodies else str(value.op)
    return f"{op} {value.type}"
