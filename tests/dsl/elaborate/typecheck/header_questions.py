"""Random signatures with choices, and what they say for small sizes.

A file is determined by its seed. `Use` slices its input, `Outer` applies it under a signature of
its own, and `Fits` gives it for a parameter whose header is that of `Outer`. Types of inputs and
results, facts, defaults and slices hold `a if c else b`, and functions that choose. The signatures
begin as ones that fit each other; then parts of them are replaced by others. What they mean is
computed from their trees, so that no code of the proof judges the proof.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from random import Random
from typing import Any

DEFS = """\
def mn(a, b) = a if a <= b else b
def mx(a, b) = (b if b > a else a)
def apart(a, b) = a - b if a > b else b - a
def of_mode(a, b) = a if training else b
def above(a, b) = (a > b if b > 2 else a >= b + 1)

"""
FLAGS = ("deep", "wide", "training")
CONFIG = ("k", "m")
LARGEST = 5
"""The largest configuration of the grid; axes are up to twice as long."""

Tree = Any
"""A number, a truth, a name, or (operator, tree, ...); ("if", condition, then, otherwise)."""
Numbers = Mapping[str, int]


class BrokenError(Exception):
    """Something that was proved is not so; the text says what."""


@dataclass(frozen=True)
class Signature:
    """`(k, m = default, deep, wide)(x: [n, x], y: [a, y]) -> [n, result] where facts`."""

    default: Tree | None
    x: Tree
    y: Tree
    result: Tree
    facts: tuple[Tree, ...]

    def text(self, name: str, *, takes: str = "") -> str:
        """The head of a block."""
        facts = ", ".join(map(_text, self.facts)) or "n >= 1"
        m = "m: size" if self.default is None else f"m: size = {_text(self.default)}"
        flags = "deep: bool, wide: bool"
        config = f"k: size, {flags}, {m}" if self.default is not None else f"k: size, {m}, {flags}"
        return f"block {name}({takes}{config}){self.types}\n    where {facts}:\n"

    @property
    def header(self) -> str:
        """The header in the kind of a parameter that takes such blocks."""
        return f"block (k: size, m: size, deep: bool, wide: bool){self.types}"

    @property
    def types(self) -> str:
        """The inputs and the result."""
        x, y, result = map(_text, (self.x, self.y, self.result))
        return f"(x: [n, {x}], y: [a, {y}]) -> [n, {result}]"


@dataclass(frozen=True)
class Question:
    """Two signatures, the slice of the first, and what the second gives it."""

    use: Signature
    start: Tree
    stop: Tree
    outer: Signature
    given: Mapping[str, Tree]
    """The configuration that the second block gives the first."""

    @property
    def text(self) -> str:
        """The program."""
        call = ", ".join(f"{name}={_text(tree)}" for name, tree in self.given.items())
        own = "k, m, deep, wide"
        fits = replace(self.outer, default=None, facts=())
        act = f"act: {fits.header}, "
        return "".join(
            [
                DEFS,
                self.use.text("Use"),
                f"  return x[:, {_text(self.start)}:{_text(self.stop)}] + 0 * sum(y)\n\n",
                self.outer.text("Outer"),
                f"  return Use({call})(x, y)\n\n",
                fits.text("Takes", takes=act),
                f"  return act({own})(x, y)\n\n",
                fits.text("Fits"),
                f"  return Takes(Use, {own})(x, y)\n",
            ]
        )


def question(seed: int) -> Question:
    """The question of a seed."""
    random = Random(seed)
    is_plain = random.random() < 0.3
    draw = _plain if is_plain else _size
    start, length = draw(random, CONFIG, 2), draw(random, CONFIG, 2)
    if random.random() < 0.3:
        start = 0
    stop = ("+", start, length)
    y = random.choice(("b", random.choice(CONFIG), draw(random, CONFIG, 1), _if(random)))
    default = draw(random, ("k",), 2) if random.random() < 0.3 else None
    facts = [] if is_plain else [("<", 0, length), ("<=", 0, start)]
    if is_plain or random.random() < 0.3:
        x = _lengthened(random, stop)
    else:
        x = random.choice(("c", "c", ("*", 2, "c"), ("+", "c", random.choice(CONFIG))))
        facts.append(_stated(random, "<=", stop, x))
    if random.random() < 0.3:
        less = random.choice(CONFIG)
        y = ("-", "b", less)
        facts.append(_stated(random, "<", less, random.choice(("b", "b", "b", "a"))))
    facts += [_condition(random, (*CONFIG, "a"), 1) for _ in range(random.choice((0, 0, 0, 1)))]
    random.shuffle(facts)
    use = Signature(default, x, y, length, tuple(_hidden(random, each) for each in facts))
    outer = replace(use, default=default if random.random() < 0.5 else None)
    given: dict[str, Tree] = {"k": "k", "m": "m", "deep": "deep", "wide": "wide"}
    if default is not None and random.random() < 0.5:
        del given["m"]
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        start, stop, use = _changed_use(random, start, stop, use)
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        outer, given = _changed_outer(random, outer, given)
    return Question(use, start, stop, outer, given)


def _plain(random: Random, names: tuple[str, ...], depth: int) -> Tree:
    """A size that is 1 at least, whatever it is made of."""
    if depth == 0 or random.random() < 0.25:
        return random.choice((*names, *names, 1, 2))
    first, other = (_plain(random, names, depth - 1) for _ in range(2))
    if random.random() < 0.5:
        return ("if", _condition(random, names, depth - 1), first, other)
    return (random.choice(("mn", "mx", "of_mode", "+", "*")), first, other)


def _if(random: Random) -> Tree:
    """A choice between two sizes that are 1 at least."""
    first, other = random.choice((*CONFIG, 2, ("*", 2, "b"))), random.choice((*CONFIG, "b"))
    return ("if", _condition(random, CONFIG, 1), first, other)


def _changed_use(
    random: Random, start: Tree, stop: Tree, use: Signature
) -> tuple[Tree, Tree, Signature]:
    match random.choice(("start", "stop", "signature", "signature", "signature")):
        case "start":
            return _changed(random, start), stop, use
        case "stop":
            return start, _changed(random, stop), use
        case _:
            return start, stop, _changed_signature(random, use)


def _changed_outer(
    random: Random, outer: Signature, given: dict[str, Tree]
) -> tuple[Signature, dict[str, Tree]]:
    if random.random() < 0.6:
        return _changed_signature(random, outer), given
    name = random.choice([*given])
    is_flag = name in FLAGS
    new = _condition(random, CONFIG, 0) if is_flag else _size(random, CONFIG, 1)
    return outer, {**given, name: new}


def _changed_signature(random: Random, one: Signature) -> Signature:
    match random.choice(("x", "y", "result", "facts", "facts", "default")):
        case "x":
            return replace(one, x=_changed(random, one.x))
        case "y":
            return replace(one, y=_changed(random, one.y))
        case "result":
            return replace(one, result=_changed(random, one.result))
        case "default" if one.default is not None:
            return replace(one, default=_changed(random, one.default))
        case _ if one.facts:
            at = random.randrange(len(one.facts))
            new = [] if random.random() < 0.3 else [_changed(random, one.facts[at])]
            return replace(one, facts=(*one.facts[:at], *new, *one.facts[at + 1 :]))
        case _:
            return one


def _changed(random: Random, tree: Tree) -> Tree:
    """A tree with a part replaced by another of its kind."""
    if not isinstance(tree, tuple) or random.random() < 0.2:
        if _is_truth(tree):
            return _condition(random, CONFIG, 1)
        return _size(random, CONFIG, 1)
    at = random.randrange(1, len(tree))
    return (*tree[:at], _changed(random, tree[at]), *tree[at + 1 :])


def _is_truth(tree: Tree) -> bool:
    operators = ("<", "<=", ">", ">=", "==", "!=", "and", "or", "not", "above", "same")
    match tree:
        case ("if", _, then, _):
            return _is_truth(then)
        case (operator, *_):
            return operator in operators
        case _:
            return isinstance(tree, bool) or tree in FLAGS


def _lengthened(random: Random, size: Tree) -> Tree:
    return random.choice((size, ("+", size, "k"), ("+", size, ("if", "wide", "m", 1))))


def _stated(random: Random, operator: str, left: Tree, right: Tree) -> Tree:
    """A comparison, said in one of many ways."""
    match random.randrange(6):
        case 0:
            return ("not", (">" if operator == "<=" else ">=", left, right))
        case 1:
            return (">=" if operator == "<=" else ">", right, left)
        case 2:
            return ("and", (operator, left, right), ("or", "deep", ("not", "deep")))
        case _:
            return (operator, left, right)


def _hidden(random: Random, fact: Tree) -> Tree:
    """A fact behind a choice whose other side says the same, or something else."""
    other = fact if random.random() < 0.5 else _condition(random, CONFIG, 1)
    match random.randrange(8):
        case 0:
            return ("if", _condition(random, CONFIG, 0), fact, other)
        case 1:
            return ("if", _condition(random, CONFIG, 0), other, fact)
        case 2:
            return ("or", ("and", "deep", fact), ("and", ("not", "deep"), other))
        case _:
            return fact


def _size(random: Random, names: tuple[str, ...], depth: int) -> Tree:
    if depth == 0 or random.random() < 0.25:
        return random.choice((*names, *names, 1, 2, 3))
    first, other = (_size(random, names, depth - 1) for _ in range(2))
    match random.choice(("if", "if", "if", "mn", "mx", "apart", "of_mode", "+", "-", "*", "//")):
        case "if":
            return ("if", _condition(random, names, depth - 1), first, other)
        case "*" | "//" as operator:
            return (operator, first, random.choice((2, 3, *names)))
        case operator:
            return (operator, first, other)


def _condition(random: Random, names: tuple[str, ...], depth: int) -> Tree:
    kind = random.random()
    if depth and kind < 0.4:
        first, other = (_condition(random, names, depth - 1) for _ in range(2))
        return random.choice(
            (
                ("and", first, other), ("or", first, other), ("not", first), ("same", first, other),
                ("if", _condition(random, names, depth - 1), first, other),
            )
        )  # fmt: skip
    if kind < 0.7:
        return random.choice(FLAGS)
    first, other = _size(random, names, max(depth - 1, 0)), _size(random, names, 0)
    if kind < 0.8:
        return ("above", first, other)
    return (random.choice(("<", "<=", ">", ">=", "==", "!=")), first, other)


# --- as text -------------------------------------------------------------------------------------


def _text(tree: Tree) -> str:
    match tree:
        case bool():
            return str(tree).lower()
        case int() | str():
            return str(tree)
        case ("if", condition, then, otherwise):
            return f"({_text(then)} if {_text(condition)} else {_text(otherwise)})"
        case ("not", part):
            return f"(not {_text(part)})"
        case ("same", left, right):
            return f"({_text(left)} == {_text(right)})"
        case ("mn" | "mx" | "apart" | "of_mode" | "above" as name, left, right):
            return f"{name}({_text(left)}, {_text(right)})"
        case (operator, left, right):
            return f"({_text(left)} {operator} {_text(right)})"
        case _:
            raise AssertionError(tree)


# --- as numbers ----------------------------------------------------------------------------------


def fault(asked: Question, proved: frozenset[str], places: int) -> str | None:
    """Returns the place of a false proof, None if none was found.

    Of the grid at most so many places are tried.
    """
    for numbers in _sampled(places):
        for name in sorted(proved & {"Use", "Outer", "Fits"}):
            try:
                _try(asked, name, numbers)
            except BrokenError as error:
                return f"`{name}` at {dict(numbers)}: {error}"
            except ZeroDivisionError:
                return f"`{name}` at {dict(numbers)}: a divisor is 0"
            except KeyError as error:
                return f"`{name}` at {dict(numbers)}: {error} follows from nothing"
    return None


@cache
def _sampled(places: int) -> list[Numbers]:
    grid = list(_grid())
    return Random(0).sample(grid, min(places, len(grid)))


def _grid() -> Iterator[Numbers]:
    small, long = range(1, LARGEST + 1), range(1, 2 * LARGEST + 1)
    for k, m, a, b, c in product(small, small, (1, 4), (1, 3), long):
        for deep, wide, training in product((False, True), repeat=3):
            yield {
                "n": 1, "k": k, "m": m, "a": a, "b": b, "c": c,
                "deep": deep, "wide": wide, "training": training,
            }  # fmt: skip


def _try(asked: Question, name: str, numbers: Numbers) -> None:
    """Raise `BrokenError` if a block does not hold for numbers that it takes."""
    one = asked.use if name == "Use" else asked.outer
    if name == "Fits":
        one = replace(one, default=None, facts=())
    if one.default is not None and _value(one.default, numbers) < 1:
        raise BrokenError("the default of `m` is no size")
    x, y = _value(one.x, numbers), _value(one.y, numbers)
    if x < 1 or y < 1:
        return
    if not all(_value(fact, numbers) for fact in one.facts):
        return
    result = _value(one.result, numbers)
    if name == "Use":
        _slice(asked, numbers, x, result)
        return
    given = asked.given if name == "Outer" else {each: each for each in ("k", "m", "deep", "wide")}
    inner = {each: _value(tree, numbers) for each, tree in given.items()}
    inner |= {"n": 1, "a": numbers["a"], "training": numbers["training"]}
    _call(asked, inner, (x, y), result)


def _call(asked: Question, inner: dict[str, int], axes: tuple[int, int], result: int) -> None:
    """Apply `Use` to tensors whose last axes are known."""
    use = asked.use
    if "m" not in inner:
        assert use.default is not None
        inner["m"] = _value(use.default, inner)
    if inner["k"] < 1 or inner["m"] < 1:
        raise BrokenError(f"it gives {inner} for sizes")
    for name, tree, axis in (("c", use.x, axes[0]), ("b", use.y, axes[1])):
        known = ({**inner, name: each} for each in range(-3 * LARGEST, axis + LARGEST + 1))
        fits = [each for each in known if _value(tree, each) == axis]
        if not fits:
            raise BrokenError(f"an axis is {axis}, and `Use` takes {_text(tree)} of {inner}")
        if len(fits) == 1:  # else the size does not depend on what is to be solved for
            inner = fits[0]
    if not all(_value(fact, inner) for fact in use.facts):
        raise BrokenError(f"the `where` of `Use` is false for {inner}")
    _slice(asked, inner, axes[0], result)


def _slice(asked: Question, numbers: Numbers, axis: int, result: int) -> None:
    start, stop = _value(asked.start, numbers), _value(asked.stop, numbers)
    if not 0 <= start < stop <= axis:
        raise BrokenError(f"the slice {start}:{stop} of {axis}")
    if stop - start != result:
        raise BrokenError(f"it returns {stop - start}, and says {result}")


def _value(tree: Tree, numbers: Numbers) -> int:
    match tree:
        case int():
            return tree
        case str():
            return numbers[tree]
        case ("if", condition, then, otherwise):
            return _value(then if _value(condition, numbers) else otherwise, numbers)
        case ("and", left, right):
            return _value(left, numbers) and _value(right, numbers)
        case ("or", left, right):
            return _value(left, numbers) or _value(right, numbers)
        case ("not", part):
            return not _value(part, numbers)
        case ("of_mode", left, right):
            return _value(left if numbers["training"] else right, numbers)
        case (operator, left, right):
            return _combined(operator, _value(left, numbers), _value(right, numbers))
        case _:
            raise AssertionError(tree)


def _combined(operator: str, left: int, right: int) -> int:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "mn":
            return min(left, right)
        case "mx":
            return max(left, right)
        case "apart":
            return abs(left - right)
        case "above" | ">":
            return left > right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "==" | "same":
            return left == right
        case "!=":
            return left != right
        case _:
            raise AssertionError(operator)
