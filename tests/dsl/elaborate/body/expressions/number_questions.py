"""Random blocks that read entries at computed places, and what those places are for small sizes.

A block is determined by its seed. It binds whole numbers, in loops and choices too, and gives some
to a block that needs them to be below a size. The places are computed from its tree, so that no
code of the proof judges the proof.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

SIZES = ("s", "m")
STATED = ("p", "q", "ids")
READ = {
    "p": "p", "q": "q", "ids0": "ids[0]", "ids1": "ids[n - 1]",
    "best": "argmax(b, 0)", "most": "argmax(c, 1)[0]", "order": "order[0]",
}  # fmt: skip
"""The numbers that are read, by the name that the tree has for each."""
PICK = "block Pick()(x: [m, d], i: i32[]) -> [d] where i < m = x[i]\n\n"
HEADER = (
    "block Use()(x: [m, d], b: [s], c: [s, m], ids: i32[n], p: i32[], q: i32[]) -> [d]\n"
    "    where {}:\n  _values, order = sort(c[:, 0], axis=0)\n  y = x[0]\n"
)
STATES = 400
"""Places of the grid that are tried; those that the facts exclude are not counted."""

Tree = Any
"""A number, a name, or (operator, tree, ...)."""
Statement = Any
"""("bind", name, tree), ("pick", tree), ("if", fact, then, otherwise) or a loop."""


class OutsideError(Exception):
    """A place that is read is not there."""


@dataclass(frozen=True)
class Question:
    """Facts about the inputs, and statements."""

    facts: tuple[Tree, ...]
    body: tuple[Statement, ...]

    @property
    def text(self) -> str:
        """The program."""
        where = ", ".join(("m >= 1", *map(_text, self.facts)))
        return PICK + HEADER.format(where) + "".join(_lines(self.body, "  ")) + "  return y\n"


def question(seed: int) -> Question:
    """The question of a seed."""
    random = Random(seed)
    facts = tuple(_fact(random, (*STATED, "s")) for _ in range(random.randint(2, 5)))
    bound = [*READ]
    return Question(facts, tuple(_body(random, bound, 0)))


def _fact(random: Random, names: tuple[str, ...]) -> Tree:
    left = random.choice(names)
    right: Tree = random.choice(("m", "m", "s", random.randint(1, 4)))
    if random.random() < 0.3:
        left = ("+", left, random.randint(1, 2))
    if random.random() < 0.2:
        right = ("+", right, random.randint(1, 2))
    return (random.choice(("<", "<", "<", "<=", ">=")), left, right)


def _body(random: Random, names: list[str], depth: int) -> Iterator[Statement]:
    for _ in range(random.randint(0, 2)):
        kind = random.random()
        if kind < 0.4:
            name = random.choice(("v", "w"))
            yield "bind", name, _tree(random, names, 2)
            names.append(name)
        elif kind < 0.55 and depth < 2:
            word = random.choice(("for", "scan"))
            start: Tree = random.choice((0, 0, 1, "m"))
            stop = ("+", random.choice(SIZES), start if start == "m" else random.randint(0, 2))
            index = random.choice(("t", "p", "s0", "v"))
            yield word, index, start, stop, tuple(_body(random, [*names, index], depth + 1))
        elif kind < 0.65 and depth < 2:
            then, otherwise = (tuple(_body(random, [*names], depth + 1)) for _ in range(2))
            yield "if", _fact(random, ("s",)), then, otherwise
        elif kind < 0.75:
            yield "pick", _tree(random, names, 2)
    yield "pick", _tree(random, names, 1)


def _tree(random: Random, names: list[str], depth: int) -> Tree:
    if depth == 0 or random.random() < 0.25:
        return random.choice(names)
    first = _tree(random, names, depth - 1)
    other = random.choice([*SIZES, *names, 1, 1, 2, ("-", "m", 1), ("-", "s", 1)])
    operator = random.choice(("+", "-", "-", "*", "min", "min", "max", "//", "%", "where", "from"))
    match operator:
        case "//":
            return operator, first, random.choice((2, 3, "m"))
        case "%":
            return operator, first, random.choice((2, "m", "s"))
        case "from":
            return "-", ("-", "m", 1), first
        case "where":
            return operator, first, random.choice(names)
        case "min" | "max" if random.random() < 0.5:
            return operator, other, first
        case _:
            return operator, first, other


# --- as text -------------------------------------------------------------------------------------


def _text(tree: Tree) -> str:
    match tree:
        case int():
            return str(tree)
        case str():
            return READ.get(tree, tree)
        case ("min" | "max" as word, left, right):
            return f"{word}imum({_text(left)}, {_text(right)})"
        case ("where", left, right):
            return f"where(b[0] > 0, {_text(left)}, {_text(right)})"
        case (operator, left, right):
            return f"({_text(left)} {operator} {_text(right)})"
        case _:
            raise AssertionError(tree)


def _lines(body: tuple[Statement, ...], indent: str) -> Iterator[str]:
    for each in body:
        match each:
            case ("bind", name, tree):
                yield f"{indent}{name} = {_text(tree)}\n"
            case ("pick", tree):
                yield f"{indent}y = y + Pick()(x, {_text(tree)})\n"
            case ("if", fact, then, otherwise):
                yield f"{indent}if {_text(fact)}:\n"
                yield from _lines(then, indent + "  ")
                yield f"{indent}else:\n"
                yield from _lines(otherwise, indent + "  ")
            case (word, index, start, stop, inner):
                yield f"{indent}{word} {index} in {_text(start)}..{_text(stop)}:\n"
                yield from _lines(inner, indent + "  ")
            case _:
                raise AssertionError(each)


# --- as numbers ----------------------------------------------------------------------------------


def fault(asked: Question, seed: int) -> str | None:
    """A place of the grid where something outside is read, None if none was found."""
    random = Random(seed)
    for _ in range(STATES):
        s, m = random.randint(1, 5), random.randint(1, 5)
        numbers = {"s": s, "m": m} | {name: random.randint(0, 5) for name in ("p", "q")}
        numbers |= {"ids0": random.randint(0, 5), "ids1": random.randint(0, 5)}
        numbers |= {"best": random.randrange(s), "most": random.randrange(m)}
        numbers |= {"order": random.randrange(s), "true": random.randint(0, 1)}
        start = dict(numbers)
        both = ({**numbers, "ids": numbers[name]} for name in ("ids0", "ids1"))
        if not all(_value(fact, each) for each in both for fact in asked.facts):
            continue
        try:
            _run(asked.body, numbers)
        except OutsideError as error:
            return f"{start}: place {error} of {m}"
        except (ZeroDivisionError, KeyError):
            continue
    return None


def _run(body: tuple[Statement, ...], numbers: dict[str, int]) -> None:
    for each in body:
        match each:
            case ("bind", name, tree):
                numbers[name] = _value(tree, numbers)
            case ("pick", tree):
                at = _value(tree, numbers)
                if not 0 <= at < numbers["m"]:
                    raise OutsideError(at)
            case ("if", fact, then, otherwise):
                _run(then if _value(fact, numbers) else otherwise, numbers)
            case (word, index, start, stop, inner):
                before = dict(numbers)
                for number in range(_value(start, numbers), _value(stop, numbers)):
                    numbers[index] = number
                    _run(inner, numbers)
                if word == "scan":
                    numbers[index] = before.get(index, 0)
            case _:
                raise AssertionError(each)


def _value(tree: Tree, numbers: dict[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return numbers[tree]
    operator, left, right = tree[0], _value(tree[1], numbers), _value(tree[2], numbers)
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "%":
            return left % right
        case "min":
            return min(left, right)
        case "max":
            return max(left, right)
        case "where":
            return left if numbers["true"] else right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case _:
            raise AssertionError(operator)
