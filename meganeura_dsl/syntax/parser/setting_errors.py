"""Lines under `run:` that cannot be read: several settings in a line, and texts without quotes."""

import re

from meganeura_dsl.diagnostics.problem import Problem
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.parser.unexpected_token import Failure
from meganeura_dsl.syntax.problems import token_problems

TEXTS = frozenset(
    {
        "balance",
        "best",
        "data",
        "device",
        "memory",
        "not_finite",
        "precision",
        "sample_prompt",
        "sampling_weights",
        "sharding",
        "validation",
    }
)
"""The settings that take a text, by which `--set` reads them without quotes."""
_SETTING = re.compile(
    r'\s*(?P<key>(?P<name>[^\W\d]\w*)(?:\["[^"\n]*"\])?)\s*=\s*(?P<value>[^#\n]*)'
)
_NEXT = re.compile(r",\s*(?=[^\W\d]\w*\s*=(?!=))")
_TEXT = re.compile(r"[\w.:/\\-]+")
"""Pattern of the names of devices and files, which stand in quotes."""


def is_setting(span: Span) -> bool:
    """Returns True if the line on which a span starts stands directly under `run:`."""
    lines = span.source.text.split("\n")
    line = lines[span.line - 1]
    depth = len(line) - len(line.lstrip())
    for above in reversed(lines[: span.line - 1]):
        code = above.partition("#")[0].rstrip()
        if code and len(code) - len(code.lstrip()) < depth:
            return code.strip() == "run:"
    return False


def unread_setting(failure: Failure) -> Problem | None:
    """A setting of which more than its value is on its line, or a text that is not in quotes."""
    span = failure.span(failure.token)
    found = _SETTING.match(failure.source.line(span.line))
    if found is None or failure.is_in_brackets or not is_setting(span):
        return None
    first, *others = _NEXT.split(found["value"].rstrip())
    if failure.token.kind == "COMMA" and others:
        advice = "each setting has a line of its own"
        pairs = [(found["key"], first), *(each.split("=", 1) for each in others)]
        written = "\n".join(f"{name.strip()} = {value.strip()}" for name, value in pairs)
    elif failure.token.kind == "COMMA" and first.endswith(","):
        advice, written = "no comma follows a setting", f"{found['key']} = {first[:-1]}"
    elif found["name"] in TEXTS and _TEXT.fullmatch(first):
        advice, written = "a text stands in quotes", f'{found["key"]} = "{first}"'
    else:
        return None
    expected = ("an operator", "the end of the line")
    return token_problems.UnexpectedToken(span, expected, advice, written)
