"""The mistakes people make, each planted in a standard model: its code, its line, its example."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check, check_file, loader_beside
from meganeura_dsl.resources import standard_models

FOLDER = Path(str(standard_models()))


@dataclass(frozen=True)
class Mistake:
    """One edit of a standard model, and the message it must give."""

    name: str
    file: str
    before: str
    after: str
    code: str
    at: str
    """A text on the line the message must point at, after the edit."""
    example: bool = True

    def program(self) -> str:
        text = (FOLDER / f"{self.file}.mgn").read_text()
        assert self.before in text
        return text.replace(self.before, self.after, 1)


MISTAKES = [
    Mistake(
        "projection only where channels change",
        "resnet",
        "if stride != 1 or c_in != c:",
        "if c_in != c:",
        "E0301",
        "return relu(x + y)",
    ),
    Mistake(
        "stride forgotten on one branch",
        "resnet",
        "downsample[0]: conv2d(c, 1, stride, bias=bias)",
        "downsample[0]: conv2d(c, 1, bias=bias)",
        "E0301",
        "return relu(x + y)",
    ),
    Mistake(
        "wrong padding",
        "resnet",
        "conv1: conv2d(c, 3, stride, pad=1, bias=bias)",
        "conv1: conv2d(c, 3, stride, pad=2, bias=bias)",
        "E0301",
        "return relu(x + y)",
    ),
    Mistake(
        "padding forgotten",
        "resnet",
        "conv1: conv2d(c, 3, stride, pad=1, bias=bias)",
        "conv1: conv2d(c, 3, stride, bias=bias)",
        "E0311",
        "conv1: conv2d(c, 3, stride, bias=bias)",
    ),
    Mistake(
        "heads that need not divide d",
        "whisper",
        "-> [n, s, d]\n    where d % heads == 0:\n  q =",
        "-> [n, s, d]:\n  q =",
        "E0304",
        "q = x |> q_proj",
    ),
    Mistake(
        "a layer with weights and no label",
        "repvgg",
        "x |> identity: batch_norm",
        "x |> batch_norm",
        "E0204",
        "x |> batch_norm",
        example=False,
    ),
    Mistake(
        "a label used twice",
        "resnet",
        "|> conv2: conv2d(c, 3, pad=1, bias=bias) |> bn2",
        "|> conv1: conv2d(c, 3, pad=1, bias=bias) |> bn2",
        "E0205",
        "|> bn2",
        example=False,
    ),
    Mistake(
        "a loss that is not a scalar",
        "digits_cnn",
        "minimize cross_entropy(logits, label)",
        "minimize logits",
        "E0501",
        "minimize logits",
        example=False,
    ),
    Mistake(
        "labels that would have to be stretched",
        "digits_cnn",
        "label: i32[batch]):",
        "label: [batch, 1]):",
        "E0503",
        "minimize cross_entropy",
        example=False,
    ),
    Mistake(
        "an unknown name",
        "resnet",
        "return relu(x + y)",
        "return rleu(x + y)",
        "E0201",
        "rleu",
        example=False,
    ),
]


def errors(program: str) -> list[Report]:
    result = check(Source("net.mgn", program), loader_beside(FOLDER / "net.mgn"))
    return [report for report in result.reports if report.severity is Severity.ERROR]


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_planted_mistake_is_found_at_its_place(mistake: Mistake) -> None:
    program = mistake.program()
    found = errors(program)
    assert mistake.code in {report.code for report in found}
    report = next(report for report in found if report.code == mistake.code)
    assert report.label is not None
    assert mistake.at in program.splitlines()[report.label.span.line - 1]
    if mistake.example:
        assert any(remark.title == "for example" for remark in report.remarks)
    assert "\x1b" not in render(report)


def whisper(length: str, table: str) -> str:
    return f"""\
block Encoder(d, positions)(mel: [n, 80, t]) -> [n, {length}, d]
    where d % 2 == 0, d >= 4, t >= 2{table}:
  frozen param embed.weight: [positions, d] = sinusoids()
  x = mel |> conv1: conv1d(d, 3, pad=1)    |> gelu
          |> conv2: conv1d(d, 3, 2, pad=1) |> gelu
          |> rearrange([n, d, s] -> [n, s, d])
  return x + embed.weight[:{length}]
"""


def test_the_length_of_whisper_s_mel_is_rounded_up() -> None:
    assert not errors(whisper("(t + 2 - 3) // 2 + 1", ", (t + 1) // 2 <= positions"))
    (report,) = errors(whisper("t // 2", ", t // 2 <= positions"))
    assert report.code in ("E0301", "E0312")
    (example,) = (remark for remark in report.remarks if remark.title == "for example")
    assert "t=3" in example.text


def test_a_table_of_positions_is_at_least_as_long_as_the_sequence() -> None:
    (report,) = errors(whisper("(t + 1) // 2", ""))
    assert report.code == "E0305"
    assert any(remark.title == "for example" for remark in report.remarks)


def test_a_kernel_is_not_larger_than_its_input() -> None:
    text = "block Head()(x: [n, 3, {0}, {0}]):\n  return x |> conv: conv2d(8, 7)\n"
    (symbolic,) = errors(text.format("h"))
    assert symbolic.code == "E0311"
    assert symbolic.help is not None
    assert [edit.text for edit in symbolic.help.edits] == [" where h >= 7"]
    (concrete,) = errors(text.format("4"))
    assert concrete.code == "E0311"


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a tab": (lambda p: p.write_text("block A()(x: [n]) -> [n]:\n\treturn x\n"), "E0106"),
    "a NUL byte": (lambda p: p.write_bytes(b"block A()(x: [n]) -> [n] = x\0\n"), "E0107"),
    "an unclosed bracket": (lambda p: p.write_text("block A()(x: [n] -> [n] = x\n"), "E0104"),
    "an empty file": (lambda p: p.write_text(""), "E0115"),
    "not UTF-8": (lambda p: p.write_bytes(b"block A()(x: [n]) = x \xff\n"), "E0118"),
    "a nesting of 10,000": (
        lambda p: p.write_text(f"def f(x) = {'(' * 10_000}x{')' * 10_000}\n"),
        "E0116",
    ),
    "an import cycle": (lambda p: p.write_text("from net import A\nmodel m = A()\n"), "E0210"),
    "a block that applies itself": (
        lambda p: p.write_text("block A()(x: [n]) -> [n] = x |> A\n"),
        "E0208",
    ),
}


@pytest.mark.parametrize(("write", "code"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_one_message(
    tmp_path: Path, write: Callable[[Path], object], code: str
) -> None:
    path = tmp_path / "net.mgn"
    write(path)
    try:
        codes = {report.code for report in check_file(str(path)).reports}
    except ProblemError as error:
        codes = {error.problem.code}
    assert code in codes
