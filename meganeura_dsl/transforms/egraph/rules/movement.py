"""Elements that change their place: pairs that undo each other, and moves that a product absorbs.

egglog has no loops over a vector, so what composes permutations is written once for each rank.
"""

from itertools import product, starmap

from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.primitive.elementwise import Binary, StopGradient, Unary
from meganeura_dsl.transforms.egraph.rules.algebra import full
from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet, rank_word

RANKS = range(1, 6)


def _vector(items: list[str]) -> str:
    return f"(vec-of {' '.join(items)})" if items else "(vec-empty)"


def _same(name: str, pattern: str) -> Rewrite:
    return Rewrite(f"{name}-same", "a move that changes nothing", f"{pattern} (= t (type x))", "x")


def _transpose_nothing(rank: int) -> Rewrite:
    axes = _vector([str(axis) for axis in range(rank)])
    return Rewrite(
        f"transpose-nothing-{rank}",
        "x^(0 1 ...) = x",
        f"(= e (Transpose x {axes} _))",
        "x",
        given=(rank_word(rank, "Transpose"),),
    )


def _transpose_twice(rank: int) -> Rewrite:
    axes = [f"(vec-get p (vec-get q {axis}))" for axis in range(rank)]
    return Rewrite(
        f"transpose-twice-{rank}",
        "(x^p)^q = x^(p q)",
        f"(= e (Transpose (Transpose x p _) q t)) (= (vec-length p) {rank})",
        f"(Transpose x {_vector(axes)} t)",
        given=(rank_word(rank, "Transpose"),),
    )


def _spread_twice(rank: int) -> Rewrite:
    axes = [f"(vec-get q (vec-get p {axis}))" for axis in range(rank)]
    return Rewrite(
        f"spread-twice-{rank}",
        "a copy of copies is a copy",
        f"(= e (Broadcast (Broadcast x _ p _) s q t)) (= (vec-length p) {rank})",
        f"(Broadcast x s {_vector(axes)} t)",
        given=(rank_word(rank),),
    )


MOVES = RuleSet(
    "moves",
    (
        _same("reshape", "(= e (Reshape x _ t))"),
        _same("spread", "(= e (Broadcast x _ _ t))"),
        _same("slice", "(= e (Slice x _ _ _ t))"),
        _same("pad", "(= e (Pad x _ _ _ t))"),
        _same("sum", "(= e (Sum x _ t))"),
        Rewrite(
            "concat-one",
            "one part is the whole",
            "(= e (Concat xs _ t)) (= (vec-length xs) 1) (= x (vec-get xs 0))",
            "x",
        ),
        Rewrite("reverse-twice", "back and forth", "(= e (Reverse (Reverse x a _) a _))", "x"),
        Rewrite(
            "reshape-twice",
            "only the last shape counts",
            "(= e (Reshape (Reshape x _ _) s t))",
            "(Reshape x s t)",
        ),
        *map(_transpose_nothing, RANKS),
        *map(_transpose_twice, RANKS),
        *map(_spread_twice, range(5)),
    ),
)


PRODUCTS = RuleSet(
    "products",
    (
        Rewrite(
            "matmul-right",
            "a (b^T) reads b as it is",
            "(= e (MatMul a (Transpose b p _) l r t)) (swap p _)",
            "(MatMul a b l (not r) t)",
        ),
        Rewrite(
            "matmul-left",
            "(a^T) b reads a as it is, if a and b have one rank",
            "(= e (MatMul (Transpose a p _) b l r t)) (swap p rank)"
            " (= (type b) (T d s)) (= (vec-length s) rank)",
            "(MatMul a b (not l) r t)",
        ),
        Rewrite(
            "matmul-transposed",
            "(a b)^T = b^T a^T, if a and b have one rank",
            "(= e (Transpose (MatMul a b l r _) p t)) (swap p rank)"
            " (= (type b) (T d s)) (= (vec-length s) rank)",
            "(MatMul b a (not r) (not l) t)",
        ),
        Rewrite(
            "matmul-rows",
            "(a b)[i:j] = a[i:j] b, if b is one matrix",
            "(= e (Slice (MatMul a b false r (T _ sp)) start stop ones t)) (= t (T _ st))"
            " (= (type b) (T _ sb)) (= (vec-length sb) 2) (= (type a) (T d sa))"
            " (= rank (vec-length sa)) (corner rank _ ones) (= last (- rank 1))"
            " (= (vec-get start last) 0) (= (vec-get stop last) (vec-get sp last))"
            " (= terms (vec-get sa last))",
            "(MatMul (Slice a start (vec-set stop last terms) ones (T d (vec-set st last terms)))"
            " b false r t)",
        ),
    ),
    # What swaps the last two of so many axes.
    ("(relation swap (Ints i64))",),
)


def _unary_of_copies(op: str) -> Rewrite:
    return Rewrite(
        f"copies-{op}",
        "f(copies of x) = copies of f(x)",
        f"(= e ({op} y t)) (copied y x s a tx)",
        f"(Broadcast ({op} x tx) s a t)",
    )


def _binary_of_copies(op: str) -> Rewrite:
    return Rewrite(
        f"copies-{op}",
        "f(copies of x, copies of y) = copies of f(x, y)",
        f"(= e ({op} y z t)) (copied y x s a tx) (copied z w s a tx)",
        f"(Broadcast ({op} x w tx) s a t)",
    )


def _number_of_copies(op: str, position: str) -> Rewrite:
    value = full("v", "d", "tx", "sx")
    pair = "c y" if position == "first" else "y c"
    built = f"{value} x" if position == "first" else f"x {value}"
    return Rewrite(
        f"copies-{op}-{position}",
        "f(v, copies of x) = copies of f(v, x)",
        f"(= e ({op} {pair} t)) (number c v) (copied y x s a tx) (= tx (T d sx))"
        " (!= sx (vec-empty))",
        f"(Broadcast ({op} {built} tx) s a t)",
    )


_UNARY = tuple(op.__name__ for op in OPS if issubclass(op, Unary) and op is not StopGradient)
_BINARY = tuple(op.__name__ for op in OPS if issubclass(op, Binary))

COPIES = RuleSet(
    "copies",
    (
        Fact("copied", "", "(= y (Broadcast x s a _)) (= tx (type x))", "(copied y x s a tx)"),
        *map(_unary_of_copies, _UNARY),
        *map(_binary_of_copies, _BINARY),
        *starmap(_number_of_copies, product(("Add", "Sub", "Mul", "Div"), ("first", "second"))),
    ),
    # What is spread to a shape, with its axes at some; and its type.
    ("(relation copied (Op Op Ints Ints Type))",),
)
"""Work on copies is done once, before they are made."""
