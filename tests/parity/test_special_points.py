"""The right values at special points are PyTorch's, and the reference gives them."""

import json

import numpy as np

from tests.folded import each_of
from tests.parity.special_points import right, written
from tests.special_points import CASES, SMALLEST, STORED, Case, stored


def test_the_stored_values_are_written_anew_as_they_are() -> None:
    assert json.loads(written()).keys() == stored().keys(), STORED.name


@each_of("case", CASES, ids=str)
def test_the_stored_values_are_pytorch_s(case: Case) -> None:
    found = right(case)
    assert found.keys() == stored()[case.name].keys()
    for name, array in found.items():
        expected = np.array(stored()[case.name][name])
        # Other processors round otherwise, where parts cancel.
        absolute = 1e-12 if case.absolute > SMALLEST else case.slope
        np.testing.assert_allclose(array.ravel(), expected, 1e-9, absolute, err_msg=name)
