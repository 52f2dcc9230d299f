"""What a checkpoint says of the tokens of speech, or why it is refused."""

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
