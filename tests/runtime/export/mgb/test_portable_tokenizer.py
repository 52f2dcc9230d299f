"""Tokenizers that a page supports, and the reasons against others."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.mgb.portable_tokenizer import PortableTokenizer, portable_tokenizer
from meganeura_runtime.io.files.file_problems import UnreadableFile

Json = dict[str, Any]
Change = Callable[[Json], object]


def whole() -> Json:
    """Byte-level BPE as GPT-2 has it, of the bytes alone."""
    seen = [byte for byte in range(256) if 32 < byte < 127 or (byte > 160 and byte != 173)]
    others = [byte for byte in range(256) if byte not in seen]
    shown = {byte: chr(byte) for byte in seen} | {b: chr(256 + n) for n, b in enumerate(others)}
    return {
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
        "post_processor": None,
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {shown[b]: b for b in range(256)}, "merges": []},
    }


def read(folder: Path, found: Json) -> PortableTokenizer:
    (folder / "tokenizer.json").write_text(json.dumps(found))
    return portable_tokenizer([folder / "model.safetensors"])


def token(number: int, **more: object) -> Json:
    return {"id": number, "content": "<end>", **more}


def test_its_size_is_one_more_than_its_last_token(tmp_path: Path) -> None:
    assert read(tmp_path, whole()).size == 256
    found = whole()
    found["model"]["vocab"]["ab"] = 300
    assert read(tmp_path, found).size == 301
    found["added_tokens"] = [token(280), token(500)]
    assert read(tmp_path, found).size == 501
    del found["added_tokens"]
    assert read(tmp_path, found).size == 301
    found["added_tokens"] = None
    made = read(tmp_path, found)
    assert (made.size, json.loads(made.text or "")) == (301, found)


def test_where_there_is_none_bytes_are_tokens(tmp_path: Path) -> None:
    assert portable_tokenizer([tmp_path / "model.safetensors"]) == PortableTokenizer()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda t: t["model"].update(type="Unigram"), "its model is Unigram"),
        (lambda t: t["model"].update(byte_fallback=True), "its model has byte_fallback"),
        (lambda t: t.update(truncation={"max_length": 3}), "it has truncation"),
        (lambda t: t.update(padding={"length": 3}), "it has padding"),
        (lambda t: t.update(added_tokens=[token(256, lstrip=True)]), "token `<end>` has lstrip"),
        (lambda t: t["model"]["vocab"].pop("a"), "it has no token for the byte 97"),
        (lambda t: t["model"]["vocab"].pop(chr(256)), "it has no token for the byte 0"),
        (lambda t: t.update(normalizer={"type": "Odd"}), "its normalizer is Odd"),
        (lambda t: t.update(decoder=None), "it has no decoder"),
        (lambda t: t.update(decoder={"type": "Metaspace"}), "its decoder is Metaspace"),
        (lambda t: t.update(post_processor={"type": "Odd"}), "its post-processor is Odd"),
        (lambda t: t.update(pre_tokenizer=None), "it has no pre-tokenizer"),
        (lambda t: t.update(pre_tokenizer={"type": "Odd"}), "Odd"),
        (lambda t: t.pop("model"), "it is no tokenizer of byte-level BPE"),
        (lambda t: t.update(model=[]), "it is no tokenizer of byte-level BPE"),
        (lambda t: t["model"].update(vocab={}), "it is no tokenizer of byte-level BPE"),
        (lambda t: t.update(added_tokens=[{}]), "it is no tokenizer of byte-level BPE"),
    ],
)
def test_why_a_page_does_not_know_it_is_said(change: Change, reason: str, tmp_path: Path) -> None:
    found = whole()
    change(found)
    with pytest.raises(ProblemError) as refusal:
        read(tmp_path, found)
    problem = refusal.value.problem
    assert isinstance(problem, UnreadableFile)
    assert reason in problem.reason
    assert problem.reason.endswith("which a page does not know")


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"a":' * 100_000, b"null"])
def test_what_is_no_tokenizer_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ProblemError, match=r"tokenizer\.json"):
        portable_tokenizer([tmp_path / "model.safetensors"])
