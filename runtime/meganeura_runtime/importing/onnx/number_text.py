"""Texts of numbers."""

import numpy as np


def number_text(value: float) -> str:
    """The shortest text of a 32-bit number."""
    if value.is_integer() and abs(value) < 1 << 24:
        return f"{value:.1f}"
    single = np.float32(value)
    if np.isfinite(single) and float(single) == value:
        return _short(str(single))
    return _short(repr(value))


def _short(text: str) -> str:
    """A number without the zeros that Python writes in exponents."""
    digits, _, exponent = text.partition("e")
    return f"{digits}e{int(exponent)}" if exponent else text
