"""Examples of a step, an epoch and an evaluation: all sizes up to a bound, by force."""

from bisect import bisect_right
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from meganeura_runtime.io.data.batches import (
    drawn_in_epoch,
    even_batch,
    held_out_of,
    order_of_epoch,
    runs,
    steps_of_epoch,
)

SIZES = tuple(product(range(1, 40), range(1, 14)))
"""Examples, and the batch."""


@pytest.mark.parametrize("drop_last", [True, False])
def test_an_epoch_has_the_batches_that_can_be_filled(*, drop_last: bool) -> None:
    for examples, batch in SIZES:
        whole, rest = divmod(examples, batch)
        expected = whole + (rest > 0 and not drop_last)
        assert steps_of_epoch(examples, batch, drop_last=drop_last) == expected


def test_an_evaluation_takes_each_example_once_and_in_order() -> None:
    for examples, batch in SIZES:
        found = list(runs(examples, batch))
        taken = [number for run in found for number in range(run.start, run.stop)]
        assert taken == list(range(examples))
        assert all(run.stop - run.start == batch for run in found[:-1])


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_an_even_batch_is_the_largest_that_leaves_nothing(devices: int) -> None:
    for examples, batch in SIZES:
        fitting = [
            size
            for size in range(batch // 2 + 1, min(batch, examples) + 1)
            if examples % size == 0 and size % devices == 0
        ]
        assert even_batch(examples, batch, devices) == max(fitting, default=batch)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.99])
def test_a_share_is_held_out_at_random_and_the_same_each_time(share: float) -> None:
    for examples in (3, 40, 101):
        held = held_out_of(7, examples, share)
        assert len(held) == round(share * examples)
        assert list(held) == sorted(set(held))
        assert all(0 <= number < examples for number in held)
        np.testing.assert_array_equal(held, held_out_of(7, examples, share))
    assert not np.array_equal(held_out_of(7, 100, 0.5), held_out_of(8, 100, 0.5))
    epochs = [set(order_of_epoch(7, epoch, 100, shuffle=True)[:50]) for epoch in range(4)]
    assert set(held_out_of(7, 100, 0.5)) not in epochs


@pytest.mark.parametrize(("seed", "epoch"), [(0, 1), (1, 0), (7, 3), (2**64 - 1, 2)])
def test_the_order_of_an_epoch_is_that_of_the_random_words_of_its_key(
    seed: int, epoch: int
) -> None:
    """It is the same for ever, so that a run of an earlier version goes on as it began."""
    words = np.random.Philox(key=np.array([seed, epoch], np.uint64)).random_raw(50).tolist()
    found = order_of_epoch(seed, epoch, 50, shuffle=True)
    assert found.tolist() == sorted(range(50), key=words.__getitem__)
    assert order_of_epoch(seed, epoch, 50, shuffle=False).tolist() == [*range(50)]
    ends = [*range(1, 51)]
    drawn = drawn_in_epoch(seed, epoch, np.ones(50))
    assert drawn.tolist() == [bisect_right(ends, word * 50 / 2**64) for word in words]


def test_examples_are_drawn_in_proportion_to_their_weights() -> None:
    weights = np.array([0.0, 3.0, 0.0, 1.0, 4.0, 0.0] * 500)
    drawn = drawn_in_epoch(5, 0, weights)
    assert len(drawn) == len(weights)
    counts = np.bincount(drawn % 6, minlength=6)
    np.testing.assert_array_equal(counts[[0, 2, 5]], 0)
    np.testing.assert_allclose(counts[[1, 3, 4]] / len(weights), [3 / 8, 1 / 8, 4 / 8], atol=0.03)
    assert not np.array_equal(drawn, drawn_in_epoch(5, 1, weights))
    assert not np.array_equal(drawn, drawn_in_epoch(6, 0, weights))
    for scale in (1e-9, 2.0**-1070, 2.0**1021):
        np.testing.assert_array_equal(drawn, drawn_in_epoch(5, 0, weights * scale))
    assert len(set(drawn_in_epoch(0, 0, np.ones(100)))) < 90


def test_an_example_is_drawn_from_where_those_before_it_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the edges too: of no weight is none, whatever the random word, nor behind the last."""
    words = {0: 1, 2**61: 1, 2**62 - 2**10: 1, 2**62: 3, 2**63: 3, 2**64 - 1: 3}

    def random(key: object) -> SimpleNamespace:
        del key
        return SimpleNamespace(random_raw=lambda _: np.array([*words], np.uint64))

    monkeypatch.setattr(np.random, "Philox", random)
    drawn = drawn_in_epoch(0, 0, np.array([0.0, 1.0, 0.0, 3.0, 0.0, 0.0]))
    assert drawn.tolist() == [*words.values()]


def test_one_example_of_weight_is_drawn_each_time() -> None:
    for place in (0, 3, 8):
        weights = np.zeros(9)
        weights[place] = 1e-30
        np.testing.assert_array_equal(drawn_in_epoch(0, 0, weights), np.full(9, place))
