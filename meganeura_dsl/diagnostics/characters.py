"""Untrusted text on a terminal: control characters are escaped, and widths are columns.

Control, bidirectional and invisible characters never reach a terminal raw.
"""

from unicodedata import category, east_asian_width

LONGEST_TEXT = 400
TAB = " " * 4
CUT = "..."


def printable(text: str) -> str:
    """One line that is safe on any terminal: what has no glyph is escaped, ESC as `x1b`."""
    if len(text) > LONGEST_TEXT:
        text = text[:LONGEST_TEXT] + CUT
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _spell(char) for char in text)


def safe(text: str) -> str:
    """Lines of any length that are safe on any terminal, as `printable` makes one line."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else _spell(char) for char in text)


def _spell(char: str) -> str:
    return TAB if char == "\t" else char.encode("unicode_escape").decode("ascii")


def width(text: str) -> int:
    """Columns a printable text takes on a terminal (Unicode Standard Annex 11)."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1
