"""Products of one tensor with several weights, made at once where their one consumer wants them.

    [x w1 | x w2 | x w3] = x [w1 | w2 | w3],  and back  g1 w1^T + g2 w2^T = [g1 | g2] [w1 | w2]^T

Merging whatever shares an operand would feed itself: what is merged shares it too. So a consumer
has to ask, such as an attention for its queries, keys and values; its wish passes through what only
moves elements or turns them; and the weights have to be parameters, which merged ones are not.
"""

from meganeura_dsl.optimize.rules.algebra import full
from meganeura_dsl.optimize.rules.rule import Fact, Rewrite, RuleSet


def _asks(op: str, pattern: str, operands: tuple[str, ...]) -> Fact:
    wishes = " ".join(f"(moved {operand} {operand})" for operand in operands)
    return Fact(
        f"asks-{op}",
        "a consumer of several projections",
        f"(= e ({op} {pattern}))",
        f"(asks{len(operands)} {' '.join(operands)}) {wishes}",
    )


def _moves(op: str, pattern: str) -> Fact:
    return Fact(
        f"moved-{op}",
        "what is moved or turned may be a projection",
        f"(moved a y) (= y ({op} {pattern}))",
        "(moved a x)",
    )


def _merged(count: int, *, biased: bool) -> Fact:
    """One product for `count` projections y of x, whose weights lie side by side."""
    places = range(1, count + 1)
    name = "biased" if biased else "bare"
    asked = " ".join(f"a{i}" for i in places)
    of = " ".join(f"({name} a{i} x w{i}{f' b{i}' if biased else ''} r y{i} n{i})" for i in places)
    starts = ["0", *(_sum([f"n{i}" for i in places[:end]]) for end in range(1, count))]
    width = _sum([f"n{i}" for i in places])
    weights = f"(Concat {_all('w', count)} axis (T d (vec-set sw axis {width})))"
    biases = f" (Concat {_all('b', count)} 0 (T d (vec-of {width})))" if biased else ""
    op, epilogue = ("FusedMatMul", ' "none"') if biased else ("MatMul", "")
    result = f"(T d (vec-set s1 last {width}))"
    product = f"({op} x {weights}{biases} false r{epilogue} {result})"
    parts = " ".join(
        f"(part y{i} {product} {start})" for i, start in zip(places, starts, strict=True)
    )
    return Fact(
        f"merged-{name}-{count}",
        "x w1 + b1, x w2 + b2, ... are parts of x [w1 w2 ...] + [b1 b2 ...]",
        f"(asks{count} {asked}) {of} (= (type w1) (T d sw)) (= (type y1) (T d s1))"
        " (outputs r axis) (= last (- (vec-length s1) 1))",
        parts,
    )


def _sums(count: int) -> tuple[Fact, Fact, Rewrite]:
    """A sum of `count` products with parameters as one, in the order projections are used in.

    In steps, as a join of all products at once would compare each with each.
    """
    places = range(1, count + 1)
    known, before = _pairs(places), _pairs(places[:-1])
    start = "(weighed y g1 w1 r)" if count == 2 else f"(summed{count - 1} y {before} r)"
    types = " ".join(f"(= (type g{i}) (T d s{i})) (= n{i} (vec-get s{i} last))" for i in places)
    width = _sum([f"n{i}" for i in places])
    factor = f"(Concat {_all('g', count, -1)} last (T d (vec-set s1 last {width})))"
    weights = f"(Concat {_all('w', count, -1)} axis (T d (vec-set sw axis {width})))"
    return (
        Fact(
            f"sum-so-far-{count}",
            "a sum that begins with products",
            f"(= e (Add y z _)) {start}",
            f"(adding{count} e z {before} r)",
        ),
        Fact(
            f"sum-complete-{count}",
            "a sum of products",
            f"(adding{count} e z {before} r) (weighed z g{count} w{count} r)",
            f"(summed{count} e {known} r)",
        ),
        Rewrite(
            f"sum-of-products-{count}",
            "g1 w1 + g2 w2 + ... = [g1 | g2 | ...] [w1 | w2 | ...]",
            f"(summed{count} e {known} r) (= t (type e)) (= t (T _ s)) (= (type w1) (T d sw))"
            f" (outputs r other) (= axis (- 1 other)) (= last (- (vec-length s) 1)) {types}",
            f"(MatMul {factor} {weights} false r t)",
        ),
    )


def _pairs(places: range) -> str:
    return " ".join(f"g{i} w{i}" for i in places)


def _all(name: str, count: int, step: int = 1) -> str:
    return f"(vec-of {' '.join(f'{name}{i}' for i in range(1, count + 1)[::step])})"


def _sum(terms: list[str]) -> str:
    return terms[0] if len(terms) == 1 else f"(+ {_sum(terms[:-1])} {terms[-1]})"


_WIDTH = "(= n (vec-get s (- (vec-length s) 1)))"

PROJECTIONS = RuleSet(
    "projections",
    (
        Fact("weight", "a parameter", "(parameters i) (= w (Value i))", "(weight w)"),
        _asks("Attention", "q k v _ _ _ _ _", ("q", "k", "v")),
        _asks("MaskedAttention", "q k v _ _ _ _ _ _", ("q", "k", "v")),
        _asks("SwiGLU", "g u _", ("g", "u")),
        _moves("Reshape", "x _ _"),
        _moves("Transpose", "x _ _"),
        _moves("Rotate", "x _ _ _"),
        Fact(
            "bare",
            "y = x w",
            f"(moved a y) (= y (MatMul x w false r (T d s))) (weight w) {_WIDTH}",
            "(bare a x w r y n)",
        ),
        Fact(
            "biased",
            "y = x w + b",
            f'(moved a y) (= y (FusedMatMul x w b false r "none" (T d s))) (weight w) {_WIDTH}',
            "(biased a x w b r y n)",
        ),
        Fact(
            "biased-by-zero",
            "x w = x w + 0, if another projection of x has a bias",
            "(bare a x w r y n) (biased _ x _ _ r _ _) (= (type y) (T d s)) (= sb (vec-of n))",
            f"(biased a x w {full('0.0', 'd', '(T d sb)', 'sb')} r y n)",
        ),
        *(_merged(count, biased=biased) for count in (2, 3) for biased in (False, True)),
        Rewrite(
            "part-of-product",
            "x w1 = [x w1 | x w2 | ...][:, :n]",
            "(part e y from) (= t (type e)) (= t (T _ s)) (= r (vec-length s))"
            " (corner r zeros ones) (= last (- r 1)) (= to (+ from (vec-get s last)))"
            " (= start (vec-set zeros last from)) (= stop (vec-set s last to))",
            "(Slice y start stop ones t)",
        ),
        Fact("weighed", "g w", "(= y (MatMul g w false r _)) (weight w)", "(weighed y g w r)"),
        *_sums(2),
        *_sums(3),
    ),
    (
        "(relation weight (Op))",
        # The operands of a consumer.
        "(relation asks2 (Op Op))",
        "(relation asks3 (Op Op Op))",
        # An operand of a consumer, and what it is but for moves.
        "(relation moved (Op Op))",
        # For a consumer's operand: x, the weight, a bias, its layout, the product and its width.
        "(relation bare (Op Op Op bool Op i64))",
        "(relation biased (Op Op Op Op bool Op i64))",
        # What begins at a place of the last axis of a product.
        "(relation part (Op Op i64))",
        "(relation weighed (Op Op Op bool))",
        # A sum, what is yet to be looked at, and the factors of the products before.
        "(relation adding2 (Op Op Op Op bool))",
        "(relation adding3 (Op Op Op Op Op Op bool))",
        "(relation summed2 (Op Op Op Op Op bool))",
        "(relation summed3 (Op Op Op Op Op Op Op bool))",
    ),
)
"""Not before differentiation: parts of one product have a gradient of many zeros."""
