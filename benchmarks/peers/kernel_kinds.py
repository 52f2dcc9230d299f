"""The time of a step by kind of kernel, from the names that profilers give."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.peers.contender import Kernel

MATMUL, CONVOLUTION, ATTENTION = "matmul", "convolution", "attention"
REDUCTIONS, ELEMENTWISE = "reductions and norms", "elementwise"
OPTIMIZER, COPIES = "optimizer", "copies"

PATTERNS: Sequence[tuple[str, str]] = (
    (ATTENTION, r"flash|fmha|sdpa|attention"),
    # TorchInductor's own names; what they fuse follows.
    (REDUCTIONS, r"^triton_(red|per)_"),
    (ELEMENTWISE, r"^triton_poi_"),
    (MATMUL, r"^triton_(tem|mm)_"),
    (OPTIMIZER, r"multi_tensor|foreach|fused_?sgd"),
    (COPIES, r"memcpy|memset|nchwto|nhwcto|direct_copy"),
    (COPIES, r"^(loop_|input_|wrapped_)?(copy|transpose|slice|concatenate|pad)(_fusion)?[._\d]*$"),
    (CONVOLUTION, r"conv(?!ert)|wgrad|dgrad|fprop|winograd|implicit|depthwise"),
    (MATMUL, r"gemm|gemv|matmul|nvjet|cutlass|cublas|splitk|(^|_)dot([._]|$)"),
    (REDUCTIONS, r"norm|softmax|logsumexp|reduce|mean|(^|_)sum"),
    (ELEMENTWISE, r"elementwise|vectorized|fusion|fused|broadcast|convert|(^|_)(add|multiply)"),
)
"""The first pattern that is found in a kernel's name says what it is."""
OTHERS, GAPS = "others", "gaps"
ALL_KINDS = (
    *(MATMUL, CONVOLUTION, ATTENTION, REDUCTIONS, ELEMENTWISE, OPTIMIZER, COPIES),
    *(OTHERS, GAPS),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in PATTERNS)
LONGEST = 12
"""So many kernels are named."""


def kind_of(name: str) -> str:
    """The kind of a kernel."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), OTHERS)


@dataclass(frozen=True)
class Shares:
    """The milliseconds of a step."""

    kinds: Mapping[str, float]
    """By kind; gaps are the time in which the device ran nothing."""
    longest: Sequence[tuple[str, float, float]]
    """Kernels by name, how often a step runs each, and their time together."""
    launches: float
    """Kernels of a step."""

    def document(self) -> Mapping[str, object]:
        """It as JSON."""
        return {"kinds": self.kinds, "longest": self.longest, "launches": self.launches}


def shares(kernels: Sequence[Kernel], steps: int) -> Shares:
    """Returns the times of some steps' kernels; where two overlap, each counts."""
    kinds: defaultdict[str, float] = defaultdict(float)
    names: defaultdict[str, list[float]] = defaultdict(list)
    for each in kernels:
        milliseconds = 1e3 * (each.end - each.start) / steps
        kinds[kind_of(each.name)] += milliseconds
        names[each.name].append(milliseconds)
    if kernels:
        kinds[GAPS] = 1e3 * _gaps(kernels) / steps
    longest = sorted(names.items(), key=lambda item: -sum(item[1]))[:LONGEST]
    return Shares(
        {kind: kinds[kind] for kind in ALL_KINDS if kind in kinds},
        [(name[:100], len(times) / steps, sum(times)) for name, times in longest],
        len(kernels) / steps,
    )


def _gaps(kernels: Sequence[Kernel]) -> float:
    """Seconds between the first and the last in which none ran."""
    idle, end = 0.0, min(each.start for each in kernels)
    for each in sorted(kernels, key=lambda each: each.start):
        idle += max(0.0, each.start - end)
        end = max(end, each.end)
    return idle
