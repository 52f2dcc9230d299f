"""Identities of numbers that hold whatever the operands are, but for the sign of a zero.

`x * 0 = 0` is not among them: it is false for infinities and NaN. Folding is done in double
precision, and only for f32, whose numbers double precision holds exactly.
"""

from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet


def full(value: str, dtype: str, of: str, shape: str) -> str:
    """The term of a tensor with one number everywhere."""
    scalar = f"(Constant {value} {dtype} (T {dtype} (vec-empty)))"
    return f"(Broadcast {scalar} {shape} (vec-empty) {of})"


VIEWS = RuleSet(
    "views",
    (
        # Commutativity costs no node: both orders are facts about the class.
        Fact("sum", "a + b = b + a", "(= e (Add a b t))", "(sum e a b) (sum e b a)"),
        Fact("product", "a * b = b * a", "(= e (Mul a b t))", "(product e a b) (product e b a)"),
        Fact("number", "e = v", '(= e (Constant v d t)) (!= d "bool")', "(number e v)"),
        Fact("number-spread", "", "(= e (Broadcast x s a t)) (number x v)", "(number e v)"),
        Fact("number-reshaped", "", "(= e (Reshape x s t)) (number x v)", "(number e v)"),
    ),
    (
        "(relation sum (Op Op Op))",
        "(relation product (Op Op Op))",
        "(relation number (Op f64))",
    ),
)

_FLOAT = '(= t (T "f32" s))'


def _fold(name: str, formula: str, when: str, value: str) -> Fact:
    # A zero is left alone, as its sign would be lost.
    condition = f"(= v {value}) (!= v 0.0)"
    return Fact(f"fold-{name}", formula, f"{when} {_FLOAT} {condition}", "(number e v)")


def _binary(op: str) -> str:
    return f"(= e ({op} a b t)) (number a x) (number b y)"


FOLDING = RuleSet(
    "folding",
    (
        _fold("add", "x + y is a number", _binary("Add"), "(+ x y)"),
        _fold("sub", "x - y is a number", _binary("Sub"), "(- x y)"),
        _fold("mul", "x * y is a number", _binary("Mul"), "(* x y)"),
        _fold("div", "x / y is a number", f"{_binary('Div')} (!= y 0.0)", "(/ x y)"),
        _fold("neg", "-x is a number", "(= e (Neg a t)) (number a x)", "(- 0.0 x)"),
        Rewrite(
            "fold-scalar",
            "e = v",
            '(number e v) (= t (type e)) (= t (T "f32" (vec-empty)))',
            '(Constant v "f32" t)',
        ),
        Rewrite(
            "fold-tensor",
            "e = v everywhere",
            '(number e v) (= t (type e)) (= t (T "f32" s)) (!= s (vec-empty))',
            full("v", '"f32"', "t", "s"),
        ),
    ),
)

IDENTITIES = RuleSet(
    "identities",
    (
        Rewrite("add-zero", "x + 0 = x", "(sum e x z) (number z 0.0)", "x"),
        Rewrite("sub-zero", "x - 0 = x", "(= e (Sub x z t)) (number z 0.0)", "x"),
        Rewrite(
            "zero-sub", "0 - x = -x", f"(= e (Sub z x t)) (number z 0.0) {_FLOAT}", "(Neg x t)"
        ),
        Rewrite("mul-one", "1 x = x", "(product e x z) (number z 1.0)", "x"),
        Rewrite("div-one", "x / 1 = x", "(= e (Div x z t)) (number z 1.0)", "x"),
        Rewrite(
            "mul-minus-one",
            "-1 x = -x",
            f"(product e x z) (number z -1.0) (= t (type e)) {_FLOAT}",
            "(Neg x t)",
        ),
        Rewrite("double-negation", "-(-x) = x", "(= e (Neg (Neg x _) _))", "x"),
        Rewrite("neg-sub", "-(a - b) = b - a", "(= e (Neg (Sub a b _) t))", "(Sub b a t)"),
        Rewrite(
            "add-neg",
            "x + (-y) = x - y",
            "(sum e x (Neg y _)) (= t (type e))",
            "(Sub x y t)",
        ),
        Rewrite("sub-neg", "x - (-y) = x + y", "(= e (Sub x (Neg y _) t))", "(Add x y t)"),
        Rewrite("largest-of-one", "max(x, x) = x", "(= e (Maximum x x _))", "x"),
        Rewrite("least-of-one", "min(x, x) = x", "(= e (Minimum x x _))", "x"),
        Rewrite("where-either", "where(c, x, x) = x", "(= e (Where _ x x _))", "x"),
        Rewrite("cast-same", "x is of that type", "(= e (Cast x _ t)) (= t (type x))", "x"),
    ),
)

_SAME = full("v", '"f32"', "t", "s")
_COUNT = full("n", '"f32"', "t", "s")

REDUCTIONS = RuleSet(
    "reductions",
    (
        Rewrite(
            "sum-neg",
            "sum(-x) = -sum(x)",
            "(= e (Sum (Neg x _) a t))",
            "(Neg (Sum x a t) t)",
        ),
        # Where the number makes terms smaller it stays inside: the sum of the larger ones may
        # overflow, and 0 times that is NaN.
        Rewrite(
            "sum-scaled",
            "sum(v x) = v sum(x), where |v| >= 1",
            f"(= e (Sum y a t)) (product y x c) (number c v) (>= (abs v) 1.0) {_FLOAT}",
            f"(Mul (Sum x a t) {_SAME} t)",
        ),
        Rewrite(
            "sum-divided",
            "sum(x / v) = sum(x) / v, where 0 < |v| <= 1",
            f"(= e (Sum (Div x c _) a t)) (number c v) (<= (abs v) 1.0) (!= v 0.0) {_FLOAT}",
            f"(Div (Sum x a t) {_SAME} t)",
        ),
        Rewrite(
            "sum-of-sum",
            "sums over axes, then over more, are one sum",
            "(= e (Sum (Sum x inner _) outer t)) (nested inner outer both)",
            "(Sum x both t)",
        ),
        Rewrite(
            "sum-of-copies",
            "the sum of n copies of x is n x",
            f"(= e (Sum (Broadcast x s2 kept _) a t)) (copies s2 kept a n) {_FLOAT}",
            f"(Mul x {_COUNT} t)",
        ),
    ),
    (
        # Sums over `inner` axes, then over `outer` ones of what remains, are sums over `both`.
        "(relation nested (Ints Ints Ints))",
        # For each rank: where the first element is, and a step of 1 along every axis.
        "(relation corner (i64 Ints Ints))",
        # Along which axis of a weight its outputs lie, if it is transposed, and if not.
        "(relation outputs (bool i64))",
        # A tensor spread to `shape` with its axes at `kept` is n times its sum over the others.
        "(relation copies (Ints Ints Ints f64))",
    ),
)

WITHOUT_GRADIENT = RuleSet(
    "without-gradient",
    (
        Rewrite(
            "stop-gradient",
            "it is the identity once there is nothing to differentiate",
            "(= e (StopGradient x _))",
            "x",
        ),
    ),
)
