"""Rules that fold linear functions into parameters that never change.

Two views carry the algebra, so that an alternative need not be expanded to be found:

    affine(e, x, s, b)      e = x s + b, s and b spread along the channels
    convolved(e, x, w, b)   e = conv(x, w) + b, of one geometry

A chain of affine steps is one affine step; an affine step after a convolution is a convolution;
a sum of convolutions of one input is a convolution, once their kernels have one size. A smaller
kernel grows by zeros, and what has no kernel gets the one that changes nothing. Growing and
getting happen only on demand of a sum. So RepVGG's reparameterisation (Ding et al., 2021) is
derived, in whatever order its branches are added.
"""

from meganeura_dsl.transforms.egraph.rules.algebra import full
from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet, rank_word

_ALONG = "(vec-of 1)"


_VECTOR = "(= tv (T d sv))"
_ZEROS = full("0.0", "d", "tv", "sv")
_ONES = full("1.0", "d", "tv", "sv")

AFFINE = RuleSet(
    "affine",
    (
        Fact(
            "affine-scale",
            "x s",
            f"(product e x y) (= y (Broadcast s _ {_ALONG} _)) (constant s) (= tv (type s))"
            f" {_VECTOR}",
            f"(step e x s {_ZEROS})",
            about="e",
        ),
        Fact(
            "affine-quotient",
            "x / s = x (1 / s)",
            f"(= e (Div x (Broadcast s _ {_ALONG} _) _)) (constant s) (= tv (type s)) {_VECTOR}",
            f"(step e x (Div {_ONES} s tv) {_ZEROS})",
            about="e",
        ),
        Fact(
            "affine-shift",
            "x + b",
            f"(sum e x y) (= y (Broadcast b _ {_ALONG} _)) (constant b) (= tv (type b)) {_VECTOR}",
            f"(step e x {_ONES} b)",
            about="e",
        ),
        Fact(
            "affine-centre",
            "x - b = x + (-b)",
            f"(= e (Sub x (Broadcast b _ {_ALONG} _) _)) (constant b) (= tv (type b)) {_VECTOR}",
            f"(step e x {_ONES} (Neg b tv))",
            about="e",
        ),
        Fact("affine-step", "", "(step e x s b) (!= e x)", "(set (affine e x) (Pair s b))"),
        Fact(
            "affine-chain",
            "(x s + b) s' + b' = x (s s') + (b s' + b')",
            "(step e y s2 b2) (= (affine y x) (Pair s1 b1)) (!= e y) (!= e x) (= tv (type s1))",
            "(set (affine e x) (Pair (Mul s1 s2 tv) (Add (Mul b1 s2 tv) b2 tv)))",
        ),
    ),
    (
        "(relation step (Op Op Op Op))",
        "(datatype Terms (Pair Op Op))",
        "(function affine (Op Op) Terms :merge old)",
    ),
)

_GEOMETRY = "st p d g"


def _is(e: str, w: str, b: str, geometry: str, kernel: str = "_") -> str:
    """A pattern: e = conv(x, w) + b, the kernel's type being `kernel`."""
    return f"(= (Pair {w} {b}) (convolved {e} x {geometry} {kernel}))"


def _say(e: str, w: str, b: str, geometry: str, kernel: str) -> str:
    """An action: e = conv(x, w) + b. What was said first of that type of kernel stays."""
    return f"(set (convolved {e} x {geometry} {kernel}) (Pair {w} {b}))"


def _vector_of(number: str) -> str:
    """The term of a bias with one number everywhere, of the type `tv` of another bias."""
    return full(number, "dv", "tv", "sv")


_BIAS_TYPE = "(= tv (T dv sv))"


def _kernel_of_identity(spatial: int) -> str:
    """The term of the kernel [c, m, 1, ...] that gives each channel back, in groups of m.

    Row i of group i // m holds a one at i mod m: the unit matrix of m, repeated for each group.
    """
    unit = '(T "i32" (vec-of m m))'
    index = '(Iota m (T "i32" (vec-of m)))'
    rows = f"(Broadcast {index} (vec-of m m) (vec-of 0) {unit})"
    columns = f"(Broadcast {index} (vec-of m m) (vec-of 1) {unit})"
    equal = f'(Compare {rows} {columns} "eq" (T "bool" (vec-of m m)))'
    matrix = f"(Cast {equal} dt (T dt (vec-of m m)))"
    groups = f"(Broadcast {matrix} (vec-of g m m) (vec-of 1 2) (T dt (vec-of g m m)))"
    return f"(Reshape {groups} {_pointwise(spatial)} (T dt {_pointwise(spatial)}))"


def _pointwise(spatial: int) -> str:
    """The shape of a kernel that sees one place."""
    return f"(vec-of c m {' '.join('1' * spatial)})"


def _identity(spatial: int) -> tuple[Fact, Fact]:
    ones, zeros = (f"(vec-of {' '.join(digit * spatial)})" for digit in "10")
    shape = _pointwise(spatial)
    kernel = f"(T dt {shape})"
    unit = _kernel_of_identity(spatial)
    scaled = f"(Mul {unit} (Broadcast s {shape} (vec-of 0) {kernel}) {kernel})"
    channels = (
        f"(= (type x) (T dt sx)) (= (vec-length sx) {spatial + 2}) (= c (vec-get sx 1))"
        " (= m (/ c g))"
    )
    geometry = f"{ones} {zeros} d g"
    return (
        Fact(
            f"identity-as-convolution-{spatial}",
            "x = conv(x, 1)",
            f"(beside x x {ones} p d g tw tv) {channels} {_BIAS_TYPE}",
            _say("x", unit, _vector_of("0.0"), geometry, kernel),
            about="x",
            given=(rank_word(spatial + 2),),
        ),
        Fact(
            f"affine-as-convolution-{spatial}",
            "x s + b = conv(x, s) + b",
            f"(beside i x {ones} p d g tw tv) (= (affine i x) (Pair s shift)) {channels}",
            _say("i", scaled, "shift", geometry, kernel),
            about="i",
            given=(rank_word(spatial + 2),),
        ),
    )


def _grow(spatial: int) -> Fact:
    """The smaller of two summed kernels gets q zeros on each side, its input q dilation more."""
    axes = range(spatial)
    sizes = " ".join(
        f"(= q{i} (/ (- (vec-get s1 {i + 2}) (vec-get s2 {i + 2})) 2)) (>= q{i} 0)"
        f" (= (vec-get s1 {i + 2}) (+ (vec-get s2 {i + 2}) (* 2 q{i})))"
        f" (= (vec-get p1 {i}) (+ (vec-get p2 {i}) (* q{i} (vec-get d {i}))))"
        for i in axes
    )
    around = f"(vec-of 0 0 {' '.join(f'q{i}' for i in axes)})"
    within = f"(vec-of 0 0 {' '.join('0' for _ in axes)})"
    return Fact(
        f"grow-kernel-{spatial}",
        "conv(x, w) = conv(x padded more, w padded)",
        f"(beside i x st p1 d g t1 tv) {_is('i', 'w2', 'b2', 'st p2 d g', 't2')} (!= t1 t2)"
        " (= t1 (T dt s1)) (= t2 (T dt s2))"
        f" (= (vec-length s1) {spatial + 2}) {sizes}",
        _say("i", f"(Pad w2 {around} {around} {within} t1)", "b2", "st p1 d g", "t1"),
        about="i",
        given=(rank_word(spatial + 2),),
    )


REPARAMETERISATION = RuleSet(
    "reparameterisation",
    (
        Fact(
            "fold-affine-into-convolution",
            "conv(x, w) s + b = conv(x, w s) + b",
            f"(= (affine e y) (Pair s b)) (= y (Conv x w {_GEOMETRY} ty)) (constant w)"
            " (= tw (type w)) (= tw (T dw sw))",
            _say("e", "(Mul w (Broadcast s sw (vec-of 0) tw) tw)", "b", _GEOMETRY, "tw"),
            about="e",
        ),
        Fact(
            "beside",
            "i is added to a convolution of x with that kernel and bias",
            f"(sum e a i) {_is('a', 'w', 'b', _GEOMETRY, 'tw')} (= tv (type b))",
            f"(beside i x {_GEOMETRY} tw tv)",
        ),
        Fact(
            "convolution-without-bias",
            "conv(x, w) = conv(x, w) + 0, where it is added to another convolution of x",
            f"(beside y x st2 p2 d2 g2 tw2 tv) (= y (Conv x w {_GEOMETRY} _)) (constant w)"
            f" (= tw (type w)) {_BIAS_TYPE}",
            _say("y", "w", _vector_of("0.0"), _GEOMETRY, "tw"),
            about="y",
        ),
        Fact(
            "convolutions-without-bias",
            "conv(x, w) = conv(x, w) + 0, where two such are added",
            f"(sum e i j) (= i (Conv x w {_GEOMETRY} (T dv s))) (= j (Conv x w2 st2 p2 d2 g2 _))"
            " (constant w) (constant w2) (= c (vec-get s 1)) (= sv (vec-of c)) (= tw (type w))",
            _say("i", "w", full("0.0", "dv", "(T dv sv)", "sv"), _GEOMETRY, "tw"),
            about="i",
        ),
        Fact(
            "sum-of-convolutions",
            "conv(x, w1) + conv(x, w2) = conv(x, w1 + w2)",
            f"(= e (Add i j _)) {_is('i', 'w1', 'b1', _GEOMETRY, 'tw')}"
            f" {_is('j', 'w2', 'b2', _GEOMETRY, 'tw')} (= tv (type b1))",
            _say("e", "(Add w1 w2 tw)", "(Add b1 b2 tv)", _GEOMETRY, "tw"),
            about="e",
        ),
        *(fact for spatial in (1, 2) for fact in _identity(spatial)),
        *(_grow(spatial) for spatial in (1, 2)),
        Fact(
            "apart",
            "a sum has a convolution of x in it",
            f"(sum e i j) {_is('j', 'w', 'b', _GEOMETRY)}",
            "(set (apart e x) true)",
        ),
        Fact(
            "together",
            "a sum is one convolution of x",
            _is("e", "w", "b", _GEOMETRY),
            "(set (apart e x) false)",
        ),
        Rewrite(
            "reassociate-convolutions",
            "(a + conv1(x)) + conv2(x) = a + (conv1(x) + conv2(x)), where that leads to one",
            f"(sum e i c2) (= (apart e x) true) {_is('c2', 'w2', 'b2', 'st p2 d g')}"
            f" (sum i a c1) {_is('c1', 'w1', 'b1', 'st p1 d g')} (= t (type e))",
            "(Add a (Add c1 c2 t) t)",
            late=True,
        ),
        Rewrite(
            "convolve-once",
            "e = conv(x, w) + b",
            f"{_is('e', 'w', 'b', _GEOMETRY)} (!= e x) (= t (type e))",
            f'(FusedConv x w b {_GEOMETRY} "none" t)',
        ),
    ),
    (
        "(function convolved (Op Op Ints Ints Ints i64 Type) Terms :merge old)",
        "(relation beside (Op Op Ints Ints Ints i64 Type Type))",
        "(function apart (Op Op) bool :merge (and old new))",
    ),
)


def _scaled_operand(name: str, op: str, value: str) -> tuple[Rewrite, ...]:
    """conv(x v, w) = conv(x, w v): a number is taken from the data to the parameters."""
    number = f"(number c v) (constant w) (= tw (type w)) {_FLOAT} (= v2 {value})"
    scaled = f"(Mul w {full('v2', 'dw', 'tw', 'sw')} tw)"
    return (
        Rewrite(
            f"{name}-into-convolution",
            "conv(x v, w) = conv(x, w v)",
            f"(= e (Conv y w {_GEOMETRY} t)) {op} {number}",
            f"(Conv x {scaled} {_GEOMETRY} t)",
        ),
        Rewrite(
            f"{name}-into-product",
            "(x v) w = x (w v)",
            f"(= e (MatMul y w l r t)) {op} {number}",
            f"(MatMul x {scaled} l r t)",
        ),
    )


_FLOAT = '(= tw (T dw sw)) (= dw "f32")'

SCALES = RuleSet(
    "scales",
    (
        *_scaled_operand("scale", "(product y x c)", "v"),
        *_scaled_operand("quotient", "(= y (Div x c _)) (!= v 0.0)", "(/ 1.0 v)"),
    ),
)
