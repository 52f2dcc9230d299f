"""A hash of the compiler's sources, which is part of every cache key.

So what one version cached is never used by another, or after an edit.
"""

import os
from functools import cache
from hashlib import sha256

import meganeura_dsl


@cache
def front_end() -> str:
    """The version and the source of the front end."""
    digest = sha256(meganeura_dsl.__version__.encode())
    for folder in meganeura_dsl.__path__:
        digest.update(fingerprint(folder).encode())
    return digest.hexdigest()


def fingerprint(folder: str) -> str:
    """The source of a package, as a hash of the names and contents of its files."""
    digest = sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(parent, name)  # noqa: PTH118 - paths as text take half the time
                with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                    content = file.read()
                title = f"{path.removeprefix(folder)} {len(content)}\n"
                digest.update(title.encode() + content)
    return digest.hexdigest()
