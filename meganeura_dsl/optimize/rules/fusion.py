"""What the second tier's ops are made of, as the standard library writes it.

Each rule names a fused op for a pattern of primitives. The primitives stay: where a part of them
is wanted elsewhere too, the cost decides.
"""

from meganeura_dsl.optimize.rules.rule import Fact, Rewrite, RuleSet

_HALF, _ONE = "(number h 0.5)", "(number one 1.0)"

ACTIVATIONS = RuleSet(
    "activations",
    (
        Rewrite(
            "relu",
            "where(x <= 0, 0, x)",
            '(= e (Where (Compare x z "le" _) z x t)) (number z 0.0) (= t (T "f32" _))',
            '(Activation x "relu" t)',
        ),
        Rewrite(
            "sigmoid",
            "0.5 (1 + tanh(0.5 x))",
            f"(product e h s) {_HALF} (sum s one (Tanh i _)) {_ONE} (product i h x) (= t (type x))",
            '(Activation x "sigmoid" t)',
        ),
        Rewrite(
            "silu",
            "x sigmoid(x)",
            '(product e x (Activation x "sigmoid" t))',
            '(Activation x "silu" t)',
        ),
        Rewrite(
            "gelu",
            "0.5 x (1 + erf(x / sqrt(2)))",
            f"(product e a s) (product a h x) {_HALF} (sum s one (Erf i _)) {_ONE}"
            " (product i x r) (number r 0.7071067811865476) (= t (type x))",
            '(Activation x "gelu" t)',
        ),
        Rewrite(
            "gelu-tanh",
            "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))",
            f"(product e a s) (product a h x) {_HALF} (sum s one (Tanh i _)) {_ONE}"
            " (product i r j) (number r 0.7978845608028654) (sum j x k) (product k u cube)"
            " (number u 0.044715) (product cube x (Mul x x _)) (= t (type x))",
            '(Activation x "gelu_tanh" t)',
        ),
        Rewrite(
            "swiglu",
            "silu(g) u",
            '(product e (Activation g "silu" t) u)',
            "(SwiGLU g u t)",
        ),
    ),
)

_MEAN = "(= {m} (Div (Sum {x} a ts) n ts)) (number n v) (copies s kept a v)"
_SPREAD = "(Broadcast {x} s kept t)"


def _mean(name: str, of: str) -> str:
    return _MEAN.format(m=name, x=of)


def _spread(of: str) -> str:
    return _SPREAD.format(x=of)


NORMS = RuleSet(
    "norms",
    (
        Fact(
            "centred",
            "c = x - mean(x)",
            f"(= c (Sub x {_spread('m')} t)) {_mean('m', 'x')}",
            "(centred c x a kept s)",
        ),
        Rewrite(
            "variance",
            "mean((x - mean(x))**2)",
            f"(centred c x a kept s) {_mean('e', '(Mul c c t)')}",
            "(Variance x a ts)",
        ),
        Rewrite(
            "standardize",
            "(x - mean(x)) / sqrt(var(x) + eps)",
            f"(= e (Div c {_spread('(Sqrt y ty)')} t)) (centred c x a kept s)"
            " (sum y (Variance x a _) z) (number z eps)",
            "(Standardize x a eps true t)",
        ),
        Rewrite(
            "standardize-centreless",
            "x / sqrt(mean(x**2) + eps)",
            f"(= e (Div x {_spread('(Sqrt y ty)')} t)) (sum y q z) (number z eps)"
            f" {_mean('q', '(Mul x x t)')}",
            "(Standardize x a eps false t)",
        ),
        # A group norm has its statistics in the shape [n, groups, ...] and its data in [n, c, ...].
        Rewrite(
            "sub-in-groups",
            "x - reshaped m = (reshaped x - m) reshaped, where x is reshaped so anyway",
            "(= e (Sub x (Reshape m whole t) t)) (= m (Broadcast _ s _ tm)) (= r (Reshape x s tm))",
            "(Reshape (Sub r m tm) whole t)",
        ),
        Rewrite(
            "div-in-groups",
            "reshaped x / reshaped q = (x / q) reshaped",
            "(= e (Div (Reshape x s t) (Reshape q s t) t)) (= q (Broadcast _ _ _ tq))"
            " (= tq (type x))",
            "(Reshape (Div x q tq) s t)",
        ),
        Rewrite(
            "scaled-norm",
            "standardized x times a weight",
            "(product e (Standardize x a eps centre t) (Broadcast w _ along _))",
            "(ScaledNorm x w a eps along centre t)",
        ),
        Rewrite(
            "scaled-norm-of-quotient",
            "(x - mean(x)) (weight / sqrt(var(x) + eps))",
            "(product e c (Broadcast q s kept t)) (= q (Div w (Sqrt y ty) ty))"
            " (centred c x a kept s) (sum y (Variance x a _) z) (number z eps)",
            "(ScaledNorm x w a eps kept true t)",
        ),
        Rewrite(
            "norm",
            "standardized x times a weight, plus a bias",
            "(sum e (ScaledNorm x w a eps along true t) (Broadcast b _ along _))",
            "(Norm x w b a eps along t)",
        ),
    ),
    ("(relation centred (Op Op Ints Ints Ints))",),
)


SOFTMAX = RuleSet(
    "softmax",
    (
        Fact(
            "largest",
            "m = max(x)",
            "(= m (ReduceMax x a _)) (= (vec-length a) 1)",
            "(largest m x (vec-get a 0))",
        ),
        Fact(
            "largest-held",
            "m = stop_gradient(max(x))",
            "(= m (StopGradient (ReduceMax x a _) _)) (= (vec-length a) 1)",
            "(largest m x (vec-get a 0))",
        ),
        Fact(
            "shifted",
            "y = x - max(x)",
            "(= y (Sub x (Broadcast m s kept t) t)) (largest m x axis)"
            " (copies s kept (vec-of axis) _)",
            "(shifted y x axis)",
        ),
        Rewrite(
            "softmax",
            "exp(x - max(x)) / sum(exp(x - max(x)))",
            "(= e (Div p (Broadcast (Sum p a _) s kept t) t)) (= p (Exp y t)) (shifted y x axis)"
            " (= a (vec-of axis)) (copies s kept a _)",
            "(Softmax x axis t)",
        ),
        Rewrite(
            "log-softmax",
            "x - max(x) - log(sum(exp(x - max(x))))",
            "(= e (Sub y (Broadcast (Log (Sum (Exp y t) a _) _) s kept t) t)) (shifted y x axis)"
            " (= a (vec-of axis)) (copies s kept a _)",
            "(LogSoftmax x axis t)",
        ),
        Rewrite(
            "cross-entropy",
            "sum(where(label == class, log_softmax(x), 0)) = -cross_entropy(x, label)",
            '(= e (Sum (Where (Compare i j "eq" _) (LogSoftmax x axis t) z t) (vec-of axis) te))'
            " (number z 0.0) (= i (Broadcast labels s kept _)) (copies s kept (vec-of axis) _)"
            " (= j (Broadcast (Iota _ _) s (vec-of axis) _)) (= axis (- (vec-length s) 1))",
            "(Neg (CrossEntropy x labels te) te)",
        ),
    ),
    ("(relation largest (Op Op i64))", "(relation shifted (Op Op i64))"),
)

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
            "(= e (Concat (vec-of a b) axis t)) (= a (Sub lc rs _)) (sum b rc ls) (halves x l h)"
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
        f"({op} q k v{mask} scale causal window 1 t)",
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
    count = f"(= count (vec-get pk {heads + 1})) (= count (vec-get pv {heads + 1}))"
    return Rewrite(
        f"{name}-{rank}",
        "attention with repeated keys and values, whose heads are shared instead",
        f"(= e ({op} q (Reshape k5 sk _) (Reshape v5 sv _){mask} scale causal window 1 t))"
        f" (= k5 (Broadcast k pk {kept} _)) (= v5 (Broadcast v pv {kept} _)) {count} {same}",
        f"({op} q k v{mask} scale causal window count t)",
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
            "MaskedAttention",
            "softmax(scale q k^T + mask) v",
            "masked",
            " mask",
        ),
        *(_shared_heads("shared-heads", "Attention", "", rank) for rank in (3, 4)),
        *(
            _shared_heads("masked-shared-heads", "MaskedAttention", " mask", rank)
            for rank in (3, 4)
        ),
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

EPILOGUES = RuleSet(
    "epilogues",
    (
        Rewrite(
            "matmul-bias",
            "a b + bias",
            "(sum e (MatMul a b l r t) (Broadcast bias s last t)) (= (vec-length last) 1)"
            " (= (vec-get last 0) (- (vec-length s) 1))",
            '(FusedMatMul a b bias l r "none" t)',
        ),
        Rewrite(
            "matmul-residual",
            "a b + bias + residual",
            '(sum e (FusedMatMul a b bias l r "none" t) x)',
            '(FusedMatMulAdd a b bias x l r "none" t)',
        ),
        Rewrite(
            "conv-bias",
            "conv(x, w) + bias",
            "(sum e (Conv x w st p d g t) (Broadcast bias _ (vec-of 1) t))",
            '(FusedConv x w bias st p d g "none" t)',
        ),
        Rewrite(
            "conv-residual",
            "conv(x, w) + bias + residual",
            '(sum e (FusedConv x w bias st p d g "none" t) y)',
            '(FusedConvAdd x w bias y st p d g "none" t)',
        ),
        *(
            Rewrite(
                f"{name}-activation",
                "an activation of a product",
                f'(= e (Activation ({op} {operands} "none" t) kind t))',
                f"({op} {operands} kind t)",
            )
            for name, op, operands in (
                ("matmul", "FusedMatMul", "a b bias l r"),
                ("matmul-residual", "FusedMatMulAdd", "a b bias x l r"),
                ("conv", "FusedConv", "x w bias st p d g"),
                ("conv-residual", "FusedConvAdd", "x w bias y st p d g"),
            )
        ),
    ),
)
"""Not before differentiation: a gradient would compute the product again."""
