"""Finds and starts a browser with WebGPU, for the tests of pages."""

import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FOLDERS = (
    *("/usr/lib/chromium", "/usr/lib/chromium-browser"),
    *("/opt/google/chrome", "/usr/lib64/chromium-browser"),
)
"""The folders in which packages keep the files that come with a browser."""
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


def swiftshader() -> Path | None:
    """The manifest of Chromium's software Vulkan, or `None`: the only one here that Dawn takes."""
    manifests = (Path(folder, "vk_swiftshader_icd.json") for folder in FOLDERS)
    return next((found for found in manifests if found.exists()), None)
