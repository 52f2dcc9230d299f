"""The choices that `meganeura tune` made for an adapter, wherever they are kept."""

from pathlib import Path

from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.folders import cache_folder
from meganeura_runtime.adapters import DeviceInfo
from meganeura_runtime.kernels.limits import DeviceLimits
from meganeura_runtime.plan.choices import (
    UNTUNED,
    Choices,
    ChoicesError,
    Knowledge,
    Place,
    content_of,
    read_choices,
    read_found,
)
from meganeura_runtime.tensors.atomic import write_text
from meganeura_runtime.tensors.problems import CannotWrite

FOLDER = "tuned"


def place_of(info: DeviceInfo) -> Place:
    """What choices for an adapter hold for."""
    return Place(info.name, f"{info.backend}, {info.driver}")


def tuned_file(info: DeviceInfo) -> Path | None:
    """The file of an adapter, which need not exist; `None` where nothing is to be kept."""
    folder = cache_folder()
    return None if folder is None else folder / FOLDER / place_of(info).file_name


def tuned_choices(info: DeviceInfo, limits: DeviceLimits) -> tuple[Choices, str]:
    """The choices for an adapter, and a line about them, which is empty if there is no file.

    A file that cannot be used is told in that line, and is no reason not to go on.
    """
    path = tuned_file(info)
    if path is None:
        return UNTUNED, ""
    try:
        return read_choices(path, place_of(info), limits), f"kernels as tuned: {path}"
    except FileNotFoundError:
        return UNTUNED, ""
    except ChoicesError as error:
        return UNTUNED, f"kernels not as tuned: {error}"


def known_choices(info: DeviceInfo) -> Knowledge:
    """What was found for an adapter so far; nothing, if the file cannot be used."""
    path = tuned_file(info)
    try:
        return Knowledge() if path is None else read_found(path, place_of(info))
    except (FileNotFoundError, ChoicesError):
        return Knowledge()


def keep_choices(info: DeviceInfo, known: Knowledge) -> Path | None:
    """Write what was found for an adapter; where, if anything is to be kept at all.

    Raises `ProblemError` where it cannot be written.
    """
    path = tuned_file(info)
    if path is None:
        return None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ProblemError(CannotWrite(path, error.strerror or str(error))) from None
    write_text(path, content_of(place_of(info), known))
    return path
