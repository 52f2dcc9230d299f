"""Examples and batches from Python, as arrays by the names of the inputs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.data.dataset import InputSpec
from meganeura_runtime.io.data.source_problems import NotData
from meganeura_runtime.io.tensors.host_array import host_array
from meganeura_runtime.io.tensors.stored_tensor import Array, StoredTensor, stored_array

FROM_PYTHON = Path("(from Python)")
"""The name in messages and in `settings.json` of data without a file."""


def named_arrays(item: object, input_spec: InputSpec, what: str) -> dict[str, Array]:
    """The arrays of an example or a batch, by the names that tensors of a file would have.

    A dictionary may hold more than the inputs; a tuple or a list has their order. Raises
    `ProblemError`; `what` says in it which item this is.
    """
    names = [input_spec.tensors.get(name, name) for name in input_spec.inputs]
    if isinstance(item, Mapping):
        held = cast("Mapping[str, object]", item)
        missing = [name for name in names if name not in held]
        if missing:
            reason = f"it has no `{missing[0]}`, only {', '.join(map(str, held)) or 'nothing'}"
            raise refused(what, reason, input_spec)
        return {name: as_array(held[name], f"`{name}` of {what}", input_spec) for name in names}
    if isinstance(item, tuple | list):
        values = cast("Sequence[object]", item)
        if len(values) != len(names):
            reason = f"it has {len(values)} parts, and there are {len(names)} inputs"
            raise refused(what, reason, input_spec)
        together = zip(names, values, strict=True)
        return {
            name: as_array(value, f"`{name}` of {what}", input_spec) for name, value in together
        }
    reason = f"it is neither a dictionary nor a tuple, but of type {type(item).__name__}"
    raise refused(what, reason, input_spec)


def as_array(value: object, what: str, input_spec: InputSpec) -> Array:
    """A tensor of any library, or a number, as an array; raises `ProblemError`."""
    try:
        array = host_array(value)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise refused(what, reason, input_spec) from None
    if array.dtype.kind not in "fiub":
        raise refused(what, f"it holds no numbers, but {array.dtype}", input_spec)
    return array


def as_tensor(name: str, array: Array, what: str, input_spec: InputSpec) -> StoredTensor:
    """An array as a tensor of a file; raises `ProblemError` for a type that no graph has."""
    try:
        return stored_array(FROM_PYTHON, name, array)
    except ValueError as error:
        raise refused(what, str(error), input_spec) from None


def refused(what: str, reason: str, input_spec: InputSpec) -> ProblemError:
    """Returns the error for an object that was to feed the inputs."""
    return ProblemError(NotData(what, reason, tuple(input_spec.inputs)))
