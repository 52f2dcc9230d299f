"""Trainings as source of PyTorch: their steps are those of the program."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

import pytest
import torch

from meganeura_runtime.train.spec.train_job import TrainJob, prepare_new
from tests.effort import effort
from tests.parity.written import double_precision
from tests.trained_source import (
    QUICK,
    SETTINGS,
    STANDARD,
    assert_same_losses,
    run_of,
    source_names,
    whole_data,
)


@pytest.mark.parametrize("name", effort(QUICK, (*SETTINGS, *STANDARD)))
def test_losses(name: str) -> None:
    wanted = run_of(name)
    names, job = source_names(wanted, "torch"), prepare_new(wanted)
    with double_precision():
        assert_same_losses(job, lambda steps: _losses(job, names, steps))


def _losses(job: TrainJob, names: Mapping[str, Any], steps: int) -> list[float]:
    model = names[job.spec.name]()
    first = job.spec.initial_values()
    model.load_state_dict(
        {
            name: torch.tensor(first[name], dtype=each.dtype)
            for name, each in model.state_dict().items()
        }
    )
    data = {
        name: torch.tensor(each).double() if each.dtype.kind == "f" else torch.tensor(each).long()
        for name, each in whole_data(job).items()
    }
    return [measured[0] for measured in islice(names["train"](model, data), steps)]
