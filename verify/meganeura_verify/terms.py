"""The text of a rule as a list of atoms, and the values of its terms.

A value is a number, a text, a tuple of integers (a vector), or one of three tagged tuples:
`("node", number)`, `("nodes", (number, ...))` and `("type", dtype, shape)`.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from meganeura_verify import CertificateError, require

Term = str | tuple[Any, ...]
"""A word, or a function and its arguments."""
Atom = tuple[Any, ...]
"""`("node", name, op, arguments)`, `("row", table, arguments)`, `("value", name, number)`,
`("equal", left, right)` or `("test", operator, left, right)`."""
Value = Any
TESTS = ("!=", "<", "<=", ">", ">=")
STEERING = frozenset(("apart", "tile"))
"""Tables that limit the search, and say nothing about values."""
NODE_TAGS = ("node", "nodes")


def parsed(text: str) -> list[Term]:
    """The terms of a text, one after another."""
    words = iter(re.findall(r'"[^"]*"|[()]|[^\s()"]+', text))

    def terms() -> Iterator[Term]:
        for word in words:
            if word == ")":
                return
            yield tuple(terms()) if word == "(" else word

    return list(terms())


def is_op(term: Term) -> bool:
    """True if a term applies an op: ops, and they alone, begin with a capital."""
    return (
        isinstance(term, tuple) and term[0][:1].isupper() and term[0] not in ("T", "Pair", "Value")
    )


def atoms_of(text: str) -> list[Atom]:
    """A pattern without ops inside each other: each gets a name, and so does each `_`."""
    atoms: list[Atom] = []
    count = 0

    def fresh() -> str:
        nonlocal count
        count += 1
        return f"_{count}"

    def plain(term: Term) -> Term:
        if term == "_":
            return fresh()
        if not isinstance(term, tuple):
            return term
        if is_op(term):
            name = fresh()
            node(name, term)
            return name
        return (term[0], *map(plain, term[1:]))

    def node(name: Term, term: Term) -> None:
        atoms.append(("node", name, term[0], tuple(map(plain, term[1:]))))

    def equation(left: Term, right: Term) -> None:
        heads = [side[0] if isinstance(side, tuple) else "" for side in (left, right)]
        if STEERING.intersection(heads):
            return
        if is_op(right):
            node(plain(left), right)
        elif is_op(left):
            node(plain(right), left)
        elif "Pair" in heads:
            pair, of = (left, right) if heads[0] == "Pair" else (right, left)
            atoms.append(("row", of[0], tuple(map(plain, (*of[1:], *pair[1:])))))
        elif heads[1] == "Value":
            atoms.append(("value", plain(left), plain(right[1])))
        else:
            atoms.append(("equal", plain(left), plain(right)))

    for head, *arguments in parsed(text):
        if head == "=":
            equation(*arguments)
        elif head in TESTS:
            atoms.append(("test", head, *map(plain, arguments)))
        else:
            atoms.append(("row", head, tuple(map(plain, arguments))))
    return atoms


@cache
def is_variable(term: Term) -> bool:
    """True if a term is a name that a step binds, and no number, text or truth value."""
    return isinstance(term, str) and term not in ("true", "false") and term[0].isidentifier()


@cache
def names_of(term: Term) -> tuple[str, ...]:
    """The variables in a term."""
    if isinstance(term, str):
        return (term,) if is_variable(term) else ()
    return tuple(dict.fromkeys(name for each in term[1:] for name in names_of(each)))


def terms_of(atom: Atom) -> tuple[Term, ...]:
    """The terms of an atom."""
    match atom:
        case "node", name, _, arguments:
            return (name, *arguments)
        case "row", _, arguments:
            return arguments
        case "test", _, left, right:
            return left, right
        case _:
            return atom[1:]


def evaluate(term: Term, bound: Mapping[str, Value], type_of: Callable[[int], Value]) -> Value:
    """The value of a term; `type_of` gives the type of a node."""
    if isinstance(term, str):
        return bound[term] if term in bound else _literal(term)
    head, *rest = term
    values = [evaluate(each, bound, type_of) for each in rest]
    match head, values:
        case "type", [("node", number)]:
            return type_of(number)
        case "T", [str(dtype), tuple(shape)]:
            return ("type", dtype, shape)
        case "vec-empty", []:
            return ()
        case "vec-of", [("node", _), *_]:
            return ("nodes", tuple(number for _, number in values))
        case "vec-of", _:
            return tuple(values)
        case "vec-length", [vector]:
            return len(_items(vector))
        case "vec-get", [vector, int(place)]:
            items = _items(vector)
            if not 0 <= place < len(items):
                raise CertificateError(f"no item {place} in {items}")
            return ("node", items[place]) if vector[:1] == ("nodes",) else items[place]
        case "vec-set", [tuple(vector), int(place), item]:
            if not 0 <= place < len(vector):
                raise CertificateError(f"no item {place} in {vector}")
            return (*vector[:place], item, *vector[place + 1 :])
        case "not", [bool(value)]:
            return not value
        case "to-i64", [float(value)]:
            return int(value)
        case "abs", [int() | float() as value]:
            return abs(value)
        case "max", _:
            return max(values)
        case (("+" | "-" | "*" | "/"), [left, right]):
            return _arithmetic(head, left, right)
        case _:
            raise CertificateError(f"`{head}` is no function of {values}")


def _items(vector: Value) -> Sequence[Value]:
    return vector[1] if vector[:1] == ("nodes",) else vector


@lru_cache(maxsize=1024)
def _literal(word: str) -> Value:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith('"'):
        return word[1:-1]
    if re.fullmatch(r"-?\d+", word):
        return int(word)
    require(bool(re.fullmatch(r"-?\d+\.?\d*(e[+-]?\d+)?", word)), f"`{word}` is not bound")
    return float(word)


def _arithmetic(operator: str, left: Value, right: Value) -> Value:
    """The arithmetic of integers and floats; an integer quotient is rounded towards 0."""
    if type(left) is not type(right) or type(left) not in (int, float):
        raise CertificateError(f"{left} {operator} {right}")
    if operator == "/":
        require(right != 0, "a division by 0")
        if isinstance(left, float):
            return left / right
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return {"+": left + right, "-": left - right, "*": left * right}[operator]
