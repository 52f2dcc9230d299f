"""Other names for what blocks have of their own change nothing; `renamed.py` says which."""

from random import Random

import pytest

from tests.dsl.elaborate.scope.test_new_symbols import PROVED, REFUSED
from tests.effort import effort
from tests.properties.candidates import candidate
from tests.properties.renamed import MADE_UP, renamed, require_same

SEEDS_PER_TEST = 10
TEXTS = {
    name: text.format(*[names[0]] * 4) for name, (text, names) in {**REFUSED, **PROVED}.items()
}
BETWEEN = """\
block Inner(a)(x: [...r, m, 2 * e], ids: i32[m]) -> [...r, e, a]
    where 0 <= ids, ids < a:
  total = sum(x) + sum(one_hot(ids, a))
  scan t in 0..e:
    scan u in 0..a:
      row[u] = total + t - u
    y[t] = row
  return expand(y, [e, a] -> [...r, e, a])

block Outer(depth)(z: [f, g, 4 * g], v: [g, depth]) -> [f, 2 * g, depth + 1]
    where depth >= 2:
  best = minimum(argmax(v, 1), depth - 2) + 1
  for t in 0..depth:
    v = v + t * sum(z)
    y = Inner(depth + 1)(z, best)
  return y + sum(v)

model outer = Outer(3)

expect outer maps [n, 8, 32], [8, 3] -> [n, 16, 4]
"""


@pytest.mark.parametrize("first", range(0, effort(10, 600), SEEDS_PER_TEST))
def test_names_change_nothing_of_random_programs(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        try:
            require_same(candidate(seed), Random(seed))
        except Exception as error:
            error.add_note(f"seed {seed}\n{candidate(seed)}")
            raise


@pytest.mark.parametrize("name", TEXTS)
def test_names_change_nothing_where_they_once_did(name: str) -> None:
    for seed in range(effort(1, 10)):
        require_same(TEXTS[name], Random(seed))


def test_names_change_nothing_between_blocks() -> None:
    results = [require_same(BETWEEN, Random(seed)) for seed in range(effort(4, 12))]
    assert {each.proved for each in results} == {("Inner", "Outer")}, results[0].reports
    assert all(each.fine for each in results)


def test_every_name_that_a_proof_makes_up_is_tried() -> None:
    texts = [renamed(BETWEEN, Random(seed))[0] for seed in range(60)]
    assert all(any(f" {name}" in text for text in texts) for name in MADE_UP)
