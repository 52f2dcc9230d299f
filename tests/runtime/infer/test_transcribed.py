"""What is written down of sounds is what stands in `transcribed.txt`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.infer.generator import Generator
from meganeura_runtime.infer.transcription import (
    Speech,
    SpeechTask,
    Transcriber,
    _clock,
    _without_space,
)
from meganeura_runtime.io.preprocess.input_transforms import Sounds
from tests.runtime.infer.transcribed import FILE, FRAMES, MANY, ROOM, described


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
        made = SimpleNamespace(context=tuple(context), elaboration=SimpleNamespace(inputs=inputs))
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
