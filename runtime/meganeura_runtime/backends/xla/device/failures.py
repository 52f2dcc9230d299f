"""Errors of XLA as errors of a device."""

from collections.abc import Generator
from contextlib import contextmanager

from jax.errors import JaxRuntimeError

from meganeura_runtime.backends.errors import DeviceError, OutOfMemoryError

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


@contextmanager
def explained() -> Generator[None]:
    """Raise errors of XLA inside of the block as a `DeviceError` of one line."""
    try:
        yield
    except JaxRuntimeError as error:
        reason, _, _ = str(error).partition("\n")
        kind = OutOfMemoryError if OUT_OF_MEMORY in reason else DeviceError
        raise kind(f"XLA: {reason}") from error
