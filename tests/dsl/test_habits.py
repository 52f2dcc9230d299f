"""Code in the habits of PyTorch and NumPy is answered with its form here.

The code that a message prints is put in the place of what is wrong, and is accepted as it stands.
"""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.fixes import apply
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.linker import library
from meganeura_dsl.elaborate.typecheck.library_numbers import is_whole
from meganeura_dsl.pipeline import check_file
from meganeura_dsl.syntax import ast

ODD = "block A(k)(x: [n, c, h, w]) -> [n, c, h, w]\n    where k % 2 == 1:\n"
KEEPS = f"{ODD}  return x |> "
DEEP = KEEPS.replace("c,", "4,")
SAME = "block A()(x: [n, c, h, w]) -> [n, c, h, w]:\n  return x |> "
WIDE = "block A()(x: [n, c, h, w]) -> [n, 8, h - 2, w - 4]\n    where h >= 3, w >= 5:\n"
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
CUBE = "block A()(x: [n, c, h]) -> [n, c, h]:\n"
MASKS = "block A()(x: [n, c, h], n_mask: bool[n], h_mask: bool[h]) -> [n, c, h]:\n"
WIDE_MASK = "expand(h_mask, [h] -> [n, c, h])"
ROW_MASK = "expand(n_mask, [n] -> [n, c, h])"
SQUARE = "block A()(x: [n, n], m: bool[n]) -> [n, n]:\n"
PLACES = "block A()(x: [n, c], places: i32[k]) -> [n, k]\n    where places < c:\n  return "
ANSWERED = ("E0121", "E0202", "E0203", "E0302")
IN_WORDS = ("leave it out", "no argument `num_classes`, and needs `classes`")
"""Answers without code, or with the form of a block."""
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
        (f"{QUERIES}k.T\n", "E0201", "rearrange(k, [n, s, d] -> [n, d, s])",
         f"{QUERIES}rearrange(k, [n, s, d] -> [n, d, s])\n"),
        (f"{GATE}s[:, :, None, None]\n", "E0121", "insert_axis(insert_axis(s, 2, h), 3, w)",
         f"{GATE}insert_axis(insert_axis(s, 2, h), 3, w)\n"),
        (f"{POOL}mean(x, dim=[2, 3])\n", "E0202", "mean(x, 2, 3)", f"{POOL}mean(x, 2, 3)\n"),
        (f"{POOL}mean(mean(x, axis=3), 2)\n", "E0202", "mean(x, 3)",
         f"{POOL}mean(mean(x, 3), 2)\n"),
        (f"{POOL}x |> mean((2, 3))\n", "E0101", "mean(2, 3)", f"{POOL}x |> mean(2, 3)\n"),
        (f"{PAIRS}x[:, ::2]\n", "E0101", PART, f"{PAIRS}{PART}\n"),
        ("block A()(x: [n, c]) -> [n, c] = x[:, ::-1]\n", "E0101", "reverse(x, 1)",
         "block A()(x: [n, c]) -> [n, c] = reverse(x, 1)\n"),
        ("block A()(x: [n, 4]) -> [n, 2] = x[:, [0, 3]]\n", "E0203",
         "gather(x, constant([0, 3]), axis=1)",
         "block A()(x: [n, 4]) -> [n, 2] = gather(x, constant([0, 3]), axis=1)\n"),
        (f"{COUNT}x & 3\n", "E0108", "x % 4", f"{COUNT}x % 4\n"),
        ("block A()(x: [n, c]) -> [2 * n, c] = concat([x |> relu, tanh(x)], axis=0)\n", "E0101",
         "(x |> relu)",
         "block A()(x: [n, c]) -> [2 * n, c] = concat([(x |> relu), tanh(x)], axis=0)\n"),
        (f"{HEADS}  return {SPLIT}, h=heads)\n", "E0202", "h = heads",
         f"{HEADS}  h = heads\n  return {SPLIT})\n"),
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
    assert said in right or said in IN_WORDS
    assert report.label is not None
    assert report.label.span.source.name.endswith("net.mgn")
    file.write_text(right)
    assert [render(each) for each in check_file(str(file)).reports] == []


@pytest.mark.parametrize(
    ("wrong", "stands"),
    [
        # a reduction that keeps its axes
        (f"{CUBE}  return x - mean(x, 1, keepdim=true)\n", "mean(x, 1, keepdim=true)"),
        (f"{CUBE}  return x - mean(x, dim=[1, 2], keepdim=true)\n",
         "mean(x, dim=[1, 2], keepdim=true)"),
        (f"{CUBE}  return x - max(abs(x - 1), -1, keepdim=true)\n",
         "max(abs(x - 1), -1, keepdim=true)"),
        (f"{CUBE}  return x - mean(x, axis=[-1, 0], keepdims=true)\n",
         "mean(x, axis=[-1, 0], keepdims=true)"),
        (f"{CUBE}  return x - mean(x, -1, -3, keepdim=true)\n", "mean(x, -1, -3, keepdim=true)"),
        (f"{CUBE}  return x - mean(x, keepdim=true)\n", "mean(x, keepdim=true)"),
        (f"{CUBE}  return x - (x |> sum(2, keepdim=true))\n", "x |> sum(2, keepdim=true)"),
        # parts that data chooses
        (f"{ROWS}  return x[m]\n", "x[m]"),
        (f"{ROWS}  x[m] = 0\n  return x\n", "x[m] = 0"),
        (f"{ROWS}  x[m] = x[m] * 2 + 1\n  return x\n", "x[m] = x[m] * 2 + 1"),
        (f"{MASKS}  x[n_mask] = 0\n  return where({WIDE_MASK}, x, 1)\n",
         "x[n_mask] = 0"),
        (f"{MASKS}  x[:, :, h_mask] = 0\n  return where({ROW_MASK}, x, 1)\n",
         "x[:, :, h_mask] = 0"),
        (f"{SQUARE}  return x[m]\n", "x[m]"),
        (f"{PLACES}x[:, places]\n", "x[:, places]"),
        # what data decides
        (f"{CUBE}  if mean(x) > 0:\n    x = x * 2\n  return x\n", "if mean(x) > 0:\n    x = x * 2"),
        (f"{CUBE}  if mean(x) > 0:\n    x = x |> relu\n  else:\n    x = tanh(x)\n  return x\n",
         "if mean(x) > 0:\n    x = x |> relu\n  else:\n    x = tanh(x)"),
        (f"{CUBE}  y = 0 * x\n  if mean(x) > 0:\n    y = x * 2\n    x = x + y\n  return x + y\n",
         "if mean(x) > 0:\n    y = x * 2\n    x = x + y"),
        (f"{CUBE}  if mean(x) > 0:\n    return tanh(x)\n  return x\n",
         "if mean(x) > 0:\n    return tanh(x)\n  return x"),
        (f"{CUBE}  if mean(x) > 0:\n    return x\n  else:\n    return tanh(x)\n",
         "if mean(x) > 0:\n    return x\n  else:\n    return tanh(x)"),
        (f"{CUBE}  return x if mean(x) > 0 else tanh(x)\n", "x if mean(x) > 0 else tanh(x)"),
        (f"{CUBE}  if x > 0:\n    x = x * 2\n  return x\n", "if x > 0:\n    x = x * 2"),
        ("block A()(x: [n, c], s: [n]) -> [n, c]:\n  if s > 0:\n    x = x * 2\n  return x\n",
         "if s > 0:\n    x = x * 2"),
        (f"{CUBE}  while mean(x) > 1:\n    x = x / 2\n  return x\n", "while mean(x) > 1:"),
        ("block A()(x: [n, c]) -> [n, c], [n, c]:\n  print(x)\n  return tanh(x)\n",
         "print(x)\n  return tanh(x)"),
        # a list for a layer of square windows
        (f"{WIDE}  y = x |> a: conv2d(8, [3, 5])\n  return y\n", "y = x |> a: conv2d(8, [3, 5])"),
        # numbers
        (f"{ODD}  p = k / 2\n  return x |> a: conv2d(c, k, pad=p)\n", "p = k / 2"),
        (("block A(c)(x: [n, 2 * c, h, w]) -> [n, c // 2, h, w]\n    where c >= 2:\n"
         "  half = c / 2\n  return x |> a: conv2d(half, 1)\n"), "half = c / 2"),
    ],
)  # fmt: skip
def test_a_cure_is_accepted_as_it_is_printed(wrong: str, stands: str, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(wrong)
    report, *_ = [each for each in check_file(str(file)).reports if each.code in ANSWERED]
    assert report.help is not None
    code = report.help.code or report.help.text.rpartition(" `")[2].removesuffix("`")
    indent = "\n" + " " * 2
    assert wrong.count(stands) == 1
    file.write_text(wrong.replace(stands, code.replace("\n", indent)))
    assert [render(each) for each in check_file(str(file)).reports] == []


def test_a_return_that_data_decides_is_kept_until_the_last(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    early = "if mean(x) > 0:\n    return x\n"
    file.write_text(f"{CUBE}  {early}  x = tanh(x)\n  return x + 1\n")
    (report,) = check_file(str(file)).reports
    assert report.help is not None
    assert report.help.text.endswith("in place of `return x + 1`")
    assert report.help.code is not None
    stops, kept, last = report.help.code.split("\n")
    file.write_text(f"{CUBE}  {stops}\n  {kept}\n  x = tanh(x)\n  {last}\n")
    assert [render(each) for each in check_file(str(file)).reports] == []


def test_an_input_of_a_size_less_one_needs_a_fact(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    body = "  return concat(label, label[:, :1], axis=1)\n"
    file.write_text(f"block A()(label: f32[n, u - 1]) -> [n, u]:\n{body}")
    (report,) = check_file(str(file)).reports
    assert report.help is not None
    (edit,) = report.help.edits
    assert edit.text == " where u >= 2"
    file.write_text(apply(file.read_text(), [edit]))
    assert [render(each) for each in check_file(str(file)).reports] == []


@pytest.mark.parametrize(
    ("teacher", "settings", "noted"),
    [
        ("x |> old: Net(c=9, frozen=true)", "", ""),
        ("stop_gradient(x |> old: Net(c=9))", "", ""),
        ("x |> old: Net(c=9)", '  run:\n    optimizer["old.*"] = frozen\n', ""),
        (
            "x |> old: Net(c=9)",
            '  run:\n    optimizer["old.a.*"] = frozen\n',
            "old.b.weight, old.b.",
        ),
        ("x |> old: Net(c=9)", "", "old.a.weight, old.a.bias, old.b.weight, ..."),
    ],
)
def test_a_teacher_is_held_by_no_model(
    teacher: str, settings: str, noted: str, tmp_path: Path
) -> None:
    file = tmp_path / "net.mgn"
    net = "block Net(c)(x: [n, 4]) -> [n, 2] = x |> a: linear(c) |> b: linear(2)\n"
    fit = f"train fit(x: [batch, 4]):\n  minimize mse(x |> net, {teacher})\n{settings}"
    file.write_text(f"{net}model net = Net(c=3)\n{fit}")
    found = list(check_file(str(file)).reports)
    assert [each.code for each in found] == (["N0004"] if noted else [])
    assert all(noted in render(each) for each in found)


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


@pytest.mark.parametrize("imported", ["", "from nn import sample\n"])
@pytest.mark.parametrize(
    "written", ["sample(x, 0.0)", "sample(x, 0.7)", "sample(0.0)(x)", "x |> sample(0.0)(t)"]
)
def test_a_temperature_is_not_taken_for_a_count(
    imported: str, written: str, tmp_path: Path
) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(
        f"{imported}block A()(x: [n, 6], _t: []) -> i32[n] = {written}\n".replace("t)", "_t)")
    )
    said = "".join(map(render, check_file(str(file)).reports))
    assert "`top_k` of `sample` is a whole number" in said
    assert "this is the number 0." in said


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


def test_an_example_says_what_a_size_comes_to(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text("block A(r)(x: [n, c]) -> [n, c // r] = x |> fc: linear(c // r)\n")
    said = "".join(map(render, check_file(str(file)).reports))
    assert "c=1  r=2   gives   c//r = 0" in said
