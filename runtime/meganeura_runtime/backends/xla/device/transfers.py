"""Transfers of arrays between the host and devices."""

from collections.abc import Mapping

import jax
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import TensorType
from meganeura_runtime.backends.xla.device.failures import explained


def local_type(of: TensorType, sharding: Sharding) -> TensorType:
    """Returns the type of this process's share of an input: its rows, if others feed the rest."""
    if sharding.is_fully_addressable:
        return of
    shape = concrete_shape(of.shape)
    parts = sharding.addressable_devices_indices_map(shape).values()
    rows = {part[0].indices(shape[0]) for part in parts if part}
    if not rows:
        return of
    return of.with_shape((sum(stop - start for start, stop, _ in rows), *shape[1:]))


def placed_whole(array: Array, where: Format) -> jax.Array:
    """Returns an array that every process has, on the devices of this one.

    It is copied first, since JAX reads it later: the caller may write to it again.
    """
    if where.sharding.is_fully_addressable:
        return jax.device_put(np.array(array), where, may_alias=False)
    return jax.make_array_from_callback(array.shape, where, lambda at: np.array(array[at]))


def placed_parts(
    arrays: Mapping[str, Array], shardings: Mapping[str, Sharding]
) -> dict[str, jax.Array]:
    """Returns arrays on devices, of which each process has its own share; copied as above."""
    here = {
        name: np.array(each)
        for name, each in arrays.items()
        if shardings[name].is_fully_addressable
    }
    placed = jax.device_put(here, {name: shardings[name] for name in here}, may_alias=False)
    for name in arrays.keys() - here.keys():
        placed[name] = jax.make_array_from_process_local_data(
            shardings[name], np.array(arrays[name])
        )
    return placed


def in_rows(array: jax.Array) -> jax.Array:
    """Returns the output of a device in row-major order, transposed by the device."""
    rows = Layout(tuple(range(array.ndim)))
    if not array.is_fully_addressable or array.format.layout.major_to_minor == rows.major_to_minor:
        return array
    with explained():
        return jax.device_put(array, Format(rows, array.sharding))


def on_host(array: jax.Array) -> Array:
    """Returns a whole array; if hosts share it, every process has to call this."""
    with explained():
        if not (array.is_fully_addressable or array.is_fully_replicated):
            array = _replicated(array)
        return np.array(array)


def _replicated(array: jax.Array) -> jax.Array:
    sharding = array.sharding
    assert isinstance(sharding, NamedSharding)
    whole = NamedSharding(sharding.mesh, PartitionSpec())
    return jax.jit(_same, out_shardings=whole)(array)


def _same(array: jax.Array) -> jax.Array:
    return array
