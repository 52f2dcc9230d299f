"""The paths of layers and parameters."""

from meganeura_dsl.syntax import ast

Key = tuple[str, ...]
"""A path as it is written, part by part."""


def path_key(path: ast.Path) -> Key:
    """A path as it is written, part by part."""
    found: list[str] = []
    for part in path.parts:
        match part:
            case str():
                found.append(part)
            case ast.Splice(value=value):
                found[-1] += f"{{{value.span.text}}}"
            case _:
                found.append(f"[{part.span.text}]")
    return tuple(found)
