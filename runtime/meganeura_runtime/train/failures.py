"""What a device cannot do, told as a problem with its place."""

from collections.abc import Generator
from contextlib import contextmanager

from meganeura_dsl.diagnostics import ProblemError
from meganeura_runtime.adapters import DeviceError
from meganeura_runtime.plan.errors import LimitError
from meganeura_runtime.session.need import MemoryExceededError
from meganeura_runtime.train.problems import BeyondLimits, DeviceFailure, TooLittleMemory


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
