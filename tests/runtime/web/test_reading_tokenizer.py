"""WordPiece in pages, held against the library `tokenizers`, and used to read a text."""

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import load_file
from tokenizers import AddedToken, Tokenizer, models, normalizers, processors
from tokenizers import pre_tokenizers as before
from tokenizers.trainers import WordPieceTrainer

import meganeura
from meganeura.cli.app import run
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.export.page.reading_tokenizer import reading_tokenizer
from meganeura_runtime.io.files.file_problems import UnreadableFile
from tests.effort import effort
from tests.runtime.web.conftest import Ask, answered, build, opened, saved

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CORPUS = [
    "The quick brown fox — jumps über the lazy dog's 1234 naïve cafés, straße ΣΊΣΥΦΟΣ 犬と狐\n"
]
MOST = 12
"""Tokens that a model reads."""

Change = Callable[[dict[str, Any]], object]

PROGRAM = """block Bag(vocabulary, d)(ids: i32[n, s], mask: bool[n, s]) -> [n, d]:
  x = ids |> words: embedding(vocabulary, d)
  return sum(where(insert_axis(mask, 2, d), x, 0), 1)

model bag = Bag(vocabulary=200, d=4)
"""


@cache
def tokenizers() -> dict[str, Tokenizer]:
    """Of the kinds of BERT without case, with case, and for many languages."""
    cls, sep = ("[CLS]", 2), ("[SEP]", 3)
    around = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[cls, sep])
    made = {
        "uncased": trained(normalizers.BertNormalizer()),
        "cased": trained(normalizers.BertNormalizer(lowercase=False)),
        "accents": trained(normalizers.BertNormalizer(strip_accents=False)),
        "raw": trained(
            normalizers.BertNormalizer(
                clean_text=False, handle_chinese_chars=False, lowercase=False, strip_accents=True
            )
        ),
        "bare": trained(None),
    }
    for tokenizer in made.values():
        tokenizer.post_processor = around
    made["cased"].post_processor = processors.BertProcessing(sep, cls)
    made["bare"].post_processor = None
    return made


def trained(normalizer: Any) -> Tokenizer:  # noqa: ANN401
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))  # noqa: S106 - no password
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = before.BertPreTokenizer()
    trainer = WordPieceTrainer(vocab_size=150, special_tokens=SPECIAL, show_progress=False)
    tokenizer.train_from_iterator(CORPUS * 5, trainer)
    tokenizer.add_tokens(
        [AddedToken("Foo bar", normalized=True), AddedToken("é!", normalized=False)]
    )
    return tokenizer


def texts(count: int) -> list[str]:
    """Random texts of what is hard: marks, signs, scripts, white space, controls, long words."""
    generator = random.Random(0)
    parts = [
        *"abcehlostTHEQF  \n\t\r'0123.,!?$^`~|é\u0301\u0327\u0130ßΣςÅﬁ犬狐と🦊",
        *"\0\x07\ufffd\u00a0\u0085\ufeff\u200b\u00ad\u2028\u3000½²٣«»“—。\U00020000\ue000",
        *SPECIAL, "Foo bar", "foo bar", "é!", " the", "quick", "über", "naïve", "straße", "ΣΊΣΥΦΟΣ",
        "x" * 101, "t" * 100,
    ]  # fmt: skip
    drawn = ("".join(generator.choices(parts, k=generator.randrange(40))) for _ in range(count))
    return ["", *CORPUS, "h" * 300, *drawn]


@pytest.mark.parametrize(
    "kind", effort(["uncased", "raw"], ["uncased", "cased", "accents", "raw", "bare"])
)
def test_tokens_are_those_of_the_library(kind: str, ask: Ask) -> None:
    tokenizer, given = tokenizers()[kind], texts(effort(150, 20_000))
    question = {"ask": "wordpiece", "text": tokenizer.to_str(), "texts": given}
    whole, short = ask([{**question, "most": 10_000}, {**question, "most": MOST}])
    for text, tokens, first in zip(given, whole["answer"], short["answer"], strict=True):
        assert tokens == tokenizer.encode(text).ids, text
        tokenizer.enable_truncation(MOST)
        assert first == tokenizer.encode(text).ids, text
        tokenizer.no_truncation()


def written(folder: Path, change: Change = lambda _: None) -> Path:
    content = json.loads(tokenizers()["uncased"].to_str())
    change(content)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    return folder / "tokenizer.json"


UNKNOWN: dict[str, tuple[Change, str]] = {
    "another model": (lambda file: file["model"].update(type="Unigram"), "its model is Unigram"),
    "no unknown": (lambda file: file["model"]["vocab"].pop("[UNK]"), "no token `[UNK]`"),
    "a normalizer": (
        lambda file: file.update(normalizer={"type": "Lowercase"}), "normalizer is Lowercase"
    ),
    "a pre-tokenizer": (lambda file: file.update(pre_tokenizer=None), "pre-tokenizer is none"),
    "a post-processor": (
        lambda file: file.update(post_processor={"type": "RobertaProcessing"}), "RobertaProcessing"
    ),
    "a token of words": (
        lambda file: file["added_tokens"][0].update(lstrip=True), "has lstrip"
    ),
    "no model": (lambda file: file.pop("model"), "it is n"),
}  # fmt: skip


def test_what_is_not_known_is_refused_by_name(ask: Ask, tmp_path: Path) -> None:
    """By what builds a page as by what runs it."""
    files = {name: written(tmp_path, change).read_text() for name, (change, _) in UNKNOWN.items()}
    questions = [
        {"ask": "wordpiece", "text": text, "texts": [], "most": 1} for text in files.values()
    ]
    for (name, (_, said)), found in zip(UNKNOWN.items(), ask(questions), strict=True):
        assert (found["code"], said in found["message"]) == ("E0533", True), found
        chosen = tmp_path / "chosen.json"
        chosen.write_text(files[name])
        with pytest.raises(ProblemError) as caught:
            reading_tokenizer([], chosen)
        problem = caught.value.problem
        assert isinstance(problem, UnreadableFile)
        assert said in problem.reason


def test_a_tokenizer_of_another_kind_beside_weights_is_not_taken(tmp_path: Path) -> None:
    written(tmp_path, lambda file: file["model"].update(type="BPE"))
    assert reading_tokenizer([tmp_path]) is None
    assert reading_tokenizer([tmp_path / "elsewhere" / "x.safetensors"]) is None
    text = written(tmp_path, lambda file: file.update(truncation={}, padding={})).read_text()
    found = reading_tokenizer([tmp_path])
    assert found is not None
    assert (found.text, found.size) == (text, tokenizers()["uncased"].get_vocab_size())


@pytest.mark.browser
def test_a_page_reads_a_text(page: Page, tmp_path: Path) -> None:
    """Its tokens and their mask are those of the library."""
    program = tmp_path / "bag.mgn"
    program.write_text(PROGRAM)
    model = meganeura.load(str(program)).model(seed=0)
    model.save(tmp_path / "bag.safetensors")
    written(tmp_path)
    sizes = ("--size", "n=1", "--size", f"s={MOST}")
    weights = ("--weights", tmp_path / "bag.safetensors")
    opened(page, build(program, *weights, *sizes, "-o", tmp_path / "bag.html"))
    tokenizer = tokenizers()["uncased"]
    tokenizer.enable_truncation(MOST)
    for text in ("Über the FOX", "the quick brown fox jumps over the lazy dog, 犬と狐", " "):
        with answered(page):
            page.fill("textarea", text)
        tokens = tokenizer.encode(text).ids
        ids, mask = np.zeros((1, MOST), np.int32), np.zeros((1, MOST), bool)
        ids[0, : len(tokens)], mask[0, : len(tokens)] = tokens, True
        wanted = model.run({"ids": ids, "mask": mask}, device="cpu")["output"]
        found = load_file(saved(page, "Save", tmp_path))["output"]
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    tokenizer.no_truncation()


def test_a_tokenizer_that_a_page_has_no_use_for_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    meganeura.load("digits_mlp").model(seed=0).save(tmp_path / "mlp.safetensors")
    file = str(written(tmp_path))
    page = ("-o", str(tmp_path / "page.html"), "--tokenizer", file)
    weights = ("--weights", str(tmp_path / "mlp.safetensors"), "--size", "n=1")
    assert run(["build", "digits_mlp", *weights, *page]) == 2
    assert "no input takes tokens" in capsys.readouterr().err
    assert run(["build", "digits_mlp", "--mode", "train", *page]) == 2
    assert "reads no text" in capsys.readouterr().err
    program = tmp_path / "bag.mgn"
    program.write_text(PROGRAM.replace("200", "50"))
    meganeura.load(str(program)).model(seed=0).save(tmp_path / "bag.safetensors")
    weights = ("--weights", str(tmp_path / "bag.safetensors"), "--size", "n=1", "--size", "s=8")
    assert run(["build", str(program), *weights, *page]) == 1
    assert "E0663" in capsys.readouterr().err
