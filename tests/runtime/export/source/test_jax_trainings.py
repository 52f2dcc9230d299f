"""Trainings as source of JAX: their steps are those of the program."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import jax
import numpy as np
import pytest

from meganeura_runtime.train.spec.train_job import TrainJob, prepare_new
from tests.effort import effort
from tests.trained_source import (
    QUICK,
    SETTINGS,
    STANDARD,
    assert_same_losses,
    run_of,
    source_names,
    whole_data,
)
from tests.written_jax import WIDE


@pytest.mark.parametrize("name", effort(QUICK[:1], (*SETTINGS, *STANDARD)))
def test_losses(name: str) -> None:
    wanted = run_of(name)
    names, job = source_names(wanted, "jax"), prepare_new(wanted)
    with jax.enable_x64(new_val=True):
        assert_same_losses(job, lambda steps: _losses(job, names, steps))


def _losses(job: TrainJob, names: Mapping[str, Any], steps: int) -> list[float]:
    first = job.spec.initial_values()
    weights = {each.name: jax.device_put(_wide(first[each.name])) for each in job.spec.parameters}
    data = {name: _wide(each) for name, each in whole_data(job).items()}
    return [measured[0] for measured, _ in islice(names["train"](weights, data), steps)]


def _wide(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.astype(WIDE[values.dtype.kind])
