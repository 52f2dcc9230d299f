"""The tiers of the suite name what exists, and `--fast` runs what they say."""

import re
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.effort import effort
from tests.folded import each_of
from tests.tiers import FULL, is_full

TESTS = Path(__file__).parent
ROOT = TESTS.parent


@each_of("name", FULL)
def test_what_a_tier_names_exists(name: str) -> None:
    path, _, test = name.partition("::")
    assert (TESTS / path).exists()
    assert not test or re.search(rf"^ *def {test}\(", (TESTS / path).read_text(), re.MULTILINE)


def test_names_are_sorted_and_none_is_within_another() -> None:
    assert list(FULL) == sorted(set(FULL))
    assert not [name for name in FULL if any(is_full(up) for up in above(name))]


def above(name: str) -> list[str]:
    """The file and the folders of a name."""
    path, _, test = name.partition("::")
    return [*([path] if test else []), *map(str, Path(path).parents)]


def test_a_name_is_not_the_beginning_of_another() -> None:
    assert is_full("parity/test_ops.py::test_values[add]")
    assert is_full("dsl/syntax/test_problems.py::test_deep_nesting[sum]")
    assert not is_full("dsl/syntax/test_problems.py::test_deep_nesting_of_blocks[sum]")


PROBE = """
import pytest, sys

def test_it_has_no_wgpu():
    with pytest.raises(ImportError):
        import wgpu

@pytest.mark.adapter
def test_on_an_adapter():
    assert False
"""


def test_the_fast_tier_needs_no_adapter(tmp_path: Path) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(PROBE)
    command = (sys.executable, "-m", "pytest", "--fast", "-q", "-c", ROOT / "pyproject.toml",
               "--rootdir", ROOT, "--confcutdir", ROOT, "-p", "tests.conftest", probe)  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 deselected" in done.stdout


@given(st.integers())
def test_examples_do_not_depend_on_what_is_imported(number: int) -> None:
    """Hypothesis has taken no constants from our modules, but at night."""
    assert isinstance(number, int)
    taken = providers._local_constants  # pyright: ignore[reportPrivateUsage]
    assert (len(taken) == 0) is effort(usual=True, nightly=False)
