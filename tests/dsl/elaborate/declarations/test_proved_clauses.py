"""Sides of `and` and `or`, clauses about reals, and what holds because they do."""

import pytest

from tests.dsl.elaborate.declarations.proving import checked, codes


def test_a_call_meets_every_part_of_a_where() -> None:
    text = """\
        block A()(x: [n, d]) -> [n, d]
            where n % 2 == 0 and d % 3 == 0:
          return x
        block B()(x: [n, d]) -> [n, d]
            where {}:
          return x |> A
        """
    assert codes(text.format("n % 2 == 0, d % 3 == 0")) == []
    assert [code for code, _ in codes(text.format("n % 2 == 0"))] == ["E0311"]
    assert [code for code, _ in codes(text.format("d % 3 == 0"))] == ["E0311"]


@pytest.mark.parametrize(
    ("condition", "behind", "holds"),
    [
        ("k > 3 and 24 // (k - 3) > 2", "", True),
        ("k <= 3 or 24 // (k - 3) > 2", "", True),
        ("not k <= 3 and 24 // (k - 3) > 2", "", True),
        ("k > 3 or 24 // (k - 3) > 2", "", False),
        ("k <= 3 and 24 // (k - 3) > 2", "", False),
        ("24 // (k - 3) > 2 and k > 3", "", False),
        ("k > 3 and k > 2", "", True),
        ("k > 3 and k > 2", " * (24 // (k - 3))", False),
        ("k > 3 and 24 // (k - 3) > 2", " * (24 // (k - 3))", False),
        ("k <= 3 or 24 // (k - 3) > 2", " * (24 // (k - 3))", False),
        ("(k > 3 and k > 2) == (24 // (k - 3) > 2)", "", False),
        ("(k <= 3) == (24 // (k - 3) > 2)", "", False),
        ("(k > 3) == (24 // (k - 3) > 2)", "", False),
    ],
)
def test_what_a_left_side_decides_is_known_on_the_right_alone(
    condition: str, behind: str, *, holds: bool
) -> None:
    text = f"block Of(k)(x: [n]) -> [n]:\n  y = x * (1 if {condition} else 2)\n  return y{behind}\n"
    assert [code for code, _ in codes(text)] == ([] if holds else ["E0322"])


@pytest.mark.parametrize(
    ("clause", "holds"),
    [
        ("k > 3 and 24 // (k - 3) > 2", True),
        ("k > 1 and k > 3 and 24 // (k - 3) > 2", True),
        ("k > 3 and (k > 5 and 24 // (k - 5) > 2)", True),
        ("k > 3, 24 // (k - 3) > 2", True),
        ("k > 2 and 24 // (k - 3) > 2", False),
        ("24 // (k - 3) > 2 and k > 3", False),
        ("k > 3 or 24 // (k - 3) > 2", False),
    ],
)
def test_what_a_left_side_of_a_clause_says_is_known_on_its_right(
    clause: str, *, holds: bool
) -> None:
    text = f"block Of(k: int)(x: [n]) -> [n] where {clause}:\n  return x\n"
    assert [code for code, _ in codes(text)] == ([] if holds else ["E0322"])


@pytest.mark.parametrize(
    ("k", "found"), [(2, ["E0311"]), (3, ["E0311"]), (4, []), (11, []), (12, ["E0311"])]
)
def test_a_model_is_held_against_both_sides_of_a_clause(k: int, found: list[str]) -> None:
    clause = "k > 3 and 24 // (k - 3) > 2"
    text = f"block Of(k: int)(x: [n]) -> [n] where {clause}:\n  return x\nmodel of = Of(k={k})\n"
    assert [code for code, _ in codes(text)] == found


@pytest.mark.parametrize(
    ("where", "call", "found"),
    [
        ("p < 1", "g(n + 5, 8)", ["E0311"]),
        ("p < 1", "g(d, 8)", ["E0311"]),
        ("p < 1", "g(k + 1, 8)", ["E0311"]),
        ("p < 1", "g(1.5, 8)", ["E0311"]),
        ("p < 1", "g(k, 8)", []),
        ("p < 1 and c >= 8", "g(k, 1)", ["E0311"]),
        ("c >= 8 and p < 1", "g(k, 1)", ["E0311"]),
        ("c >= 8 and p < 1", "g(k, 8)", []),
        ('p == "a"', "g(k, 8)", ["E0203"]),
        ("p > [1] and c > 3", "g(k, 8)", ["E0203"]),
        ("p > true", "g(k, 8)", ["E0203"]),
    ],
)
def test_a_clause_about_a_real_says_nothing_but_of_that_real(
    where: str, call: str, found: list[str]
) -> None:
    text = f"""\
        block g(p: real, c: size)(x: [n, d]) -> [n, d]
            where {where}:
          return x * p * c
        block U(k)(x: [n, d]) -> [n, d] = k * (x |> {call})
        """
    assert [code for code, _ in codes(text)] == found


def test_what_stands_beside_a_real_is_known_in_the_body() -> None:
    text = """\
        block B(p: real)(x: [n, c]) -> [n, c // 2]
            where c % 2 == 0 and p < 1:
          y = rearrange(x, [n, 2 * m] -> [n, 2, m])
          return sum(y, 1) * p
        """
    assert checked(text).proved == ("B",)


def test_a_block_whose_clause_about_sizes_is_false_stands_for_none() -> None:
    text = """\
        block g(p: real, c: size)(x: [n, d]) -> [n, d]
            where c >= 8 and p < 1:
          return x * p * c
        block H(f: block(p: real, c: size)(x: [n, d]) -> [n, d])(x: [n, d]) -> [n, d]:
          return x |> f(0.5, 1)
        block U()(x: [n, d]) -> [n, d] = x |> H(f=g)
        """
    assert [code for code, _ in codes(text)] == ["E0221"]
