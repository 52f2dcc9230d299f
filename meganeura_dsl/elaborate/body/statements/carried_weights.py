"""Weights and named results that the iterations of a scan carry, tensor by tensor."""

from collections.abc import Mapping

from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import ElabValue, NamedTensors, Tensor, is_tensor


def in_parts(names: Mapping[str, ElabValue]) -> dict[str, ElabValue]:
    """Returns values by name, each tensor of several by a name that no program can write."""
    found: dict[str, ElabValue] = {}
    for name, value in names.items():
        if isinstance(value, NamedTensors):
            found.update((_part(name, inner), tensor) for inner, tensor in value.items)
        else:
            found[name] = value
    return found


def tensors_in(names: Mapping[str, ElabValue]) -> dict[str, Tensor]:
    """Returns the tensors among values, and those of weights and of named results in parts."""
    return {name: value for name, value in in_parts(names).items() if is_tensor(value)}


def join_parts(frame: Frame, scan: OpenScan, *, keep: bool = False) -> None:
    """Bind the names of carried weights and results to what their parts are bound to.

    The parts lose their names, unless they are kept.
    """
    for name, value in scan.grouped.items():
        parts = {_part(name, inner): tensor for inner, tensor in value.items}
        found = [frame.names.get(part) for part in parts]
        tensors = [each for each in found if each is not None and is_tensor(each)]
        if len(tensors) == len(found):
            frame.names[name] = value.changed(tensors)
        for part in () if keep else parts:
            frame.names.pop(part, None)


def _part(name: str, inner: str) -> str:
    return f"{name}.{inner}"
