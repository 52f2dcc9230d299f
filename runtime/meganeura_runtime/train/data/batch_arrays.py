"""Batches of Python, checked against the inputs of a `train` block.

An array is whatever NumPy reads: its own arrays, tensors of PyTorch and JAX on the host, lists.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.infer.inference_problems import InputShape
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.tensors.host_array import host_array
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array, read_verified, stored_array
from meganeura_runtime.train.training_problems import BatchMismatch, InputMismatch

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Batch:
    """Arrays in the types of the inputs, and the sizes that follow from them."""

    arrays: dict[str, Array]
    sizes: Mapping[str, int]


class BatchReader:
    """Reads the batches of a `train` block."""

    def __init__(self, name: str, inputs: Mapping[str, TensorType]) -> None:
        self._name = name
        self._inputs = inputs
        self._last: tuple[Shapes, Mapping[str, int]] = ({}, {})

    def read(self, batch: Mapping[str, object]) -> Batch:
        """The arrays of a batch; raises `ProblemError` for one that does not fit the inputs."""
        wrong = [
            *(
                InputMismatch(name, "", str(wanted))
                for name, wanted in self._inputs.items()
                if name not in batch
            ),
            *(InputMismatch(str(name), "given", "") for name in batch if name not in self._inputs),
        ]
        if wrong:
            raise self._error(*wrong)
        found = {name: self._array(name, batch[name]) for name in self._inputs}
        sizes = self._sizes({name: array.shape for name, array in found.items()})
        return Batch({name: self._converted(name, each) for name, each in found.items()}, sizes)

    def _array(self, name: str, value: object) -> Array:
        """Returns the array of a value, without a copy where it is an array of the host."""
        try:
            return host_array(value)
        except (TypeError, ValueError, RuntimeError, BufferError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            wrong = InputMismatch(name, f"unreadable ({reason})", str(self._inputs[name]))
            raise self._error(wrong) from error

    def _sizes(self, shapes: Shapes) -> Mapping[str, int]:
        """The sizes that the inputs leave open; they seldom differ from those of the last batch."""
        known, sizes = self._last
        if shapes == known:
            return sizes
        try:
            sizes = bind_sizes(self._inputs, shapes)
        except ProblemError as error:
            match error.problem:
                case InputShape() as problem:
                    here = tuple((name, size) for name, size, _ in problem.sizes)
                    wrong = InputMismatch(problem.name, problem.given, problem.wanted)
                    raise self._error(wrong, sizes=here, hint=problem.hint) from None
                case _:
                    raise
        self._last = shapes, sizes
        return sizes

    def _converted(self, name: str, array: Array) -> Array:
        """An array in the type of its input, if no value changes its meaning."""
        dtype = self._inputs[name].dtype
        target = NUMPY[dtype]
        if array.dtype == target:
            return np.asarray(array, order="C")
        if array.dtype.kind == "f" and dtype.is_float:
            with np.errstate(over="ignore"):
                return array.astype(target)
        if array.dtype.kind not in "iub":
            shown = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
            raise self._error(InputMismatch(name, shown, str(self._inputs[name])))
        return read_verified(stored_array(Path(name), name, array), dtype)

    def _error(
        self, *wrong: InputMismatch, sizes: tuple[tuple[str, int], ...] = (), hint: str = ""
    ) -> ProblemError:
        return ProblemError(BatchMismatch(self._name, wrong, sizes, hint))
