"""The choice of the weights that become numbers of a few bits, and what that changes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod, sqrt

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.quantization_problems import (
    SHORTEST_ROW,
    NothingKept,
    NothingQuantized,
)

GROUPS = {8: 0, 4: 32}
"""Numbers with a scale by default: a row with 8 bits, 32 with 4, as in the format Q4_0 of GGML."""


def levels_of(
    parameters: Sequence[ParameterInfo], bits: int, group: int | None, keep: Sequence[str] = ()
) -> dict[str, Quantization]:
    """The levels of the weights that are quantized: f32, trained, with long rows.

    A weight whose rows `group` does not divide has one scale for each row. Those that a glob of
    `keep` matches stay as they are. Raises `ProblemError` if there are none, and for a glob that
    matches nothing.
    """
    wanted = GROUPS[bits] if group is None else group
    able = [each for each in parameters if _is_able(each)]
    for glob in keep:
        if not any(fnmatchcase(each.name, glob) for each in able):
            raise ProblemError(NothingKept(glob, tuple(each.name for each in able)))
    found: dict[str, Quantization] = {}
    for each in able:
        if any(fnmatchcase(each.name, glob) for glob in keep):
            continue
        length = prod(concrete_shape(each.type.shape)[1:])
        divides = wanted and length % wanted == 0
        found[each.name] = Quantization(bits, wanted if divides else 0)
    if not found:
        names, kept = (tuple(each.name for each in some) for some in (parameters, able))
        raise ProblemError(NothingQuantized(names, kept))
    return found


def _is_able(each: ParameterInfo) -> bool:
    shape = concrete_shape(each.type.shape)
    trained = each.kind in ("param", "frozen") and each.type.dtype is DType.F32
    return trained and len(shape) > 1 and prod(shape[1:]) >= SHORTEST_ROW


@dataclass(frozen=True)
class Change:
    """The change of one weight: its bytes before and after, and its error."""

    name: str
    before: int
    after: int
    error: float
    """Root mean square of the differences, relative to that of the weight."""


def changed(values: Mapping[str, Array], levels: Mapping[str, Quantization]) -> Iterator[Change]:
    """Yields the change of each weight that is quantized."""
    for name, how in levels.items():
        array = values[name]
        now = how.dequantize(*how.quantize(array), array.shape)
        off = sqrt(float(np.square(now - array, dtype=np.float64).mean()))
        size = sqrt(float(np.square(array, dtype=np.float64).mean()))
        error = off / size if size else 0.0
        yield Change(name, array.nbytes, how.bytes(array.shape), error)
