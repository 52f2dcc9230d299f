"""Rules that make fused ops of primitives, as the standard library writes them.

Each rule names a fused op for a pattern of primitives. The primitives stay: where a part of them
is wanted elsewhere too, the cost decides.
"""

from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet, rank_word

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
            "logistic(x)",
            "(= e (Logistic x t))",
            '(Activation x "sigmoid" t)',
        ),
        Rewrite(
            "softplus",
            "log1p(exp(where(x <= 0, x, -x))) + relu(x)",
            '(sum e (Log1p p _) (Activation x "relu" t)) (= c (Compare x z "le" _)) (number z 0.0)'
            " (= p (Exp (Where c x (Neg x _) _) _))",
            '(Activation x "softplus" t)',
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


def _in_groups(rank: int) -> str:
    """A pattern: g is [n, groups, c / groups, ...] for s = [n, c, ...]; axes 1, 2 are channels."""
    rest = " ".join(f"(= (vec-get s {axis}) (vec-get g {axis + 1}))" for axis in range(2, rank))
    return (
        f"(= tg (T d g)) (= (vec-length s) {rank}) (= (vec-length g) {rank + 1})"
        f" (= (vec-get s 0) (vec-get g 0)) {rest}"
        " (= channels (vec-of (vec-get g 1) (vec-get g 2)))"
    )


def _grouped(rank: int) -> tuple[Rewrite, Rewrite]:
    """A group norm has its weight and bias along channels, which its groups cut in two axes."""
    return (
        Rewrite(
            f"scaled-group-norm-{rank}",
            "reshaped standardized x times a weight = (standardized x times it) reshaped",
            "(product e (Reshape (Standardize x a eps centre tg) s t) (Broadcast w s (vec-of 1) t))"
            f" {_in_groups(rank)}",
            "(Reshape (ScaledNorm x (Reshape w channels (T d channels)) a eps (vec-of 1 2) centre"
            " tg) s t)",
            given=(rank_word(rank), rank_word(rank + 1)),
        ),
        Rewrite(
            f"group-norm-{rank}",
            "reshaped norm plus a bias = (norm with this bias) reshaped",
            "(sum e (Reshape (ScaledNorm x w a eps (vec-of 1 2) true tg) s t)"
            f" (Broadcast b s (vec-of 1) t)) {_in_groups(rank)}",
            "(Reshape (Norm x w (Reshape b channels (T d channels)) a eps (vec-of 1 2) tg) s t)",
            given=(rank_word(rank), rank_word(rank + 1)),
        ),
    )


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
        *_grouped(3),
        *_grouped(4),
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
        Rewrite(
            "soft-cross-entropy",
            "sum(labels log_softmax(x)) = -soft_cross_entropy(x, labels)",
            "(= e (Sum y (vec-of axis) te)) (product y (LogSoftmax x axis t) labels)"
            " (= t (T _ s)) (= axis (- (vec-length s) 1))",
            "(Neg (SoftCrossEntropy x labels te) te)",
        ),
    ),
    ("(relation largest (Op Op i64))", "(relation shifted (Op Op i64))"),
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
            '(FusedMatMul_residual a b bias x l r "none" t)',
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
            '(FusedConv_residual x w bias y st p d g "none" t)',
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
                ("matmul-residual", "FusedMatMul_residual", "a b bias x l r"),
                ("conv", "FusedConv", "x w bias st p d g"),
                ("conv-residual", "FusedConv_residual", "x w bias y st p d g"),
            )
        ),
    ),
)
"""Not before differentiation: a gradient would compute the product again."""
