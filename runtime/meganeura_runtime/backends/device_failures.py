"""Failures of a device as problems with a source location."""

from collections.abc import Generator
from contextlib import contextmanager

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends.device_problems import BeyondLimits, DeviceFailure, TooLittleMemory
from meganeura_runtime.backends.errors import DeviceError, LimitError
from meganeura_runtime.backends.memory_estimate import MemoryExceededError


@contextmanager
def explained_failures(batch: tuple[str, int] | None = None) -> Generator[None]:
    """Failures of devices inside become `ProblemError`; a batch has a name and a size."""
    try:
        yield
    except MemoryExceededError as error:
        raise ProblemError(TooLittleMemory.of(error, batch)) from error
    except DeviceError as error:
        raise ProblemError(DeviceFailure(str(error))) from error
    except LimitError as error:
        origin = error.value.origin
        raise ProblemError(
            BeyondLimits(origin.span, origin.path, error.limit, str(error))
        ) from error
