"""Lists, dictionaries and modules of layers, and the place where a constructor makes them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.text import (
    Compound,
    Create,
    Line,
    PathPart,
    Statement,
    texts,
    words_of,
)

Key = tuple[str, ...]
_MADE = {"list": "nn.ModuleList()", "dict": "nn.ModuleDict()", "module": "nn.Module()"}


def with_containers(statements: list[Statement], kinds: Mapping[Key, str]) -> list[Statement]:
    """The statements, each container made before it is first put into.

    It is made where all that is put into it is below, and outside of loops that it does not
    depend on.
    """
    made = frozenset(each.path for each in _creates(statements) if each.kind == "module")
    return _placed(behind_their_modules(statements), kinds, made)


def behind_their_modules(statements: list[Statement]) -> list[Statement]:
    """The statements, each layer below another one put there when that one is made."""
    found: list[Statement] = []
    late: dict[Key, list[Statement]] = {}
    made = [each.path for each in statements if isinstance(each, Create)]
    for at, each in enumerate(statements):
        if isinstance(each, Compound):
            each.body = behind_their_modules(each.body)
            each.otherwise = behind_their_modules(each.otherwise)
        for path in made[sum(isinstance(s, Create) for s in statements[: at + 1]) :]:
            put = _without(each, path)
            if put is not None:
                late.setdefault(path, []).append(put)
        found.append(each)
        if isinstance(each, Create):
            found += late.pop(each.path, [])
    return found


def _without(statement: Statement, path: Key) -> Statement | None:
    """Has a statement keep the layers below a path as names; returns what puts them there."""
    match statement:
        case Create(path=own) if _is_below(own, path):
            raise refusal(f"`{'.'.join(own)}`", "it comes before the layer that it is in", None)
        case Compound(head=head, body=body) if head.startswith("if "):
            later: list[Statement] = []
            for at, each in enumerate(body):
                if isinstance(each, Create) and _is_below(each.path, path):
                    name = each.parts[-1].text
                    body[at] = Line(f"{name} = {each.value}", (name,))
                    later.append(replace(each, value=name))
            return Compound(head, later) if later else None
        case _:
            return None


def _is_below(path: Key, above: Key) -> bool:
    return len(path) > len(above) and path[: len(above)] == above


def _placed(
    statements: list[Statement], kinds: Mapping[Key, str], made: frozenset[Key]
) -> list[Statement]:
    uses: dict[Key, list[int]] = {}
    parts: dict[Key, tuple[PathPart, ...]] = {}
    for at, each in enumerate(statements):
        for create in _creates([each]):
            for count in range(1, len(create.path)):
                key = create.path[:count]
                if key not in made:
                    uses.setdefault(key, []).append(at)
                    parts.setdefault(key, create.parts[:count])
    before: dict[int, list[Statement]] = {}
    here: set[Key] = set()
    for key in sorted(uses, key=len):
        places = sorted(set(uses[key]))
        first = statements[places[0]]
        if (
            len(places) == 1
            and isinstance(first, Compound)
            and _belongs_below(first, key, parts[key])
        ):
            continue
        bound = {name for at in places for name in _loop_names(statements[at])}
        if bound & _names(parts[key]):
            raise refusal(f"`{'.'.join(key)}`", "several loops put layers into it", None)
        create = Create(key, parts[key], _MADE[kinds.get(key, "module")])
        before.setdefault(places[0], []).append(create)
        here.add(key)
    known = made | here
    found: list[Statement] = []
    for at, each in enumerate(statements):
        found += before.get(at, [])
        if isinstance(each, Compound):
            each.body = _placed(each.body, kinds, known)
            each.otherwise = _placed(each.otherwise, kinds, known)
        found.append(each)
    return found


def _belongs_below(compound: Compound, key: Key, parts: tuple[PathPart, ...]) -> bool:
    """Returns True for a container that is made inside of the one statement that fills it."""
    if compound.head.startswith("if "):
        sides = (compound.body, compound.otherwise)
        return (
            sum(
                any(c.path[: len(key)] == key and len(c.path) > len(key) for c in _creates(side))
                for side in sides
            )
            == 1
        )
    return bool(_loop_names(compound) & _names(parts))


def _loop_names(statement: Statement) -> set[str]:
    """The names that a loop binds anew in each iteration."""
    if not isinstance(statement, Compound) or statement.head.startswith("if "):
        return set()
    inside = {
        name for each, _ in texts(statement.body) if isinstance(each, Line) for name in each.binds
    }
    return {*statement.binds, *inside}.union(*(_loop_names(each) for each in statement.body))


def _names(parts: Sequence[PathPart]) -> set[str]:
    return set[str]().union(
        *(words_of(each.text) for each in parts if each.kind == "index"),
        *(
            words_of(t)
            for each in parts
            if each.kind == "computed"
            for t in each.text.split("{")[1:]
        ),
    )


def _creates(statements: Sequence[Statement]) -> Iterator[Create]:
    for each, _ in texts(statements):
        if isinstance(each, Create):
            yield each
