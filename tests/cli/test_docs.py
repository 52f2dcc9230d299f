"""`meganeura docs`: the language reference is complete, and every word of it is found."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.message_pages import without_links, without_marks
from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.elaborate.builtins.builtins import BUILTINS
from meganeura_dsl.reference.library import sources_of
from meganeura_dsl.reference.lookup import look_up, pages
from meganeura_dsl.reference.written import guides
from meganeura_dsl.resources import grammar, standard_models
from meganeura_dsl.settings.choices import CHOICES
from meganeura_dsl.settings.run_settings import SETTINGS
from tests.cli.command import Command

DOCS = Path(__file__).parents[2] / "docs"


def test_without_a_word_all_pages_are_listed(meganeura: Command) -> None:
    listed = meganeura("docs").out.splitlines()
    names = [page.name for page in pages()]
    assert [line.split()[0] for line in listed if re.match(r"\w+ +\S.*: ", line)] == names
    assert len(set(names)) == len(names) > 40
    assert listed[0] == "Guides"
    assert listed.index("The language") == len(guides()) + 3


def test_every_page_is_printed(meganeura: Command) -> None:
    for page in pages():
        shown = meganeura("docs", page.name)
        assert (shown.code, shown.err) == (0, ""), page.name
        assert page.text.startswith("# "), page.name
        assert page.text.rstrip() in shown.out, page.name
        marks = r"# (error|warning|note): |```mgn \w|\.md[)#]|\]\(#|\.png\)|\.svg\)"
        assert not re.search(marks, page.text), page.name


def test_every_guide_is_listed_and_shown() -> None:
    of_contributors = {"README", "testing"}
    files = {path.stem for path in DOCS.glob("*.md")} - of_contributors
    assert {page.name for page in guides()} == files, "docs/README.md lists the guides"
    for page in guides():
        first = (DOCS / f"{page.name}.md").read_text().partition("\n")[0]
        assert first == f"# {page.title}"


def test_a_link_says_how_its_page_is_called() -> None:
    text = "[a\nb](training.md#resuming), [docs/x.md](../docs/x.md), [`y.md`](y.md), [z](http://z)"
    shown = "a\nb (page `training`), page `x`, page `y`, [z](http://z)"
    assert without_links(text) == shown


@pytest.mark.parametrize("name", ["gpt2", "gpt2_medium", "GPT2"])
def test_the_source_of_a_model_is_its_file(meganeura: Command, name: str) -> None:
    path = standard_models() / "gpt2.mgn"
    shown = meganeura("docs", name)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"`{path}`:\n\n```mgn\n# GPT-2 (Radford et al. 2019).")
    assert path.read_text().strip() in shown.out


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (("docs/training.md",), "training"),
        (("../tests/spec/errors/E0301.md",), "E0301"),
        (("stdlib_models/gpt2.mgn",), "gpt2"),
        (("early", "stopping"), "early stopping"),
    ],
)
def test_a_path_and_several_words_are_what_they_stand_for(
    meganeura: Command, asked: tuple[str, ...], name: str
) -> None:
    assert meganeura("docs", *asked) == meganeura("docs", name)
    assert meganeura("docs", name).code == 0


def test_the_source_of_a_block_begins_with_its_comment(meganeura: Command) -> None:
    path = standard_models() / "gpt2.mgn"
    text = path.read_text()
    line = text[: text.index("block Gpt2(")].count("\n") + 1
    shown = meganeura("docs", "Gpt2").out
    assert shown.startswith(f"`{path}`, line {line}:\n\n```mgn\n# `fc` is the linear map that")
    assert "\nblock Gpt2(" in shown
    assert "block Layer" not in shown
    assert "model gpt2" not in shown


def test_a_name_of_several_files_shows_all_of_them(meganeura: Command) -> None:
    shown = meganeura("docs", "SelfAttention").out
    for name in ("gpt2", "lm", "bert"):
        assert f"{standard_models() / name}.mgn`, line " in shown


def test_every_model_block_and_formula_of_the_library_has_its_source() -> None:
    for path in standard_models().glob("*.mgn"):
        text = path.read_text()
        names = re.findall(r"^(?:block|model|def) (\w+)", text, re.MULTILINE)
        for name in (path.stem, *names):
            assert any(str(path) in entry.text for entry in sources_of(name)), name


def test_the_syntax_page_has_every_keyword_and_operator() -> None:
    (page,) = (page for page in pages() if page.name == "syntax")
    terminals = {each for each in re.findall(r'"([^"\s]+)"', grammar()) if "[" not in each}
    text = page.text.replace("\\|", "|")
    assert {"block", "whole", "//", "|>"} <= terminals
    assert {each for each in terminals if each not in text} <= {"whole"}  # of `train`, on its page


def test_every_function_block_and_setting_has_an_entry() -> None:
    library = "".join((standard_models() / f"{name}.mgn").read_text() for name in ("nn", "loss"))
    blocks = re.findall(r"^block (\w+)", library, re.MULTILINE)
    choices = [name for each in CHOICES.values() for name in each]
    assert "conv2d" in blocks
    for name in (*BUILTINS, *blocks, *SETTINGS, *choices, "resnet18"):
        (*_, entry) = look_up(name).entries
        assert len(entry.text) > len(name) + 5


def test_functions_have_their_signatures_and_meanings(meganeura: Command) -> None:
    text = meganeura("docs", "functions").out
    for builtin in BUILTINS.values():
        assert f"- `{builtin.signature}`: {builtin.meaning}\n" in text
        assert builtin.meaning.endswith(".")


def test_a_block_is_shown_whole(meganeura: Command) -> None:
    shown = meganeura("docs", "rope").out
    assert "# Rotary positions (Su et al. 2021)" in shown
    assert "return concat(left * cos(angle)" in shown
    signatures = meganeura("docs", "layers").out
    rope = "block rope(theta=10000.0)(x: [n, heads, s, d], offset: i32[] = 0) -> [n, heads, s, d]"
    assert f"{rope}\n    where d % 2" in signatures
    assert "return" not in signatures


def test_settings_have_their_defaults(meganeura: Command) -> None:
    text = meganeura("docs", "settings").out
    assert "- `epochs = 1`: passes over" in text
    assert "- `optimizer = adam`: " in text
    assert "- `sgd(lr=0.01, momentum=0, " in text


def test_a_code_is_shown_with_a_program_that_causes_it(meganeura: Command) -> None:
    shown = meganeura("docs", "e0301").out
    assert shown.startswith("# E0301: ")
    assert "return relu(x + y)                                # error[E0301]\n" in shown


def test_a_word_of_one_section_is_answered_with_it(meganeura: Command) -> None:
    shown = meganeura("docs", "between  NUMBERS a loop").out
    assert shown.startswith("## A known number of iterations\n")
    assert shown.endswith("\n\nThis is of the page `loops`.\n")


def test_a_word_of_many_sections_lists_them_with_headings_first(meganeura: Command) -> None:
    shown = meganeura("docs", "checkpoint").out.splitlines()
    assert shown[:4] == [
        "Mentioned in",
        "",
        "- page `weights`: A part of a checkpoint, a part of a model",
        "- page `pipes`: The label is the name in the checkpoint",
    ]
    assert len(shown) > 6


def test_a_page_that_is_also_a_function_shows_the_function_first(meganeura: Command) -> None:
    shown = meganeura("docs", "where").out
    assert shown.startswith("`where(condition, then, otherwise)`")
    assert "\n\n# Facts\n" in shown


@pytest.mark.parametrize(
    ("word", "page"),
    [
        ("gpu", "`xla`"),
        ("cuda", "`xla`"),
        ("resume", "`training`"),
        ("csv", "`data`"),
        ("early stopping", "| `stop_after`"),
        ("learning rate", "`training`"),
        ("augmentation", "`data`"),
        ("fine-tune", "other classes"),
        ("finetune", "other classes"),
        ("Fine-tuning", "other classes"),
        ("freeze", "= frozen"),
        ("mixed precision", "`xla`"),
    ],
)
def test_a_word_of_the_guides_is_found(word: str, page: str, meganeura: Command) -> None:
    shown = meganeura("docs", word)
    assert (shown.code, shown.err) == (0, "")
    assert page in shown.out


def test_words_that_are_nowhere_together_are_looked_for_in_one_section() -> None:
    found = look_up("pretrained transfer classes").mentions
    assert [(each.page, each.section.name) for each in found] == [("weights", "What may differ")]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("softmx", "is it `softmax`"),
        ("gtp2", "is it `gpt2`"),
        ("trainign", "is it `training`"),
        ("resnet_18", "`resnet18`"),
        ("BOTTLENEK", "is it `Bottleneck`"),
        ("../README", "`meganeura docs` lists"),
        ("E9999", "nothing is said"),
        ("", "nothing is said"),
    ],
)
def test_a_word_that_does_not_occur_is_refused(meganeura: Command, word: str, message: str) -> None:
    shown = meganeura("docs", word)
    assert (shown.code, shown.out) == (2, "")
    assert "nothing is said about" in shown.err
    assert message in " ".join(shown.err.split())


def test_marks_of_the_test_suite_are_taken_out() -> None:
    page = 'a\n```mgn title="b.mgn"\nx = 1  # error: [E0101] "y"\n```\nsee [c](errors/E0101.md)'
    assert (
        without_marks(page)
        == "a\n`b.mgn`:\n\n```mgn\nx = 1  # error[E0101]\n```\nsee c (page `E0101`)"
    )


def test_on_a_terminal_a_page_is_drawn() -> None:
    ours, theirs = pty.openpty()
    script = "from meganeura.cli.app import run; run(['docs', 'functions'])"
    environment = {**os.environ, "PAGER": "cat", "TERM": "xterm", "COLUMNS": "90"}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    drawn = bytearray()
    try:
        while part := os.read(ours, 1 << 16):
            drawn += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    assert " • exp(x): The power x of e." in drawn.decode()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("transpose", "rearrange(z, [n, c, d] -> [n, d, c])    # z.transpose(1, 2)"),
        ("LayerNormalization", "layer_norm(eps=1e-3)"),
        ("flatten", "# nn.Flatten()(z)"),
        ("nonzero", "no size may"),
        ("cuda", "`--device wgpu`"),
    ],
)
def test_names_of_other_systems_are_known(word: str, said: str, meganeura: Command) -> None:
    shown = meganeura("docs", word)
    assert (shown.code, shown.err) == (0, "")
    assert said in shown.out
    assert "is a name of other systems" in shown.out


def test_every_name_of_another_system_is_answered() -> None:
    for name in other_names():
        assert any("of other systems" in entry.text for entry in look_up(name).entries), name


def test_a_summary_is_what_the_guide_says_it_is(meganeura: Command, tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "coming_from_pytorch.md").read_text()
    (row,) = [line for line in guide.splitlines() if line.startswith("| `model.summary()`")]
    file = tmp_path / "net.mgn"
    file.write_text("block Net()(x: [n, 4]) -> [n, 2] = x |> fc: linear(2)\nmodel net = Net()\n")
    commands = re.findall(r"`meganeura (\w+) net.mgn`", row)
    said = "".join(meganeura(each, str(file)).out for each in commands)
    assert re.search(r"fc +linear +f32\[n, 2\] +10 +18", said)
    assert re.search(r"fc +f32\[n, 2\]", said)
    assert re.search(r"fc.weight +\[2, 4\]", said)
    assert "10 weights" in said
