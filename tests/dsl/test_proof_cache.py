"""Notes of a proof are kept as they are; an entry that makes no sense is none."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from meganeura_dsl import proof_cache
from meganeura_dsl.diagnostics.problem import Edit, Label, Remark, Report, Severity, safe_fix
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.support.disk_cache import user_cache

SOURCES = (Source("net.mgn", "block A()(x: [n]) = x\n"), Source("lib.mgn", "def f(n) = n\n"))
TEXTS = (("", SOURCES[0]), ("lib", SOURCES[1]))
PLACE, OTHER = Span(SOURCES[0], 6, 7), Span(SOURCES[1], 4, 5)
FULL = Report(
    "N0001", Severity.NOTE, "headline", "topic", Label(PLACE, "here"),
    (Remark("for example", "n=1"), Remark("and", "there", OTHER)),
    safe_fix("do this", Edit(OTHER, "g"), code="code"), "a.b",
)  # fmt: skip
BARE = Report("N0002", Severity.NOTE, "headline", "topic", None, (), None)


@pytest.fixture(autouse=True)
def nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_cache, "_in_memory", dict[str, bytes]())
    monkeypatch.setattr(proof_cache, "user_cache", user_cache)


def test_notes_are_found_as_they_were_kept() -> None:
    assert proof_cache.known_notes(TEXTS) is None
    second = replace(BARE, headline="of the same code")
    proof_cache.store_notes(TEXTS, [FULL, BARE, second, BARE])
    assert proof_cache.known_notes(TEXTS) == (FULL, BARE, second, BARE)
    proof_cache.store_notes(TEXTS, [])
    assert proof_cache.known_notes(TEXTS) == ()


@pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 22), (22, 22), (5, 5)])
def test_a_note_may_be_anywhere_in_a_text(start: int, end: int) -> None:
    note = replace(BARE, label=Label(Span(SOURCES[0], start, end), "here"))
    assert len(SOURCES[0].text) == 22
    proof_cache.store_notes(TEXTS, [note])
    assert proof_cache.known_notes(TEXTS) == (note,)


@pytest.mark.parametrize(
    "texts",
    [
        TEXTS[:1],
        TEXTS[::-1],
        (("", SOURCES[0]), ("libs", SOURCES[1])),
        (("", Source("net.mgn", SOURCES[0].text + "\n")), TEXTS[1]),
    ],
)
def test_other_texts_have_other_proofs(texts: tuple[tuple[str, Source], ...]) -> None:
    proof_cache.store_notes(TEXTS, [BARE])
    assert proof_cache.known_notes(texts) is None


def test_so_many_proofs_are_in_memory_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proof_cache, "MOST_IN_MEMORY", 3)
    texts = [[("", Source("net.mgn", f"# {number}\n"))] for number in range(4)]
    for number, each in enumerate(texts):
        proof_cache.store_notes(each, [])
        known = [one for one in texts if proof_cache.known_notes(one) is not None]
        assert known == (texts[: number + 1] if number < 3 else texts[3:])


def without(name: str) -> Callable[[Any], Any]:
    return lambda data: [{key: each for key, each in data[0].items() if key != name}]


def other(name: str, value: object) -> Callable[[Any], Any]:
    return lambda data: [{**data[0], name: value}]


def damages() -> Iterator[Callable[[Any], Any]]:
    keys = ("code", "severity", "headline", "topic", "label", "remarks", "help", "path")
    yield from map(without, keys)
    yield from (other("label", [place, "here"]) for place in (
        [2, 6, 7], [0, 7, 6], [0, -1, 7], [0, 6, 99], [0, 6], "x", None,
    ))  # fmt: skip
    yield other("severity", "loud")
    yield other("remarks", [["title"]])
    yield other("remarks", [["title", "text", [9, 0, 0]]])
    yield other("help", ["text"])
    yield other("help", ["text", "code", [[[0, 0, 99], "x"]]])
    yield lambda _: {"code": "N0001"}
    yield lambda _: [1]
    yield lambda _: 7


@pytest.mark.parametrize("damage", list(damages()))
def test_an_entry_that_makes_no_sense_is_none(damage: Callable[[Any], Any]) -> None:
    proof_cache.store_notes(TEXTS, [FULL])
    ((key, content),) = proof_cache._in_memory.items()
    proof_cache._in_memory[key] = json.dumps(damage(json.loads(content))).encode()
    assert proof_cache.known_notes(TEXTS) is None


@pytest.mark.parametrize("content", [b"", b"[", b"\xff", b"[{}]"])
def test_an_entry_that_is_no_json_is_none(content: bytes) -> None:
    proof_cache.store_notes(TEXTS, [])
    (key,) = proof_cache._in_memory
    proof_cache._in_memory[key] = content
    assert proof_cache.known_notes(TEXTS) is None
