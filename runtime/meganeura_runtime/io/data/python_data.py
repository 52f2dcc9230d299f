"""Data that is given from Python: arrays, a data set of examples, or an iterable of batches."""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import cast

import numpy as np

from meganeura_runtime.io.data.dataset import Demand
from meganeura_runtime.io.data.python_items import as_array, as_tensor, named_arrays, refused
from meganeura_runtime.io.data.python_rows import Examples, row_tensors
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


@dataclass(frozen=True, eq=False)
class Batches:
    """An iterable of batches, which nobody has looked at."""

    data: Iterable[object]


def python_data(data: object, demand: Demand) -> Mapping[str, StoredTensor] | Batches:
    """The tensors of arrays or of a data set of examples, or an iterable of batches.

    A dictionary holds arrays by the names of tensors, as a file does. What has `len()` and `[i]` is
    a data set if its items have one axis less than the inputs. Raises `ProblemError`.
    """
    if isinstance(data, Mapping):
        arrays = {
            str(name): as_array(value, f"`{name}`", demand)
            for name, value in cast("Mapping[object, object]", data).items()
        }
        return {name: as_tensor(name, each, f"`{name}`", demand) for name, each in arrays.items()}
    if _has_examples(data, demand):
        return row_tensors(cast("Examples", data), demand)
    if _is_no_collection(data) or not isinstance(data, Iterable):
        kind = type(data).__name__
        raise refused("the data", f"it is of type {kind}", demand)
    return Batches(cast("Iterable[object]", data))


def _has_examples(data: object, demand: Demand) -> bool:
    """Whether items can be picked, and each is one example rather than a batch of them."""
    if not isinstance(data, Sized) or not hasattr(data, "__getitem__") or _is_no_collection(data):
        return False
    try:
        if not len(data):
            raise refused("the data", "it has no examples", demand)
        item = cast("Examples", data)[0]
    except (NotImplementedError, TypeError, KeyError):
        return False
    arrays = named_arrays(item, demand, "item 0")
    names = {demand.tensors.get(name, name): len(x.shape) for name, x in demand.inputs.items()}
    counted = [name for name in names if name not in demand.whole]
    return bool(counted) and all(arrays[name].ndim == names[name] - 1 for name in counted)


def _is_no_collection(data: object) -> bool:
    """Whether it could be gone through, and yet holds neither examples nor batches."""
    return isinstance(data, str | bytes | np.ndarray)
