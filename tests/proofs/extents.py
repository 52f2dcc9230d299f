"""Of which ranks the instances of each rule are proved."""

from meganeura_dsl.transforms.egraph.rules.rule import Rule
from meganeura_dsl.transforms.egraph.rules.rule_sets import rule_sets
from tests.proofs.choices import Extent

_DEFAULT = range(5)
_NEEDED = {
    "transpose-nothing-4": range(4, 5),
    "transpose-nothing-5": range(5, 6),
    "transpose-twice-4": range(4, 5),
    "transpose-twice-5": range(5, 6),
    "spread-twice-4": range(4, 6),
    "scaled-group-norm-3": range(1, 5),
    "scaled-group-norm-4": range(1, 6),
    "group-norm-3": range(1, 5),
    "group-norm-4": range(1, 6),
    **{f"{prefix}shared-heads-3": range(3, 5) for prefix in ("", "masked-")},
    **{f"{prefix}shared-heads-4": range(4, 6) for prefix in ("", "masked-")},
}
"""Where the pattern itself says how many axes its tensors have."""
_FEW = range(4)
_IMAGES = ("winograd", "identity-as-convolution-2", "affine-as-convolution-2", "grow-kernel-2")


def every_rule() -> dict[str, tuple[str, Rule]]:
    """Every rule by its name, with the name of its set."""
    return {rule.name: (each.name, rule) for each in rule_sets("infer") for rule in each.rules}


def whole_extent(name: str) -> Extent:
    """The ranks and permutations that a rule is proved for."""
    return Extent(_NEEDED.get(name, _DEFAULT))


def small_extent(name: str) -> Extent:
    """A part of it that is fast, with each kind of instance in it."""
    default = range(1, 5) if name.startswith(_IMAGES) else _FEW
    return Extent(_NEEDED.get(name, default), every=False)
