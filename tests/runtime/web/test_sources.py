"""The sources of pages: types fit, they are small, and the committed page is built of them."""

import json
from pathlib import Path

from tests.runtime.web.conftest import WEB, run_node

TYPESCRIPT = WEB / "node_modules" / "typescript" / "bin" / "tsc"


def run(*words: str | Path, where: Path = WEB) -> str:
    """Returns the output of a program of Node, which has to succeed."""
    done = run_node(*words, where=where)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_types_fit() -> None:
    run(TYPESCRIPT, "--noEmit")


def test_the_committed_page_is_what_the_sources_give_and_small() -> None:
    sizes = json.loads(run("build.ts", "--check"))
    assert sizes["runtime"] < 42_000
    assert sizes["tokenizer"] < 5_000
    assert sizes["page.html"] < 86_000
    assert sizes["generation.html"] < 47_000
    assert sizes["wordpiece.js"] < 4_000
    assert sizes["drawing.html"] < 62_000
    assert sizes["drawing.js"] < 56_000


def test_nothing_else_is_needed_at_run_time() -> None:
    package = json.loads((WEB / "package.json").read_text())
    assert "dependencies" not in package
    assert "http" not in (WEB / "page" / "page.html").read_text().replace("http-equiv", "")
