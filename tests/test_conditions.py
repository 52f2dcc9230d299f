"""The search for conditions that no test sees matter, `scripts/conditions.py`."""

import builtins
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
PROGRAM = """
def sign(number, known=()):
    if number in (0, 1) and not known:
        return number
    return -1 if number < 0 and known is not None else 1

def rounded(size, part, more):
    return min(size // part, 9) + len({part} | more)

def less(than):
    return 1 - than

def kinds(values):
    found = []
    for value in values:
        match value:
            case int() | str():
                found.append(isinstance(value, int | bytes))
            case _ if value:
                found.append(None)
    return found
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], list[str]]]:
    """What is not seen of the program while an expression is evaluated, without what is not run."""
    monkeypatch.syspath_prepend(SCRIPTS)
    from condition_points import Kind, watched  # noqa: PLC0415
    from condition_watch import Watch  # noqa: PLC0415

    source, seen = tmp_path / "program.py", tmp_path / "seen"
    source.write_text(PROGRAM)
    tree, points = watched(source, "program.py", 0)
    code = compile(tree, "program.py", "exec")
    for kind in Kind:
        monkeypatch.setattr(builtins, f"__{kind.value}__", None, raising=False)

    def unseen(text: str) -> list[str]:
        seen.write_bytes(bytes(len(points)))
        watch = Watch(seen)
        watch.install()
        names: dict[str, object] = {}
        exec(code, names)  # noqa: S102 - it is written above
        eval(text, names)  # noqa: S307
        said = [(point, point.unseen(watch.seen[point.number])) for point in points]
        return [
            f"{point.text}: {words}" for point, words in said if words and "evaluated" not in words
        ]

    yield unseen
    for name in ("condition_points", "condition_watch"):
        sys.modules.pop(name)


@pytest.mark.parametrize(
    ("text", "unseen"),
    [
        (
            "sign(0)",
            [
                "number in (0, 1): always true",
                "number in (0, 1): never number 2",
                "known: always false",
            ],
        ),
        ("sign(0), sign(1), sign(5), sign(0, 'known')", ["number < 0: always false"]),
        (
            "sign(-1), sign(0), sign(1), sign(5), sign(0, 'known')",
            ["known is not None: always true"],
        ),
        ("sign(-1, None), sign(-1), sign(0, 'known'), sign(1)", []),
        (
            "rounded(4, 2, {2})",
            [
                "min(size // part, 9): the first is always smaller",
                "size // part: the left operand never matters",
                "{part} | more: the right operand never matters",
            ],
        ),
        (
            "rounded(6, 2, {3}), rounded(90, 2, {2})",
            ["size // part: the division leaves no rest"],
        ),
        ("rounded(4, 2, {3}), rounded(5, 2, {2}), rounded(90, 2, {2})", []),
        ("less(0)", ["1 - than: the right operand never matters"]),
        ("less(__import__('numpy').ones(2))", []),
        (
            "kinds([1])",
            [
                "values: never more than one round",
                "isinstance(value, int | bytes): never number 2",
                "int() | str(): never number 2",
            ],
        ),
        ("kinds([1, 'a', (), (1,)])", ["isinstance(value, int | bytes): never number 2"]),
    ],
)
def test_what_is_not_seen_is_told(
    told: Callable[[str], list[str]], text: str, unseen: list[str]
) -> None:
    assert told(text) == unseen


def test_a_watched_program_does_what_it_did(
    told: Callable[[str], list[str]], tmp_path: Path
) -> None:
    from condition_points import watched  # noqa: PLC0415

    plain: dict[str, object] = {}
    exec(PROGRAM, plain)  # noqa: S102
    told("sign(0)")
    tree, _ = watched(tmp_path / "program.py", "program.py", 0)
    other: dict[str, object] = {}
    exec(compile(tree, "program.py", "exec"), other)  # noqa: S102
    for text in ("sign(0), sign(1), sign(-3), sign(7, ()), sign(-1, None)",
                 "rounded(100, 3, {1}), rounded(7, 3, set())",
                 "kinds([1, 'a', b'', (), 2.5])"):  # fmt: skip
        assert eval(text, other) == eval(text, plain)  # noqa: S307
