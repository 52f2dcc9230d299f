"""Pages that write texts: what `generate` writes, stopped, begun anew, and lost."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page
from safetensors.numpy import save_file

import meganeura
from meganeura import Model
from tests.effort import effort
from tests.runtime.infer.test_generator import NEXT, lively
from tests.runtime.web.conftest import LOSE, build, opened
from tests.runtime.web.test_tokenizer import tokenizers

pytestmark = pytest.mark.browser

SMOLLM2 = {
    "d": 48, "layers": 2, "heads": 3, "kv_heads": 1, "ffn": 64, "vocabulary": 403, "capacity": 96,
}  # fmt: skip
PROMPT = "The quick 12 €"
MODELS = ("gpt2_tiny", "smollm2_135m") if effort(0, 1) else ("gpt2_tiny",)
"""The second one has its own tokenizer."""

STOP = """() => {
  const text = document.querySelector("[data-role=text]");
  const stop = [...document.querySelectorAll("button")].find((each) => each.textContent === "Stop");
  new MutationObserver((_, observer) => {
    if (!text.textContent) return;
    observer.disconnect();
    stop.click();
  }).observe(text, { childList: true });
}"""
"""Have a page stop at the first piece of a text."""


@dataclass
class Writer:
    """A page that writes."""

    page: Page
    runs: int = 0

    def write(self, prompt: str, **settings: object) -> str:
        """Returns the text that the page writes behind a prompt."""
        self.page.fill("textarea", prompt)
        given = {"steps": "", "temperature": "0", "top_k": "0", "seed": "0", **settings}
        for name, value in given.items():
            self.page.fill(f"[data-setting={name}] input", str(value))
        self.runs += 1
        self.page.click("button:text-is('Write')")
        self.page.wait_for_selector(f"main[data-runs='{self.runs}']")
        return self.page.text_content("[data-role=text]") or ""

    @property
    def tokens(self) -> int:
        return int(self.page.inner_text(".written + .note").split()[0])


def model_of(name: str, folder: Path) -> tuple[Model, list[str]]:
    """A model with weights in a folder, as a checkpoint has them, and what `--set` says."""
    if name != "smollm2_135m":
        model = lively(name)
        model.save(folder / "model.safetensors")
        return model, []
    tokenizers()["smollm2"].save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"eos_token_id": 3}')
    config = {key: value for key, value in SMOLLM2.items() if key != "capacity"}
    meganeura.load(name).model(seed=5, config=config).save(folder / "model.safetensors")
    model = meganeura.load(name).model(weights=folder / "model.safetensors", config=config)
    return model, [word for each in SMOLLM2.items() for word in ("--set", "{}={}".format(*each))]


@pytest.mark.parametrize("name", MODELS)
def test_a_page_writes_what_the_command_line_writes(name: str, page: Page, tmp_path: Path) -> None:
    model, changes = model_of(name, tmp_path)
    file = tmp_path / "page.html"
    build(name, "--mode", "generate", *changes, "--weights", tmp_path, "-o", file)
    writer = Writer(opened(page, file))
    greedy = writer.write(PROMPT, steps=10)
    assert greedy == "".join(model.generate(PROMPT, steps=10, device="cpu"))
    assert writer.tokens == 10
    assert "first token" in page.inner_text("[data-chip=latency]")
    drawn = {"temperature": 2.5, "top_k": 4, "seed": 7}
    wanted = "".join(model.generate(PROMPT, steps=12, device="cpu", **drawn))
    assert writer.write(PROMPT, steps=12, **drawn) == wanted
    assert page.is_hidden("#problem")

    page.evaluate(STOP)
    writer.write(PROMPT, steps=40)
    assert writer.tokens < 40
    assert writer.write(PROMPT, steps=10) == greedy
    for code, settings in {
        "E0661": {"steps": 3000},
        "E0662": {"temperature": -1},
        "E0664": {"top_k": 3000, "temperature": 1},
    }.items():
        writer.write(PROMPT, **settings)
        assert page.get_attribute("#problem", "data-code") == code
    writer.write("")
    assert page.get_attribute("#problem", "data-code") == "E0665"
    page.workers[0].evaluate(LOSE)
    writer.write(PROMPT)
    assert "the GPU was lost" in page.inner_text("#problem")


@pytest.mark.parametrize(
    ("rows", "stated", "table"),
    [
        (80, ", ids < 70", "one_hot(ids, 80) @ table"),
        *effort([], [(70, "", "gather(table, ids)")]),
    ],
)
def test_a_token_that_is_drawn_is_one_that_the_model_takes(
    page: Page, tmp_path: Path, rows: int, stated: str, table: str
) -> None:
    """Each letter is followed by the next: F, the token 70, is told and not read."""
    text = NEXT.replace("9", "256").format(rows=rows, stated=stated, table=table)
    (tmp_path / "lm.mgn").write_text(text)
    save_file({"table": np.eye(rows, 256, 1, np.float32)}, tmp_path / "model.safetensors")
    file = tmp_path / "page.html"
    build(tmp_path / "lm.mgn", "--mode", "generate", "--weights", tmp_path, "-o", file)
    writer = Writer(opened(page, file))
    assert writer.write("A", steps=5) == "BCDEF"
    assert page.is_hidden("#problem")
    for prompt, written in {"A": "BCDEF", "F": ""}.items():
        assert writer.write(prompt, steps=6) == written
        assert page.get_attribute("#problem", "data-code") == "E0535"
        assert "`ids` holds 70" in page.inner_text("#problem")
