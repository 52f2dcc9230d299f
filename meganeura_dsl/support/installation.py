"""The command that adds an extra to this installation, as far as its metadata say what it is."""

import json
from functools import cache
from pathlib import Path
from shlex import quote
from typing import cast
from urllib.parse import urlparse
from urllib.request import url2pathname

NAME = "meganeura"


def install_command(extra: str) -> str:
    """Returns `pip install ...` of the place that this package was installed from, with an extra.

    That is a checkout, an archive or a repository by its address, and else an index of packages.
    """
    origin = _origin()
    url = str(origin.get("url", ""))
    if url.startswith("file:"):
        path = Path(url2pathname(urlparse(url).path))
        if path.exists():
            is_editable = _part(origin, "dir_info").get("editable") is True
            return f"pip install {'-e ' * is_editable}{quote(f'{path}[{extra}]')}"
    elif url:
        system = str(_part(origin, "vcs_info").get("vcs", ""))
        address = f"{system}+{url}" if system else url
        return f"pip install {quote(f'{NAME}[{extra}] @ {address}')}"
    return f"pip install {quote(f'{NAME}[{extra}]')}"


@cache
def _origin() -> dict[str, object]:
    """Returns `direct_url.json` (PEP 610); empty for a package of an index, and where it is bad."""
    from importlib.metadata import (  # noqa: PLC0415 - takes 20 ms, and is rarely needed
        PackageNotFoundError,
        distribution,
    )

    try:
        found: object = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _part(origin: dict[str, object], name: str) -> dict[str, object]:
    found = origin.get(name)
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}
