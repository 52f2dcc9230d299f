"""Blocks and models of the standard library that are known by an import alone, for suggestions."""

from collections.abc import Mapping
from functools import cache

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import LIBRARY
from meganeura_dsl.resources import standard_model_names, standard_models
from meganeura_dsl.syntax.parser.parser import outline


def imports_of(name: str) -> tuple[str, ...]:
    """The lines that import a block or model of this name, in any case of its letters.

    Nothing but for a name that has that of its file in it, as `resnet18` has: `Net` and `Layer` are
    anybody's.
    """
    found = _importable().get(name.lower(), ())
    exact = [each for each in found if each[1] == name] or found
    if len({module for module, _ in exact}) != 1:
        return ()
    return tuple(f"from {module} import {declared}" for module, declared in exact)


@cache
def _importable() -> Mapping[str, tuple[tuple[str, str], ...]]:
    """The files and names of all blocks and models, by the name in small letters."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for module in standard_model_names():
        if module in LIBRARY:
            continue
        text = (standard_models() / f"{module}.mgn").read_text(encoding="utf-8")
        for each in outline(Source(f"{module}.mgn", text)):
            key = each.name.lower()
            if each.kind in ("block", "model") and module in key:
                found[key] = (*found.get(key, ()), (module, each.name))
    return found
