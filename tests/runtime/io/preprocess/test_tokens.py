"""Tokenizers: bytes, and files of the library `tokenizers`."""

import json
import os
import tempfile
import warnings
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers, trainers

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.preprocess import tokens
from meganeura_runtime.io.preprocess.token_problems import OtherVocabulary
from meganeura_runtime.io.preprocess.tokens import (
    ByteTokenizer,
    FileTokenizer,
    Tokenizer,
    read_json,
    require_vocabulary,
    tokenizer_of,
)
from tests.effort import effort

TEXT = "The quick brown fox — jumps über the lazy dog. 犬と狐 🦊🐶"
CONFIG = "generation_config.json"
UNKNOWN = "?"


def written(folder: Path) -> Path:
    """A byte-level BPE tokenizer of few merges."""
    made = Library(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator([TEXT] * 3, trainer)
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def streamed(tokenizer: Tokenizer, tokens: list[int]) -> list[str]:
    stream = tokenizer.stream()
    return [*(stream.add(token) for token in tokens), stream.end()]


def test_bytes_are_streamed_a_character_at_a_time() -> None:
    tokenizer = ByteTokenizer()
    tokens = tokenizer.encode("a犬🦊")
    assert streamed(tokenizer, tokens) == ["a", "", "", "犬", "", "", "", "🦊", ""]
    assert streamed(tokenizer, [240, 159, 97]) == ["", "", "\ufffda", ""]
    assert streamed(tokenizer, [240]) == ["", "\ufffd"]
    assert streamed(tokenizer, [97, 256, 98, 70_000]) == ["a", "\ufffd", "b", "\ufffd", ""]


def test_a_file_gives_the_tokens_that_its_library_gives(tmp_path: Path) -> None:
    path = written(tmp_path)
    tokenizer = FileTokenizer(path)
    tokens = tokenizer.encode(TEXT)
    assert tokens == Library.from_file(str(path)).encode(TEXT).ids
    assert len(tokens) < len(TEXT.encode())
    pieces = streamed(tokenizer, tokens)
    assert "".join(pieces) == TEXT
    assert not any("\ufffd" in piece for piece in pieces)
    cut = next(
        n for n in range(len(tokens)) if "\ufffd" in Library.from_file(str(path)).decode(tokens[:n])
    )
    assert streamed(tokenizer, tokens[:cut])[-1].endswith("\ufffd")
    assert tokenizer.size == 300
    end = Library.from_file(str(path)).token_to_id("<end>")
    within = [*tokens[:3], end, *tokens[3:], end]
    assert streamed(tokenizer, within) == [*pieces[:3], "", *pieces[3:-1], "", pieces[-1]]


def test_a_token_without_text_leaves_what_follows_as_it_is(tmp_path: Path) -> None:
    """A space is left out at the beginning of a text alone."""
    made = Library(models.WordLevel({"\u2581a": 0, "\u2581b": 1, UNKNOWN: 2}, unk_token=UNKNOWN))
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(["<end>"])
    made.save(str(tmp_path / "tokenizer.json"))
    end = made.token_to_id("<end>")
    assert end is not None
    assert streamed(FileTokenizer(tmp_path / "tokenizer.json"), [0, end, 1]) == ["a", "", " b", ""]


@pytest.mark.parametrize("kind", ["bytes", "file"])
@given(content=st.lists(st.integers(0, 255), max_size=12))
@settings(max_examples=60)
def test_what_is_streamed_is_the_whole_text(kind: str, content: list[int]) -> None:
    """Also of bytes that are no text; and what follows them is not held back."""
    tokenizer = ByteTokenizer() if kind == "bytes" else one_byte_each()
    tokens = [*content, *b"ab"]
    pieces = streamed(tokenizer, tokens)
    assert "".join(pieces) == bytes(tokens).decode(errors="replace")
    assert pieces[-2] == "b"


@cache
def one_byte_each() -> FileTokenizer:
    """The tokenizer of a file, each of whose tokens is the byte of its number."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = (byte for byte in range(256) if byte not in plain)
    letters = {byte: chr(byte) for byte in plain}
    letters |= {byte: chr(256 + number) for number, byte in enumerate(others)}
    made = Library(models.BPE({letters[byte]: byte for byte in range(256)}, []))
    made.decoder = decoders.ByteLevel()
    with tempfile.TemporaryDirectory() as folder:
        made.save(f"{folder}/tokenizer.json")
        return FileTokenizer(Path(folder) / "tokenizer.json")


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({}, ()),
        ({"config.json": {"eos_token_id": 7}, CONFIG: {"eos_token_id": [2, 3]}}, (2, 3)),
        ({"config.json": {"eos_token_id": 7}, CONFIG: {"eos_token_id": ["a", True]}}, (7,)),
        *effort([], [
            ({"config.json": {"eos_token_id": 7}}, (7,)),
            ({"config.json": {"eos_token_id": None}}, ()),
            ({"config.json": {"eos_token_id": 7}, CONFIG: {"eos_token_id": None}}, (7,)),
            ({"config.json": {"eos_token_id": 7}, CONFIG: {"eos_token_id": ["a", 4]}}, (4,)),
        ]),
    ],
)  # fmt: skip
def test_a_checkpoint_says_which_tokens_end_a_text(
    files: dict[str, object], ends: tuple[int, ...], tmp_path: Path
) -> None:
    written(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    assert tokenizer_of([tmp_path / "model.safetensors"]).ends == ends
    assert tokenizer_of([tmp_path]).ends == ends
    assert tokenizer_of([tmp_path]).stops == (ends or (0,))


def test_the_first_folder_that_has_a_tokenizer_gives_it(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("none", "first", "second")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        if number:
            written(folder)
        config = {"eos_token_id": number + 5, "decoder_start_token_id": number + 1}
        (folder / "config.json").write_text(json.dumps(config))
    found = tokenizer_of([folders[0] / "a.safetensors", *folders[1:]])
    assert (found.start, found.ends, found.stops) == (2, (6,), (6,))
    (folders[1] / "config.json").write_text('{"decoder_start_token_id": 4}')
    assert tokenizer_of(folders[1:]).stops == (4,)
    assert tokenizer_of(folders, folders[2] / "tokenizer.json").start == 3


def test_bytes_are_read_where_there_is_no_tokenizer(tmp_path: Path) -> None:
    assert isinstance(tokenizer_of([tmp_path]), ByteTokenizer)
    assert isinstance(tokenizer_of([]), ByteTokenizer)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1", b"\xff\x00", b'{"model": {}}'])
def test_what_is_no_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ProblemError, match=r"tokenizer\.json"):
        tokenizer_of([tmp_path])
    with pytest.raises(ProblemError, match=r"none\.json"):
        tokenizer_of([], tmp_path / "none.json")


# --- what a file asks of its library --------------------------------------------------------------


def changed(folder: Path, **parts: object) -> Path:
    """A tokenizer whose file says something else of some parts."""
    path = written(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), **parts}))
    return path


def replacing(text: str, count: int) -> dict[str, object]:
    """Each `a` becomes a text, again and again."""
    one = {"type": "Replace", "pattern": {"String": "a"}, "content": text}
    return {"type": "Sequence", "normalizers": [one] * count, "decoders": [one] * count}


PADDING = {
    "strategy": {"Fixed": 10**9}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
    "pad_type_id": 0, "pad_token": "a",
}  # fmt: skip
TRUNCATION = {"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0}
SELF = {"Sequence": {"id": "A", "type_id": 0}}
OTHER = {"Sequence": {"id": "B", "type_id": 0}}
TEMPLATE = {"type": "TemplateProcessing", "special_tokens": {}, "pair": [SELF, OTHER]}


def test_padding_and_truncation_of_a_file_are_left_out(tmp_path: Path) -> None:
    tokens = FileTokenizer(written(tmp_path)).encode(TEXT)
    for parts in ({"padding": PADDING}, {"truncation": TRUNCATION}):
        assert FileTokenizer(changed(tmp_path, **parts)).encode(TEXT) == tokens


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"normalizer": replacing("a" * 10_000, 3)}, "of memory"),
        ({"normalizer": replacing("b" * 10_000, 1)}, "it makes 400,001 tokens of 41 bytes"),
        ({"post_processor": {**TEMPLATE, "single": [SELF] * 10_000}}, "tokens of 41 bytes"),
        (
            {
                "pre_tokenizer": {
                    "type": "Split", "behavior": "Isolated", "invert": False,
                    "pattern": {"Regex": "(a+)+$"},
                }
            },
            "retry-limit-in-match over",
        ),
    ],
    ids=["memory", "growth", "template", "panic"],
)  # fmt: skip
def test_a_text_that_a_file_makes_hard_is_a_message(
    parts: dict[str, object], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MEMORY", 1 << 29)
    tokenizer = FileTokenizer(changed(tmp_path, **parts))
    for _ in range(2):  # it is refused the same where its process is started anew
        with pytest.raises(ProblemError, match=r"tokenizer\.json") as caught:
            tokenizer.encode("a" * 40 + "c")
        assert reason in str(caught.value.problem.report())
    if "post_processor" not in parts:
        assert tokenizer.encode("b") == FileTokenizer(written(tmp_path)).encode("b")


def test_tokens_whose_text_a_file_makes_long_are_a_message(tmp_path: Path) -> None:
    tokenizer = FileTokenizer(changed(tmp_path, decoder=replacing("a" * 10_000, 2)))
    with pytest.raises(ProblemError, match=r"tokenizer\.json") as caught:
        tokenizer.stream().add(tokenizer.encode("a")[0])
    assert "characters of 1 tokens" in str(caught.value.problem.report())


def test_a_text_takes_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A little backtracking at each of many places reaches no bound of the library."""
    monkeypatch.setattr(tokens, "LONGEST_QUESTION", 1.0)
    split = {"type": "Split", "behavior": "Isolated", "invert": False}
    slow = {**split, "pattern": {"Regex": "(?:a?){20}(?:a+)*c"}}
    tokenizer = FileTokenizer(changed(tmp_path, pre_tokenizer=slow))
    with pytest.raises(ProblemError, match=r"tokenizer\.json") as caught:
        tokenizer.encode(("a" * 17 + "b") * 500_000)
    assert "it takes more than 1 seconds" in str(caught.value.problem.report())
    assert tokenizer.encode("b")


def test_a_fork_has_a_process_of_its_own(tmp_path: Path) -> None:
    tokenizer = FileTokenizer(written(tmp_path))
    wanted = tokenizer.encode(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX, which another test may have imported, warns of forks
        child = os.fork()
    if child == 0:
        os._exit(0 if tokenizer.encode(TEXT) == wanted else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert tokenizer.encode(TEXT) == wanted


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    tokenizer = FileTokenizer(written(tmp_path))
    require_vocabulary(tokenizer, 300)
    with pytest.raises(ProblemError) as refused:
        require_vocabulary(tokenizer, 299)
    assert refused.value.problem == OtherVocabulary("the tokenizer", 300, 299)
    with pytest.raises(ProblemError) as refused:
        require_vocabulary(ByteTokenizer(), 255)
    assert refused.value.problem == OtherVocabulary("a text read as bytes", 256, 255)


def test_what_a_file_beside_it_says_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / CONFIG
    for content, found in (('{"eos": [1, 2]}', {"eos": [1, 2]}), ("[1]", {}), ("3", {})):
        path.write_text(content)
        assert read_json(path) == found
    for content in ("", "{", "[" * 100_000):
        path.write_text(content)
        with pytest.raises(ProblemError) as refused:
            read_json(path)
        assert "it is not JSON" in str(refused.value.problem.report())
