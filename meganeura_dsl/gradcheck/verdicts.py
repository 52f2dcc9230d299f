"""What a check of gradients can find."""

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.gradcheck.cases import Case
from meganeura_dsl.gradcheck.finite_differences import Slope
from meganeura_dsl.gradcheck.locate_fault import FaultyValue
from meganeura_dsl.startup.deferred_dataclass import dataclass


@dataclass(frozen=True)
class WrongGradient:
    """Reverse mode disagrees with differences; `culprit` is the first op that does by itself."""

    slope: Slope
    culprit: FaultyValue | None


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


Fault = WrongGradient | WrongOnDevice | NotFinite | RefusedAfterProof


@dataclass(frozen=True)
class Passed:
    """No case is wrong."""

    name: str
    examples: int
    slopes: int
    """Directions in which both ways of differentiation were compared."""
    worst: float
    """The largest relative difference between them."""


@dataclass(frozen=True)
class Failed:
    """The smallest case found that is wrong, and how."""

    name: str
    case: Case
    fault: Fault


@dataclass(frozen=True)
class Skipped:
    """Nothing can be checked; says why."""

    name: str
    reason: str


Verdict = Passed | Failed | Skipped
