"""The tokens of speech in a checkpoint, or the reason why it is refused."""

import json
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.preprocess.speech_tokens import NAME, SpeechTokens, speech_tokens
from meganeura_runtime.io.preprocess.tokens import ByteTokenizer

GIVEN = {
    "decoder_start_token_id": 81, "eos_token_id": [80], "lang_to_id": {"<|en|>": 82},
    "task_to_id": {"transcribe": 85}, "no_timestamps_token_id": 86, "suppress_tokens": [1],
    "max_initial_timestamp_index": 5, "begin_suppress_tokens": [5, 80], "alignment_heads": [[1, 2]],
}  # fmt: skip


def read(folder: Path, content: object, vocabulary: int = 100) -> SpeechTokens:
    (folder / NAME).write_text(json.dumps(content))
    return speech_tokens([folder / "model.safetensors"], ByteTokenizer(), vocabulary)


def test_the_file_beside_the_weights_names_the_tokens(tmp_path: Path) -> None:
    assert speech_tokens([tmp_path], ByteTokenizer(), 256) == SpeechTokens(0, (0,))
    wanted = SpeechTokens(81, (80,), {"en": 82}, {"transcribe": 85}, 86, 5, (1,), (5, 80))
    assert read(tmp_path, GIVEN) == wanted
    assert read(tmp_path, {**GIVEN, "eos_token_id": 80}) == wanted
    assert read(tmp_path, {"decoder_start_token_id": 3, "eos_token_id": 2}) == SpeechTokens(3, (2,))


@pytest.mark.parametrize(
    "key",
    ["decoder_start_token_id", "eos_token_id", "lang_to_id", "task_to_id", "no_timestamps_token_id",
     "suppress_tokens", "begin_suppress_tokens"],
)  # fmt: skip
def test_each_token_is_one_of_the_model(key: str, tmp_path: Path) -> None:
    several = {"lang_to_id": {"<|en|>": 99, "<|de|>": 3}, "task_to_id": {"a": 99}}
    lists = {"suppress_tokens": [99, 2], "begin_suppress_tokens": [2, 99]}
    content = {**GIVEN, key: {**several, **lists}.get(key, 99)}
    assert read(tmp_path, content, 100).highest == 99
    with pytest.raises(ProblemError) as refused:
        read(tmp_path, content, 99)
    assert isinstance(refused.value.problem, UnreadableFile)
    assert refused.value.problem.reason == "it names the token 99, and the model has 99"


def test_the_first_folder_that_names_tokens_counts(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("none", "first", "second")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        if number:
            content = {**GIVEN, "lang_to_id": {"<|en|>": number, "<|de|>": 7}}
            (folder / NAME).write_text(json.dumps(content))
    assert speech_tokens(folders, ByteTokenizer(), 100).languages == {"en": 1, "de": 7}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "decoder_start_token_id"),
        ({**GIVEN, "eos_token_id": "end"}, "eos_token_id"),
        ({**GIVEN, "eos_token_id": []}, "eos_token_id"),
        ({**GIVEN, "suppress_tokens": [-1]}, "suppress_tokens.0"),
        ({**GIVEN, "lang_to_id": {"<|en|>": 82.5}}, "lang_to_id"),
        ({**GIVEN, "begin_suppress_tokens": [100]}, "the token 100, and the model has 100"),
    ],
)
def test_what_is_no_token_is_refused(content: object, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as refused:
        read(tmp_path, content)
    assert isinstance(refused.value.problem, UnreadableFile)
    assert reason in refused.value.problem.reason
