"""Times among the tokens of speech: what may follow, and where the next window begins."""

import numpy as np
import pytest

from meganeura_runtime.infer.generator import GREEDY, Sampling
from meganeura_runtime.infer.timed_text import Parts, Rules, Segment
from meganeura_runtime.io.preprocess.speech_tokens import SpeechTokens

FIRST = 10
"""Tokens from here on are times; 9 says that there are none, 8 ends a text, 0 to 7 are words."""
TOKENS = SpeechTokens(7, (8,), untimed=9, latest_start=3, suppressed=(2,), suppressed_first=(0, 8))


def parts(*tokens: int) -> tuple[list[Segment], int]:
    """The segments of a window of 40 frames, and how many frames it is about."""
    made = Parts(FIRST)
    found = [segment for token in tokens if (segment := made.add(token)) is not None]
    last, frames = made.end(40)
    return [*found, *([] if last is None else [last])], frames


def test_what_follows_the_last_pair_of_times_is_heard_again() -> None:
    found, frames = parts(10, 1, 2, 14, 15, 3, 20, 21, 4)
    assert found == [Segment(0, 4, (1, 2)), Segment(5, 10, (3,))]
    assert frames == 2 * 10


def test_a_single_time_at_the_end_ends_the_window() -> None:
    found, frames = parts(10, 1, 14, 15, 3, 20)
    assert found == [Segment(0, 4, (1,)), Segment(5, 10, (3,))]
    assert frames == 40


def test_without_a_pair_the_window_is_one_part() -> None:
    assert parts(10, 1, 2, 17) == ([Segment(0, 7, (1, 2))], 40)
    assert parts(10, 1, 2) == ([Segment(0, 20, (1, 2))], 40)
    assert parts(10) == ([Segment(0, 20, ())], 40)
    assert parts(1) == ([Segment(0, 20, (1,))], 40)
    assert parts() == ([Segment(0, 20, ())], 40)


def allowed(drawn: list[int], *, timed: bool = True, likely: int = 1) -> set[int]:
    """The tokens that may follow some others, each of which is tried as by far the likeliest."""
    found: set[int] = set()
    for token in range(24):
        rules = Rules(TOKENS, timed, GREEDY, np.random.default_rng(0), [*drawn])
        scores = np.zeros((1, 24), np.float32)
        scores[0, token], scores[0, likely] = 100, scores[0, likely] + 50
        if int(rules(scores)[0]) == token:
            found.add(token)
    return found


def test_a_text_begins_with_a_time_that_is_early() -> None:
    assert allowed([]) == {10, 11, 12, 13}
    assert allowed([], timed=False) == {*range(24)} - {0, 2, 8}


def test_times_stand_in_pairs_and_do_not_decrease() -> None:
    words = {*range(9)} - {2}
    assert allowed([10]) == words
    assert allowed([10, 1]) == words | {*range(11, 24)}
    assert allowed([10, 1, 15]) == {8, *range(15, 24)}
    assert allowed([10, 1, 15, 15]) == words
    assert allowed([10, 1, 15, 15, 1]) == words | {*range(16, 24)}


def test_times_that_are_likelier_together_than_any_word_win() -> None:
    rules = Rules(TOKENS, True, GREEDY, np.random.default_rng(0), [10, 1])  # noqa: FBT003
    scores = np.full((1, 24), -20, np.float32)
    scores[0, 3], scores[0, 12:16] = 1.0, 0.0
    assert rules(scores)[0] == 12
    scores[0, 3] = 1.5
    rules.drawn[:] = [10, 1]
    assert rules(scores)[0] == 3


@pytest.mark.parametrize(
    ("top_k", "heat", "wanted"),
    [
        (0, 1.0, [0.1, 0.2, 0.3, 0.4]),
        (2, 1.0, [0, 0, 3 / 7, 4 / 7]),
        (4, 1.0, [0.1, 0.2, 0.3, 0.4]),
        (0, 0.5, [1 / 30, 4 / 30, 9 / 30, 16 / 30]),
        (2, 0.5, [0, 0, 9 / 25, 16 / 25]),
        (1, 5.0, [0, 0, 0, 1]),
    ],
)
def test_drawing_follows_the_softmax(top_k: int, heat: float, wanted: list[float]) -> None:
    plain = SpeechTokens(0, (0,))
    rules = Rules(plain, False, Sampling(heat, top_k), np.random.default_rng(1))  # noqa: FBT003
    logits = np.log(np.array([[0.1, 0.2, 0.3, 0.4]], np.float32))
    drawn = [int(rules(logits)[0]) for _ in range(4000)]
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 4000, wanted, atol=0.03)
