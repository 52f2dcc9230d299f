"""Where a browser with WebGPU is, for the tests of pages, and how it is started."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox",  # a container does not give it what it needs
    "--enable-unsafe-webgpu",  # an adapter without a GPU: SwiftShader
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)


def chromium() -> str | None:
    """Chromium or Chrome, or `None`; `scripts/ensure_browser.sh` installs it."""
    return next((found for found in map(shutil.which, NAMES) if found), None)
