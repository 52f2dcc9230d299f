"""The facts that rules keep in tables, each as a pattern that says what it means."""

from collections.abc import Callable

from meganeura_verify.terms import Atom, Term, atoms_of

from tests.proofs.reals import fresh

STEERING = frozenset(("constant", "known", "parameters", "moved", "asks", "apart"))
"""Tables that say where rules look, and nothing of values."""

_PRODUCT = "(= {y} (MatMul {g} {w} false r _)) (= (type {w}) (T _ s{w})) (= (vec-length s{w}) 2)"

_TEXTS = {
    "sum e a b": "(= e (Add a b _))",
    "product e a b": "(= e (Mul a b _))",
    "copied y x s a tx": "(= y (Broadcast x s a _)) (= tx (type x))",
    "copies s kept axes n": "(= axes (others kept (vec-length s))) (= n (count s axes))",
    "nested inner outer both": "(= both (joined inner outer))",
    "corner rank zeros ones": "(= zeros (filled rank 0)) (= ones (filled rank 1))",
    "swap p rank": "(= rank (vec-length p)) (= p (swapped rank))",
    "outputs r axis": "(= axis (outputs r))",
    "centred c x a kept s": (
        "(= c (Centred x a _)) (= (type x) (T _ s)) (= kept (others a (vec-length s)))"
    ),
    "largest m x axis": "(= m (ReduceMax x (vec-of axis) _))",
    "shifted y x axis": "(= y (Shifted x axis _))",
    "halves x l h": "(= l (Half x 0 _)) (= h (Half x 1 _))",
    "ahead m": "(= m (Hides shape 0 _)) (= (type m) (T _ shape))",
    "behind m window": "(= m (Behind shape window _)) (= (type m) (T _ shape))",
    "hides m window": "(= m (Hides shape window _)) (= (type m) (T _ shape))",
    "scores e q k scale causal window": "(= e (Scores q k scale causal window _))",
    "masked e q k mask scale causal window": "(= e (Scores_mask q k mask scale causal window _))",
    "weighed y g w r": _PRODUCT.format(y="y", g="g", w="w"),
    "summed1 e z g3 w3 r": f"(= e (Add y z _)) {_PRODUCT.format(y='y', g='g3', w='w3')}",
    "summed2 e z g2 w2 g3 w3 r": (
        f"(= e (Add p (Add q z _) _)) {_PRODUCT.format(y='p', g='g3', w='w3')}"
        f" {_PRODUCT.format(y='q', g='g2', w='w2')}"
    ),
    "summed3 e g1 w1 g2 w2 g3 w3 r": (
        f"(= e (Add p (Add q o _) _)) {_PRODUCT.format(y='p', g='g3', w='w3')}"
        f" {_PRODUCT.format(y='q', g='g2', w='w2')} {_PRODUCT.format(y='o', g='g1', w='w1')}"
    ),
    "bare a x w r y n": (
        "(= y (MatMul x w false r (T _ s))) (= n (vec-get s (- (vec-length s) 1)))"
        " (= (type w) (T _ sw)) (= (vec-length sw) 2)"
    ),
    "biased a x w b r y n": (
        '(= y (FusedMatMul x w b false r "none" (T _ s))) (= n (vec-get s (- (vec-length s) 1)))'
        " (= (type w) (T _ sw)) (= (vec-length sw) 2)"
    ),
    "part e y from": (
        "(= e (Part y from width _)) (= (type e) (T _ s))"
        " (= width (vec-get s (- (vec-length s) 1)))"
    ),
    "step e x s b": "(= e (Affine x s b _))",
    "affine e x s b": "(= e (Affine x s b _))",
    "convolved e x st p d g kernel w b": (
        '(= e (FusedConv x w b st p d g "none" _)) (= kernel (type w))'
    ),
    "beside i x st p d g tw tv": (
        '(= y (FusedConv x w b st p d g "none" t)) (= tw (type w)) (= tv (type b)) (= t (type i))'
    ),
    "tile m most least": "(= m (symbol)) (= most (symbol)) (= least (symbol))",
    "weight w": "(= (type w) (T _ s)) (= (vec-length s) 2)",
}
"""Each row, its columns named, and the pattern it stands for; other names are new."""

_MEANINGS = {text.split()[0]: (text.split()[1:], meaning) for text, meaning in _TEXTS.items()}


def meaning_of(table: str, arguments: tuple[Term, ...]) -> list[Atom]:
    """The atoms that a row stands for; none where it only steers."""
    if table not in _MEANINGS:
        if table not in STEERING:
            raise KeyError(f"the table `{table}` has no meaning")
        return []
    columns, text = _MEANINGS[table]
    names: dict[str, Term] = dict(zip(columns, arguments, strict=True))

    def renamed(term: Term) -> Term:
        if isinstance(term, tuple):
            return (term[0], *map(renamed, term[1:]))
        if (
            term in names
            or not (term[:1].isalpha() or term[:1] == "_")
            or term in ("true", "false")
        ):
            return names.get(term, term)
        names[term] = fresh(f"{table}-{term}")
        return names[term]

    return [_renamed(atom, renamed) for atom in atoms_of(text)]


def _renamed(atom: Atom, renamed: Callable[[Term], Term]) -> Atom:
    match atom:
        case "node", name, op, arguments:
            return ("node", renamed(name), op, tuple(map(renamed, arguments)))
        case "equal", left, right:
            return ("equal", renamed(left), renamed(right))
        case _:
            raise TypeError(f"{atom} is no part of a meaning")
