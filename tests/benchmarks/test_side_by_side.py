"""The comparison of shape mistakes: our column of its page is what `check` says."""

from pathlib import Path

import pytest

from benchmarks.side_by_side.__main__ import HERE, MISTAKES, ours

PAGE = Path(__file__).parents[2] / "docs/side_by_side.md"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_page_has_what_check_says(mistake: str) -> None:
    section = PAGE.read_text().split(f"\n## {MISTAKES[mistake]}\n")[1].split("\n## ")[0]
    assert ours(mistake).row("meganeura") in section.splitlines()


def test_each_folder_is_a_mistake_of_the_page() -> None:
    folders = {path.name for path in HERE.iterdir() if (path / "net.mgn").exists()}
    assert folders == set(MISTAKES)
