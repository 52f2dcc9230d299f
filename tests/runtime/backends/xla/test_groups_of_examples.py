"""Batch norm over groups of examples: the same numbers on several devices, without waiting."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.runtime.backends.xla.command_lines import ROOT
from tests.runtime.backends.xla.spread_steps import NORMS, STEPS, Numbers
from tests.shared_entries import cache_of_processes

Steps = dict[str, tuple[Numbers, Numbers]]
"""Of each norm those on one device and on two."""


@pytest.fixture(scope="module")
def found() -> Steps:
    """All steps, by one process."""
    environment = {
        **os.environ,
        "JAX_NUM_CPU_DEVICES": "2",
        "MEGANEURA_CACHE": cache_of_processes(),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runtime"))),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.runtime.backends.xla.spread_steps"],
        env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.parametrize("norm", NORMS)
def test_two_devices_give_the_numbers_of_one(found: Steps, norm: str) -> None:
    one, two = found[norm]
    assert len(one["losses"]) == STEPS
    np.testing.assert_allclose(two["losses"], one["losses"], atol=1e-5)
    assert len(one["running"]) == 4
    for name, each in one["running"].items():
        np.testing.assert_allclose(two["running"][name], each, atol=1e-5, err_msg=name)


def test_groups_have_statistics_of_their_own(found: Steps) -> None:
    first, *others = (found[norm][0]["losses"] for norm in NORMS)
    for other in others:
        assert np.abs(np.subtract(first, other)).max() > 1e-4


def test_only_gradients_and_running_statistics_are_summed_over_devices(found: Steps) -> None:
    """All at once, behind the step: no norm waits for another device."""
    counts = [[each["collectives"] for each in found[norm]] for norm in NORMS]
    assert counts == [[{}, {"all-reduce": 7}], [{}, {"all-reduce": 1}], [{}, {"all-reduce": 1}]]
