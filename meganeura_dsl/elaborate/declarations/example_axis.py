"""The size of a `train` block that counts examples.

An input marked `whole` is the same at every step. The first sizes of all others are made of one
size, which counts examples: `[batch, d]` has one row for each, `[4 * batch, d]` four. Where no
first size has a name, one example is whatever the first axis of each input takes.
"""

from collections.abc import Collection, Mapping

from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.size import Dim

USUAL = "batch"
"""The size that counts where several could, as in `[batch * length]`."""


def counting_size(inputs: Mapping[str, TensorType], whole: Collection[str] = ()) -> str | None:
    """The size that counts examples; `None` where no first size has a name, or it is not clear."""
    common = _common(inputs, whole)
    return USUAL if USUAL in common else next(iter(common)) if len(common) == 1 else None


def unclear_inputs(
    inputs: Mapping[str, TensorType], whole: Collection[str] = ()
) -> Mapping[str, TensorType]:
    """The inputs that do not share the size that counts; empty where one does count, or none."""
    counted = {name: wanted for name, wanted in inputs.items() if name not in whole}
    if not any(_leading(wanted) for wanted in counted.values()):
        return {name: wanted for name, wanted in counted.items() if not wanted.shape}
    counter = counting_size(inputs, whole) or USUAL
    unclear = {name: each for name, each in counted.items() if counter not in _mentioned(each)}
    return unclear if counting_size(inputs, whole) else unclear or counted


def _common(inputs: Mapping[str, TensorType], whole: Collection[str]) -> frozenset[str]:
    """The names that all first sizes with names have in common."""
    leading = [_leading(wanted) for name, wanted in inputs.items() if name not in whole]
    named = [names for names in leading if names]
    return frozenset[str].intersection(*named) if named else frozenset()


def _leading(wanted: TensorType) -> frozenset[str]:
    size = wanted.shape[0] if wanted.shape else 1
    return frozenset(size.variables()) if isinstance(size, Dim) else frozenset()


def _mentioned(wanted: TensorType) -> frozenset[str]:
    """All names in the shape; a name that is not on the first axis is refused with the data."""
    sizes = [size.variables() for size in wanted.shape if isinstance(size, Dim)]
    return frozenset[str]().union(*sizes)
