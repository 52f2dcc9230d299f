"""Where a browser with WebGPU is, for the tests of pages."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def chromium() -> str | None:
    """Chromium or Chrome, or `None`; `scripts/ensure_browser.sh` installs it."""
    return next((found for found in map(shutil.which, NAMES) if found), None)
