"""Looks at the site that `make site` built: follows its links, and uses its playground in Chromium.

The site comes from a server of files alone; what is not as it should be is an error.
"""

import argparse
import contextlib
import io
import os
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from meganeura.cli.app import run  # noqa: E402
from tests.chromium import FLAGS, chromium  # noqa: E402

LARGEST = 15_000_000
"""Bytes that the playground may load."""
PATIENCE = 120_000
"""Milliseconds until a page must have done what is waited for, on a busy machine."""
WRONG = ROOT / "tests/shape_bugs/others/odd_skip/wrong.mgn"


class Links(HTMLParser):
    """The addresses in a page, and the anchors that others may name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the addresses and the names of an element."""
        for name, value in attrs:
            if value and name in {"href", "src"}:
                self.targets.append(value)
            if value and (name == "id" or (name == "name" and tag == "a")):
                self.anchors.add(value)


def check_links(site: Path) -> None:
    """Fail if a link leads to no file, or to no place in it; those to other sites are listed."""
    pages = {page: Links(page.read_text(encoding="utf-8")) for page in site.rglob("*.html")}
    broken: list[str] = []
    outside: set[str] = set()
    followed = 0
    for page, links in pages.items():
        base = page.relative_to(site).as_posix()
        for target in links.targets:
            address = urlsplit(target)
            if address.scheme or address.netloc:
                outside |= {target} if address.scheme.startswith("http") else set()
                continue
            followed += 1
            path = unquote(urlsplit(urljoin(f"/{base}", target)).path)
            file = (site / path.lstrip("/")).resolve()
            file = file / "index.html" if file.is_dir() else file
            anchors = pages[file].anchors if file in pages else set[str]()
            is_own = file.parent.name == "playground"  # a fragment is a program there
            missing = address.fragment and unquote(address.fragment) not in anchors
            if not file.is_relative_to(site) or not file.is_file() or (missing and not is_own):
                broken.append(f"{base}: {target}")
    if broken:
        sys.exit("broken links:\n" + "\n".join(sorted({*broken})))
    print(
        f"{len(pages)} pages, {followed:,} links hold; not followed, to other sites: {len(outside)}"
    )


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base
        """Say nothing."""


@contextmanager
def served(site: Path) -> Generator[str]:
    """The address of the site, from a server of files on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def demand(condition: object, text: str) -> None:
    """Fail with a text where a condition does not hold."""
    if not condition:
        sys.exit(text)


@contextmanager
def opened(browser: Browser, address: str, width: int, *, dark: bool = False) -> Generator[Page]:
    """A page, in which no error passes unseen and nothing is asked of another server."""
    scheme = "dark" if dark else "light"
    context = browser.new_context(
        viewport={"width": width, "height": 844},
        color_scheme=scheme,
        permissions=["clipboard-read", "clipboard-write"],
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))  # of pages without icon
    wrong: list[str] = []
    origin = urljoin(address, "/")

    def asked(request: Request) -> None:
        if not request.url.startswith((origin, "data:", "blob:")):
            wrong.append(f"asked {request.url}")

    page.on("request", asked)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.goto(address)
    yield page
    context.close()
    demand(not wrong, "\n".join(wrong))


def checked(page: Page, lesson: str, state: str) -> None:
    """Wait until a program was checked, with this result."""
    page.wait_for_selector(f"body[data-checked='{lesson}']")
    found = page.get_attribute("body", "data-state")
    demand(found == state, f"{lesson} is {found}: {page.inner_text('aside')}")


def said_by_command_line(text: str) -> str:
    """Returns the output of `meganeura check program.mgn`."""
    written = io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(written):
        os.chdir(folder)
        Path("program.mgn").write_text(text, encoding="utf-8")
        run(["check", "program.mgn"])
        os.chdir(before)
    return written.getvalue()


def typed(page: Page, text: str) -> None:
    """Replace the program by a text, as somebody who pastes it does."""
    page.locator(".cm-content").click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(text)


def use_playground(browser: Browser, site: str) -> None:
    """Follow a lesson, break and mend programs, share one."""
    begun = time.monotonic()
    with opened(browser, f"{site}playground/index.html", 1440) as page:
        checked(page, "01_blocks", "fine")
        print(f"first check after {time.monotonic() - begun:.1f} s")
        demand("1 block proved" in page.inner_text("#verdict"), "the verdict is not said")
        shapes = page.locator(".hint").all_inner_texts()
        demand(shapes == ["[n, 128]", "[n, 10]"], f"the shapes are {shapes}")

        program = WRONG.read_text(encoding="utf-8")
        typed(page, program)
        checked(page, "01_blocks", "wrong")
        reports = "".join(f"{text}\n\n" for text in page.locator(".problem pre").all_inner_texts())
        said = f"{reports}{page.inner_text('#verdict')}\n"
        expected = said_by_command_line(program)
        demand(said == expected, f"the page says\n{said}\nand the command line\n{expected}")
        page.click("text=About E")
        page.wait_for_selector(".page h3")

        typed(page, "block Net()(x: [n]) -> [n]:\n  return rleu( x )\n")
        checked(page, "01_blocks", "wrong")
        page.click("button:has-text('Fix:')")
        checked(page, "01_blocks", "fine")
        page.click("#format")
        page.wait_for_selector(".cm-line:text('return relu(x)')")
        page.click("#share")
        page.wait_for_selector("#share:text('Copied')")
        link = page.url
    follow_addresses(browser, site, link)


def follow_addresses(browser: Browser, site: str, link: str) -> None:
    """Open what was shared, a puzzle, a model, a damaged link, and all on a telephone."""
    with opened(browser, link, 1440) as page:
        checked(page, "program", "fine")
        text = page.locator(".cm-content").inner_text()
        demand("return relu(x)" in text, f"the link opens {text}")
        page.select_option("#programs", "heads")
        checked(page, "heads", "wrong")
        page.click("text=Show an answer")
        checked(page, "heads", "fine")
        page.wait_for_selector("text=✓ Mended")
        page.select_option("#programs", "10_training")
        page.click("#lesson a:has-text('a page that does')")
        page.wait_for_url("**/train.html")
        page.wait_for_selector("h1")
        page.goto(f"{site}playground/index.html#gpt2")
        checked(page, "gpt2", "fine")
        page.click("summary:text-is('Layers of gpt2')")
        page.wait_for_selector("#models pre:has-text('124,439,808 weights')")
        page.click("summary:text-is('Drawing of gpt2')")
        page.click(".drawing [aria-label^='transformer.h.[0-11]: Layer']")
        page.wait_for_selector(".drawing [aria-label='Close transformer.h.[0-11]']")
        page.click(".drawing [aria-label^='transformer.h.0.ln_1']")
        demand("layer_norm" in page.locator(".cm-activeLine").inner_text(), "no line was shown")
        page.goto(f"{site}playground/index.html#program=damaged")
        page.wait_for_selector(".cm-line:has-text('is damaged')")
    for dark in (False, True):
        with opened(browser, f"{site}playground/index.html#odd_skip", 390, dark=dark) as page:
            checked(page, "odd_skip", "wrong")
            overflows = page.locator("body").evaluate("body => body.scrollWidth > innerWidth")
            demand(not overflows, "the page is wider than a telephone")


NARROW = ("index", "guides/training", "messages/E0301", "library/resnet", "reference/settings")
"""Pages that are looked at as on a telephone."""


def look_at_pages(browser: Browser, site: str) -> None:
    """Search, open the playground within a page, and see that no page is too wide."""
    with opened(browser, f"{site}search.html?q=rearrange", 1440) as page:
        page.wait_for_selector("#search-results li a")
        page.goto(f"{site}try.html")
        inside = page.frame_locator("iframe").locator("body[data-checked='01_blocks']")
        inside.wait_for()
        demand(inside.get_attribute("data-state") == "fine", "the playground in a page is broken")
    for dark in (False, True):
        for name in NARROW:
            with opened(browser, f"{site}{name}.html", 390, dark=dark) as page:
                overflows = page.locator("body").evaluate("body => body.scrollWidth > innerWidth")
                demand(not overflows, f"{name} is wider than a telephone")


def check_size(site: Path) -> None:
    """Fail if the playground loads more than it may."""
    files = [each for each in (site / "playground").rglob("*") if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    demand(size <= LARGEST, f"the playground has {size:,} bytes, and may have {LARGEST:,}")
    print(f"the playground has {size:,} bytes")


def main() -> None:
    """Look at the site, links first."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--site", type=Path, default=ROOT / "dist" / "site")
    site: Path = arguments.parse_args().site.resolve()
    demand((site / "index.html").is_file(), f"{site} has no site: `make site` writes it")
    check_size(site)
    check_links(site)
    program = chromium()
    if program is None and os.environ.get("MEGANEURA_REQUIRE_BROWSER") != "1":
        print("no Chromium: the playground was not used (scripts/ensure_browser.sh)")
        return
    with served(site) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        look_at_pages(browser, address)
        use_playground(browser, address)
        browser.close()
    print("the site and its playground are as they should be")


if __name__ == "__main__":
    main()
