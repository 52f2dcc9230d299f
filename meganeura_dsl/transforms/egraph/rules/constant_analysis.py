"""Rules of constants: values known once the parameters are, so that the loader may compute them.

Of the values of a graph Python tells it. Of what rules make of constants, only that is said which
other rules ask about.
"""

from meganeura_dsl.transforms.egraph.rules.rule import Fact, RuleSet

KNOWN = "known"
"""The table of values that are constants to begin with."""


def _moved(op: str, rest: str) -> Fact:
    return Fact(
        f"constant-{op}",
        "what a constant is moved from is constant",
        f"(= e ({op} x {rest})) (constant e)",
        "(constant x)",
    )


CONSTANTS = RuleSet(
    "constants",
    (
        Fact("known", "", f"({KNOWN} i) (= e (Value i))", "(constant e)"),
        _moved("Broadcast", "_ _ _"),
        _moved("Reshape", "_ _"),
        _moved("Transpose", "_ _"),
        Fact(
            "constant-kernel",
            "a number of times a constant kernel is constant",
            "(= y (Conv x e _ _ _ _ _)) (product e w c) (constant w) (number c v)",
            "(constant e)",
        ),
    ),
    ("(relation constant (Op))", f"(relation {KNOWN} (i64))"),
)
