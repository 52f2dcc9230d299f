"""Transcriptions of sounds are those in `transcribed.txt`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.infer.generation_problems import WrongSampling
from meganeura_runtime.infer.generator import Generator
from meganeura_runtime.infer.transcription import (
    Speech,
    SpeechTask,
    Transcriber,
    _clock,
    _without_space,
)
from meganeura_runtime.io.preprocess.input_transforms import Sounds
from meganeura_runtime.io.preprocess.speech_tokens import SpeechTokens
from tests.runtime.infer.transcribed import FILE, FRAMES, MANY, PLAIN, ROOM, _Words, described

LEFT_OUT = "left out: the model knows but one"


def test_sounds_are_written_down_as_they_were() -> None:
    assert list(described()) == FILE.read_text().splitlines()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "00:00.000"),
        (0.0006, "00:00.001"),
        (59.9996, "01:00.000"),
        (62.34, "01:02.340"),
        (3599.999, "59:59.999"),
        (3600.0, "01:00:00.000"),
    ],
)
def test_a_time_is_minutes_and_hours_where_there_are_any(seconds: float, shown: str) -> None:
    assert _clock(seconds) == shown


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ([" Hello", " world"], "Hello world"),
        (["", "  ", " \n", "  one", "", " two"], "one two"),
        (["one", " two"], "one two"),
        ([" ", ""], ""),
        ([], ""),
    ],
)
def test_a_text_begins_with_its_first_word(pieces: list[str], text: str) -> None:
    assert "".join(_without_space(iter(pieces))) == text


def test_a_model_that_takes_something_beside_a_sound_writes_nothing_down() -> None:
    sound = TensorType(DType.F32, (1, 4, 40))
    other = TensorType(DType.I32, (1, dim("n")))
    for context in ({}, {"x": other}, {"mel": sound, "x": other}, {"a": sound, "b": sound}):
        inputs = {"ids": other, **context}
        elaboration = SimpleNamespace(inputs=inputs)
        made = SimpleNamespace(context=tuple(context), elaboration=elaboration, ids="ids")
        with pytest.raises(ProblemError, match="no input `sound`"):
            SpeechTask.of(cast("Any", lambda _, made=made: made), ())


def test_what_a_model_cannot_do_is_told_before_a_sound_is_read() -> None:
    """The pieces come one by one, and none is needed for that."""
    task = SpeechTask("mel", Sounds(2, FRAMES), ROOM)
    made = Transcriber(cast("Generator", None), task, cast("Any", None), MANY)
    for speech, steps in ((Speech(language="xx"), None), (Speech(), ROOM + 1)):
        with pytest.raises(ProblemError) as caught:
            made(Path("nowhere.wav"), speech, steps)
        assert "nowhere" not in str(caught.value)


def lines(*drawn: int, length: int = FRAMES) -> tuple[list[str], int]:
    """The lines of a window whose times are the tokens from 20 on, and the frames to the next."""
    task = SpeechTask("mel", Sounds(2, FRAMES), ROOM)
    made = Transcriber(cast("Generator", None), task, _Words(), MANY)
    written = made._timed(iter([np.array([token]) for token in drawn]), 100, length)
    found: list[str] = []
    while True:
        try:
            found.append(next(written).strip())
        except StopIteration as end:
            return found, end.value


@pytest.mark.parametrize("end", MANY.ends)
def test_any_token_that_ends_a_text_ends_a_window(end: int) -> None:
    """Letters follow a frame of 10 ms each 100, where the window begins."""
    assert lines(20, 1, 2, 25, end, 3, 30) == (["[00:01.000 --> 00:01.100]  c"], FRAMES)


def test_a_window_begins_at_the_last_pair_of_times_and_never_where_the_one_before_did() -> None:
    first, second = "[00:01.000 --> 00:01.080]  c", "[00:01.100 --> 00:01.200]  d"
    assert lines(20, 2, 24, 25, 3, 30) == ([first, second], FRAMES)
    assert lines(20, 2, 24, 25, 3) == ([first], 8)
    assert lines(20, 20)[1] == 2


@pytest.mark.parametrize("room", [9, 64, 448])
def test_caches_of_a_window_hold_all_that_it_may_have(room: int) -> None:
    step = SpeechTask("mel", Sounds(2, FRAMES), room).step
    assert (step.capacity, step.tokens, step.rows, step.draws) == (room, 1, 1, False)


@pytest.mark.parametrize(
    ("tokens", "speech", "problem"),
    [
        (PLAIN, Speech("en"), ("language", "en", LEFT_OUT)),
        (PLAIN, Speech(task="translate"), ("task", "translate", LEFT_OUT)),
        (PLAIN, Speech(timestamps=True), ("timestamps", "true", "false: the model has none")),
        (MANY, Speech("fr"), ("language", "fr", "one of de, en")),
        (MANY, Speech("de", "sing"), ("task", "sing", "one of transcribe, translate")),
    ],
)
def test_what_can_be_asked_for_instead_is_told(
    tokens: SpeechTokens, speech: Speech, problem: tuple[str, str, str]
) -> None:
    task = SpeechTask("mel", Sounds(2, FRAMES), ROOM)
    with pytest.raises(ProblemError) as caught:
        Transcriber(cast("Generator", None), task, _Words(), tokens)._require(speech, None)
    assert caught.value.problem == WrongSampling(*problem)
