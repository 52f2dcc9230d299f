"""The text of a setting's value."""

from collections.abc import Sequence
from typing import cast


def shown_value(value: object) -> str:
    """A value as one writes it in a .mgn file."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case {"kind": str(word)}:
            return f"the word `{word}`"
        case None:
            return "none"
        case list() | tuple():
            return f"[{', '.join(map(shown_value, cast('Sequence[object]', value)))}]"
        case float():
            return f"{value:g}"
        case _:
            return str(value)
