"""Mistakes in what `meganeura quantize` is asked for."""

from collections.abc import Sequence

from meganeura_dsl.diagnostics.problem import Help, Problem, Remark, Report
from meganeura_runtime.io.weights import LISTED

SHORTEST_ROW = 32
"""Numbers of the shortest rows that are quantized: with 4 bits a scale is a fifth of such a row."""


class NothingQuantized(Problem, code="E0575", topic="weights"):
    """No weight of a model can be quantized, or all of those are to stay as they are."""

    tensors: tuple[str, ...]
    kept: tuple[str, ...]
    """Those that could be quantized, but are to stay."""

    def report(self) -> Report:
        """Say which weights can be."""
        if self.kept:
            return self.message(
                "`--keep` leaves every weight as it is",
                _listed("kept", self.kept),
                cure=Help("keep fewer of them"),
            )
        return self.message(
            "no weight of this model can be quantized",
            _listed("weights", self.tensors),
            cure=Help(f"those can that are trained in f32, with rows of {SHORTEST_ROW} or more"),
        )


class NothingKept(Problem, code="E0576", topic="weights"):
    """A glob that should leave weights as they are matches none that would be quantized."""

    glob: str
    tensors: tuple[str, ...]

    def report(self) -> Report:
        """Name the weights that it could have matched."""
        return self.message(
            f"no weight that is quantized matches `{self.glob}`",
            _listed("quantized", self.tensors),
            cure=Help(f"leave out --keep '{self.glob}'"),
        )


def _listed(title: str, names: Sequence[str]) -> Remark:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return Remark(title, f"{', '.join(names[:LISTED])}{more}" if names else "none")
