"""The grammar as `grammar.py` compiled it: plain data beside this file, for a Lark that fits it."""

import json
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TypedDict, cast

from meganeura_dsl import resources
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.syntax.problems.grammar_problems import UnusableGrammar


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
    """Returns the version of Lark that is installed, or an empty text where there is none."""
    try:
        return import_module("lark").__version__
    except ModuleNotFoundError:
        return ""


GRAMMAR = load(Path(__file__).with_name("grammar.json"))

KEYWORDS = GRAMMAR["keywords"]
"""The terminals of words, by their spelling."""

RESERVED = frozenset(GRAMMAR["reserved"])
"""The words that are never names."""
