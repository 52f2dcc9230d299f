"""Verdicts of a check of gradients."""

from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.gradcheck.cases import Case
from meganeura_dsl.gradcheck.finite_differences import SidedSlope, Slope
from meganeura_dsl.gradcheck.locate_fault import FaultyValue


@dataclass(frozen=True)
class WrongGradient:
    """Reverse mode disagrees with differences; `culprit` is the first op that does by itself."""

    slope: Slope
    culprit: FaultyValue | None


@dataclass(frozen=True)
class WrongAtPoint:
    """Reverse mode gives neither a one-sided slope at a special point nor one between them.

    `culprit` is the first op of which that is true by itself.
    """

    slope: SidedSlope
    culprit: FaultyValue | None


@dataclass(frozen=True)
class Deviation:
    """The distance of a device from the reference, in the worst of the compared numbers."""

    name: str
    """The tensor, and the place in it."""
    difference: float
    allowed: float
    largest: float
    """The magnitude of the largest number of that tensor."""


@dataclass(frozen=True)
class WrongOnDevice:
    """A device gives something else than the reference: the largest difference, and the allowed."""

    name: str
    difference: float
    allowed: float


@dataclass(frozen=True)
class NotFinite:
    """A gradient is infinite or NaN where the loss is not."""

    name: str
    culprit: FaultyValue | None


@dataclass(frozen=True)
class RefusedAfterProof:
    """A block was proved for all sizes, and then refused for these."""

    report: Report


@dataclass(frozen=True)
class DividesByZero:
    """A size for which the program divides by 0, which no proof is about."""

    report: Report
    fact: str
    """The clause of `where` that would exclude the size; empty if not known."""


Fault = WrongGradient | WrongAtPoint | DividesByZero | WrongOnDevice | NotFinite | RefusedAfterProof


@dataclass(frozen=True)
class Passed:
    """No case is wrong."""

    name: str
    examples: int
    slopes: int
    """Directions in which both ways of differentiation were compared, and one of them is not 0."""
    worst: float
    """The largest relative difference between them."""
    special: int = 0
    """Elements at special points in which they were compared as well."""
    kinks: int = 0
    """The number of points at which the function has a kink."""
    device: Deviation | None = None
    """The largest distance of a device from the reference."""
    left_out: int = 0
    """Cases left out since an index was out of range."""


@dataclass(frozen=True)
class Failed:
    """The smallest case found that is wrong, and how."""

    name: str
    case: Case
    fault: Fault


@dataclass(frozen=True)
class Skipped:
    """Reports that nothing was decided, and the reason."""

    name: str
    reason: str
    is_constant: bool = False
    """True if there is no gradient, or one that is 0 everywhere: nothing is left to check."""


Verdict = Passed | Failed | Skipped
