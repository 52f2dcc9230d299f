"""The search finds acyclic choices, keeps exact books, and shares what is worth sharing."""

from itertools import product
from math import inf
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.extraction import compare, random_problem
from meganeura_dsl.transforms.egraph.extract import extraction_search
from meganeura_dsl.transforms.egraph.extract.extraction_problem import (
    ExtractionProblem,
    always_needed,
    cheapest_trees,
    components,
)
from meganeura_dsl.transforms.egraph.extract.extraction_search import extract
from meganeura_dsl.transforms.egraph.extract.presolve import reduced


def problem(
    *classes: list[tuple[float, tuple[int, ...]]], roots: tuple[int, ...]
) -> ExtractionProblem:
    """A problem from its classes, each a list of nodes: their cost and their needs."""
    nodes = [node for each in classes for node in each]
    starts = [sum(len(each) for each in classes[:number]) for number in range(len(classes))]
    return ExtractionProblem(
        [range(start, start + len(each)) for start, each in zip(starts, classes, strict=True)],
        [needs for _, needs in nodes],
        [cost for cost, _ in nodes],
        roots,
    )


def is_acyclic(of: ExtractionProblem, choice: list[int]) -> bool:
    place = {number: rank for rank, number in enumerate(of.reached(choice))}
    return all(place[need] < place[number] for number in place for need in of.needs[choice[number]])


def best_cost(of: ExtractionProblem) -> float:
    """The least cost of all acyclic choices, by trying them all."""
    choices = (list(choice) for choice in product(*of.classes))
    return min(of.cost(choice) for choice in choices if is_acyclic(of, choice))


@st.composite
def problems(draw: st.DrawFn) -> ExtractionProblem:
    count = draw(st.integers(2, 7))
    price = st.integers(1, 9).map(float)
    classes: list[list[tuple[float, tuple[int, ...]]]] = []
    for number in range(count):
        below = st.lists(st.integers(0, max(number - 1, 0)), max_size=2, unique=True)
        anything = st.lists(st.integers(0, count - 1), max_size=2, unique=True)
        first = tuple(draw(below)) if number else ()
        others = st.lists(st.tuples(price, anything.map(tuple)), max_size=2)
        nodes = [(draw(price), first), *draw(others)]
        classes.append(nodes)
    return problem(*classes, roots=tuple({count - 1, draw(st.integers(0, count - 1))}))


@given(problems())
def test_the_choice_is_acyclic_and_at_most_the_least_tree(of: ExtractionProblem) -> None:
    trees, choice = cheapest_trees(of), extract(of)
    assert is_acyclic(of, trees)
    assert is_acyclic(of, choice)
    assert of.cost(choice) <= of.cost(trees) + 1e-9


def tree_costs(of: ExtractionProblem) -> list[float]:
    """Returns the least cost of each class by itself, by trying until nothing gets cheaper."""
    costs = [inf] * len(of.classes)
    for _ in of.classes:
        costs = [
            min(of.costs[node] + sum(costs[need] for need in of.needs[node]) for node in nodes)
            for nodes in of.classes
        ]
    return costs


@given(problems())
def test_the_cheapest_trees_are_the_cheapest(of: ExtractionProblem) -> None:
    costs, choice = tree_costs(of), cheapest_trees(of)
    for number, node in enumerate(choice):
        assert (node < 0) == (costs[number] == inf)
        if node >= 0:
            assert node in of.classes[number]
            below = sum(costs[need] for need in of.needs[node])
            assert of.costs[node] + below == pytest.approx(costs[number])


def test_a_class_that_several_need_costs_each_of_them_a_part() -> None:
    """Three users share a class of 5; each has another of 4.5. Two nodes of one user are one."""
    users = [[(1.0, (0,)), (1.0, (number,)), (7.0, (0,))] for number in (1, 2, 3)]
    for sharing, split in ((3, True), (1, False)):
        alone = [[(1.0, (number,))] for number in range(1, 1 + 3 - sharing)]
        own = [[(4.5, ())]] * 3
        top = [(0.0, (4, 5, 6))]
        of = problem([(5.0, ())], *own, *users[:sharing], *alone, top, roots=(7,))
        chosen = cheapest_trees(of, split=True)
        assert (of.needs[chosen[4]] == (0,)) == split
        assert of.needs[cheapest_trees(of)[4]] == (1,)


@given(problems())
def test_the_choice_is_close_to_the_best(of: ExtractionProblem) -> None:
    assert of.cost(extract(of)) <= 1.5 * best_cost(of)


def test_after_all_moves_the_books_are_those_of_the_choice() -> None:
    """The recorded cost and numbers of uses are right, and no class is out of reach."""
    for seed in range(24):
        of = random_problem(seed)
        component = components(of)
        search = extraction_search._Search(of, cheapest_trees(of), component)
        search.settle()
        anew = extraction_search._Search(of, list(search.choice), component)
        assert search.references == anew.references
        assert search.total == pytest.approx(anew.total)
        assert not search.banned


def test_large_random_e_graphs_are_close_to_what_an_exact_solver_finds() -> None:
    found = [compare(random_problem(seed)) for seed in range(24)]
    assert all(each.ours >= each.best * (1 - 1e-9) for each in found)
    gaps = [each.gap for each in found]
    assert mean(gaps) < 0.01
    assert max(gaps) < 0.1


@given(problems())
def test_what_is_left_to_search_has_the_same_best_choice(of: ExtractionProblem) -> None:
    smaller = reduced(of, components(of))
    left = [nodes or (-1,) for nodes in smaller.classes]
    choices = (list(choice) for choice in product(*left))
    best = min(of.cost(choice) for choice in choices if is_acyclic(of, choice))
    assert best == pytest.approx(best_cost(of))


@given(problems())
def test_what_is_always_needed_is_in_every_choice(of: ExtractionProblem) -> None:
    needed = always_needed(of)
    only = [nodes[0] for nodes in of.classes if len(nodes) == 1]
    forced = {need for node in only if of.owner[node] in needed for need in of.needs[node]}
    assert {*of.roots, *forced} <= needed
    for choice in map(list, product(*of.classes)):
        if is_acyclic(of, choice):
            assert needed <= set(of.reached(choice))


@given(problems())
def test_a_choice_is_cyclic_only_within_one_component(of: ExtractionProblem) -> None:
    component = components(of)
    below = [_below(of, number) for number in range(len(of.classes))]
    for one, other in product(range(len(of.classes)), repeat=2):
        together = one == other or (one in below[other] and other in below[one])
        assert (component[one] == component[other]) == together


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        # Two circles, the later of which needs the earlier one, that was finished before.
        ([[(), (1,)], [(0,)], [(0,), (3,)], [(2,)]], [{0, 1}, {2, 3}]),
        ([[(), (1,)], [(0,)], [(3,), (1,)], [(0,), (2,)]], [{0, 1}, {2, 3}]),
        # One that comes back to its beginning by way of two others; two that share a class.
        ([[(1,), ()], [(2,), (1,)], [(0,)]], [{0, 1, 2}]),
        ([[(1,), (2,)], [(0,), ()], [(0,), ()]], [{0, 1, 2}]),
        # Circles in a row, from the last to the first.
        ([[(1,), (2,)], [(0,), ()], [(3,), (4,)], [(2,), ()], [(), ()]], [{0, 1}, {2, 3}, {4}]),
        ([[()], [(0,)], [(1,), (0,)]], [{0}, {1}, {2}]),
    ],
)
def test_components_are_the_circles(
    needs: list[list[tuple[int, ...]]], expected: list[set[int]]
) -> None:
    of = problem(*([(1.0, each) for each in nodes] for nodes in needs), roots=(0,))
    found: dict[int, set[int]] = {}
    for number, component in enumerate(components(of)):
        found.setdefault(component, set()).add(number)
    assert sorted(found.values(), key=min) == expected


def _below(of: ExtractionProblem, number: int) -> set[int]:
    seen: set[int] = set()
    stack = [number]
    while stack:
        for node in of.classes[stack.pop()]:
            new = set(of.needs[node]) - seen
            seen |= new
            stack += new
    return seen


def test_two_users_move_to_a_shared_intermediate_together() -> None:
    # Each user alone is cheaper fused with the product; both together are cheaper apart.
    shared = problem(
        [(0.0, ())],
        [(1000.0, (0,))],
        [(1.0, (1,)), (1000.5, (0,))],
        [(1.0, (1,)), (1000.5, (0,))],
        [(0.0, (2, 3))],
        roots=(4,),
    )
    assert shared.cost(cheapest_trees(shared)) == pytest.approx(2001)
    assert shared.cost(extract(shared)) == pytest.approx(1002)


def test_a_long_chain_of_alternatives_needs_no_deep_recursion() -> None:
    chain = [[(1.0, ())], *([(1.0, (number,))] for number in range(3000))]
    long = problem(*chain, [(5.0, ()), (1.0, (3000,))], roots=(3001,))
    assert long.cost(extract(long)) == 5.0


def test_two_intermediates_that_pay_only_together_share_what_they_need() -> None:
    # Products of joined weights, forward and backward: the weights are joined once for both.
    shared = problem(
        [(0.0, ())],
        [(3.0, (0,))],
        [(6.5, (1,))],
        *([(3.0, (0,)), (0.0, (2,))] for _ in range(3)),
        [(9.0, (0,)), (6.5, (1,))],
        [(0.0, (3, 4, 5, 6))],
        roots=(7,),
    )
    assert shared.cost(cheapest_trees(shared)) == 18
    assert shared.cost(extract(shared)) == 16


def test_a_node_that_would_close_a_circle_does_not_hide_the_next_best() -> None:
    circle = problem(
        [(46.0, ())],
        [(1.0, (0,)), (60.0, ())],
        [(82.0, ()), (26.0, (3,)), (60.0, (0,))],
        [(1.0, (2,)), (100.0, ())],
        [(0.0, (1, 2, 3))],
        roots=(4,),
    )
    assert circle.cost(cheapest_trees(circle)) == 130
    assert circle.cost(extract(circle)) == 108
