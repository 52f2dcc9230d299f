"""Entries of a `preprocessor_config.json` for images and for sounds."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.preprocessor_config import (
    HARMLESS,
    image_steps,
    sound_config,
)

KINDS = (image_steps, sound_config)

Reader = Callable[[Path], object]


def written(folder: Path, content: object) -> Path:
    path = folder / "preprocessor_config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def reason(read: Reader, path: Path) -> str:
    with pytest.raises(ProblemError) as caught:
        read(path)
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert problem.file == path
    return problem.reason


@pytest.mark.parametrize("read", KINDS)
@pytest.mark.parametrize("value", [True, 1, 0.1, -1, "", "no", [], [0], {}, {"a": None}])
def test_what_is_not_done_here_is_refused(tmp_path: Path, read: Reader, value: object) -> None:
    asked = "it asks for `dither`, which is not done here"
    assert reason(read, written(tmp_path, {"dither": value})) == asked
    among = {"do_pad": False, "processor_class": "X", "dither": value, "other": 1}
    assert reason(read, written(tmp_path, among)) == asked


@pytest.mark.parametrize("read", KINDS)
def test_what_is_not_done_here_may_be_off(tmp_path: Path, read: Reader) -> None:
    plain = read(written(tmp_path, {}))
    for value in (None, False, 0, 0.0):
        assert read(written(tmp_path, {"dither": value, "do_pad": value})) is not None
    if read is image_steps:
        assert read(written(tmp_path, {"dither": 0.0})) == plain


@pytest.mark.parametrize("read", KINDS)
def test_keys_that_say_nothing_of_the_input_may_be_anything(tmp_path: Path, read: Reader) -> None:
    assert read(written(tmp_path, dict.fromkeys(HARMLESS, "anything"))) is not None
    for name in HARMLESS:
        other = f"{name}s"
        assert f"`{other}`" in reason(read, written(tmp_path, {name: 1, other: 1}))


@pytest.mark.parametrize(
    ("read", "keys"),
    [
        (image_steps, {"hop_length": 160, "n_fft": 400, "feature_size": 80}),
        (sound_config, {"image_mean": [0.5], "crop_pct": 0.5, "resample": 2, "size": 224}),
    ],
)
def test_keys_of_images_are_none_of_sounds(
    tmp_path: Path, read: Reader, keys: dict[str, object]
) -> None:
    for name, value in keys.items():
        told = reason(read, written(tmp_path, {name: value}))
        assert told == f"it asks for `{name}`, which is not done here"


@pytest.mark.parametrize(
    ("key", "given", "done"),
    [
        ("sampling_rate", 8_000, 16_000),
        ("hop_length", 161, 160),
        ("n_fft", 512, 400),
        ("padding_side", "left", "right"),
        ("padding_value", 1.0, 0.0),
    ],
)
def test_another_spectrogram_than_whisper_s_is_refused(
    tmp_path: Path, key: str, given: object, done: object
) -> None:
    told = reason(sound_config, written(tmp_path, {key: given}))
    assert told == f"`{key}` is {given}, and only {done} is done here"
    assert sound_config(written(tmp_path, {key: done})) == sound_config(written(tmp_path, {}))


@pytest.mark.parametrize(
    ("key", "least", "most"), [("feature_size", 1, 100_000), ("chunk_length", 1, 3600)]
)
def test_sizes_of_sounds_have_bounds(tmp_path: Path, key: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(sound_config(written(tmp_path, {key: value})), key) == value
    for wrong in (least - 1, most + 1, 1.5, "x", None):
        assert reason(sound_config, written(tmp_path, {key: wrong})).startswith(f"`{key}`: ")


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"size": 0}, "size"),
        ({"size": 100_001}, "size"),
        ({"size": {"shortest_edge": 0}}, "size"),
        ({"size": {"height": 2, "width": 100_001}}, "size"),
        ({"crop_size": 0}, "crop_size"),
        ({"crop_pct": 0}, "crop_pct"),
        ({"crop_pct": 1.01}, "crop_pct"),
        ({"rescale_factor": 0}, "rescale_factor"),
        ({"rescale_factor": -1}, "rescale_factor"),
        ({"image_mean": ["x"]}, "image_mean.0"),
        ({"image_mean": [0, None]}, "image_mean.1"),
        ({"image_std": [1, -1]}, "image_std.1"),
        ('{"image_mean": [NaN]}', "image_mean.0"),
        ('{"image_std": [Infinity]}', "image_std.0"),
        ('{"rescale_factor": Infinity}', "rescale_factor"),
        ({"do_resize": 7}, "do_resize"),
        ({"do_center_crop": "x"}, "do_center_crop"),
        ({"do_normalize": None}, "do_normalize"),
    ],
)
def test_values_of_images_have_bounds(
    tmp_path: Path, config: dict[str, object] | str, key: str
) -> None:
    assert reason(image_steps, written(tmp_path, config)).startswith(f"`{key}")


@pytest.mark.parametrize("read", KINDS)
def test_a_file_that_is_none_is_refused(tmp_path: Path, read: Reader) -> None:
    for text in ("", "{", "\0", "[" * 100_000, "{}{}"):
        assert reason(read, written(tmp_path, text)).startswith("it is not JSON: ")
    for content in ("[]", "3", "null", '"size"'):
        assert reason(read, written(tmp_path, content)).startswith("``: ")
    long = " " * (1 << 20) + "{}"
    assert "1 MiB" in reason(read, written(tmp_path, long))
    assert reason(read, tmp_path / "no.json") == "No such file or directory"
    assert reason(read, tmp_path) == "this is a folder"
