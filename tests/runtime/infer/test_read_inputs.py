"""Files become what `read_inputs.txt` says, and values of another kind are refused."""

from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.infer.feeds import as_tensors, feeds
from meganeura_runtime.infer.input_files import Given, Reader
from meganeura_runtime.io.preprocess import audio
from meganeura_runtime.io.preprocess.input_transforms import Choices
from tests.runtime.infer.read_inputs import FILE, described


def test_files_become_what_they_became() -> None:
    assert list(described()) == FILE.read_text().splitlines()


@pytest.mark.parametrize("channels", [1, 2, 6])
@pytest.mark.parametrize("frames", [40, dim("t")])
@pytest.mark.parametrize("seconds", [None, 2.0])
def test_a_sound_is_reported_as_it_is_read(
    channels: int, frames: int, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: Path, mels: int, frames: int) -> audio.ReadSound:
        del path
        return audio.ReadSound(np.zeros((mels, frames), np.float32), 1.25, 8000, channels)

    monkeypatch.setattr(audio, "read_sound", read)
    told: list[str] = []
    declared = {"sound": TensorType(DType.F32, (dim("n"), 4, frames))}
    reader = Reader(declared, Choices(seconds=seconds), told.append)
    given = [Given.parse("sound=a.wav"), Given.parse("sound=b.wav")]
    if seconds is not None and frames == 40:
        with pytest.raises(ProblemError, match="cannot feed"):
            reader.read(given)
        return
    found = reader.read(given)["sound"]
    length = 40 if frames == 40 else 3000 if seconds is None else 200
    assert found.shape == (2, 4, length)
    mixed = "mono" if channels == 1 else f"{channels} channels mixed"
    assert told == [
        f"sound: {name}.wav, 1.25 s at 8,000 Hz, {mixed}, log-mel 4 x {length:,}, "
        f"silence up to {length / 100:g} s"
        for name in "ab"
    ]


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("stored", [np.float32, np.float16, np.int64, np.uint8, np.bool_])
def test_real_numbers_are_no_whole_ones_and_indices_are_looked_at(
    dtype: DType, stored: type[np.generic]
) -> None:
    type_ = TensorType(dtype, (2,))
    tensors = as_tensors({"x": np.asarray([0, 1], stored)})
    if stored in (np.float32, np.float16) and not dtype.is_float:
        with pytest.raises(ProblemError) as refusal:
            feeds({}, {"x": type_}, tensors)
        assert refusal.value.problem.report().code == "E0524"
        return
    assert feeds({}, {"x": type_}, tensors)["x"].tolist() == [0, 1]
    if dtype in (DType.I32, DType.U32):
        assert feeds({"x": Bound(2)}, {"x": type_}, tensors)["x"].tolist() == [0, 1]
        with pytest.raises(ProblemError):
            feeds({"x": Bound(1)}, {"x": type_}, tensors)
