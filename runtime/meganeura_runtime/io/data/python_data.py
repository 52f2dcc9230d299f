"""Data that is given from Python: arrays, a data set of examples, or an iterable of batches."""

from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import cast

import numpy as np

from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.python_items import as_array, as_tensor, named_arrays, refused
from meganeura_runtime.io.data.python_rows import Examples, row_tensors
from meganeura_runtime.io.tensors.stored_tensor import StoredTensor


@dataclass(frozen=True, eq=False)
class Batches:
    """An iterable of batches that has not been read."""

    data: Iterable[object]


def python_data(
    data: object, input_spec: InputSpec, what: str = "the data"
) -> Mapping[str, StoredTensor] | Batches:
    """The tensors of arrays or of a data set of examples, or an iterable of batches.

    A dictionary holds arrays by the names of tensors, as a file does. What has `len()` and `[i]` is
    a data set if its items have one axis less than the inputs. Raises `ProblemError`, with `what`
    the data is.
    """
    if isinstance(data, Mapping):
        arrays = {
            str(name): as_array(value, f"`{name}`", input_spec)
            for name, value in cast("Mapping[object, object]", data).items()
        }
        return {
            name: as_tensor(name, each, f"`{name}`", input_spec) for name, each in arrays.items()
        }
    if _has_examples(data, input_spec, what):
        return row_tensors(cast("Examples", data), input_spec)
    if _is_no_collection(data) or not isinstance(data, Iterable):
        kind = type(data).__name__
        raise refused(what, f"it is of type {kind}", input_spec)
    return Batches(cast("Iterable[object]", data))


def _has_examples(data: object, input_spec: InputSpec, what: str) -> bool:
    """True if items can be indexed, and each is one example rather than a batch."""
    if not isinstance(data, Sized) or not hasattr(data, "__getitem__") or _is_no_collection(data):
        return False
    try:
        if not len(data):
            raise refused(what, "it has no examples", input_spec)
        item = cast("Examples", data)[0]
    except (NotImplementedError, TypeError, KeyError):
        return False
    arrays = named_arrays(item, input_spec, "item 0")
    names = {
        input_spec.tensors.get(name, name): len(x.shape) for name, x in input_spec.inputs.items()
    }
    counted = [name for name in names if name not in input_spec.whole]
    return bool(counted) and all(arrays[name].ndim == names[name] - 1 for name in counted)


def _is_no_collection(data: object) -> bool:
    """True if it is iterable, and yet holds neither examples nor batches."""
    return isinstance(data, str | bytes | np.ndarray)
