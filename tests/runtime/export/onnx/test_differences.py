"""Distances of two outputs, whatever parts of them are compared at once."""

import numpy as np
import pytest

from meganeura_runtime.export.onnx import differences
from meganeura_runtime.export.onnx.differences import distance


@pytest.mark.parametrize("part", [1, 3, 7, 8])
def test_parts_give_what_the_whole_gives(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = np.array([[1, -4, np.inf, 2], [0, 3, np.nan, -8]], np.float32)
    given = wanted + np.array([[0, 0.5, 0, 0], [0.25, 0, 0, 0]], np.float32)
    monkeypatch.setattr(differences, "PART", part)
    assert distance(given, wanted) == 0.5 / 8
    assert distance(wanted.T, wanted.T) == 0
    other = wanted.copy()
    other[1, 2] = 0
    assert np.isnan(distance(other, wanted))
    assert np.isnan(distance(wanted, other))
