"""Sounds from files: mixed, resampled, filled with silence, or refused."""

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.support.installation import install_command
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess import audio
from meganeura_runtime.io.preprocess.audio import read_sound, read_speech
from meganeura_runtime.io.preprocess.input_transforms import Choices, Sounds
from meganeura_runtime.io.preprocess.mel import RATE, log_mel
from meganeura_runtime.support import optional_imports

TONE = 0.3 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)
MEL = TensorType(DType.F32, (dim("n"), 80, dim("t")))


def written(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    soundfile.write(path, samples, rate, subtype="FLOAT" if path.suffix == ".wav" else None)
    return path


def test_a_sound_is_followed_by_silence(tmp_path: Path) -> None:
    found = read_sound(written(tmp_path / "a.wav", TONE), 80, 150)
    assert (found.seconds, found.rate, found.channels) == (1.0, RATE, 1)
    whole = np.pad(TONE.astype(np.float32), (0, RATE // 2))
    np.testing.assert_allclose(found.values, log_mel(whole, 80), atol=1e-6)


def test_channels_are_mixed(tmp_path: Path) -> None:
    stereo = np.stack([1.5 * TONE, 0.5 * TONE], axis=1)
    found = read_sound(written(tmp_path / "a.wav", stereo), 80, 100)
    assert found.channels == 2
    np.testing.assert_allclose(found.values, log_mel(TONE, 80), atol=1e-4)


def test_another_rate_is_resampled(tmp_path: Path) -> None:
    fine = 0.3 * np.sin(2 * np.pi * 440 * np.arange(44_100) / 44_100)
    found = read_sound(written(tmp_path / "a.flac", fine, 44_100), 80, 100)
    expected = log_mel(TONE, 80)
    inner = (expected > 0.5) & (np.arange(100) > 3) & (np.arange(100) < 96)
    np.testing.assert_allclose(found.values[inner], expected[inner], atol=1e-3)


def test_a_sound_that_is_too_long_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.wav", TONE)
    assert read_sound(path, 80, 100).values.shape == (80, 100)
    with pytest.raises(ProblemError) as caught:
        read_sound(path, 80, 99)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason == "it lasts 1.00 s, and 0.99 s are fed; cut it into pieces"


def test_speech_is_as_long_as_it_is_but_no_shorter_than_a_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "a.wav", TONE)
    whole = TONE.astype(np.float32)
    for frames, rest in ((150, RATE // 2), (100, 0), (30, 0)):
        expected = log_mel(np.pad(whole, (0, rest)), 80)
        np.testing.assert_allclose(read_speech(path, 80, frames), expected, atol=1e-6)
    longer = written(tmp_path / "b.wav", np.pad(TONE, (0, 1)))
    assert read_speech(longer, 80, 30).shape == (80, 101)
    monkeypatch.setattr(audio, "LONGEST", 1)
    read_speech(path, 80, 30)
    with pytest.raises(ProblemError) as caught:
        read_speech(longer, 80, 30)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.endswith("and 1 s are fed; cut it into pieces")


def test_a_damaged_or_empty_sound_is_refused(tmp_path: Path) -> None:
    noise = tmp_path / "noise.wav"
    noise.write_bytes(b"RIFF....WAVEnothing of this is a sound")
    nothing = written(tmp_path / "nothing.wav", np.zeros(0))
    nan = written(tmp_path / "nan.wav", np.where(np.arange(400) == 399, np.nan, 0.5))
    for path, reason in ((noise, "noise.wav"), (nothing, "no samples"), (nan, "no finite numbers")):
        with pytest.raises(ProblemError) as caught:
            read_sound(path, 80, 100)
        problem = caught.value.problem
        assert isinstance(problem, UnreadableFile)
        assert (problem.file, reason in problem.reason) == (path, True), problem.reason
    with pytest.raises(ProblemError, match="E0533"):
        read_sound(tmp_path / "no.wav", 80, 100)


def test_the_form_is_what_the_model_wants_and_else_whisper_s(tmp_path: Path) -> None:
    assert Choices().sound_form(MEL) == Sounds(80, 3000)
    assert Choices(seconds=2.5).sound_form(MEL) == Sounds(80, 250)
    assert Choices(seconds=0.0299).sound_form(MEL) == Sounds(80, 2)
    assert Choices(seconds=0.001).sound_form(MEL) == Sounds(80, 1)
    fixed = TensorType(DType.F32, (dim("n"), 128, 64))
    assert Choices(seconds=2.5).sound_form(fixed) == Sounds(128, 64)
    config = tmp_path / "preprocessor_config.json"
    config.write_text('{"chunk_length": 10, "feature_size": 40, "nb_max_frames": 1000}')
    open_ = TensorType(DType.F32, (dim("n"), dim("m"), dim("t")))
    assert Choices(config=config).sound_form(open_) == Sounds(40, 1000)
    assert Choices(config=config, seconds=2.5).sound_form(open_) == Sounds(40, 250)
    assert Choices(config=config).sound_form(MEL) == Sounds(80, 1000)
    assert Choices().sound_form(open_) == Sounds(80, 3000)
    assert Choices().sound_form(TensorType(DType.I32, (1, 80, 10))) is None
    assert Choices().sound_form(TensorType(DType.F32, (1, 80))) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"hop_length": 128}', "`hop_length` is 128, and only 160 is done here"),
        ('{"dither": 0.1}', "it asks for `dither`"),
        ('{"padding_side": "left"}', "`padding_side` is left"),
        ('{"chunk_length": "long"}', "`chunk_length`: "),
    ],
)
def test_another_spectrogram_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    config = tmp_path / "preprocessor_config.json"
    config.write_text(text)
    with pytest.raises(ProblemError) as caught:
        Choices(config=config).sound_form(MEL)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.startswith(reason)


def test_a_library_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(ProblemError) as caught:
        optional_imports.load("no_such_library", "audio", "read sounds")
    report = caught.value.problem.report()
    assert report.help is not None
    assert report.help.code == install_command("audio")


@pytest.mark.parametrize("suffix", [".wav", ".flac", ".ogg", ".mp3"])
def test_a_sound_that_is_too_long_is_not_decoded(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    soundfile.write(path, np.zeros((10 * RATE, 2)), RATE)

    def decoded(*_: object, **__: object) -> None:
        pytest.fail("nothing of it is needed to know how long it is")

    monkeypatch.setattr(soundfile.SoundFile, "read", decoded)
    with pytest.raises(ProblemError, match="E0530") as caught:
        read_sound(path, 80, 100)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.startswith("it lasts 10")


def test_no_more_is_decoded_than_is_fed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file says of its length, and however many channels there are."""
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros((20 * RATE, 8)), RATE)
    monkeypatch.setattr(soundfile.SoundFile, "frames", property(lambda _: 0))
    pieces: list[int] = []
    read = soundfile.SoundFile.read

    def recorded(
        self: soundfile.SoundFile, frames: int, dtype: Literal["float32"], *, always_2d: bool
    ) -> np.ndarray:
        piece = read(self, frames, dtype, always_2d=always_2d)
        pieces.append(piece.size)
        return piece

    monkeypatch.setattr(soundfile.SoundFile, "seekable", lambda _: False)
    monkeypatch.setattr(soundfile.SoundFile, "read", recorded)
    with pytest.raises(ProblemError, match="E0530") as caught:
        read_sound(path, 80, 300)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert caught.value.problem.reason.startswith("it lasts more than 3 s")
    assert max(pieces) <= 1 << 18
    assert sum(pieces) <= 8 * 3 * RATE + (1 << 18)


def test_a_sound_in_pieces_is_what_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = np.random.default_rng(0).uniform(-1, 1, (RATE // 10, 3))
    path = written(tmp_path / "a.wav", noise)
    whole = read_sound(path, 80, 10).values
    for piece in (1000, 2):  # of which the second has less than a sample of each channel
        monkeypatch.setattr(audio, "PIECE", piece)
        np.testing.assert_array_equal(read_sound(path, 80, 10).values, whole)


@pytest.mark.parametrize("rate", [7, 8_000, 22_050, 44_100])
def test_a_sound_of_just_the_length_is_taken(tmp_path: Path, rate: int) -> None:
    assert read_sound(written(tmp_path / "a.wav", np.zeros(rate), rate), 80, 100).seconds == 1
    with pytest.raises(ProblemError, match="E0530"):
        read_sound(written(tmp_path / "b.wav", np.zeros(rate + 1), rate), 80, 100)


@pytest.mark.parametrize(("rate", "frames"), [(22_050, 99), (11_025, 7), (8_001, 3)])
def test_a_length_between_two_samples_is_rounded_down(
    tmp_path: Path, rate: int, frames: int
) -> None:
    most = frames * rate // 100
    assert frames * rate % 100
    found = read_sound(written(tmp_path / "a.wav", np.zeros(most), rate), 80, frames)
    assert found.values.shape == (80, frames)
    with pytest.raises(ProblemError, match="E0530"):
        read_sound(written(tmp_path / "b.wav", np.zeros(most + 1), rate), 80, frames)


def test_a_rate_that_no_sound_has_is_refused(tmp_path: Path) -> None:
    highest = written(tmp_path / "high.wav", np.zeros(10), audio.HIGHEST_RATE)
    assert read_sound(highest, 80, 100).rate == audio.HIGHEST_RATE
    for rate in (audio.HIGHEST_RATE + 1, 2**31 - 1):
        with pytest.raises(ProblemError) as caught:
            read_sound(written(tmp_path / "a.wav", np.zeros(10), rate), 80, 100)
        assert isinstance(caught.value.problem, UnreadableFile)
        assert caught.value.problem.reason == f"{rate} samples are a second of it"
