"""Set-up of all tests: a repeatable search for examples, and tests that are left out on request."""

import gc
import os
import sys
import tempfile
from collections.abc import Collection, Generator, Iterator
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from meganeura_runtime.backends.errors import DeviceError
from meganeura_runtime.backends.webgpu.device.adapters import list_devices
from tests.c_compiler import has_c_compiler
from tests.chromium import chromium
from tests.effort import effort
from tests.index_package import take_for_index_package
from tests.nightly import is_nightly, without_cases
from tests.shared_entries import share, shared_graphs
from tests.tiers import is_full

# Read when wgpu is first imported, which is later. Software Vulkan runs the small kernels of a test
# fastest in the thread that submits them.
os.environ.setdefault("LP_NUM_THREADS", "0")
# To compile a kernel takes longer than to run it on so little: LLVM leaves the code as it is.
os.environ.setdefault("GALLIVM_PERF", "nopt")
os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
# XLA compiles for the CPU several times as fast when LLVM leaves the code as it is, and when fused
# ops are written as LLVM's code at once, not through MLIR.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)
# What somebody found out on this machine before must not change what a test sees.
os.environ["MEGANEURA_CACHE"] = "off"
# In a job of GitHub Actions a check says more.
os.environ.pop("GITHUB_ACTIONS", None)
# A pass that breaks a graph is named where it does.
os.environ["MEGANEURA_VERIFY"] = "1"

take_for_index_package()

LEFT = pytest.StashKey[int]()
"""The number of tests that were collected and wait for the night."""
TESTS = Path(__file__).parent
PARITY = TESTS / "parity"
OPTIMIZED_ONCE = (
    *("benchmarks/", "cli/", "parity/", "plugins/"),
    *(f"runtime/backends/test_{name}.py" for name in ("index_checks", "inference")),
    *(f"runtime/backends/test_{name}.py" for name in ("session_use", "shared_memory")),
    *("runtime/backends/xla/", "runtime/export/"),
    *("runtime/infer/", "runtime/train/", "runtime/web/", "stdlib_models/"),
    *("test_api.py", "test_end_to_end.py", "trainer/"),
)
"""Tests that run programs, many of them the same."""
COLLECTIONS = (500_000, 10, 10)
"""Thresholds of the garbage collector, as `gc.set_threshold` takes them: by default 700 objects.

Most of what a test makes is freed without a search; one through all that a worker holds takes
0.3 s.
"""

# A test's files need not outlive a crash of the machine; to wait for a disk takes 10 ms for each.
os.fsync = lambda _: None

# The same examples in every run, on every machine; a slow machine is no failure.
hypothesis.settings.register_profile(
    "meganeura",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=effort(40, 100),
)
hypothesis.settings.load_profile("meganeura")
# Hypothesis reads all modules of a checkout for constants to try. That takes 10 s of each process,
# and gives other examples after other imports; at night there is time for it.
if effort(usual=True, nightly=False):
    providers.is_local_module_file = lambda _: False  # pyright: ignore[reportPrivateImportUsage]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="run the fast tier alone (tests/tiers.py)")
    parser.addoption(
        "--without-parity", action="store_true", help="leave out what needs PyTorch (tests/parity)"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The fast tier runs as on a machine without wgpu, so that none of it needs an adapter."""
    share(config)
    if config.getoption("--fast"):
        sys.modules["wgpu"] = cast("ModuleType", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The modules of tests/parity import torch, so they are not even collected."""
    ignored = config.getoption("--without-parity") and collection_path.is_relative_to(PARITY)
    if config.getoption("--fast"):
        ignored = is_full(name_of(collection_path))
    return True if ignored else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No garbage is looked for while tests are listed, nor later in what was made for that.

    It is looked for more rarely in the tests themselves; a test of what is freed calls
    `gc.collect`.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTIONS)
        gc.enable()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if config.getoption("--without-parity"):
        modules = len(list(PARITY.rglob("test_*.py")))
        terminalreporter.write_sep("!", f"not compared with PyTorch: {modules} modules left out")
    if left := config.stash.get(LEFT, 0):
        said = f"left to `make nightly`: {left:,} of these tests (tests/nightly.toml)"
        terminalreporter.write_line(said)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401 - a class that pytest-xdist does not export
    """A process of several has collected all tests: what it left out is what all leave out."""
    stash = node.config.stash
    stash[LEFT] = max(stash.get(LEFT, 0), getattr(node, "workeroutput", {}).get("left", 0))


@pytest.fixture(autouse=True)
def _optimized_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Shares optimized graphs between tests that are not about the optimizer."""
    with shared_graphs() if name_of(request.path).startswith(OPTIMIZED_ONCE) else nullcontext():
        yield


def has_adapter() -> bool:
    try:
        return bool(list_devices())
    except DeviceError:
        return False


def name_of(path: Path, test: str = "") -> str:
    """A path in this folder, or a test in one, as `tests/tiers.py` names it."""
    name = _name_of_file(path)
    return f"{name}::{test}" if test else name


@cache
def _name_of_file(path: Path) -> str:
    return path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""


def is_fast(item: pytest.Item) -> bool:
    """True if a test is in the fast tier."""
    return item.get_closest_marker("adapter") is None and not is_full(name_of_test(item))


def leave_to_the_night(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what waits for the night, count it, and refuse the name of a case that is none."""
    waiting = [item for item in items if is_nightly(name_of_test(item))]
    whole = not any("::" in argument for argument in config.args)  # else some cases are missing
    if whole and (unknown := without_cases(map(name_of_test, items))):
        raise pytest.UsageError(f"tests/nightly.toml names no case: {', '.join(unknown)}")
    deselect(config, items, waiting)
    config.stash[LEFT] = len(waiting)
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist
        cast("Any", config).workeroutput["left"] = len(waiting)


def deselect(
    config: pytest.Config, items: list[pytest.Item], left: Collection[pytest.Item]
) -> None:
    config.hook.pytest_deselected(items=left)
    without = set(left)
    items[:] = [item for item in items if item not in without]


def name_of_test(item: pytest.Item) -> str:
    return name_of(item.path, item.nodeid.partition("::")[2])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a tier or this machine does not run; a required adapter is never missed."""
    fast = config.getoption("--fast")
    if fast:
        deselect(config, items, [item for item in items if not is_fast(item)])
        return
    if effort(usual=True, nightly=False):
        leave_to_the_night(config, items)
    if os.environ.get("MEGANEURA_REQUIRE_BROWSER") != "1" and chromium() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip("no Chromium: scripts/ensure_browser.sh"))
    compiled = [item for item in items if item.get_closest_marker("compiler")]
    required = os.environ.get("MEGANEURA_REQUIRE_COMPILER") == "1"
    if compiled and not required and not has_c_compiler():
        for item in compiled:
            item.add_marker(pytest.mark.skip("no C compiler: scripts/ensure_compiler.sh"))
    if os.environ.get("MEGANEURA_REQUIRE_ADAPTER") == "1":
        return
    on_adapter = [item for item in items if item.get_closest_marker("adapter")]
    if on_adapter and not has_adapter():
        for item in on_adapter:
            item.add_marker(pytest.mark.skip("no adapter: neither a GPU nor a software Vulkan"))
