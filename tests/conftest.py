"""What all tests share: a repeatable search for examples, and what is left out on request."""

from pathlib import Path

import hypothesis
import pytest

PARITY = Path(__file__).with_name("parity")

# The same examples in every run, on every machine; a slow machine is no failure.
hypothesis.settings.register_profile("meganeura", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("meganeura")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--without-parity", action="store_true", help="leave out what needs PyTorch (tests/parity)"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Their modules import torch, so they are not even collected."""
    left_out = config.getoption("--without-parity") and collection_path.is_relative_to(PARITY)
    return True if left_out else None


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Nothing is left out silently."""
    if config.getoption("--without-parity"):
        modules = len(list(PARITY.rglob("test_*.py")))
        terminalreporter.write_sep(
            "!", f"{modules} modules of tests/parity left out: not compared with PyTorch"
        )
