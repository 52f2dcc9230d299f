"""What all tests share: a repeatable search for examples, and the two tiers.

`pytest` runs every test. `pytest --fast` runs those that are neither marked `slow` nor `adapter`,
and leaves tests/parity out. It hides wgpu, so that no test of it can need an adapter.
"""

import os
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest

from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device.adapters import list_devices

# Read when wgpu is first imported, which is later. Software Vulkan runs the small kernels of a test
# fastest in the thread that submits them.
os.environ.setdefault("LP_NUM_THREADS", "0")
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
# What somebody found out on this machine before must not change what a test sees.
os.environ["MEGANEURA_CACHE"] = "off"
# A pass that breaks a graph is named where it does.
os.environ["MEGANEURA_VERIFY"] = "1"

PARITY = Path(__file__).with_name("parity")

# The same examples in every run, on every machine; a slow machine is no failure.
hypothesis.settings.register_profile("meganeura", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("meganeura")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--fast", action="store_true", help="leave out what is slow, and what needs an adapter"
    )
    parser.addoption(
        "--without-parity", action="store_true", help="leave out what needs PyTorch (tests/parity)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        sys.modules["wgpu"] = None  # pyright: ignore[reportArgumentType] - as if it were missing


def is_without_parity(config: pytest.Config) -> bool:
    return bool(config.getoption("--without-parity") or config.getoption("--fast"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Their modules import torch, so they are not even collected."""
    ignored = is_without_parity(config) and collection_path.is_relative_to(PARITY)
    return True if ignored else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if is_without_parity(config):
        modules = len(list(PARITY.rglob("test_*.py")))
        terminalreporter.write_sep("!", f"not compared with PyTorch: {modules} modules left out")


def has_adapter() -> bool:
    try:
        return bool(list_devices())
    except DeviceError:
        return False


def is_fast(item: pytest.Item) -> bool:
    """Whether a test is of the fast tier: every test that is not marked otherwise."""
    return not any(item.get_closest_marker(name) for name in ("slow", "adapter", "parity"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a tier or this machine does not run; a required adapter is never missed."""
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if not is_fast(item)])
        items[:] = filter(is_fast, items)
        return
    if os.environ.get("MEGANEURA_REQUIRE_ADAPTER") == "1":
        return
    on_adapter = [item for item in items if item.get_closest_marker("adapter")]
    if on_adapter and not has_adapter():
        for item in on_adapter:
            item.add_marker(pytest.mark.skip("no adapter: neither a GPU nor a software Vulkan"))
