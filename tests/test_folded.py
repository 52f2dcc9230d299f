"""A test of many cases runs them all, and names those that fail."""

import pytest

from tests.folded import each_of

SEEN: list[int] = []


@each_of("number", [1, 2, 3])
def test_cases_are_run(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEEN", str(number))
    SEEN.append(number)


def test_all_were_run() -> None:
    test_cases_are_run(monkeypatch=pytest.MonkeyPatch())
    assert SEEN[-3:] == [1, 2, 3]


def test_every_case_that_fails_is_named_and_none_hides_another() -> None:
    @each_of(("word", "length"), [("moth", 4), ("lamp", 5), ("light", 5), ("day", 2)])
    def lengths(word: str, length: int) -> None:
        if word == "day":
            pytest.skip("never mind")
        assert len(word) == length

    with pytest.raises(pytest.fail.Exception) as caught:
        lengths()
    text = str(caught.value)
    assert "2 of 4 cases fail:\nlamp-5: AssertionError: assert 4 == 5" in text
    assert text.endswith("day-2: Skipped: never mind")
    assert "in lengths" in text


def test_names_are_those_given() -> None:
    @each_of("number", [1, 2], ids=lambda number: f"case {number}")
    def never(number: int) -> None:
        raise ValueError(number)

    with pytest.raises(pytest.fail.Exception, match="case 1: ValueError: 1\ncase 2: ValueError: 2"):
        never()


def test_no_case_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="0 cases"):
        each_of("number", [])
