"""Facts that hold of every op alike, so they are derived from the constructors."""

from meganeura_dsl.ops import Input, Parameter, RandomBits
from meganeura_dsl.optimize.rules.rule import Fact, RuleSet
from meganeura_dsl.optimize.schema import Constructor, constructors


def _pattern(constructor: Constructor) -> str:
    operands = ["xs"] if constructor.arity is None else _operands(constructor)
    attributes = ["_"] * len(constructor.fields)
    return f"(= e ({' '.join((constructor.name, *operands, *attributes, 't'))}))"


def _operands(constructor: Constructor) -> list[str]:
    return [f"x{place}" for place in range(constructor.arity or 0)]


def _type(constructor: Constructor) -> Fact:
    return Fact(
        f"type-{constructor.name}",
        "the type of a value is the one it was made with",
        _pattern(constructor),
        "(set (type e) t)",
    )


def _constant(constructor: Constructor) -> Fact:
    known = " ".join(f"(constant {operand})" for operand in _operands(constructor))
    return Fact(
        f"constant-{constructor.name}",
        "what depends on constants alone is constant",
        f"{_pattern(constructor)} {known}",
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


_VARYING = (Input, Parameter, RandomBits)

TYPES = RuleSet(
    "types",
    (
        *(_type(each) for each in constructors().values()),
        Fact("type-Opaque", "", "(= e (Opaque _ t))", "(set (type e) t)"),
    ),
)

CONSTANTS = RuleSet(
    "constants",
    (
        *(
            _constant(each)
            for each in constructors().values()
            if each.arity is not None and each.op not in _VARYING
        ),
        *_parts(2),
        *_parts(3),
    ),
    (
        "(relation constant (Op))",
        "(relation parts2 (Op Op Op))",
        "(relation parts3 (Op Op Op Op))",
    ),
)
"""Known once the parameters are, so that the loader may compute it."""
