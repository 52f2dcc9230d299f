"""Sources of data: classes of other packages that give a run its examples, as `data = spiral()`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice


@dataclass(frozen=True)
class DataRequest:
    """The run that data is asked for."""

    inputs: Mapping[str, TensorType]
    """The types of the inputs that data feeds, with the sizes of a step: `f32[64, 2]`."""
    folder: Path
    """The folder of the program, where relative paths of the program start."""


@dataclass(frozen=True)
class DataSource(Choice, ABC):
    """A source of examples; its fields are the arguments of `data = word(...)`.

    A combination of arguments that makes no sense raises `ValueError` in `__post_init__`.
    """

    @abstractmethod
    def examples(self, request: DataRequest) -> object:
        """Returns the examples to train on, in a form that Python may give a run.

        That is a dictionary of NumPy arrays by name, of which those called `test.NAME` are held
        out; a data set with `len()` whose items are examples; or an iterable of batches. A run that
        is resumed asks again, and the same arguments have to give the same examples.
        """

    def held_out(self, request: DataRequest) -> object:
        """Returns the held-out examples in such a form, or `None` if there are no others."""
        del request
        return None
