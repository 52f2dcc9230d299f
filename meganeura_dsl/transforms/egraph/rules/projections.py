"""Products of one tensor with several weights, made at once where their one consumer wants them.

    [x w1 | x w2 | x w3] = x [w1 | w2 | w3]
    g1 w1 + g2 w2 + g3 w3 = [g1 | g2 | g3] [w1 | w2 | w3]    in the gradient

Merging whatever shares an operand would feed itself: what is merged shares it too. So a consumer
has to ask, an attention for its queries, keys and values; its wish passes through what only moves
elements or turns them; and the weights have to be parameters, which merged ones are not. The halves
of a gate are left alone: the gate is done in the kernel of its second product, where it costs less.
"""

from meganeura_dsl.transforms.egraph.rules.algebra import full
from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet

PLACES = (1, 2, 3)
WIDTH = "(+ (+ n1 n2) n3)"


def _asks(op: str, rest: str) -> Fact:
    return Fact(
        f"asks-{op}",
        "a consumer of three projections",
        f"(= e ({op} q k v {rest}))",
        "(asks q k v) (moved q q) (moved k k) (moved v v)",
    )


def _moves(op: str, pattern: str) -> Fact:
    return Fact(
        f"moved-{op}",
        "what is moved or turned may be a projection",
        f"(moved a y) (= y ({op} {pattern}))",
        "(moved a x)",
    )


def _merged(*, biased: bool) -> Fact:
    """One product for the projections y of x, whose weights lie side by side."""
    name, bias = ("biased", " b{i}") if biased else ("bare", "")
    of = " ".join(f"({name} a{i} x w{i}{bias.format(i=i)} r y{i} n{i})" for i in PLACES)
    weights = f"(Concat {_all('w')} axis (T d (vec-set sw axis {WIDTH})))"
    biases = f" (Concat {_all('b')} 0 (T d (vec-of {WIDTH})))" if biased else ""
    op, epilogue = ("FusedMatMul", ' "none"') if biased else ("MatMul", "")
    result = f"(T d (vec-set s1 last {WIDTH}))"
    product = f"({op} x {weights}{biases} false r{epilogue} {result})"
    starts = ("0", "n1", "(+ n1 n2)")
    return Fact(
        f"merged-{name}",
        "x w1 + b1, x w2 + b2, ... are parts of x [w1 w2 ...] + [b1 b2 ...]",
        f"(asks a1 a2 a3) {of} (= (type w1) (T d sw)) (= (type y1) (T _ s1))"
        " (outputs r axis) (= last (- (vec-length s1) 1))",
        " ".join(f"(part y{i} {product} {starts[i - 1]})" for i in PLACES),
    )


def _sum_of_products() -> Rewrite:
    # Products that add up have one element type. To say so here would join all types with all.
    types = " ".join(f"(= (type g{i}) (T _ s{i})) (= n{i} (vec-get s{i} last))" for i in PLACES)
    factor = f"(Concat {_all('g')} last (T d (vec-set s1 last {WIDTH})))"
    weights = f"(Concat {_all('w')} axis (T d (vec-set sw axis {WIDTH})))"
    return Rewrite(
        "sum-of-products",
        "g1 w1 + g2 w2 + g3 w3 = [g1 | g2 | g3] [w1 | w2 | w3]",
        "(summed3 e g1 w1 g2 w2 g3 w3 r) (= t (type e)) (= t (T _ s))"
        " (= (type w1) (T d sw)) (outputs r other) (= axis (- 1 other))"
        f" (= last (- (vec-length s) 1)) {types}",
        f"(MatMul {factor} {weights} false r t)",
    )


def _all(name: str) -> str:
    return f"(vec-of {' '.join(f'{name}{i}' for i in PLACES)})"


_OWN_WIDTH = "(= n (vec-get s (- (vec-length s) 1)))"

PROJECTIONS = RuleSet(
    "projections",
    (
        Fact(
            "weight",
            "a matrix of parameters",
            "(parameters i) (= w (Value i)) (= (type w) (T _ s)) (= (vec-length s) 2)",
            "(weight w)",
        ),
        _asks("Attention", "_ _ _ _ _ _"),
        _asks("Attention_mask", "_ _ _ _ _ _ _"),
        _moves("Reshape", "x _ _"),
        _moves("Transpose", "x _ _"),
        _moves("Rotate", "x _ _ _"),
        Fact(
            "bare",
            "y = x w",
            f"(moved a y) (= y (MatMul x w false r (T d s))) (weight w) {_OWN_WIDTH}",
            "(bare a x w r y n)",
        ),
        Fact(
            "biased",
            "y = x w + b",
            f'(moved a y) (= y (FusedMatMul x w b false r "none" (T d s))) (weight w) {_OWN_WIDTH}',
            "(biased a x w b r y n)",
        ),
        Fact(
            "biased-by-zero",
            "x w = x w + 0, if another projection of x has a bias",
            "(bare a x w r y n) (biased _ x _ _ r _ _) (= (type y) (T d s)) (= sb (vec-of n))",
            f"(biased a x w {full('0.0', 'd', '(T d sb)', 'sb')} r y n)",
        ),
        _merged(biased=False),
        _merged(biased=True),
        Rewrite(
            "part-of-product",
            "x w1 = [x w1 | x w2 | ...][:, :n]",
            "(part e y from) (= t (type e)) (= t (T _ s)) (= r (vec-length s))"
            " (corner r zeros ones) (= last (- r 1)) (= to (+ from (vec-get s last)))"
            " (= start (vec-set zeros last from)) (= stop (vec-set s last to))",
            "(Slice y start stop ones t)",
        ),
        Fact("weighed", "g w", "(= y (MatMul g w false r _)) (weight w)", "(weighed y g w r)"),
        # In steps, as a join of all products at once would compare each with each; and the last
        # summand first, as what is used first has its gradient added last.
        Fact(
            "one-product",
            "g3 w3 + ...",
            "(= e (Add y z _)) (weighed y g3 w3 r)",
            "(summed1 e z g3 w3 r)",
        ),
        Fact(
            "two-products",
            "g3 w3 + g2 w2 + ...",
            "(summed1 y z g3 w3 r) (weighed z g2 w2 r) (= e (Add y rest _))",
            "(summed2 e rest g2 w2 g3 w3 r)",
        ),
        Fact(
            "three-products",
            "g3 w3 + g2 w2 + g1 w1",
            "(summed2 e z g2 w2 g3 w3 r) (weighed z g1 w1 r)",
            "(summed3 e g1 w1 g2 w2 g3 w3 r)",
        ),
        _sum_of_products(),
    ),
    (
        "(relation weight (Op))",
        # The operands of a consumer.
        "(relation asks (Op Op Op))",
        # An operand of a consumer, and what it is but for moves.
        "(relation moved (Op Op))",
        # For a consumer's operand: x, the weight, a bias, its layout, the product and its width.
        "(relation bare (Op Op Op bool Op i64))",
        "(relation biased (Op Op Op Op bool Op i64))",
        # What begins at a place of the last axis of a product.
        "(relation part (Op Op i64))",
        "(relation weighed (Op Op Op bool))",
        # A sum, what of it is yet to be looked at, and the factors of the products before.
        "(relation summed1 (Op Op Op Op bool))",
        "(relation summed2 (Op Op Op Op Op Op bool))",
        "(relation summed3 (Op Op Op Op Op Op Op bool))",
    ),
)
"""Not before differentiation: parts of one product have a gradient of many zeros."""
