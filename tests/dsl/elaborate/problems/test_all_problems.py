"""A check tells all independent problems of a file at once, and no consequence of another."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from meganeura.cli.driver.checked_target import check_target
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations import models
from meganeura_dsl.resources import standard_models
from tests.effort import effort

SLIPS = """\
block MBConv(expand=4)(x: [n, c, h, w]) -> [n, c, h, w]:
  hidden = c * expand
  y = x |> pw: conv2d(hiden, 1) |> bn: batch_nrom |> relu
  y = y |> dw: conv2d(hidden, 3, padding=1, groups=hidden) |> norm: batch_norm |> relu
  return x + (y |> pw: conv2d(c, 1))
"""


def load(module: tuple[str, ...]) -> Source | None:
    path = standard_models() / f"{'/'.join(module)}.mgn"
    return Source(path.name, path.read_text()) if path.is_file() else None


def errors(text: str) -> list[Report]:
    reports = pipeline.check(Source("net.mgn", text), load).reports
    return [each for each in reports if each.severity is Severity.ERROR]


def places(text: str) -> list[tuple[str, int]]:
    return [(each.code, each.label.span.line) for each in errors(text) if each.label]


PROGRAMS: dict[str, tuple[str, list[tuple[str, int]]]] = {
    "four slips in one block": (
        SLIPS,
        [("E0201", 3), ("E0201", 3), ("E0202", 4), ("E0205", 5)],
    ),
    "a projection above its objective, of a name that stands for its tensors alone": (
        ("block A(k)(x: [n, k]) -> [n, 1] = x |> fc: linear(1)\n\nmodel net = A(4)\n"
        "train fit(x: [batch, 4]):\n  loss = mean(x |> net) + 1\n"
        "  project fc = minimum(maximum(fc, -1), 1)\n  minimize loss\n"),
        [("E0594", 6)],
    ),
    "a layer without a label, whose type is known": (
        ("block A()(x: [n, d]) -> [n, d]:\n  y = x |> layer_norm\n"
        "  z = y |> fc: linear(d + 1)\n  return y + z\n"),
        [("E0204", 2), ("E0301", 4)],
    ),
    "two layers without a label": (
        "block A()(x: [n, d]) -> [n, d]:\n  x = x |> linear(d)\n  return x |> linear(d)\n",
        [("E0204", 2), ("E0204", 3)],
    ),
    "a label twice, with another type": (
        ("block A()(x: [n, d]) -> [n, d]:\n  y = x |> fc: linear(d)\n"
        "  z = x |> fc: linear(d + 1)\n  return y + z\n"),
        [("E0205", 3), ("E0301", 4)],
    ),
    "an unknown value, and all that is made of it": (
        ("block A()(x: [n, d]) -> [n, d]:\n  y = x + q\n  z = y |> fc: linear(d)\n"
        "  u = z + y + q\n  return u + nowhere\n"),
        [("E0201", 2)],
    ),
    "behind what is unknown, what does not read it": (
        ("block A()(x: [n, d]) -> [n, d]:\n  y = x + q\n  z = x @ x\n"
        "  w = x |> fc: linear(d + 1)\n  v = x + w\n  return x + v + y + z\n"),
        [("E0201", 2), ("E0320", 3), ("E0301", 5)],
    ),
    "what a failing part binds in its pattern": (
        ("block A()(x: [n, s, d]) -> [n, s, d]:\n"
        "  y = rearrange(q, [n, s, h * e] -> [n, h, s, e])\n"
        "  z = rearrange(y, [n, h, s, e] -> [n, s, h * e])\n  u = e + h\n"
        "  return x * u * sum(z)\n"),
        [("E0201", 2)],
    ),
    "what a missing fact of the header hides": (
        ("block A(c: int, r: int)(x: [n, c, h, w]) -> [n, c, h, w] where c % r == 0:\n"
         "  y = x |> conv: conv2d(c, 3, 2, pad=1)\n  return x + y\n"),
        [("E0322", 1), ("E0305", 1), ("E0301", 3)],
    ),
    "what missing facts of two axes hide in one statement": (
        ("block A()(x: [n, 16, h, w]) -> [n, 16, h, w]:\n"
         "  return x + (x |> a: conv2d(16, 3) |> b: conv2d(16, 3))\n"),
        [("E0311", 2), ("E0301", 2), ("E0311", 2)],
    ),
    "a fact that would make another one false is not taken for true": (
        ("block A(k)(x: [n, d]) -> [n, d] where d <= 3, k >= 3:\n"
         "  return x + x[:, k:]\n"),
        [("E0305", 2)],
    ),
    "branches": (
        ("block A(deep: bool)(x: [n, d]) -> [n, d]:\n  if deep:\n    y = x + q1\n  else:\n"
        "    y = x + q2\n  z = y + q3\n  w = x |> nothing\n  return x + z + w\n"),
        [("E0201", 3), ("E0201", 5), ("E0201", 7)],
    ),
    "labels of two branches are one": (
        ("block A(deep: bool)(x: [n, d]) -> [n, d]:\n  if deep and q:\n"
        "    x = x |> fc: linear(d)\n  else:\n    x = x |> fc: linear(d)\n  return x\n"),
        [("E0201", 2)],
    ),
    "a loop for any number of iterations": (
        ("block A(k)(x: [n, d]) -> [n, d]:\n  for i in 0..k:\n    x = x |> fc[i]: linear(d + q)\n"
        "  y = x |> linear(3)\n  return x + z\n"),
        [("E0201", 3), ("E0204", 4)],
    ),
    "a loop of known iterations": (
        ("block A()(x: [n, d]) -> [n, d]:\n  y = x\n  for i in 0..3:\n    u = x + q\n"
        "    y = y |> fc[i]: linear(d) |> nothing\n  return x\n"),
        [("E0201", 4), ("E0201", 5)],
    ),
    "a scan": (
        ("block A()(x: [n, s, d]) -> [n, d]:\n  h = zeros([n, d])\n  scan t in 0..s:\n"
        "    h = h + x[:, t] * q\n  y = sum(x, 1) |> linear(d)\n  return h + y\n"),
        [("E0201", 4), ("E0204", 5)],
    ),
    "a parameter that fails": (
        ("block A()(x: [n, d]) -> [n, d]:\n  param w.a: [d] = normalq(d)\n"
        "  param b: [d + n] = zeros\n"
        "  y = x + w.a\n  z = x + b\n  return y + z + p\n"),
        [("E0201", 2), ("E0301", 5)],
    ),
    "a layer that is applied first where it fails": (
        ("block A()(x: [n, d]) -> [n, d]:\n  layer fc: linear(d)\n  y = (x + q) |> fc\n"
        "  z = x @ fc.weight\n  return x + y + z\n"),
        [("E0201", 3)],
    ),
    "no return, and nothing is told to be unused": (
        "block A()(x: [n, d]) -> [n, d]:\n  y = x |> fc: linear(d)\n",
        [("E0214", 1)],
    ),
    "no return, and something else": (
        "block A()(x: [n, d]) -> [n, d]:\n  y = x |> layer_norm\n",
        [("E0204", 2), ("E0214", 1)],
    ),
    "a misspelt name is why another is unused": (
        "block A(hidden)(x: [n, d]) -> [n, d]:\n  return x |> a: linear(hiden)\n",
        [("E0201", 2)],
    ),
    "an unused value beside another mistake": (
        "block A()(x: [n, d]) -> [n, d]:\n  y = x + x\n  return x |> linear(d)\n",
        [("E0207", 2), ("E0204", 3)],
    ),
    "one fact is missing, and told once": (
        "block A(k)(x: [n, d]) -> [n, d]:\n  y = x[:, k]\n  z = x[:, k]\n  return x * sum(y + z)\n",
        [("E0305", 2)],
    ),
    "several blocks, one of which uses the others": (
        ("block A()(x: [n, d]) -> [n, d]:\n  return x + q\n\n"
        "block B()(x: [n, d]) -> [n, d]:\n  return x |> linear(d)\n\n"
        "block C()(x: [n, d]) -> [n, d]:\n  y = x |> a: A() |> b: B()\n  return x |> linear(d)\n\n"
        "model net = C()\n\nexpect net maps [n, 3] -> [n, 3]\n"),
        [("E0207", 8), ("E0201", 2), ("E0204", 5), ("E0204", 9)],
    ),
    "a declaration above one that cannot be read": (
        ("block A()(x: [n, d]) -> [n, d]:\n  return x + q\n\n"
        "block B()(x: [n, d]) -> [n, d]:\n  return x +\n"),
        [("E0129", 5), ("E0201", 2)],
    ),
    "a declaration that is cut short": (
        "block A()(x: [n, d]) -> [n, d]:\n  y = x + q\n  return y ! x\n",
        [("E0108", 3)],
    ),
    "a train block, its settings and its blocks": (
        ("block A()(x: [n, d]) -> [n, 3]:\n  return x |> fc: linear(4)\n\n"
        "train t(x: [batch, 6], y: i32[batch]):\n  z = x |> linear(3)\n  u = x + q\n"
        "  minimize cross_entropy(z, y)\n  metric m = mean(u)\n  metric k = x |> nowhere\n"
        "  run:\n    batch = 4 + nothing\n"),
        [("E0303", 2), ("E0201", 11), ("E0204", 5), ("E0201", 6), ("E0201", 9)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PROGRAMS.values(), ids=PROGRAMS)
def test_all_is_told_at_once(text: str, expected: list[tuple[str, int]]) -> None:
    assert places(text) == expected


def test_settings_are_checked_beside_shapes(tmp_path: Path) -> None:
    path = tmp_path / "net.mgn"
    text = (
        "train t(x: [batch, 6], y: i32[batch]):\n  minimize cross_entropy(x |> linear(3), y)\n"
        '  run:\n    data = "digits"\n    stepz = 3\n    batch = 0\n'
    )
    path.write_text(text)
    codes = [each.code for each in check_target(str(path)).errors]
    assert codes == ["E0204", "E0510", "E0513"]


def test_errors_stand_before_notes() -> None:
    text = (
        "block A()(x: [n, d]):\n  for _i in 0..d:\n    x = concat(x, x, axis=1)\n  return x\n\n"
        "model a = A()\n\n"
        "block B()(x: [n, d]) -> [n, d]:\n  return x + q\n"
    )
    reports = pipeline.check(Source("net.mgn", text), load).reports
    severities = [each.severity for each in reports]
    assert severities == sorted(severities, key=lambda each: each is not Severity.ERROR)
    assert Severity.NOTE in severities


def test_a_model_that_is_refused_is_not_elaborated_again_for_what_is_expected_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    elaborated = Mock(wraps=models.elaborate_model)
    monkeypatch.setattr(models, "elaborate_model", elaborated)
    text = "block A()(x: [n, d]) -> [n, d]:\n  return x |> fc: linear(d + 1)\n\nmodel a = A()\n\n"
    expected = (
        "expect a has 2 params\nexpect a holds fc.weight: [d, d]\nexpect a maps [n, d] -> [n, d]\n"
    )
    counts: list[int] = []
    for each in (text, text + expected):
        elaborated.reset_mock()
        assert places(each) == [("E0303", 2)]
        counts.append(elaborated.call_count)
    assert counts[0] == counts[1] > 0


# --- mutants of the library ----------------------------------------------------------------------

MODELS = ("vit", "t5", "swin", "mixtral", "clip", "gpt2", "mamba", "lora")


def without_label(line: str) -> str | None:
    found = re.search(r"\|> [\w.]+: ", line)
    return found and f"{line[: found.start()]}|> {line[found.end() :]}"


def unknown_layer(line: str) -> str | None:
    found = re.search(
        r"\b(linear|conv2d|layer_norm|batch_norm|relu|gelu|rearrange|mean)\b(?!:)", line
    )
    return found and f"{line[: found.end()]}zz{line[found.end() :]}"


def unknown_value(line: str) -> str | None:
    found = re.search(r"(?<== )(x|y|q|k|v)\b(?= [|+*])", line)
    return found and f"{line[: found.end()]}zz{line[found.end() :]}"


def unknown_argument(line: str) -> str | None:
    found = re.search(r"(?<=[(, ])(pad|bias|eps|groups|axis|causal)(?==)", line)
    return found and f"{line[: found.end()]}zz{line[found.end() :]}"


MUTATIONS: tuple[Callable[[str], str | None], ...] = (
    without_label, unknown_layer, unknown_value, unknown_argument,
)  # fmt: skip


def mutants(name: str, seed: int, count: int) -> list[tuple[int, str]]:
    """Programs with one mistake each, and the line it is on."""
    lines = (standard_models() / f"{name}.mgn").read_text().split("\n")
    body = [at for at, line in enumerate(lines) if re.match(r"  +[a-z]+ .*[|]>", line)]
    found: list[tuple[int, str]] = []
    for at in random.Random(seed).sample(body, len(body)):
        for mutate in MUTATIONS:
            new = mutate(lines[at])
            if new is not None:
                found.append((at + 1, "\n".join([*lines[:at], new, *lines[at + 1 :]])))
    return found[:count]


@pytest.mark.parametrize("name", effort(("t5", "swin", "mixtral"), MODELS))
def test_of_one_mistake_nothing_but_itself_is_told(name: str) -> None:
    """Blocks, models, trainings and expectations that use the wrong one are not refused for it."""
    for line, text in mutants(name, seed=len(name), count=effort(3, 60)):
        found = errors(text)
        codes = {each.code for each in found} - {"E0207", "E0221"}
        told = {each.label.span.line for each in found if each.label and each.code in codes}
        assert told <= {line}, (name, line, found)


PIPED = """\
block Net()(x: [n, 4]) -> [n, 4]:
  y = unknwon(x)
  return y |> a: linear(4, biass=true) |> b: linear(width=4)
"""


def test_all_stages_of_a_pipe_from_something_unknown_are_looked_at() -> None:
    assert places(PIPED) == [("E0201", 2), ("E0202", 3), ("E0202", 3)]
