"""Rearrangements of axes written the same way, against all their readings by brute force."""

from collections.abc import Iterator, Sequence
from itertools import combinations, permutations, product
from textwrap import dedent

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.typecheck.pattern_readings import (
    first_fit,
    in_order,
    last_fit,
    other_order,
)
from meganeura_dsl.ir.interpreter import evaluate
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import check

KEYS = ("a", "b", "2")
TOGETHER = {"22x 22x", "22x x22", "x22 x22", "x22 22x", "2x2 2x2"}
"""Positions of a third axis beside two equal ones for which the reading in order is the only
one: the third stays between, before or behind the two, or passes both of them."""


def patterns(most: int) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    for count in range(most + 1):
        for source in product(KEYS, repeat=count):
            for target in sorted(set(permutations(source))):
                yield source, target


def readings(source: Sequence[str], target: Sequence[str]) -> list[tuple[int, ...]]:
    """Every way to say which source axis a target axis is."""
    return [
        order
        for order in permutations(range(len(source)))
        if all(source[axis] == key for axis, key in zip(order, target, strict=True))
    ]


def inversions(order: Sequence[int]) -> int:
    return sum(first > second for first, second in combinations(order, 2))


def keeps_together(source: Sequence[str], order: Sequence[int]) -> bool:
    """True if every pair of equal axes and every third do what `TOGETHER` lists."""
    for pair in combinations(range(len(source)), 2):
        if source[pair[0]] != source[pair[1]]:
            continue
        for third in set(range(len(source))) - {*pair}:
            name = {pair[0]: "2", pair[1]: "2", third: "x"}
            before = "".join(name[axis] for axis in sorted(name))
            after = "".join(name[axis] for axis in order if axis in name)
            if f"{before} {after}" not in TOGETHER:
                return False
    return True


def test_the_reading_that_keeps_the_order_moves_least() -> None:
    for source, target in patterns(4):
        order = in_order(source, target)
        everything = readings(source, target)
        fewest = min(map(inversions, everything))
        assert [each for each in everything if inversions(each) == fewest] == [order]


def test_it_is_refused_where_equal_axes_do_not_keep_together() -> None:
    seen = {True: 0, False: 0}
    for source, target in patterns(4):
        order = in_order(source, target)
        assert order is not None
        other = other_order(source, order)
        together = keeps_together(source, order)
        assert (other is None) == together, (source, target)
        if other is not None:
            assert other != order
            assert other in readings(source, target)
        seen[together] += 1
    assert min(seen.values()) > 100


def test_axes_that_stay_where_they_are_are_no_ambiguity() -> None:
    assert all(other_order(source, tuple(range(len(source)))) is None for source, _ in patterns(4))


def test_different_axes_have_no_reading() -> None:
    for source, target in product(product(KEYS, repeat=3), repeat=2):
        assert (in_order(source, target) is None) == (not readings(source, target))


def test_a_part_fits_in_one_way_or_is_ambiguous() -> None:
    """`expand` and reductions: all ways in which the axes of one side stand among the other's."""
    for whole in product(KEYS, repeat=4):
        for count in range(4):
            for part in product(KEYS, repeat=count):
                ways = [
                    places
                    for places in combinations(range(4), count)
                    if all(whole[at] == key for at, key in zip(places, part, strict=True))
                ]
                first, last = first_fit(part, whole), last_fit(part, whole)
                assert (first, last) == ((min(ways), max(ways)) if ways else (None, None))
                assert (first == last) == (len(ways) < 2)


def output(text: str, x: np.ndarray) -> np.ndarray:
    """Returns the result of the one block of a text for a tensor."""
    module = Linker(lambda _: None, Sink()).link(Source("p.mgn", dedent(text)))
    (block,) = module.blocks.values()
    inputs = (TensorType(DType.F32, x.shape),)
    graph = elaborate_block(module, block, config={}, inputs=Inputs(inputs), training=False).graph
    return evaluate(graph, {"x": x}).outputs["output"]


def test_programs_move_axes_as_read() -> None:
    for source, target in patterns(3):
        order = in_order(source, target)
        assert order is not None
        x = np.arange(2 ** len(source), dtype=np.float32).reshape((2,) * len(source))
        text = f"""\
            block P()(x: [{", ".join("2" * len(source))}]):
              a = 2
              b = 2
              return rearrange(x + 0 * (a - b), [{", ".join(source)}] -> [{", ".join(target)}])
            """
        if keeps_together(source, order):
            np.testing.assert_array_equal(output(text, x), x.transpose(order))
        else:
            with pytest.raises(ProblemError, match="E0219"):
                output(text, x)


@pytest.mark.parametrize(
    ("function", "pattern", "either", "other"),
    [
        (
            "rearrange",
            "[n, 2, h, 2] -> [n, h, 2 * 2]",
            "[n, axis_1, h, axis_2] -> [n, h, axis_1 * axis_2]",
            "[n, axis_1, h, axis_2] -> [n, h, axis_2 * axis_1]",
        ),
        (
            "rearrange",
            "[n, 2, h, 2] -> [2, n, h * 2]",
            "[n, axis_1, h, axis_2] -> [axis_1, n, h * axis_2]",
            "[n, axis_1, h, axis_2] -> [axis_2, n, h * axis_1]",
        ),
        (
            "expand",
            "[n, 2, h, 2] -> [n, 2, h, h, 2]",
            "[n, 2, h_1, 2] -> [n, 2, h_1, h_2, 2]",
            "[n, 2, h_1, 2] -> [n, 2, h_2, h_1, 2]",
        ),
        (
            "mean",
            "[n, 2, h, 2] -> [n, h * 1, 2]",
            "",
            "",
        ),
        (
            "max",
            "[n, 2, h, 2] -> [2, 1]",
            "[n, axis_1, h, axis_2] -> [axis_1, 1]",
            "[n, axis_1, h, axis_2] -> [axis_2, 1]",
        ),
        (
            "expand",
            "[n, ...rest] -> [...rest, n, ...rest]",
            "",
            "",
        ),
    ],
)
def test_both_readings_are_shown(function: str, pattern: str, either: str, other: str) -> None:
    text = f"block P()(x: [n, 2, h, 2]):\n  return x |> {function}({pattern})\n"
    reports = check(Source("p.mgn", text), lambda _: None).reports
    shown = [
        remark.text
        for report in reports
        for remark in report.remarks
        if remark.title in ("either", "or")
    ]
    assert shown == [each for each in (either, other) if each]


def test_axes_are_told_apart_by_how_they_are_written_not_by_their_sizes() -> None:
    """Two sizes that are equal in one model are two axes there, as they are in the proof."""
    text = """\
        block Turn()(x: [n, h, w]) -> [n, w // 2, h // 2]:
          y = x[:, :h // 2, :w // 2]
          return y |> rearrange([n, h // 2, w // 2] -> [n, w // 2, h//2])
        """
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    np.testing.assert_array_equal(output(text, x), x[:, :2, :2].swapaxes(1, 2))
