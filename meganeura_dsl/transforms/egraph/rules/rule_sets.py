"""The rule sets of each mode."""

from functools import cache
from typing import Literal, assert_never

from meganeura_dsl.transforms.egraph.rules.algebra import (
    FOLDING,
    IDENTITIES,
    REDUCTIONS,
    VIEWS,
    WITHOUT_GRADIENT,
)
from meganeura_dsl.transforms.egraph.rules.attention import ATTENTION, ROTATIONS
from meganeura_dsl.transforms.egraph.rules.constant_analysis import CONSTANTS
from meganeura_dsl.transforms.egraph.rules.constant_folding import (
    AFFINE,
    REPARAMETERISATION,
    SCALES,
)
from meganeura_dsl.transforms.egraph.rules.fusion import ACTIVATIONS, EPILOGUES, NORMS, SOFTMAX
from meganeura_dsl.transforms.egraph.rules.movement import COPIES, MOVES, PRODUCTS
from meganeura_dsl.transforms.egraph.rules.projections import PROJECTIONS
from meganeura_dsl.transforms.egraph.rules.rule import Fact, Rewrite, RuleSet
from meganeura_dsl.transforms.egraph.rules.winograd import WINOGRAD

Mode = Literal["forward", "train", "infer"]

ALWAYS = (VIEWS, FOLDING, IDENTITIES, REDUCTIONS, MOVES, PRODUCTS, COPIES)
FUSED = (ACTIVATIONS, NORMS, SOFTMAX, ROTATIONS, ATTENTION)
AFTER_GRADIENT = (WITHOUT_GRADIENT, EPILOGUES, PROJECTIONS, WINOGRAD)
WITH_CONSTANTS = (CONSTANTS, AFFINE, REPARAMETERISATION, SCALES)

MAY_OVERFLOW = frozenset(
    (
        *(rule.name for each in (SCALES, WINOGRAD) for rule in each.rules),
        *(f"affine-as-convolution-{spatial}" for spatial in (1, 2)),
        "fold-affine-into-convolution",
        "sum-of-convolutions",
        "reassociate-convolutions",
        "sum-of-products",
        "sum-of-sum",
    )
)
"""Rules with intermediate results that the graph has not, which may overflow where its own do not.

All others give a number of single precision wherever the graph does.
"""


def rule_sets(mode: Mode) -> tuple[RuleSet, ...]:
    """The rule sets of a mode. Those of `forward` keep the gradient as well as the value."""
    match mode:
        case "forward":
            return (*ALWAYS, *FUSED)
        case "train":
            return (*ALWAYS, *FUSED, *AFTER_GRADIENT)
        case "infer":
            return (*ALWAYS, *FUSED, *AFTER_GRADIENT, *WITH_CONSTANTS)
        case _:
            assert_never(mode)


@cache
def rewrites() -> dict[str, Rewrite]:
    """Every rewrite by name: what may be disabled."""
    every = (rule for each in rule_sets("infer") for rule in each.rules)
    return {rule.name: rule for rule in every if isinstance(rule, Rewrite)}


@cache
def rules_by_name() -> dict[str, Rewrite | Fact]:
    """Every rule that a report lists, by name."""
    every = (rule for each in rule_sets("infer") for rule in each.rules)
    return {rule.name: rule for rule in every if isinstance(rule, Rewrite) or rule.about}
