"""Seals of files that this installation compiled.

A seal is a keyed hash (HMAC-SHA-256, RFC 2104) of what is sealed. The key lies in the cache folder,
is made when it is first needed, and is for its owner only. Who cannot read it cannot make a seal.
"""

import hmac
import os
from contextlib import suppress
from secrets import token_bytes

from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_dsl.support.paths import cache_folder

FILE = "seal.key"
BYTES = 32


def seal(content: bytes) -> str | None:
    """The seal of some bytes; `None` where no key can be stored."""
    folder = cache_folder()
    if folder is None:
        return None
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        built = os.open(folder / FILE, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(built, "wb") as file:
            file.write(token_bytes(BYTES))
    return _sealed(content)


def is_sealed(content: bytes, claimed: str) -> bool:
    """True if this installation made that seal of it."""
    expected = _sealed(content)
    return expected is not None and hmac.compare_digest(expected.encode(), claimed.encode())


def _sealed(content: bytes) -> str | None:
    folder = cache_folder()
    if folder is None:
        return None
    try:
        key = read_bytes(folder / FILE, 1)
    except (OSError, TooLongError):
        return None
    return hmac.digest(key, content, "sha256").hex() if len(key) == BYTES else None
