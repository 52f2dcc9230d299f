"""Results of a trainer: the numbers of a step, and tensors on the device by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches

import numpy as np
from numpy.typing import ArrayLike

from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.ir.outputs import Gradient
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.training_step import BESIDE_METRICS, LOSS, LOSS_SCALE, SKIPPED
from meganeura_runtime.backends.base import Outputs, Session
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.io.tensors.host_array import host_array
from meganeura_runtime.io.tensors.stored_tensor import NUMPY, Array


class StepResult:
    """The loss and the metrics of one step.

    The step may still be under way: reading a number waits for it, and may be put off until later
    steps are made. Numbers are means over the examples of the batch.
    """

    def __init__(
        self, step: int, learning_rate: float, outputs: Outputs, weights: Iterable[str]
    ) -> None:
        """`weights` are the paths of those that may have a gradient among the outputs."""
        self.step = step
        """Its number, from 1."""
        self.learning_rate = learning_rate
        """The learning rate that it was made with."""
        self._outputs = outputs
        names = frozenset(outputs)
        self._gradients = {path: each for path in weights if (each := Gradient(path)) in names}

    @property
    def loss(self) -> float:
        """The loss, with the weights from before the step."""
        return float(self._outputs[LOSS])

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics by name, with the weights from before the step."""
        others = {*BESIDE_METRICS, *self._gradients.values()}
        return {name: float(self._outputs[name]) for name in self._outputs if name not in others}

    @property
    def is_skipped(self) -> bool:
        """True if a gradient was not finite and the update was left out.

        That is so with `not_finite = "skip"`, and in f16, where gradients overflow now and then.
        """
        return SKIPPED in self._outputs and bool(self._outputs[SKIPPED])

    @property
    def loss_scale(self) -> float | None:
        """The scale by which the loss was multiplied for its gradients; `None` but in f16."""
        return float(self._outputs[LOSS_SCALE]) if LOSS_SCALE in self._outputs else None

    @property
    def gradients(self) -> Mapping[str, Array]:
        """The gradient of each weight that is moved, by path, before gradients are clipped.

        Empty unless `Trainer.gradients` gave the result, or the trainer was made with
        `gradients=True`. They are read from the device when they are asked for, before the next
        step: later that may raise `SessionError`.
        """
        return _Gradients(self._outputs, self._gradients)

    def __repr__(self) -> str:
        return f"<step {self.step:,}>"


class _Gradients(Mapping[str, "Array"]):
    """The outputs of a step that are gradients."""

    def __init__(self, outputs: Outputs, names: Mapping[str, Gradient]) -> None:
        self._outputs = outputs
        self._names = names

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(unknown(name, self._names))
        return np.array(self._outputs[self._names[name]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Tensors(Mapping[str, "Array"]):
    """Tensors on the device by path: reading one waits for the steps, writing one sets it."""

    def __init__(
        self, open_session: Callable[[], Session], types: Mapping[str, TensorType]
    ) -> None:
        """`open_session` gives the session that has them, or raises `ValueError`."""
        self._session = open_session
        self._types = types

    def __getitem__(self, name: str) -> Array:
        self._require(name)
        with explained_failures():
            return self._session().read(name)

    def __setitem__(self, name: str, value: ArrayLike) -> None:
        self._require(name)
        array = fitting(name, value, self._types[name])
        with explained_failures():
            self._session().write(name, array)

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def _require(self, name: str) -> None:
        if name not in self._types:
            raise KeyError(unknown(name, self._types))


def fitting(name: str, value: ArrayLike, wanted: TensorType) -> Array:
    """A value in the type of a tensor; raises `ValueError` for one of another shape."""
    array = host_array(value)
    if array.shape != wanted.shape:
        shown = ", ".join(map(str, array.shape))
        raise ValueError(f"`{name}` is {wanted}, and not {array.dtype}[{shown}]")
    return array.astype(NUMPY[wanted.dtype])


def unknown(name: str, known: Iterable[str]) -> str:
    """Returns the message for an unknown name."""
    near = get_close_matches(name, [*known], n=1)
    return f"there is no `{name}`" + (f"; did you mean {quoted(near)}?" if near else "")
