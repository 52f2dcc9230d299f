"""The test that docs/testing.md offers to paste passes."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "testing.md"


def test_the_example_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(example, "docs/testing.md", "exec"), names)  # noqa: S102 - the page is ours
    tests = [each for name, each in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        assert callable(test)
        test()
