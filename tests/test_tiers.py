"""The tiers of the suite name what exists, and `--fast` runs what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from tests.effort import effort
from tests.folded import each_of
from tests.nightly import (
    BY_DAY,
    BY_NIGHT,
    NIGHTLY,
    is_case,
    is_named,
    is_nightly,
    without_cases,
)
from tests.tiers import FULL, is_full

TESTS = Path(__file__).parent
ROOT = TESTS.parent


@each_of("name", (*FULL, *NIGHTLY, *BY_DAY, *BY_NIGHT))
def test_what_a_tier_names_exists(name: str) -> None:
    path, _, test = name.partition("::")
    test = test.rpartition("::")[2]
    assert (TESTS / path).exists()
    assert not test or re.search(rf"^ *def {test}\(", (TESTS / path).read_text(), re.MULTILINE)


@pytest.mark.parametrize("tier", [FULL, NIGHTLY], ids=["full", "nightly"])
def test_names_are_sorted_and_none_is_within_another(tier: tuple[str, ...]) -> None:
    assert list(tier) == sorted(set(tier))
    assert not [name for name in tier if any(is_named(up, tier) for up in above(name))]


@pytest.mark.parametrize(("nightly", "count"), [("0", "1 deselected"), ("1", "1 passed")])
def test_a_nightly_test_runs_at_night_alone(nightly: str, count: str) -> None:
    """Asked for by its name too: it is counted, not passed over without a word."""
    name = "test_tiers.py::test_this_runs_at_night_alone"
    done = run_tests(TESTS / name, environment={"MEGANEURA_NIGHTLY": nightly})
    assert count in done.stdout, done.stdout + done.stderr
    assert ("left to `make nightly`: 1 of these tests" in done.stdout) is (nightly == "0")


def test_this_runs_at_night_alone() -> None:
    assert effort(usual=False, nightly=True)


def test_no_test_is_named_in_two_tables() -> None:
    assert BY_DAY.keys() & BY_NIGHT.keys() == set()
    assert [name for name in (*BY_DAY, *BY_NIGHT) if is_named(name, NIGHTLY)] == []


def test_a_case_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "BY_DAY": {"test_a.py::test_b": ("one", "x[0]-*")},
        "BY_NIGHT": {"test_a.py::test_c": ("slow-*",)},
    }
    for table, names in tables.items():
        monkeypatch.setattr(f"tests.nightly.{table}", names)
    cases = (
        "b[one]",
        "b[one-wgpu]",
        "b[x[0]-cpu]",
        "b[x[0]]",
        "b",
        "b_too[two]",
        "c[slow-1]",
        "c[1]",
    )
    waiting = [case for case in cases if is_nightly(f"test_a.py::test_{case}")]
    assert waiting == ["b[one-wgpu]", "b[x[0]]", "c[slow-1]"]
    assert is_case("", [""])
    assert without_cases(["test_a.py::test_b[one]", "test_a.py::test_c[1]"]) == [
        "test_a.py::test_b[x[0]-*]",
        "test_a.py::test_c[slow-*]",
    ]


def above(name: str) -> list[str]:
    """The file and the folders of a name."""
    path, _, test = name.partition("::")
    return [*([path] if test else []), *map(str, Path(path).parents)]


def test_a_name_is_not_the_beginning_of_another() -> None:
    assert is_full("parity/test_ops.py::test_values[add]")
    assert is_full("dsl/syntax/test_problems.py::test_deep_nesting[sum]")
    assert not is_full("dsl/syntax/test_problems.py::test_deep_nesting_of_blocks[sum]")


def run_tests(
    tests: Path, *options: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs tests with the settings of this project in a process of their own.

    It goes without the client of language servers, whose import takes a quarter of its time.
    """
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:pytest-lsp", "-c",
               ROOT / "pyproject.toml", "--rootdir", ROOT, *options, tests)  # fmt: skip
    return subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


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
    done = run_tests(probe, "--fast", "--confcutdir", ROOT, "-p", "tests.conftest")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 deselected" in done.stdout


@given(st.integers())
def test_examples_do_not_depend_on_what_is_imported(number: int) -> None:
    """Hypothesis has taken no constants from our modules, but at night."""
    assert isinstance(number, int)
    taken = providers._local_constants  # pyright: ignore[reportPrivateUsage]
    assert (len(taken) == 0) is effort(usual=True, nightly=False)
