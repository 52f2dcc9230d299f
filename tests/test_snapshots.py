"""A snapshot shows what is named, and no text changes unseen."""

import sys
from functools import partial
from pathlib import Path

import pytest

from tests.effort import effort
from tests.snapshots import Snapshot, Text

TEXTS = [Text("moths", "one", "brown\n"), Text("moths", "two", "grey"), Text("lamps", "one", "lit")]


class Beside(Snapshot):
    """A snapshot whose file is in the working directory."""

    @property
    def file(self) -> Path:
        return Path("moths.snap")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["moths"])


def snapshot(*texts: Text, shown: str = "moths: one") -> Beside:
    return Beside("tests.moths", lambda: texts, (shown,))


def test_what_is_named_stands_whole_and_each_group_has_a_checksum() -> None:
    snapshot(*TEXTS).main()
    shown, sums = Path("moths.snap").read_text().split("\n=== all texts\n")
    assert shown == "=== moths: one\nbrown\n"
    assert [line.partition(", ")[0] for line in sums.splitlines()] == [
        "moths: 2 texts",
        "lamps: 1 texts",
    ]
    snapshot(*TEXTS).check()


@pytest.mark.parametrize("place", range(3))
def test_any_text_that_changes_fails_and_the_difference_is_shown(place: int) -> None:
    snapshot(*TEXTS).main()
    old = TEXTS[place]
    changed = [*TEXTS[:place], Text(old.group, old.name, "other"), *TEXTS[place + 1 :]]
    with pytest.raises(pytest.fail.Exception, match=f"-{old.group}: . texts, checksum") as caught:
        snapshot(*changed).check()
    assert ("+other" in str(caught.value)) == (place == 0)
    with pytest.raises(pytest.fail.Exception):
        snapshot(*TEXTS, Text("lamps", "new", "")).check()


def test_a_name_that_is_lost_or_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="no text is named"):
        snapshot(*TEXTS, shown="moths: three").content()
    with pytest.raises(ValueError, match="two texts have one name"):
        snapshot(*TEXTS, TEXTS[0]).content()


def test_every_text_is_written_into_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["moths", "all"])
    snapshot(*TEXTS).main()
    assert sorted(each.read_text() for each in Path("all").iterdir()) == ["brown\n", "grey", "lit"]


@pytest.mark.parametrize("place", range(10))
def test_of_texts_that_are_given_as_functions_a_share_is_compared_by_day(place: int) -> None:
    texts = [Text("moths", str(number), partial(str, number)) for number in range(10)]
    snapshot(*texts, shown="moths: 3").main()
    (line,) = Path("moths.snap").read_text().partition("=== all texts\n")[2].splitlines()
    said, *sums = line.partition("checksums ")[::2]
    assert (said, len(sums[0].split())) == ("moths: 10 texts, ", 5)
    snapshot(*texts, shown="moths: 3").check()
    texts[place] = Text("moths", str(place), lambda: "other")
    changed = snapshot(*texts, shown="moths: 3")
    if place in effort((0, 3, 5), range(10)):
        with pytest.raises(pytest.fail.Exception):
            changed.check()
    else:
        changed.check()
    assert changed.content() != Path("moths.snap").read_text()
