"""Facts that hold of every op alike, so they are derived from the constructors."""

from meganeura_dsl.ops import RandomBits
from meganeura_dsl.optimize.rules.rule import Fact, RuleSet
from meganeura_dsl.optimize.schema import Constructor, constructors


def _constant(constructor: Constructor) -> Fact:
    operands = [f"x{place}" for place in range(constructor.arity or 0)]
    pattern = " ".join((constructor.name, *operands, *("_" for _ in constructor.fields), "t"))
    known = " ".join(f"(constant {operand})" for operand in operands)
    return Fact(
        f"constant-{constructor.name}",
        "what depends on constants alone is constant",
        f"(= e ({pattern})) {known}",
        "(constant e)",
    )


def _parts(count: int) -> tuple[Fact, Fact]:
    """For an op of any number of operands, so many of which it has."""
    names = [f"x{place}" for place in range(count)]
    gets = " ".join(f"(vec-get xs {place})" for place in range(count))
    known = " ".join(f"(constant {name})" for name in names)
    return (
        Fact(
            f"parts-{count}",
            "what is joined",
            f"(= e (Concat xs _ _)) (= (vec-length xs) {count})",
            f"(parts{count} e {gets})",
        ),
        Fact(
            f"constant-Concat-{count}",
            "what depends on constants alone is constant",
            f"(parts{count} e {' '.join(names)}) {known}",
            "(constant e)",
        ),
    )


KNOWN = "known"
"""The table of values that are constants to begin with."""

CONSTANTS = RuleSet(
    "constants",
    (
        Fact("known", "", f"({KNOWN} i) (= e (Value i))", "(constant e)"),
        *(
            _constant(each)
            for each in constructors().values()
            if each.arity is not None and each.op is not RandomBits
        ),
        *_parts(2),
        *_parts(3),
    ),
    (
        "(relation constant (Op))",
        f"(relation {KNOWN} (i64))",
        "(relation parts2 (Op Op Op))",
        "(relation parts3 (Op Op Op Op))",
    ),
)
"""Known once the parameters are, so that the loader may compute it."""
