"""Attention and rotary positions, as the standard library writes them, as one op each."""

from meganeura_dsl.transforms.egraph.rules.rule import STACKED, Fact, Rewrite, RuleSet, rank_word

ROTATIONS = RuleSet(
    "rotations",
    (
        Fact(
            "halves",
            "the first and the second half of the last axis",
            "(= l (Slice x zeros middle ones _)) (= h (Slice x from s ones _)) (= (type x) (T _ s))"
            " (= r (vec-length s)) (corner r zeros ones) (= axis (- r 1)) (= d (vec-get s axis))"
            " (= half (/ d 2)) (= d (* 2 half))"
            " (= middle (vec-set s axis half)) (= from (vec-set zeros axis half))",
            "(halves x l h)",
        ),
        Rewrite(
            "rotate",
            "[left cos - right sin, right cos + left sin]",
            "(= e (Concat parts axis t)) (= (vec-length parts) 2) (= a (vec-get parts 0))"
            " (= b (vec-get parts 1)) (= a (Sub lc rs _)) (sum b rc ls) (halves x l h)"
            " (product lc l c) (product rs h s) (product rc h c) (product ls l s)"
            " (= c (Broadcast cosine sh last _)) (= s (Broadcast sine sh last _))"
            " (= r (vec-length sh)) (= axis (- r 1)) (= last (vec-of (- r 2) (- r 1)))",
            "(Rotate x cosine sine t)",
        ),
    ),
    ("(relation halves (Op Op Op))",),
)

_LAST_TWO = "(= t (T _ s)) (= r (vec-length s)) (= last (vec-of (- r 2) (- r 1)))"
_OF_SCORES = "(= ti (T _ s)) (= axis (- (vec-length s) 1))"


def _index(name: str, axis: int) -> str:
    """A position's row or column, in a square of positions."""
    return f"(= {name} (Broadcast (Iota n _) _ (vec-of {axis}) _))"


_ROWS, _COLUMNS = _index("rows", 0), _index("columns", 1)


def _hidden_scores(table: str, operands: str) -> Fact:
    return Fact(
        f"{table}-causal",
        "where(hidden, -1e30, scores)",
        "(= e (Where (Broadcast m _ last _) z i t)) (hides m window) (number z -1e30)"
        f" ({table} i {operands} scale false 0) {_LAST_TWO}",
        f"({table} e {operands} scale true window)",
    )


def _attention(name: str, op: str, formula: str, table: str, mask: str) -> Rewrite:
    return Rewrite(
        name,
        formula,
        "(= e (MatMul (Softmax i axis ti) v false false t))"
        f" ({table} i q k{mask} scale causal window) {_OF_SCORES}"
        " (= (type v) (T _ sv)) (= (vec-length sv) (vec-length s))",
        f"({op} q k v{mask} scale causal window 1 0 t)",
    )


def _shared_heads(name: str, op: str, mask: str, rank: int) -> Rewrite:
    """Keys [..., heads, t, d], each head of which was repeated `count` times in a row."""
    heads = rank - 3
    kept = f"(vec-of {' '.join(str(axis) for axis in range(rank + 1) if axis != heads + 1)})"
    same = " ".join(
        f"(= (vec-get {whole} {axis}) (vec-get {parts} {axis + (axis > heads)}))"
        for whole, parts in (("sk", "pk"), ("sv", "pv"))
        for axis in range(rank)
        if axis != heads
    )
    ranks = " ".join(
        f"(= (vec-length {shape}) {length})"
        for shape, length in (("sk", rank), ("sv", rank), ("pk", rank + 1), ("pv", rank + 1))
    )
    count = f"(= count (vec-get pk {heads + 1})) (= count (vec-get pv {heads + 1}))"
    return Rewrite(
        f"{name}-{rank}",
        "attention with repeated keys and values, whose heads are shared instead",
        f"(= e ({op} q (Reshape k5 sk _) (Reshape v5 sv _){mask} scale causal window 1 result t))"
        f" (= k5 (Broadcast k pk {kept} _)) (= v5 (Broadcast v pv {kept} _)) {ranks} {count}"
        f" {same}",
        f"({op} q k v{mask} scale causal window count result t)",
        given=(rank_word(rank), rank_word(rank + 1)),
    )


ATTENTION = RuleSet(
    "attention",
    (
        Fact(
            "scores",
            "scale q k^T",
            "(product e y c) (= y (MatMul q k false true _)) (number c scale)"
            " (= (type q) (T _ sq)) (= (type k) (T _ sk)) (= (vec-length sq) (vec-length sk))"
            " (> (vec-length sq) 2)",
            "(scores e q k scale false 0)",
            given=(STACKED,),
        ),
        Fact(
            "masked-scores",
            "scale q k^T + mask",
            "(sum e i mask) (scores i q k scale false 0)",
            "(masked e q k mask scale false 0)",
        ),
        Fact(
            "ahead",
            "column > row",
            f'(= m (Compare columns rows "gt" _)) {_COLUMNS} {_ROWS}',
            "(ahead m) (hides m 0)",
        ),
        Fact(
            "ahead-by-difference",
            "row - column < 0",
            f'(= m (Compare (Sub rows columns _) z "lt" _)) (number z 0.0) {_COLUMNS} {_ROWS}',
            "(ahead m) (hides m 0)",
        ),
        Fact(
            "behind",
            "row - column >= window",
            f'(= m (Compare (Sub rows columns _) z "ge" _)) (number z v) {_COLUMNS} {_ROWS}'
            " (> v 0.0) (= window (to-i64 v))",
            "(behind m window)",
        ),
        Fact(
            "ahead-or-behind",
            "column > row or row - column >= window",
            '(= m (Where a (Broadcast (Constant 1.0 "bool" _) _ _ _) b _)) (ahead a)'
            " (behind b window)",
            "(hides m window)",
        ),
        Fact(
            "behind-or-ahead",
            "row - column >= window or column > row",
            '(= m (Where b (Broadcast (Constant 1.0 "bool" _) _ _ _) a _)) (ahead a)'
            " (behind b window)",
            "(hides m window)",
        ),
        _hidden_scores("scores", "q k"),
        _hidden_scores("masked", "q k mask"),
        _attention("attention", "Attention", "softmax(scale q k^T) v", "scores", ""),
        _attention(
            "masked-attention",
            "Attention_mask",
            "softmax(scale q k^T + mask) v",
            "masked",
            " mask",
        ),
        *(_shared_heads("shared-heads", "Attention", "", rank) for rank in (3, 4)),
        *(_shared_heads("masked-shared-heads", "Attention_mask", " mask", rank) for rank in (3, 4)),
    ),
    (
        "(relation ahead (Op))",
        "(relation behind (Op i64))",
        # Positions ahead are hidden, and those behind by `window` or more if that is not 0.
        "(relation hides (Op i64))",
        "(relation scores (Op Op Op f64 bool i64))",
        "(relation masked (Op Op Op Op f64 bool i64))",
    ),
)
