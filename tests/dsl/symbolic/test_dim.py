"""Sizes: their arithmetic, their normal form and their text."""

from itertools import combinations, permutations
from itertools import product as every

import pytest
from hypothesis import given, settings

from meganeura_dsl.symbolic.polynomial import floors_of
from meganeura_dsl.symbolic.size import Dim, Size, dim, evaluate, product, show, substitute
from tests.dsl.symbolic.expressions import Tree, parse, read, size_of, trees
from tests.effort import effort

a, b, c, d, h, k, n, p, s, w = map(dim, "abcdhknpsw")

POINTS = [dict(zip("hws", row, strict=True)) for row in every((1, 2, 3, 7, 12), repeat=3)]


@settings(max_examples=effort(120, 6000))
@given(trees())
def test_a_size_is_the_number_its_expression_is(tree: Tree) -> None:
    size = size_of(tree)
    for point in POINTS:
        assert evaluate(size, point) == read(tree, point.__getitem__)


@settings(max_examples=effort(120, 6000))
@given(trees())
def test_what_show_writes_reads_back_as_the_same_size(tree: Tree) -> None:
    size = size_of(tree)
    assert parse(show(size)) == size


@settings(max_examples=100)
@given(trees(depth=2), trees(depth=2), trees(depth=2))
def test_the_laws_of_rings_hold_by_form(one: Tree, two: Tree, three: Tree) -> None:
    x, y, z = size_of(one), size_of(two), size_of(three)
    assert x + y == y + x
    assert x * y == y * x
    assert (x + y) + z == x + (y + z)
    assert (x * y) * z == x * (y * z)
    assert x * (y + z) == x * y + x * z
    assert x - x == 0
    assert hash(x * (y + z)) == hash(x * y + x * z)


@settings(max_examples=100)
@given(trees(depth=2), trees("ab", depth=2))
def test_substituting_is_evaluating_later(tree: Tree, value: Tree) -> None:
    size = substitute(size_of(tree), {"h": size_of(value) ** 2 + 1, "w": dim("h")})
    for first, second in every((1, 3, 8), repeat=2):
        inner = {"a": first, "b": second, "h": 5, "s": 2}
        outer = {"h": read(value, inner.__getitem__) ** 2 + 1, "w": inner["h"], "s": inner["s"]}
        assert evaluate(size, inner) == read(tree, outer.__getitem__)


EQUAL_BY_FORM = [
    ((h + 2 * 3 - 7) // 2 + 1, (h - 1) // 2 + 1),
    ((h * s - 1) // s + 1, h),
    ((h + s - 1) // s, (h - 1) // s + 1),
    ((h // a) // b, h // (a * b)),
    ((h // 2 + 1) // 3, (h + 2) // 6),
    ((6 * h + 3) // 4, (h * 6 + 3) // 4),
    ((6 * h) // 4, (3 * h) // 2),
    ((h * w) // (h * s), w // s),
    (((h + 1) * w) // (h + 1), w),
    ((h * h + h) // (h + 1), h),
    ((5 * h + w) // h, 5 + w // h),
    ((h * 7) // (2 * h), 3),
    (h % 1, 0),
    ((h * s + 3) % s, 3 % s),
    (1 // (h + 2), 0),
    (-1 // (h + 1), -1),
    (h // (0 - 2), (0 - h) // 2),
]


@pytest.mark.parametrize(("left", "right"), EQUAL_BY_FORM)
def test_plainly_equal_sizes_have_one_form(left: Size, right: Size) -> None:
    assert left == right
    assert hash(left) == hash(right)
    assert show(left) == show(right)


def test_factors_that_differ_in_one_number_alone_have_an_order() -> None:
    """A product is one size, whichever of its factors was first."""
    floors = (h // 2, h // 3, w // 2, (2 * h) // 3, (h + 1) // 4, (h + 2) // 4, h // w, h // s, h)
    for factors in (*combinations(floors, 2), *combinations(floors, 3)):
        ways = len({product(order) for order in permutations(factors)})
        assert ways == 1


SHOWN = [
    (3, "3"),
    (0 - h, "-h"),
    (2 * d, "2*d"),
    (h + 2 * p - k, "h + 2*p - k"),
    (1 - h, "1 - h"),
    (w * h * h, "h**2*w"),
    (h // 2, "h//2"),
    (h // 2 + 1, "h//2 + 1"),
    (h - w // 3, "h - w//3"),
    (0 - h // 2, "-(h//2)"),
    (c * (h // 2), "c*(h//2)"),
    ((h // 2) ** 2, "(h//2)**2"),
    (h // (2 * s), "h//(2*s)"),
    ((2 * h) // 3, "(2*h)//3"),
    ((h - 1) // s + 1, "(h - 1)//s + 1"),
    ((h + 31) // 32, "ceil(h/32)"),
    (c * ((h - 1) // 2 + 1), "c*ceil(h/2)"),
    ((h + w + 1) // 2, "ceil((h + w)/2)"),
    (3 // h, "3//h"),
    (d % n, "d % n"),
    ((h + 3) % 2, "(h + 1) % 2"),
    (c * (d % n) + 1, "c*(d % n) + 1"),
    (h - d % n, "h - d % n"),
    (h * w - 4, "h*w - 4"),
]


@pytest.mark.parametrize(("size", "text"), SHOWN)
def test_show(size: Size, text: str) -> None:
    assert show(size) == text
    assert f"{size}" == text


def test_the_order_of_operations_does_not_show() -> None:
    assert show(w + h * c + 1) == show(1 + c * h + w) == "c*h + w + 1"


def test_constants_are_integers() -> None:
    assert type(h - h + 3) is int
    assert type(h * 0) is int
    assert type(h // h) is int
    assert type(h**0) is int


def test_a_size_is_a_key() -> None:
    assert {h + 1: "x"}[1 + h] == "x"
    assert h != "h"
    assert h // 2 != h // 3
    assert h // 2 != dim("h//2")
    assert repr(h // 2) == "<Dim h//2>"
    assert [str(floor) for floor in floors_of(h // 2 + w // 3)] == ["h//2", "w//3"]


def test_sizes_are_not_ordered() -> None:
    with pytest.raises(TypeError, match=r"the order of h and 3 .* Facts\.decide"):
        sorted([h, 3])
    with pytest.raises(TypeError, match="the order of h and w"):
        assert h >= w


def test_divisors_are_not_zero() -> None:
    with pytest.raises(ZeroDivisionError, match="the size h \\+ 1 is divided by zero"):
        substitute((h + 1) // s, {"s": 0})


def test_divisors_may_be_negative() -> None:
    size = (2 * h + 1) // (2 * s - 4 * w)
    for point in POINTS:
        if point["s"] != 2 * point["w"]:
            expected = (2 * point["h"] + 1) // (2 * point["s"] - 4 * point["w"])
            assert evaluate(size, point) == expected


def test_powers_are_whole() -> None:
    assert h**3 == h * h * h
    with pytest.raises(ValueError, match="no negative powers"):
        pow(h, -1)


def test_variables() -> None:
    size = c * ((h - 1) // s) + 2
    assert isinstance(size, Dim)
    assert size.variables() == {"c", "h", "s"}


def test_product() -> None:
    assert product([]) == 1
    assert product([2, h, 3, w]) == 6 * h * w
