"""The page of `meganeura graph`: blocks that open by a click, colours, and the lines of layers."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from meganeura.cli.app import run
from tests.runtime.web.conftest import opened, saved

TIMES = "\N{MULTIPLICATION SIGN}"
NET = """\
block Body()(x: [n, d]) -> [n, d] = x + (x |> fc: linear(d) |> relu)

block Net(depth=3)(x: [n, 8]) -> [n, 2]:
  for i in 0..depth:
    x = x |> body[i]: Body
  return x |> head: linear(2)

model net = Net()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("net.mgn").write_text(NET)
    assert run(["graph", "net.mgn", "-o", "net.html"]) == 0
    return tmp_path / "net.html"


def words(page: Page) -> list[str]:
    return page.locator(".picture text").all_text_contents()


def test_a_block_opens_and_closes_by_a_click_and_by_a_key(page: Page, file: Path) -> None:
    opened(page, file)
    assert page.inner_text("h1") == "net"
    assert page.locator("#chips span").all_inner_texts()[0] == "234 weights"
    closed = ["x", "body.[0-2]", f"Body · 3 {TIMES} 72 weights", "head", "f32[n, 8]", "f32[n, 2]"]
    assert set(closed) <= set(words(page))
    assert "fc" not in words(page)
    page.click("[data-id='body.0']")
    assert {f"3 {TIMES} body.[0-2] Body", "fc", "add"} <= set(words(page))
    page.keyboard.press("Enter")
    assert "fc" not in words(page)
    page.click("button:text-is('Open all')")
    assert "fc" in words(page)
    page.click("button:text-is('Close all')")
    assert "fc" not in words(page)


def test_an_innermost_layer_shows_its_line(page: Page, file: Path) -> None:
    opened(page, file)
    assert page.inner_text("#file") == "net.mgn"
    page.click(".layer:has-text('head')")
    assert page.inner_text("#file") == "net.mgn:6"
    assert page.inner_text(".here") == "  return x |> head: linear(2)"
    page.click("button:text-is('Open all')")
    page.click(".join")
    assert page.inner_text("#file") == "net.mgn:1"


def test_layers_are_coloured_by_the_measure_chosen(page: Page, file: Path) -> None:
    opened(page, file)

    def share(name: str) -> float:
        tint = page.locator(f".layer:has-text('{name}') .share")
        return 2 * float(tint.get_attribute("opacity") or "")

    # With n=1 a body has 72 weights, 160 FLOPs and 160 bytes of values, the head 18, 34 and 16.
    for measure, (body, head) in {
        "weights": (216, 18),
        "flops": (3 * 160, 34),
        "memory": (3 * 160, 16),
    }.items():
        page.select_option("select", measure)
        assert share("head") == pytest.approx(head / (body + head), abs=0.002)
        assert share("Body") == pytest.approx(body / (body + head), abs=0.002)


def test_the_picture_is_saved_as_it_is_seen(page: Page, file: Path, tmp_path: Path) -> None:
    opened(page, file)
    page.click("[data-id='body.0']")
    text = saved(page, "Save as SVG", tmp_path).read_text()
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert text.count("<text") == len(words(page))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("wide", [390, 1440])
def test_no_width_makes_the_page_scroll_sideways(
    browser: Browser, file: Path, scheme: str, wide: int
) -> None:
    context = browser.new_context(
        viewport={"width": wide, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = opened(context.new_page(), file)
    page.click("button:text-is('Open all')")
    assert page.evaluate("document.documentElement.scrollWidth") == wide
    context.close()
