"""Runs `docs/core.md`: its Python blocks in order, as one program, and what each prints.

`python -m tests.core_page` writes the ```text blocks anew; read the difference before you keep it.
"""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "core.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```(?:\n\n```text\n(?P<printed>.*?)```)?", re.DOTALL)


def outputs(text: str) -> Iterator[tuple[str, str | None, str]]:
    """Each Python block: its code, what the page says it prints, and what it prints."""
    scope: dict[str, object] = {"__name__": "core"}
    for found in BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("code"))
        printed = StringIO()
        code = compile("\n" * line + found["code"], str(PAGE), "exec")
        with redirect_stdout(printed):
            exec(code, scope)  # noqa: S102
        yield found["code"], found["printed"], printed.getvalue()


def rewritten(text: str) -> str:
    """The page with what its blocks print."""
    for code, before, now in outputs(text):
        if before is not None and before != now:
            head = f"```python\n{code}```\n\n```text\n"
            text = text.replace(f"{head}{before}```", f"{head}{now}```")
    return text


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
