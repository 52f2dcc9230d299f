"""`docs/core.md` runs as it stands, prints what it says, and is short enough to be read."""

from tests.core_page import PAGE, outputs, rewritten


def test_each_block_prints_what_the_page_says() -> None:
    for code, stated, printed in outputs(PAGE.read_text()):
        assert (stated or "") == printed, code


def test_a_block_that_prints_something_else_is_noticed() -> None:
    page = "```python\nx = 2\nprint(x + 1)\n```\n\n```text\n4\n```\n"
    ((_, stated, printed),) = outputs(page)
    assert (stated, printed) == ("4\n", "3\n")
    assert rewritten(page) == page.replace("4", "3")


def test_the_page_is_read_in_one_sitting() -> None:
    assert len(PAGE.read_text().splitlines()) <= 600
