"""The tokenizer of pages, held against the library `tokenizers`; and what it lacks, by name."""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as before
from tokenizers import processors as after
from tokenizers.trainers import BpeTrainer

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.mgb.portable_tokenizer import portable_tokenizer
from meganeura_runtime.io.files.file_problems import UnreadableFile
from tests.effort import effort
from tests.runtime.web.conftest import Ask

CORPUS = ["The quick brown fox — jumps über the lazy dog's 1234 犬と狐 🦊🐶\n\n  def f(x):\n"] * 3
LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL = ["<|end|>", "<s>", "<|e"]
ADDED = [AddedToken("\uff46oo bar", normalized=True), AddedToken("é!", normalized=False)]


@cache
def tokenizers() -> dict[str, Tokenizer]:
    """Of the kinds of GPT-2, SmolLM2, Llama 3 and Qwen 2, and with a space put first."""
    plain = before.ByteLevel(add_prefix_space=False)
    rest = before.ByteLevel(add_prefix_space=False, use_regex=False)
    cut = before.Split(Regex(LLAMA), "isolated")
    kept = before.Split(Regex(LLAMA), "removed", invert=True)
    around = after.TemplateProcessing(
        single="<s> $A <|end|>", special_tokens=[("<s>", 1), ("<|end|>", 0)]
    )
    made = {
        "gpt2": trained(plain),
        "smollm2": trained(before.Sequence([before.Digits(individual_digits=True), plain])),
        "prefixed": trained(
            before.Sequence([before.Digits(), before.ByteLevel(add_prefix_space=True)])
        ),
        "llama": trained(before.Sequence([cut, rest]), ignore_merges=True),
        "qwen": trained(before.Sequence([kept, rest])),
    }
    made["llama"].post_processor = after.Sequence([after.ByteLevel(), around])
    made["qwen"].normalizer = normalizers.NFKC()
    return made


def trained(pre_tokenizer: Any, *, ignore_merges: bool = False) -> Tokenizer:  # noqa: ANN401
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = before.ByteLevel.alphabet()
    trainer = BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([*ADDED, "zzz"])
    return tokenizer


def texts(count: int) -> list[str]:
    """Random texts of what is hard: white space of many kinds, marks, digits, added tokens."""
    generator = random.Random(0)
    parts = [
        *"abcehlostTHE  \n\t\r'0123.,!?é\u0301\uff46犬狐🦊",
        *"\u00a0\u0085\ufeff\u200b\u2028½²٣\u07c0_-",
        *SPECIAL, "\uff46oo bar", "foo bar", "é!", "zzz", "'ll", "'LL",
        "\U0001f468\u200d\U0001f469", "  ", " the", "quick",
    ]  # fmt: skip
    drawn = ("".join(generator.choices(parts, k=generator.randrange(40))) for _ in range(count))
    return ["", *CORPUS[:1], "a" * 300, *drawn]


@pytest.mark.parametrize(
    "kind", effort(["prefixed", "llama"], ["gpt2", "smollm2", "prefixed", "llama", "qwen"])
)
def test_tokens_are_those_of_the_library(kind: str, ask: Ask) -> None:
    tokenizer, given = tokenizers()[kind], texts(effort(400, 20_000))
    (found,) = ask([{"ask": "tokenizer", "text": tokenizer.to_str(), "texts": given}])
    for text, (tokens, written) in zip(given, found["answer"], strict=True):
        wanted = tokenizer.encode(text).ids
        assert tokens == wanted, text
        assert written == tokenizer.decode(wanted), text


def written(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    content = json.loads(tokenizers()["smollm2"].to_str())
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder / "tokenizer.json"


def without_a_byte(file: dict[str, Any]) -> None:
    file["model"]["vocab"]["moth"] = file["model"]["vocab"].pop("q")


UNKNOWN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "WordPiece": (lambda file: file["model"].update(type="WordPiece"), "its model is WordPiece"),
    "bytes apart": (lambda file: file["model"].update(byte_fallback=True), "byte_fallback"),
    "a suffix": (
        lambda file: file["model"].update(end_of_word_suffix="</w>"), "end_of_word_suffix"
    ),
    "a missing byte": (without_a_byte, "no token for the byte 113"),
    "a normalizer": (lambda file: file.update(normalizer={"type": "Lowercase"}), "Lowercase"),
    "a pre-tokenizer": (
        lambda file: file.update(pre_tokenizer={"type": "Metaspace"}), "Metaspace"
    ),
    "none": (lambda file: file.update(pre_tokenizer=None), "pre-tokenizer"),
    "a splitter": (
        lambda file: file["pre_tokenizer"]["pretokenizers"][0].update(
            type="Split", pattern={"Regex": "a"}, behavior="MergedWithNext", invert=False
        ),
        "Split MergedWithNext",
    ),
    "a decoder": (lambda file: file.update(decoder={"type": "WordPiece"}), "decoder is WordPiece"),
    "a post-processor": (
        lambda file: file.update(post_processor={"type": "BertProcessing"}), "BertProcessing"
    ),
    "padding": (lambda file: file.update(padding={"strategy": "BatchLongest"}), "pad"),
    "a token of words": (
        lambda file: file["added_tokens"][0].update(single_word=True), "has single_word"
    ),
    "no model": (lambda file: file.pop("model"), "it is n"),
}  # fmt: skip


def test_what_is_not_known_is_refused_by_name(ask: Ask, tmp_path: Path) -> None:
    """By what builds a page as by what runs it."""
    files = []
    for change, said in UNKNOWN.values():
        files.append(written(tmp_path, change).read_text())
        with pytest.raises(ProblemError) as caught:
            portable_tokenizer([tmp_path])
        problem = caught.value.problem
        assert isinstance(problem, UnreadableFile)
        assert said in problem.reason
    for (_, said), found in zip(
        UNKNOWN.values(),
        ask([{"ask": "tokenizer", "text": text, "texts": []} for text in files]),
        strict=True,
    ):
        assert (found["code"], said in found["message"]) == ("E0533", True), found


PATTERNS = (r"\d+", r"\bword", "a.b", "[a&&b]", r"\h", "(?>a)", "a++")


def test_patterns_that_mean_something_else_in_javascript_are_refused(
    ask: Ask, tmp_path: Path
) -> None:
    def splitting(pattern: str) -> str:
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}

        def change(file: dict[str, Any]) -> None:
            file["pre_tokenizer"]["pretokenizers"][0] = {**split, "invert": False}

        return written(tmp_path, change).read_text()

    texts = [splitting(each) for each in PATTERNS]
    found = ask([{"ask": "tokenizer", "text": text, "texts": []} for text in texts])
    for pattern, answer in zip(PATTERNS, found, strict=True):
        assert answer["code"] == "E0533"
        assert pattern in answer["message"]


def test_a_tokenizer_that_is_known_is_taken_as_it_is(tmp_path: Path) -> None:
    file = written(tmp_path, lambda _: None)
    (tmp_path / "config.json").write_text('{"eos_token_id": 2}')
    found = portable_tokenizer([tmp_path])
    assert (found.text, found.ends) == (file.read_text(), (2,))
    assert found.size == tokenizers()["smollm2"].get_vocab_size()
    assert portable_tokenizer([tmp_path / "elsewhere" / "x.safetensors"]).text is None
