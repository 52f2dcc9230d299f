"""Where the program keeps what it found out, and could find out again."""

import os
from pathlib import Path

VARIABLE = "MEGANEURA_CACHE"
"""Set it to a folder to keep everything there, or to `off` to keep nothing."""
OFF = "off"


def cache_folder() -> Path | None:
    """The user's folder for it, which need not exist; `None` where nothing is to be kept."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return None if chosen.lower() == OFF else Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "meganeura"
