"""Cures of graphs whose messages are gathered and added up by the ids of one end of the edges."""

import re

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.syntax.problems.block_text import block_rest, bracketed


def other_ids(span: Span, name: str) -> Help | None:
    """The `scatter` by ids that are never used, where one gathers and adds up by others like them.

    `span` is where the input `name` is declared.
    """
    if "scatter_" not in span.source.text:
        return None
    text = block_rest(span.source.text[span.source.text.rfind("\n", 0, span.start) + 1 :])
    declared = re.search(rf"\b{name}: (i32\[[^\]]*\])", text)
    if declared is None:
        return None
    for found in re.finditer(r"\bscatter_\w+(?=\()", text):
        arguments = bracketed(text, found.end())
        ids = arguments[0][0] if arguments is not None and arguments[0] else ""
        is_like = re.search(rf"\b{re.escape(ids)}: {re.escape(declared[1])}", text)
        if arguments is None or not ids.isidentifier() or is_like is None or ids == name:
            continue
        if re.search(rf"\bgather\([^()]*\b{ids}\b", text):
            words = f"`{ids}` gathers and adds up as well: add up by `{name}`, where an edge ends"
            return Help(words, f"{found[0]}({', '.join((name, *arguments[0][1:]))})")
    return None
