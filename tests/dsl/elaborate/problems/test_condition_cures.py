"""Cures of conditions, of paths and of arguments: whoever follows them has a program that is fine.

Each program is refused with the code, its first cure has the text, and it is fine as written there.
"""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.report import Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.resources import standard_models

LOAD = loader_beside(Path(str(standard_models())) / "x.mgn")

BOTTLENECK = """\
block Bottleneck(c, stride=1)(x: [n, c_in, h, w])
    -> [n, 4 * c, (h - 1) // stride + 1, (w - 1) // stride + 1]:
  y = x |> a: conv2d(c, 3, stride, pad=1) |> relu |> b: conv2d(4 * c, 1)
  if stride != 1:
    x = x |> shortcut: conv2d(4 * c, 1, stride)
  return relu(x + y)
"""
PROJECTED = """\
block Wide(d, project)(x: [n, e]) -> [n, d]:
  y = x |> a: linear(d) |> relu
  if project > 2:
    x = x |> skip: linear(d)
  return x + y
"""
DOWN_TWICE = """\
block Steps(c)(x: [n, 1, t]) -> [n, c, t]
    where t % 2 == 0, c >= 2:
  x0 = x |> max_pool(2)
  x1 = x0 |> max_pool(2)
  y = concat(x1 |> upsample(2), x0, axis=1) |> a: conv1d(c, 3, pad=1)
  return y |> upsample(2)
"""
POSITIONS = """\
block Gpt(words, positions, d)(ids: i32[n, s]) -> [n, s, words]
    where s <= positions:
  x = (ids |> tok: embedding(words, d)) + (iota(s) |> pos: embedding(positions, d))
  return x |> head: linear(words)

model gpt = Gpt(words=256, positions=128, d=64)

train text(ids: i32[batch, 129]):
  logits = (ids |> gpt)[:, :128]
  minimize cross_entropy(logits, ids[:, 1:])
"""
DEPTHWISE = """\
block Inverted(c_in, c, t=6)(x: [n, c_in, h, w]) -> [n, c, h, w]:
  return x |> expand.conv: conv2d(t * c_in, 1) |> relu6
           |> depth.conv: conv2d(t * c_in, 3, pad=1, groups=c, bias=false) |> relu6
           |> project.conv: conv2d(c, 1, bias=false)
"""
CROSS = """\
block CrossAttention(heads)(x: [n, s, d], memory: [n, t, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> q: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  k = memory |> k: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])
  v = x |> v: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  y = attention(q, k, v) |> rearrange([n, heads, s, hd] -> [n, s, heads * hd])
  return y |> out: linear(d)
"""
OF_X = "{0} = x |> {0}: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])"
OF_MEMORY = "{0} = memory |> {0}: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])"
SWAPPED = CROSS.replace(OF_MEMORY.format("k"), OF_X.format("k")).replace(
    OF_X.format("v"), OF_MEMORY.format("v")
)


def errors(text: str) -> list[Report]:
    found = check(Source("net.mgn", text), LOAD).reports
    return [each for each in found if each.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "code", "cure", "wrong", "right"),
    [
        (
            BOTTLENECK,
            "E0301",
            "if stride != 1 or c_in != 4 * c:",
            "if stride != 1:",
            "if stride != 1 or c_in != 4 * c:",
        ),
        (PROJECTED, "E0301", "if project > 2 or e != d:", "if project > 2:", None),
        (
            BOTTLENECK.replace("stride != 1", "c_in != 4 * c"),
            "E0301",
            "if c_in != 4 * c or stride != 1:",
            "if c_in != 4 * c:",
            None,
        ),
        (POSITIONS, "E0311", "pass `ids[:, :128]`", "(ids |> gpt)", "(ids[:, :128] |> gpt)"),
        (POSITIONS, "E0311", "or make it with `positions=129`", "positions=128", "positions=129"),
        (DEPTHWISE, "E0311", "groups=t * c_in, bias=false)`", "groups=c,", "groups=t * c_in,"),
        (CROSS, "E0308", OF_MEMORY.format("v"), OF_X.format("v"), None),
        (SWAPPED, "E0308", OF_MEMORY.format("k"), OF_X.format("k"), None),
    ],
)
def test_the_first_cure_is_what_is_meant(
    text: str, code: str, cure: str, wrong: str, right: str | None
) -> None:
    first, *_ = errors(text)
    assert first.code == code
    assert first.help is not None
    assert cure in f"{first.help.text}\n{first.help.code}"
    assert wrong in text
    assert not errors(text.replace(wrong, right or cure))


def test_a_branch_with_another_side_is_no_cure() -> None:
    text = PROJECTED.replace("  return x", "  else:\n    x = relu(x)\n  return x")
    first, *_ = errors(text)
    assert first.help is not None
    assert "change the condition that leads here" in first.help.text


def test_a_size_that_is_halved_twice_is_told_one_divisor_in_place_of_the_smaller() -> None:
    (first,) = errors(DOWN_TWICE)
    assert first.code == "E0312"
    assert first.help is not None
    (edit,) = first.help.edits
    fixed = DOWN_TWICE[: edit.span.start] + edit.text + DOWN_TWICE[edit.span.end :]
    assert "where t % 4 == 0, c >= 2:" in fixed
    assert not errors(fixed)


NUMBERS = """\
block Net()(i: i32[n, d], x: [n, d], b: bool[n, d]):
  return {} + x * f32(i) * f32(b)
"""


@pytest.mark.parametrize(
    ("wrong", "operand", "code"),
    [
        ("i / 255", "i / 255", "f32(i) / 255"),
        ("255 / i", "255 / i", "255 / f32(i)"),
        ("i / i", "i / i", "f32(i) / f32(i)"),
        ("i ** 2", "i", "f32(i)"),
        ("i * 0.5", "i", "f32(i)"),
        ("sqrt(i)", "i", "f32(i)"),
        ("exp(-i)", "-i", "f32(-i)"),
        ("(1 - b)", "b", "f32(b)"),
    ],
)
def test_an_operand_that_is_no_float_is_converted(wrong: str, operand: str, code: str) -> None:
    first, *_ = errors(NUMBERS.format(wrong))
    assert first.help is not None
    assert first.help.code == code
    assert not errors(NUMBERS.format(wrong.replace(operand, code)))
    assert ("`//`" in first.help.text) == ("/" in wrong)


def test_a_block_that_applies_itself_is_told_a_loop() -> None:
    tower = "block Tower(c)(x: [n, c]) -> [n, c]:\n{}  return x\n"
    first, *_ = errors(tower.format("  x = x |> a: linear(c) |> b: Tower(c)\n"))
    assert first.code == "E0208"
    assert first.help is not None
    assert first.help.code is not None
    iterations = tower.format(f"  {first.help.code}\n    x = x |> a[i]: linear(c)\n")
    assert not errors(iterations.replace("(c)(x", "(c, depth)(x"))
