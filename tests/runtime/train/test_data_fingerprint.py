"""What data are known by, so that a resumed run notices other data."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_runtime.io.tensors.stored_tensor import StoredTensor
from meganeura_runtime.train.data_fingerprint import SAMPLED_ROWS, digest, sampled_digest

ROWS = 3 * SAMPLED_ROWS


def stored(values: np.ndarray) -> StoredTensor:
    return StoredTensor(Path("rows.npy"), "rows", "f32", values)


def rows() -> np.ndarray:
    return np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)


@pytest.mark.parametrize("position", range(0, ROWS, 7))
def test_a_tensor_is_known_by_all_of_its_elements(position: int) -> None:
    changed = rows()
    changed[position, 1] += 1
    assert digest(stored(changed)) != digest(stored(rows()))


@pytest.mark.parametrize("eighth", range(8))
def test_sampled_rows_are_spread_over_the_whole_tensor(eighth: int) -> None:
    changed = rows()
    changed[eighth * ROWS // 8 : (eighth + 1) * ROWS // 8] += 1
    assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()))


@pytest.mark.parametrize("position", [0, -1])
def test_the_first_and_the_last_row_are_sampled(position: int) -> None:
    changed = rows()
    changed[position] += 1
    assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()))


@pytest.mark.parametrize("count", [1, 2, SAMPLED_ROWS - 1, SAMPLED_ROWS])
def test_few_rows_are_all_sampled(count: int) -> None:
    for position in {0, count // 2, count - 1}:
        changed = rows()[:count]
        changed[position] += 1
        assert sampled_digest(stored(changed)) != sampled_digest(stored(rows()[:count]))
