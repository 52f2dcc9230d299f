"""Amounts of memory as people write them."""

import re

UNITS = {
    "": 1,
    "B": 1,
    **{f"{prefix}B": 1000 ** (power + 1) for power, prefix in enumerate("KMGT")},
    **{f"{prefix}IB": 1024 ** (power + 1) for power, prefix in enumerate("KMGT")},
}
"""Bytes of each unit, in capitals: decimal `GB`, binary `GiB` (IEC 80000-13)."""
_FORM = re.compile(r"\s*(\d{1,15}(?:\.\d{1,15})?)\s*([A-Za-z]{0,3})\s*", re.ASCII)


def parsed_bytes(text: str) -> int:
    """The bytes of an amount such as `8GiB`, `512 MiB`, `7.5GB` or `4096`; at least 1.

    Raises `ValueError` for anything else.
    """
    found = _FORM.fullmatch(text)
    unit = None if found is None else UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise ValueError(f"`{text}` is no amount of memory such as 8GiB or 512MB")
    amount = int(float(found[1]) * unit)
    if amount < 1:
        raise ValueError(f"`{text}` is less than a byte")
    return amount
