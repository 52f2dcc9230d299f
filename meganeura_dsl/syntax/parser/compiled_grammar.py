"""The grammar as `grammar.py` compiled it: plain data beside this file, and a Lark that can run it.

Importing this module makes the parser of Lark ready to be imported alone.
"""

import json
import re
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TypedDict, cast

from meganeura_dsl import resources
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.startup.partial_package import import_in_parts
from meganeura_dsl.startup.tricks import Trick, is_enabled
from meganeura_dsl.syntax.problems.grammar_problems import UnusableGrammar

_VERSION = re.compile(r'^__version__\b[^"\n]*"([^"\n]*)"', re.MULTILINE)


class CompiledGrammar(TypedDict):
    """The content of `grammar.json`; `grammar.py` says what its parts are."""

    grammar: str
    lark: list[str]
    keywords: dict[str, str]
    reserved: list[str]
    patterns: list[tuple[str, str]]
    rules: list[tuple[str, list[str], str, list[int | None]]]
    tokens: dict[str, str]
    states: list[dict[str, object]]
    start_states: dict[str, int]
    end_states: dict[str, int]


def load(path: Path) -> CompiledGrammar:
    """The compiled grammar of a file; raises `ProblemError` if the parser cannot run on it."""
    try:
        content = json.loads(path.read_bytes())
        digest, series = content["grammar"], content["lark"]
    except OSError:
        raise _unusable(f"there is no `{path.name}`") from None
    except (ValueError, LookupError, TypeError):
        raise _unusable(f"`{path.name}` is damaged") from None
    if digest != sha256(resources.grammar().encode()).hexdigest():
        raise _unusable(f"`{path.name}` is that of another grammar")
    version = lark_version()
    if ".".join(version.split(".")[:2]) not in series:
        found = f"Lark {version} is installed" if version else "Lark is not installed"
        raise _unusable(f"it is for Lark {' and '.join(series)}, and {found}")
    return cast("CompiledGrammar", content)


def _unusable(reason: str) -> ProblemError:
    return ProblemError(UnusableGrammar(reason))


def lark_version() -> str:
    """The version of Lark that is installed; empty if none is.

    It is read from the source of the package: to import the package or its metadata takes 20 ms.
    """
    spec = find_spec("lark")
    if spec is None:
        return ""
    read: Callable[[str], str | None] = getattr(spec.loader, "get_source", str)
    found = _VERSION.search(read("lark") or "")
    return found[1] if found else import_module("lark").__version__


GRAMMAR = load(Path(__file__).with_name("grammar.json"))

KEYWORDS = GRAMMAR["keywords"]
"""The terminals of words, by their spelling."""

RESERVED = frozenset(GRAMMAR["reserved"])
"""The words that are never names."""

if is_enabled(Trick.LARK):
    import_in_parts("lark")
    # Lark imports these where they are installed, to compile grammars.
    import_in_parts("interegular")
    import_in_parts("regex")
