"""The kernel configs that `meganeura tune` found for an adapter, on disk."""

from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.paths import cache_folder
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.config.tuned_configs import (
    UNTUNED,
    TunedConfigs,
    TunedConfigsError,
    TuningDatabase,
    TuningKey,
    content_of,
    read_tuned_configs,
    read_tuning_record,
)
from meganeura_runtime.backends.webgpu.device.adapters import DeviceInfo
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.files.file_problems import CannotWrite

FOLDER = "tuned"


def tuning_key_of(info: DeviceInfo) -> TuningKey:
    """Returns the key of the choices for an adapter."""
    return TuningKey(info.name, f"{info.backend}, {info.driver}")


def tuned_file(info: DeviceInfo) -> Path | None:
    """The file of an adapter, which need not exist; `None` where caching is off."""
    folder = cache_folder()
    return None if folder is None else folder / FOLDER / tuning_key_of(info).file_name


def tuned_configs(info: DeviceInfo, limits: DeviceLimits) -> tuple[TunedConfigs, str]:
    """The choices for an adapter, and a line about them, which is empty if there is no file.

    That line also names a file that cannot be used, which is no error.
    """
    path = tuned_file(info)
    if path is None:
        return UNTUNED, ""
    try:
        return read_tuned_configs(path, tuning_key_of(info), limits), f"kernels as tuned: {path}"
    except FileNotFoundError:
        return UNTUNED, ""
    except TunedConfigsError as error:
        return UNTUNED, f"kernels not as tuned: {error}"


def known_configs(info: DeviceInfo) -> TuningDatabase:
    """Returns the choices found for an adapter so far; none, if the file cannot be used."""
    path = tuned_file(info)
    try:
        return TuningDatabase() if path is None else read_tuning_record(path, tuning_key_of(info))
    except (FileNotFoundError, TunedConfigsError):
        return TuningDatabase()


def store_configs(info: DeviceInfo, known: TuningDatabase) -> Path | None:
    """Write what was found for an adapter; the file, or `None` where caching is off.

    Raises `ProblemError` where it cannot be written.
    """
    path = tuned_file(info)
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
    write_text(path, content_of(tuning_key_of(info), known))
    return path
