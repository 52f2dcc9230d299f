"""What is written by the habits of PyTorch and NumPy is told how it is written here.

Each line that is wrong is followed by the one its message leads to, which is accepted.
"""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.linker import library
from meganeura_dsl.elaborate.typecheck.library_numbers import is_whole
from meganeura_dsl.pipeline import check_file
from meganeura_dsl.syntax import ast

KEEPS = "block A(k)(x: [n, c, h, w]) -> [n, c, h, w]\n    where k % 2 == 1:\n  return x |> "
DEEP = KEEPS.replace("c,", "4,")
SAME = "block A()(x: [n, c, h, w]) -> [n, c, h, w]:\n  return x |> "
WIDE = "block A()(x: [n, c, h, w]) -> [n, 8, h - 2, w - 4]\n    where h >= 3, w >= 5:\n"
WINDOW = "param weight: [8, size(x, 1), 3, 5] = kaiming_uniform()"
POOL = "block A()(x: [n, c, h, w]) -> [n, c]:\n  return "
ROWS = "block A()(x: [n, c], m: bool[n, c]) -> [n, c]:\n"
HEADS = "block A(heads)(x: [n, s, d]) -> [n, heads, s, d // heads]\n    where d % heads == 0:\n"
SPLIT = "x |> rearrange([n, s, h * e] -> [n, h, s, e]"
GATE = "block A()(x: [n, c, h, w], s: [n, c]) -> [n, c, h, w]:\n  return x * "
QUERIES = "block A()(q: [n, s, d], k: [n, s, d]) -> [n, s, s]:\n  return q @ "
PAIRS = "block A()(x: [n, 2 * c]) -> [n, c]:\n  return "
PART = "rearrange(x, [n, m * 2] -> [n, m, 2])[..., 0]"
COUNT = "block A()(x: i32[n]) -> i32[n]:\n  return "
TOWER = "block A()(x: [n, 4]) -> [n, 4]:\n  for i in 0..3:\n    x = x |> "
TRIPLE = "block A(heads)(x: [n, 3 * heads * d]) -> [3, n, heads, d]:\n"
QKV = "rearrange(x, [n, three * heads * e] -> [three, n, heads, e])"
NET = "block A(classes)(x: [n, 5]) -> [n, classes] = x |> fc: linear(classes)\nmodel a = "


@pytest.mark.parametrize(
    ("wrong", "code", "said", "right"),
    [
        (f"{KEEPS}a: conv2d(c, k, pad=k / 2)\n", "E0203", "pad=k // 2",
         f"{KEEPS}a: conv2d(c, k, pad=k // 2)\n"),
        (f"{DEEP}a: conv2d(4, k, pad=k / 2)\nmodel a = A(k=3)\n", "E0203", "pad=k // 2",
         f"{DEEP}a: conv2d(4, k, pad=k // 2)\nmodel a = A(k=3)\n"),
        (f"{SAME}a: conv2d(c, 3, pad=3 / 2)\n", "E0203", "pad=3 // 2",
         f"{SAME}a: conv2d(c, 3, pad=3 // 2)\n"),
        (f'{SAME}a: conv2d(c, 5, pad="same")\n', "E0203", "pad=2",
         f"{SAME}a: conv2d(c, 5, pad=2)\n"),
        (f'{KEEPS}a: conv2d(c, k, pad="same")\n', "E0203", "pad=k // 2",
         f"{KEEPS}a: conv2d(c, k, pad=k // 2)\n"),
        (f'{SAME}a: conv2d(c, 1, pad="valid")\n', "E0203", "leave it out",
         f"{SAME}a: conv2d(c, 1)\n"),
        (f"{SAME}a: conv2d(c, [3, 3], pad=1)\n", "E0203", "k=3",
         f"{SAME}a: conv2d(c, k=3, pad=1)\n"),
        (f"{WIDE}  return x |> a: conv2d(8, [3, 5])\n", "E0203", WINDOW,
         f"{WIDE}  {WINDOW}\n  y = conv(x, weight)\n  return y\n"),
        (f"{QUERIES}k.T\n", "E0201", "rearrange(k, [n, s, d] -> [n, d, s])",
         f"{QUERIES}rearrange(k, [n, s, d] -> [n, d, s])\n"),
        (f"{GATE}s[:, :, None, None]\n", "E0121", "expand(s, [n, c] -> [n, c, h, w])",
         f"{GATE}expand(s, [n, c] -> [n, c, h, w])\n"),
        (f"{POOL}mean(x, dim=[2, 3])\n", "E0202", "mean(x, 2, 3)", f"{POOL}mean(x, 2, 3)\n"),
        (f"{POOL}mean(mean(x, axis=3), 2)\n", "E0202", "mean(x, 3)",
         f"{POOL}mean(mean(x, 3), 2)\n"),
        (f"{POOL}x |> mean((2, 3))\n", "E0101", "mean(2, 3)", f"{POOL}x |> mean(2, 3)\n"),
        (f"{ROWS}  return x - mean(x, 1, keepdim=true)\n", "E0202",
         "insert_axis(mean(x, 1), 1, size(x, 1))",
         f"{ROWS}  return x - insert_axis(mean(x, 1), 1, size(x, 1)) + f32(m)\n"),
        (f"{ROWS}  return x[m]\n", "E0203", "where(m, x, 0)", f"{ROWS}  return where(m, x, 0)\n"),
        (f"{ROWS}  x[m] = 0\n  return x\n", "E0203", "x = where(m, 0, x)",
         f"{ROWS}  x = where(m, 0, x)\n  return x\n"),
        (f"{PAIRS}x[:, ::2]\n", "E0101", PART, f"{PAIRS}{PART}\n"),
        ("block A()(x: [n, c]) -> [n, c] = x[:, ::-1]\n", "E0101", "reverse(x, 1)",
         "block A()(x: [n, c]) -> [n, c] = reverse(x, 1)\n"),
        ("block A()(x: [n, 4]) -> [n, 2] = x[:, [0, 3]]\n", "E0203",
         "gather(x, constant([0, 3]), axis=1)",
         "block A()(x: [n, 4]) -> [n, 2] = gather(x, constant([0, 3]), axis=1)\n"),
        (f"{ROWS}  if mean(x) > 0:\n    x = x * f32(m)\n  return x\n", "E0203",
         "where(mean(x) > 0, y, z)",
         f"{ROWS}  y = x * f32(m)\n  return where(expand(mean(x) > 0, [] -> [n, c]), y, x)\n"),
        (f"{ROWS}  print(x)\n  return x\n", "E0121", "return the value as well",
         "block A()(x: [n, c]) -> [n, c], []:\n  return x, mean(x)\n"),
        (f"{ROWS}  while mean(x) > 1:\n    x = x / 2\n  return x\n", "E0121",
         "scan t in 0..n while",
         f"{ROWS}  scan t in 0..8 while mean(x) > 1:\n    x = x / 2 * f32(m)\n  return x\n"),
        (f"{COUNT}x & 3\n", "E0108", "x % 4", f"{COUNT}x % 4\n"),
        ("block A()(x: [n, c]) -> [2 * n, c] = concat([x |> relu, tanh(x)], axis=0)\n", "E0101",
         "(x |> relu)",
         "block A()(x: [n, c]) -> [2 * n, c] = concat([(x |> relu), tanh(x)], axis=0)\n"),
        (f"{HEADS}  return {SPLIT}, h=heads)\n", "E0202", "h = heads",
         f"{HEADS}  h = heads\n  return {SPLIT})\n"),
        ("block A()(x: [n, c]) -> [n, c] = x ** 1.5\n", "E0302", "exp(1.5 * log(x))",
         "block A()(x: [n, c]) -> [n, c] = exp(1.5 * log(x))\n"),
        (f"{TOWER}linear(4)\n  return x\n", "E0204", "name{i}: linear",
         f"{TOWER}name{{i}}: linear(4)\n  return x\n"),
        (f"{TRIPLE}  return {QKV}\n", "E0201", "three = 3",
         f"{TRIPLE}  three = 3\n  return {QKV}\n"),
        (f"{NET}A(num_classes=10)\n", "E0202", "no argument `num_classes`, and needs `classes`",
         f"{NET}A(classes=10)\n"),
    ],
)  # fmt: skip
def test_a_habit_is_answered(wrong: str, code: str, said: str, right: str, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(wrong)
    found = [each for each in check_file(str(file)).reports if each.code == code]
    assert found, wrong
    (report,) = found
    assert said in render(report)
    assert report.label is not None
    assert report.label.span.source.name.endswith("net.mgn")
    file.write_text(right)
    assert [render(each) for each in check_file(str(file)).reports] == []


def test_the_library_takes_whole_numbers_where_it_has_no_kind(tmp_path: Path) -> None:
    blocks = [
        (each, parameter)
        for module in library()
        for each in module.own.values()
        if isinstance(each, ast.Block)
        for parameter in each.parameters
        if is_whole(parameter)
    ]
    assert len(blocks) > 40
    file = tmp_path / "net.mgn"
    for block, parameter in blocks:
        call = f"{block.name.text}({parameter.name}=0.5)"
        file.write_text(f"block A()(x: [n, c]) -> [n, c] = x |> a: {call}\n")
        said = "".join(map(render, check_file(str(file)).reports))
        assert f"`{parameter.name}` of `{block.name.text}` is a whole number" in said


def test_a_state_of_a_train_block_is_not_trained(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    head = "block Net()(x: [n, 4]) -> [n, 2] = x |> fc: linear(2)\nmodel net = Net()\n"
    train = "train fit(x: [batch, 4], y: i32[batch]):\n"
    kept = "  state seen: [] = zeros\n  update seen = seen + 1\n"
    loss = "  minimize cross_entropy(x |> net, y)\n"
    file.write_text(f"{head}{train}{kept}{loss}  metric seen_so_far = seen\n")
    assert [each.code for each in check_file(str(file)).reports] == []
    file.write_text(f"{head}{train}  minimize cross_entropy(x |> other: linear(2), y)\n")
    assert "N0004" in [each.code for each in check_file(str(file)).reports]
