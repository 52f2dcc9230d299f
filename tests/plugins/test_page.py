"""The page on plugins shows the package that is tested, and all of it."""

import re

from tests.distributions import GROUPS
from tests.plugins.conftest import EXAMPLE

PAGE = (EXAMPLE.parents[1] / "docs/plugins.md").read_text()


def test_the_page_shows_the_whole_package() -> None:
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE, re.DOTALL)
    files = [*sorted(EXAMPLE.glob("*.toml")), *sorted(EXAMPLE.rglob("*.py"))]
    texts = {path.name: path.read_text() for path in files if path.name != "__init__.py"}
    shown = {name for name, text in texts.items() if any(text.endswith(each) for each in blocks)}
    assert shown == texts.keys()
    assert len(blocks) == len(texts)


def test_the_page_lists_every_group() -> None:
    listed = re.findall(r"^\| `meganeura\.(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(listed) == sorted(each.group for each in GROUPS)
