"""Fixes of names, of facts and of training: suggested, or withheld where they are guesses."""

import pytest

from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.foreign_names import foreign_names
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check
from tests.effort import effort


def nothing_to_import(_words: tuple[str, ...]) -> None:
    return None


def fixed(text: str, *, unsafe: bool = True) -> str:
    """The text after all fixes, in as many iterations as it takes."""
    for _ in range(8):
        source = Source("net.mgn", text)
        reports = next_fixes(check(source, nothing_to_import).reports, source, unsafe=unsafe)
        if not reports:
            break
        text = apply(text, [edit for each in reports if each.help for edit in each.help.edits])
    return text


SUGGESTED = [
    (  # the name of a layer, of a tensor and of an argument
        ("block A()(image: [n, 3, h, w]) -> [n, 8, h - 2, w - 2] where h >= 3, w >= 3:\n"
        "  return imgae |> conv: conv2d(8, 3, strid=1) |> bn: batch_nrom\n"),
        ("block A()(image: [n, 3, h, w]) -> [n, 8, h - 2, w - 2] where h >= 3, w >= 3:\n"
        "  return image |> conv: conv2d(8, 3, stride=1) |> bn: batch_norm\n"),
    ),
    ("block A()(x: [n, d]) = x[:, 3:]\n", "block A()(x: [n, d]) where d >= 4 = x[:, 3:]\n"),
    (  # a fact that does not fit on the line of the signature
        f"block {'A' * 66}()(x: [n, d]) -> [n, d - 3]:\n  return x[:, 3:]\n",
        f"block {'A' * 66}()(x: [n, d]) -> [n, d - 3]\n    where d >= 4:\n  return x[:, 3:]\n",
    ),
    (  # what a block needs, its callers state
        ("block A()(x: [n, d]) -> [n, d // 2] where d % 2 == 0:\n  return x[:, :d // 2]\n\n"
        "block B()(a: [n, k]) -> [n, k // 2]:\n  return A(a)\n"),
        ("block A()(x: [n, d]) -> [n, d // 2] where d % 2 == 0:\n  return x[:, :d // 2]\n\n"
        "block B()(a: [n, k]) -> [n, k // 2] where k % 2 == 0:\n  return A(a)\n"),
    ),
    (
        ("block A()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(2, bias=false)\n\n"
        "model a = A()\nexpect a has 1 parms\n"),
        ("block A()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(2, bias=false)\n\n"
        "model a = A()\nexpect a has 1 params\n"),
    ),
    (
        ("block A()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(2)\n\n"
        "model a = A()\nexpect a holds fc.wieght: [2, 4]\n"),
        ("block A()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(2)\n\n"
        "model a = A()\nexpect a holds fc.weight: [2, 4]\n"),
    ),
    (
        ("train fit(x: [batch, 4], y: [batch, 1], near: [many, 4]):\n"
        "  minimize mse(x |> fc: linear(1), y) + mean(near |> near: linear(1))\n"),
        ("train fit(x: [batch, 4], y: [batch, 1], near: whole [many, 4]):\n"
        "  minimize mse(x |> fc: linear(1), y) + mean(near |> near: linear(1))\n"),
    ),
    (  # a fact stands before the clause that needs it
        "block A()(x: [c]) -> [c] where c % (c - 3) == 0:\n  return x\n",
        "block A()(x: [c]) -> [c] where c >= 4, c % (c - 3) == 0:\n  return x\n",
    ),
    (  # and before its parentheses
        "block A(k)(x: [c]) where c >= 2, (c % (k - 3) == 0 and c > 4):\n  return x\n",
        "block A(k)(x: [c]) where c >= 2, k >= 4, (c % (k - 3) == 0 and c > 4):\n  return x\n",
    ),
    (
        "block A(k)(x: [c]) where((  # why (,\n    c % (k - 3)) == 0):\n  return x\n",
        "block A(k)(x: [c]) where k >= 4, ((  # why (,\n    c % (k - 3)) == 0):\n  return x\n",
    ),
    (  # one at the end stands behind the parentheses of the last clause
        "block A()(x: [c]) where (c >= 2  # )\n    ):\n  return x[4:]\n",
        "block A()(x: [c]) where (c >= 2  # )\n    ), c >= 5:\n  return x[4:]\n",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), SUGGESTED)
def test_suggested_cures_are_applied_only_if_asked_for(before: str, after: str) -> None:
    assert fixed(before, unsafe=False) == before
    assert fixed(before) == after
    assert check(Source("net.mgn", after), nothing_to_import).fine


UNCERTAIN = [
    # two names are as near
    "block A()(left: [n, d], lift: [n, d]) = left + lift + loft\n",
    # a number is another name
    "block A()(conv1: [n, d]) = conv1 + conv2\n",
    # the argument is given already
    "block A()(x: [n, 3, h, w]) = x |> conv: conv2d(8, 3, stride=1, strid=1)\n",
    # so it is by its place
    (
        "block B(width, tall=1)(x: [n, d]) = width * tall * x\n"
        "block A()(x: [n, d]) = x |> B(3, widht=2)\n"
    ),
    # nothing tells which input has the wrong size
    (
        "train fit(x: [batch, 4], near: [many, 4]):\n"
        "  minimize mean(x |> fc: linear(1)) + mean(near |> near: linear(1))\n"
    ),
    # a clause that follows may say so already, or exclude it
    "block A()(x: [c]) -> [c] where c % (c - 3) == 0, c >= 4:\n  return x\n",
    "block A()(x: [c]) -> [c] where c % (c - 3) == 0, c <= 3:\n  return x\n",
    # no fact of `where` is known in defaults
    "block A(k=4, m = k // (k - 4))(x: [c]) -> [c]:\n  return x + m\n",
    # no value, and close to a layer
    "block A()(x: [n, 3, h, w]) = x + conv2\n",
]


@pytest.mark.parametrize("text", UNCERTAIN)
def test_a_guess_is_no_fix(text: str) -> None:
    assert not check(Source("net.mgn", text), nothing_to_import).fine
    assert fixed(text) == text


def test_a_fact_about_the_index_of_a_loop_is_no_clause() -> None:
    """`where` is read before the loop; the axis is more often the wrong one."""
    text = (
        "block A(e)(x: [n, d]) -> [d]:\n"
        "  y = zeros([d])\n"
        "  for i in 0..e:\n"
        "    y = y + x[i]\n"
        "  return y\n"
    )
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.help is not None
    assert report.help.text.startswith("`where` has no name for `i` and cannot state `n >= i + 1`")
    assert report.help.code is None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("block A()(x: [c]) where c % (c - 3) == 0, c >= 4:\n  return x\n", "before this clause"),
        ("train A(x: [n, c]) where n % (n - 3) == 0:\n  minimize mean(x)\n", "before this clause"),
        ("block A(k=4, m = 4 % (k - 4))(x: [c]) = x + m\n", "no fact of `where` is known"),
    ],
)
def test_what_a_clause_does_not_know_is_said(text: str, advice: str) -> None:
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.help is not None
    assert advice in report.help.text


USES = ("{}(x)", "x |> fc: {}", "x * {}")


@pytest.mark.parametrize("use", USES)
def test_a_name_of_another_system_is_never_respelled(use: str) -> None:
    """As a function, as a layer, as a value: no edit, and no similar name is offered.

    By day each name is tried in one of these uses, at night in all.
    """
    names = sorted(foreign_names())
    blocks = [
        f"block A{number}()(x: [n, d]) = {use.format(name)}\n"
        for number, name in enumerate(effort(names[USES.index(use) :: len(USES)], names))
    ]
    for start in range(0, len(blocks), 100):
        batch = blocks[start : start + 100]
        reports = check(Source("net.mgn", "".join(batch)), nothing_to_import).reports
        reports = [each for each in reports if each.code == "E0201"]
        assert len(reports) > 0.3 * len(batch)
        for report in reports:
            assert report.help is None or not report.help.edits, report.help
            assert report.help is None or "did you mean" not in report.help.text, report.help


SIMILAR = {
    "cos": "acos cosh arccos", "sin": "asin sinh sinc", "tanh": "tan atanh atan2", "erf": "erfc",
    "sqrt": "sqr cbrt", "relu": "prelu rrelu crelu", "mse": "rmse msle", "log": "log1p long",
    "exp": "expm1 exp2",
}  # fmt: skip


def test_no_function_of_the_language_is_offered_for_a_similar_name() -> None:
    assert {name for names in SIMILAR.values() for name in names.split()} <= foreign_names()


EQUALITIES = [
    "block A()(x: [n, d], y: [n, e]) = x + y\n",
    "block A()(x: [n, d], y: [e, n]) = x @ y\n",
    "block A()(x: [n, 1], y: [n, e]) = x + y\n",
    "block A(batch)(x: [n, d]) = x |> rearrange([batch, k] -> [batch, k])\n",
    "block A()(x: [n, d], y: [d, e]) = concat(x, y, axis=0)\n",
    "block B()(x: [n, d], y: [n, d]) = x + y\n\nblock A()(x: [n, d], y: [n, e]) = B(x, y)\n",
    (
        "block B()(x: [n, d], y: [n, e]) where d == e = x + y\n\n"
        "block A()(x: [n, k], y: [n, m]) = B(x, y)\n"
    ),
    "block B(f: bool)(x: [n]) where f = x\n\nblock A(f: bool)(x: [n]) = x |> B(f)\n",
]


@pytest.mark.parametrize("text", EQUALITIES)
def test_no_fix_makes_sizes_equal(text: str) -> None:
    assert not check(Source("net.mgn", text), nothing_to_import).fine
    assert "where" not in fixed(text).replace(text, "")


@pytest.mark.parametrize(
    "text",
    [
        # two bounds that meet
        "block A()(x: [n, h], y: [n, w]) where h >= w = x[:, :w], y[:, :h]\n",
        # a bound that leaves one number
        "block A()(x: [n, h]) where h <= 3 = x[:, 2:]\n",
    ],
)
def test_no_bound_makes_sizes_equal(text: str) -> None:
    assert not check(Source("net.mgn", text), nothing_to_import).fine
    assert fixed(text) == text


def test_a_fact_of_one_path_is_not_stated_for_all() -> None:
    text = (
        "block A(deep=1)(x: [n, d], y: [n, e]) -> [n, d]:\n"
        "  if deep == 2:\n    x = x + y\n  _z = y\n  return x\n"
    )
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.severity.value == "error"
    assert report.help is None or not report.help.edits


def test_a_fact_that_a_block_of_another_file_lacks_is_stated_by_its_caller() -> None:
    """The needs of its body depend on its arguments, so it is not proved by itself."""
    library = Source(
        "lib.mgn",
        "block Cut(ks)(x: [n, h]):\n  for i in 0..len(ks):\n    x = x[:, ks[i]:]\n  return x\n",
    )
    text = "from lib import Cut\n\nblock A()(x: [n, w]):\n  return x |> Cut([1, 2])\n"
    for least in (2, 4):
        source = Source("net.mgn", text)
        (report,) = check(source, lambda _: library).reports
        assert (report.code, report.label and report.label.span.source) == ("E0305", library)
        assert report.help is not None
        text = apply(text, report.help.edits)
        assert f"w >= {least}" in text
    assert check(Source("net.mgn", text), lambda _: library).fine
