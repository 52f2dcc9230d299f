"""The questions real models ask: each must be answered, and each refusal have an example."""

from dataclasses import dataclass

import pytest

from meganeura_dsl.symbolic.assumptions import Compare, Facts, Proved, Refuted
from meganeura_dsl.symbolic.conditions import holds
from meganeura_dsl.symbolic.size import Size, dim

a, b, c, d, h, k, m, n, p, q, r, s, w = map(dim, "abcdhkmnpqrsw")


def down(size: Size) -> Size:
    return (size - 1) // 2 + 1


def conv(size: Size, kernel: int, stride: int, pad: int) -> Size:
    return (size + 2 * pad - kernel) // stride + 1


def five_times(size: Size) -> Size:
    return down(down(down(down(down(size)))))


def divides(divisor: Size, size: Size) -> Compare:
    return Compare("==", size % divisor, 0)


@dataclass(frozen=True)
class Query:
    title: str
    left: Size
    right: Size
    facts: tuple[Compare, ...] = ()
    example: tuple[tuple[str, int], ...] | None = None
    """The smallest sizes for which the sides differ; None if they are always equal."""


QUERIES = [
    Query("7x7 stem", (h + 2 * 3 - 7) // 2 + 1, down(h)),
    Query("3x3 with pad and 1x1 without", conv(h, 3, 2, 1), conv(h, 1, 2, 0)),
    Query("halving rounds up", down(h), (h + 1) // 2),
    Query("five halvings", five_times(h), (h + 31) // 32),
    Query("five halvings round up", five_times(h), h // 32, example=(("h", 1),)),
    Query("heads", d, n * (d // n), (divides(n, d),)),
    Query("heads without the fact", d, n * (d // n), example=(("d", 1), ("n", 2))),
    Query("spectrogram", (m + 2 - 3) // 2 + 1, m // 2, example=(("m", 1),)),
    Query("even spectrogram", (m + 2 - 3) // 2 + 1, m // 2, (divides(2, m),)),
    Query("flattening", b * (c * h) * w, b * c * (h * w)),
    Query("image", c * down(h) * down(w), c * ((h + 1) // 2) * ((w + 1) // 2)),
    Query(
        "image, rounded down once",
        c * down(h) * down(w),
        c * (h // 2) * ((w + 1) // 2),
        example=(("c", 1), ("h", 1), ("w", 1)),
    ),
    Query("splitting heads", (b * s) * d, b * n * s * (d // n), (divides(n, d),)),
    Query("patches", (h // p) * (w // p) * p * p, h * w, (divides(p, h), divides(p, w))),
    Query(
        "patches without the facts",
        (h // p) * (w // p) * p * p,
        h * w,
        example=(("h", 1), ("p", 2), ("w", 1)),
    ),
    Query("pixel shuffle", (c // (r * r)) * (h * r) * (w * r), c * h * w, (divides(r * r, c),)),
    Query("symbolic stride", (h * s - 1) // s + 1, h),
    Query("transposed after plain", (down(h) - 1) * 2 - 2 + 3 + 1, h, example=(("h", 1),)),
    Query("padding to windows", (((h + p - 1) // p) * p) // p, (h + p - 1) // p),
    Query("concatenation", (a + b) * n, a * n + n * b),
    Query("halves", h // 2 + (h + 1) // 2, h),
    Query("thirds", h // 3 + (h + 1) // 3 + (h + 2) // 3, h),
    Query("two divisions", (h // a) // b, h // (a * b)),
    Query("grouped queries", d * d, q * q * (d // q) * (d // q), (divides(q, d),)),
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.title)
def test_query(query: Query) -> None:
    facts = Facts()
    for fact in query.facts:
        facts = facts.assume(fact)
    equal = Compare("==", query.left, query.right)
    verdict = facts.decide(equal)
    if query.example is None:
        assert verdict == Proved()
        assert facts.truth(equal) is True
        return
    assert verdict == Refuted(dict(query.example))
    assert not holds(equal, dict(query.example))
    assert facts.truth(equal) is not True
