"""Problems of indices out of range, in data or during a step."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError, Remark, Report
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.outputs import IndexCheck
from meganeura_runtime.io.files.file_problems import show_index


class IndexOutside(Problem, code="E0535", topic="data"):
    """A class, a word, a node or a position that is given is none of those there are."""

    span: Span | None
    """The setting that names the data."""
    file: str
    """The file of the tensor; empty if it was fed by a program."""
    name: str
    index: tuple[int, ...]
    value: int
    bound: Bound
    cut: tuple[int, int] | None = None
    """The sizes of a step's batch and of the smaller ones of an evaluation, if they differ."""

    def report(self) -> Report:
        wanted = f"below {self.bound.shown}" if self.value >= 0 else f"at least {self.bound.least}"
        at = f"{self.name}{show_index(self.index)}"
        found = Remark("found at" if not self.file else self.file, at)
        needed = (Remark("needed here", self.bound.location),) if self.bound.location else ()
        return self.message(
            f"`{self.name}` holds {self.value}, and must be {wanted}",
            found,
            *needed,
            *self._batches(),
            span=self.span,
            cure=self._cure(),
        )

    def _batches(self) -> tuple[Remark, ...]:
        if self.cut is None:
            return ()
        return (Remark("measured", "in batches of {}, where a step has {}".format(*self.cut)),)

    def _cure(self) -> Help:
        if self.cut is None:
            return Help(
                "ids count from 0: store those that there are, or let the program have more"
            )
        by_hand = "`trainer.evaluate` takes batches one by one too"
        return Help(f"measure a multiple of {self.cut[1]} examples; {by_hand}")


class ComputedIndexOutside(Problem, code="E0537", topic="index range"):
    """An index that a program computes is none of those there are."""

    value: int
    count: int
    location: str

    def report(self) -> Report:
        wanted = f"below {self.count}" if self.value >= 0 else "at least 0"
        needed = (Remark("needed here", self.location),) if self.location else ()
        cure = (
            f"pick from more than {self.value}, or feed less, so that the index is smaller"
            if self.value >= 0
            else "an index counts from 0, and never from the end"
        )
        return self.message(
            f"a computed index is {self.value}, and must be {wanted}",
            *needed,
            cure=Help(cure),
        )


def check_values(
    values: Array,
    bound: Bound,
    name: str,
    file: str = "",
    span: Span | None = None,
    first: int | NDArray[np.int64] = 0,
) -> None:
    """Raise `ProblemError` at the first value that is out of range and not exempt.

    `first` is the number of the first row, or of each, where the values are rows of a tensor.
    """
    wrong = np.less(values, 0) | np.greater_equal(values, bound.count)
    if bound.exempt and wrong.any():
        wrong &= ~np.isin(values, list(bound.exempt))
    if not wrong.any():
        return
    at = np.unravel_index(int(wrong.argmax()), values.shape)
    index = tuple(map(int, at))
    if index:
        row = index[0] + first if isinstance(first, int) else int(first[index[0]])
        index = (row, *index[1:])
    raise ProblemError(IndexOutside(span, file, name, index, int(values[at]), bound))


def require_inside(checks: Sequence[IndexCheck], outputs: Mapping[str, Array]) -> None:
    """Raise `ProblemError` unless all checks among the outputs of a step hold."""
    for check in checks:
        value = check.outside(int(outputs[check]))
        if value is not None:
            raise ProblemError(ComputedIndexOutside(value, check.below, check.location))
