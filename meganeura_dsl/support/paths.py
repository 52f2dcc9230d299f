"""The cache folder."""

import os
from pathlib import Path

VARIABLE = "MEGANEURA_CACHE"
"""Set this variable to a folder to cache there, or to `off` to cache nothing."""
OFF = "off"


def cache_folder() -> Path | None:
    """The user's cache folder, which need not exist; `None` where caching is off."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen.lower() == OFF else Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "meganeura"
