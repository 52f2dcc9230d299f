"""Tuples are told what they are written as here, and that is accepted."""

import pytest

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check

HEADER = "block Net(c)(x: [n, c, h, w])"
KEPT = "insert_axis(insert_axis(mean(x, 2, 3), 2, size(x, 2)), 3, size(x, 3))"


def cure_of(text: str) -> Help:
    """The help of a program's first problem."""
    first, *_ = check(Source("net.mgn", text), lambda *_: None).reports
    assert first.help is not None
    return first.help


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("mean(x, axis=(2, 3))", "mean(x, 2, 3)"),
        ("mean(relu(x), dim=(-2, -1))", "mean(relu(x), -2, -1)"),
        ("amax(x, axis=(1, 2, 3))", "max(x, 1, 2, 3)"),
        ("mean(x, (2, 3), keepdims=True)", KEPT),
        ("x + random_normal((n, c, h, w))", "random_normal([n, c, h, w])"),
        ("concat((x, x), axis=1)", "concat(x, x, axis=1)"),
        ("permute(x, (0, 2, 3, 1))", "rearrange(x, [n, c, h, w] -> [n, h, w, c])"),
        ("reshape(x, (n, c * h * w))", "rearrange(x, [n, c, h, w] -> [n, c * h * w])"),
        ("x |> mean(axis=(2, 3))", "mean(2, 3)"),
        ("x |> a: conv2d(8, k=(1, 1), stride=(2, 2))", "conv2d(8, k=1, stride=2)"),
        ("x |> avg_pool((1, 1))", "avg_pool(1)"),
    ],
)
def test_the_call_is_written_without_it(wrong: str, right: str) -> None:
    code = cure_of(f"{HEADER}:\n  return {wrong}\n").code
    assert code == right
    before, sign, _ = wrong.rpartition("+ " if "+ " in wrong else "|> ")
    label = "a: " if "a: " in wrong else ""
    text = f"{HEADER}:\n  return {before}{sign}{label}{code}\n"
    found = check(Source("net.mgn", text), lambda *_: None)
    assert found.fine, found.reports


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("  return (x, x)\n", "  return x, x\n"),
        ("  a, b = (x, x)\n  return a + b\n", "  a = x\n  b = x\n  return a + b\n"),
        ("  a, b = x, relu(x)\n  return a + b\n", "  a = x\n  b = relu(x)\n  return a + b\n"),
        (
            "  a = x\n  b = relu(x)\n  a, b = b, a\n  return a - b\n",
            "  a = x\n  b = relu(x)\n  a_before = a\n  a = b\n  b = a_before\n  return a - b\n",
        ),
        (
            "  a = x\n  a, b = (relu(a), a)\n  return a - b\n",
            "  a = x\n  a_before = a\n  a = relu(a)\n  b = a_before\n  return a - b\n",
        ),
        (
            "  a, b = x |> a: conv2d(c, 1), x |> b: conv2d(c, 1)\n  return a + b\n",
            "  a = x |> a: conv2d(c, 1)\n  b = x |> b: conv2d(c, 1)\n  return a + b\n",
        ),
        (
            "  for i in (1, 2):\n    x = x + i\n  return x\n",
            "  values = [1, 2]\n  for i in 0..len(values):\n    x = x + values[i]\n  return x\n",
        ),
    ],
)
def test_the_statement_is_written_without_it(wrong: str, right: str) -> None:
    code = cure_of(f"{HEADER}:\n{wrong}").code
    assert code is not None
    assert all(line in right.split("\n") for line in (f"  {each}" for each in code.split("\n")))
    assert check(Source("net.mgn", f"{HEADER}:\n{right}"), lambda *_: None).fine


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("m = x |> mean((2, 3), keepdims=True)", KEPT),
        ("m = x |> relu |> mean((2, 3), keepdims=True)", None),
        ("m = x |> mean((2, 3), keepdims=False)", "mean(2, 3)"),
    ],
)
def test_axes_that_are_kept_are_inserted_again(line: str, code: str | None) -> None:
    cure = cure_of(f"{HEADER}:\n  {line}\n  return x - m\n")
    assert cure.code == code
    assert ("inserted again" in cure.text) == ("True" in line)


def test_numbers_that_differ_are_a_list() -> None:
    cure = cure_of(f"{HEADER}:\n  return x |> a: conv2d(8, (3, 5))\n")
    assert (cure.text, cure.code) == ("there are no tuples: a list is `[3, 5]`", None)
