"""A measurement of weights as text and as JSON: the loss, the metrics, and each class."""

from collections.abc import Sequence

import numpy as np

from meganeura_dsl.diagnostics.characters import printable
from meganeura_dsl.diagnostics.plain_table import count, table
from meganeura_runtime.train.loop.measurement import Measurement


def measurement_text(found: Measurement) -> str:
    """Returns the measured values, and a table of the classes where there are some."""
    which = "held out" if found.is_held_out else "all there are"
    values = table([(name, f"{value:.5g}") for name, value in found.values.items()], right=(1,))
    lines = [f"{count(found.examples, 'example')}, {which}", values]
    classes = _classes(found)
    if classes:
        head = ("class", "examples", "recall", "precision", "mostly taken for")
        shown = [head, *(_row(each) for each in classes)]
        lines += ["", table(shown, right=(1, 2, 3))]
    return "\n".join(lines)


def measurement_data(found: Measurement) -> dict[str, object]:
    """Returns the same for programs; a number that is not finite is null."""
    return {
        "examples": found.examples,
        "held_out": found.is_held_out,
        "values": {name: _finite(value) for name, value in found.values.items()},
        "classes": [
            {
                "name": each.name,
                "examples": each.examples,
                "recall": each.recall,
                "precision": each.precision,
                "predicted": list(each.predicted),
            }
            for each in _classes(found)
        ],
    }


class _Class:
    """The recall and the precision of a class, and the predictions for its examples."""

    def __init__(self, counts: "np.ndarray", number: int, names: Sequence[str]) -> None:
        own, right = counts[number], int(counts[number, number])
        self.name = names[number]
        self.examples = int(own.sum())
        self.predicted = tuple(int(each) for each in own)
        taken = int(counts[:, number].sum())
        self.recall = right / self.examples if self.examples else None
        self.precision = right / taken if taken else None
        others = [(wrong, names[at]) for at, wrong in enumerate(self.predicted) if at != number]
        most, name = max(others)
        self.mistake = f"{name} ({most:,})" if most else ""


def _classes(found: Measurement) -> list[_Class]:
    """Returns the classes of a confusion matrix whose entries are whole examples."""
    if found.confusion is None:
        return []
    exact = np.asarray(found.confusion, np.float64) * found.examples
    counts = np.rint(exact).astype(np.int64)
    if np.abs(exact - counts).max() > 0.01 * max(1, found.examples) ** 0.5:
        return []
    known = len(found.classes) == len(counts)
    names = found.classes if known else [str(number) for number in range(len(counts))]
    return [_Class(counts, number, names) for number in range(len(counts))]


def _row(each: _Class) -> tuple[str, ...]:
    shares = ("-" if share is None else f"{share:.4f}" for share in (each.recall, each.precision))
    return printable(each.name), f"{each.examples:,}", *shares, printable(each.mistake)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
