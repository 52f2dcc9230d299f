"""Rules as text: what an action adds gets its type asserted at once, with no rule for each op."""

import re
from collections.abc import Iterator

from meganeura_dsl.transforms.egraph.encoding.schema import constructors

Term = str | list["Term"]


def typed(action: str) -> str:
    """An action that makes each value of an op by itself, and notes its type.

    Made values are the terms of a constructor; the type is a constructor's last argument.
    """
    notes: list[str] = []
    known: dict[str, str] = {}
    written = [_named(term, notes, known) for term in _parse(action)]
    return " ".join([*notes, *written])


def _named(term: Term, notes: list[str], known: dict[str, str]) -> str:
    if isinstance(term, str):
        return term
    inside = [_named(each, notes, known) for each in term]
    text = f"({' '.join(inside)})"
    if inside[0] not in constructors():
        return text
    name = known.get(text)
    if name is None:
        name = known[text] = f"made{len(known)}"
        notes.append(f"(let {name} {text}) (set (type {name}) {inside[-1]})")
    return name


def _parse(text: str) -> list[Term]:
    """The terms of a text, one after another."""
    words = iter(re.findall(r'"(?:[^"\\]|\\.)*"|[()]|[^\s()"]+', text))
    return list(_terms(words))


def _terms(words: Iterator[str]) -> Iterator[Term]:
    for word in words:
        if word == ")":
            return
        yield list(_terms(words)) if word == "(" else word
