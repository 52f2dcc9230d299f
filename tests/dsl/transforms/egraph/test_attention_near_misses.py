"""Near misses of attention: of its scores, masks, shared heads and rotary positions."""

from collections.abc import Callable

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops import (
    Add,
    Broadcast,
    Compare,
    Concat,
    Cos,
    Iota,
    MatMul,
    Mul,
    Reshape,
    Sin,
    Slice,
    Sub,
    Where,
)
from meganeura_dsl.ir.ops.primitive.broadcast import others
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode
from tests.dsl.transforms.egraph.classes import examine
from tests.dsl.transforms.egraph.net import Net
from tests.folded import each_of

Make = Callable[[Net], Value]


def _attention_to_one_matrix(net: Net) -> Value:
    """All heads look at the same values [3, 3], which no attention op takes."""
    scores = net.scores(net.x(2, 3, 3), net.x(2, 3, 3), 0.5)
    return net.do(MatMul(), net.softmax(scores, 2), net.x(3, 3))


def _attention_to_keys_of_one_matrix(net: Net) -> Value:
    scores = net.scores(net.x(2, 3, 3), net.x(3, 3), 0.5)
    return net.do(MatMul(), net.softmax(scores, 2), net.x(2, 3, 3))


def _attention(fault: str) -> Make:
    def make(net: Net) -> Value:
        size, along = (2, (1, 2)) if fault == "oblong" else (3, (0, 2))
        q, k, v = (net.x(3, rows, 3) for rows in (3, size, size))
        scores = net.scores(q, k, 0.5)
        if fault == "fill":
            scores = net.causal(scores, fill=-1e9)
        if fault == "diagonal":
            scores = net.causal(scores, kind="ge")
        if fault == "window":
            scores = net.causal(scores, kind="difference", window=0)
        if fault in ("batches", "oblong"):
            square = (
                net.do(Broadcast((3, size), (axis,)), net.do(Iota(count)))
                for axis, count in ((1, size), (0, 3))
            )
            hidden = net.spread(net.do(Compare("gt"), *square), scores, *along)
            scores = net.do(Where(), hidden, net.full(-1e30, scores), scores)
        weights = net.softmax(scores, 1 if fault == "axis" else 2)
        return net.do(MatMul(transpose_right=fault == "values"), weights, v)

    return make


def _shared_heads(fault: str) -> Make:
    def make(net: Net) -> Value:
        q, k, v = net.x(4, 3, 3), net.x(2, 3, 3), net.x(2, 3, 3)
        if fault == "tiled":
            tiled = net.do(Broadcast((2, 2, 3, 3), (1, 2, 3)), k)
            k, v = net.do(Reshape((4, 3, 3)), tiled), net.repeated(v, 0, 2)
        else:
            k, v = net.x(4, 1, 3), net.x(4, 1, 3)
            k, v = (net.repeated(each, 1, 3) for each in (k, v))
        return net.do(MatMul(), net.softmax(net.scores(q, k, 0.5), 2), v)

    return make


def _shared_otherwise(k: tuple[int, ...], v: tuple[int, ...], *, masked: bool) -> Make:
    """Four heads of 3 keys and values of 3 numbers, made of copies along the axis before these."""

    def make(net: Net) -> Value:
        shape = (2, 4, 3, 3)[5 - len(k) :]
        kept = others((len(k) - 3,), len(k))
        q = net.x(*shape)
        keys, values = (
            net.do(Reshape(shape), net.do(Broadcast(each, kept), net.x(*(each[at] for at in kept))))
            for each in (k, v)
        )
        scores = net.scores(q, keys, 0.5)
        scores = net.do(Add(), scores, net.x(*shape)) if masked else scores
        return net.do(MatMul(), net.softmax(scores, len(shape) - 1), values)

    return make


def _with_another_axis(rank: int, *, of: str, masked: bool) -> Make:
    """Heads are repeated, and the copies, or what is made of them, have one axis more behind."""

    def make(net: Net) -> Value:
        whole = (1, 2, 4, 3, 3, 4)[4 - rank : 5 if of == "result" else 6]
        shape = (1, 2, 3, 3, 4)[4 - rank :] if of == "result" else (1, 32, 3, 3)[4 - rank :]
        kept = tuple(axis for axis in range(rank + 1) if axis != rank - 2)
        heads = tuple(whole[axis] for axis in kept)
        # The rule is looked for where a tensor has the rank of the copies that it asks for.
        keys, values = (
            net.do(Reshape(shape), net.do(Broadcast(whole, kept), net.do(Reshape(heads), x)))
            for x in (net.x(1, *heads), net.x(1, *heads))
        )
        scores = net.scores(net.x(*shape), keys, 0.5)
        scores = net.do(Add(), scores, net.x(*shape[:-1], shape[-2])) if masked else scores
        return net.do(MatMul(), net.softmax(scores, len(shape) - 1), values)

    return make


SHARED_OTHERWISE: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2, 2, 3, 3), (1, 4, 3, 3)),
    ((1, 4, 3, 3), (2, 2, 3, 3)),
    ((2, 2, 3, 3), (1, 2, 6, 3)),
    ((2, 2, 3, 3), (1, 2, 3, 6)),
    ((1, 2, 6, 3), (2, 2, 3, 3)),
    ((1, 2, 3, 6), (2, 2, 3, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 4, 3, 3)),
    ((2, 2, 2, 3, 3), (1, 4, 2, 3, 3)),
    ((1, 4, 2, 3, 3), (2, 2, 2, 3, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 2, 6, 3)),
    ((2, 2, 2, 3, 3), (2, 1, 2, 3, 6)),
    ((2, 1, 2, 6, 3), (2, 2, 2, 3, 3)),
    ((2, 1, 2, 3, 6), (2, 2, 2, 3, 3)),
)
"""Copies of keys and of values: not as many, of other heads, rows, columns or batches."""


def _rotated(fault: str) -> Make:
    def make(net: Net) -> Value:
        x, angle = net.x(2, 3, 4), net.x(3, 2)
        left, right = net.halves(x)
        if fault == "halves":
            left, right = right, left
        if fault == "another":
            right = net.halves(net.x(2, 3, 4))[1]
        if fault == "strided":
            left, right = (net.do(Slice((0, 0, i), (2, 3, 3 + i), (1, 1, 2)), x) for i in (0, 1))
        if fault == "thirds":
            x = net.x(2, 3, 6)
            left, right = net.halves(x, 2)[0], net.halves(x, 4)[1]
        y = net.rotated(x, left, right, angle)
        return net.do(Concat(2), *y.operands, left) if fault == "three parts" else y

    return make


def _rotated_by_an_angle_of_each_image(net: Net) -> Value:
    x, angle = net.x(3, 3, 4), net.x(3, 2)
    left, right = net.halves(x)
    c, s = (net.spread(net.do(op, angle), left, 0, 2) for op in (Cos(), Sin()))
    one = net.do(Sub(), net.do(Mul(), left, c), net.do(Mul(), right, s))
    return net.do(Concat(2), one, net.do(Add(), net.do(Mul(), right, c), net.do(Mul(), left, s)))


NEAR_MISSES: tuple[tuple[str, Mode, Make], ...] = (
    ("attention", "train", _attention_to_one_matrix),
    ("attention", "train", _attention_to_keys_of_one_matrix),
    *(
        ("attention", "train", _attention(fault))
        for fault in ("fill", "diagonal", "window", "axis", "values", "batches", "oblong")
    ),
    *(("shared-heads-3", "train", _shared_heads(fault)) for fault in ("tiled", "rows")),
    *(
        (f"{prefix}shared-heads-{rank}", "train", _with_another_axis(rank, of=of, masked=masked))
        for masked, prefix in ((False, ""), (True, "masked-"))
        for rank in (3, 4)
        for of in ("result", "copies")
    ),
    *(
        (f"{prefix}shared-heads-{len(k) - 1}", "train", _shared_otherwise(k, v, masked=masked))
        for k, v in SHARED_OTHERWISE
        for masked, prefix in ((False, ""), (True, "masked-"))
    ),
    *(
        ("rotate", "train", _rotated(fault))
        for fault in ("halves", "another", "strided", "thirds", "three parts")
    ),
    ("rotate", "train", _rotated_by_an_angle_of_each_image),
)


@each_of(("rule", "mode", "make"), NEAR_MISSES)
def test_a_near_miss_is_left_alone(rule: str, mode: Mode, make: Make) -> None:
    net = Net()
    explored, _ = examine(net.graph(make(net)), mode)
    assert explored.matches[rule] == 0
