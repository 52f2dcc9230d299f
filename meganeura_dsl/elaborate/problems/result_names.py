"""Cures of several results: names for those taken apart by indices, and those that are missing."""

from collections.abc import Mapping, Sequence
from math import inf

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


def results_cure(
    target: ast.Name, count: int, written: str, declaration: ast.Node | None, known: Sequence[str]
) -> Help:
    """Returns the binding of `count` results to a name each, with the names that they have later.

    `written` is the text of what gives them, `declaration` what `target` is bound in, and `known`
    are the names in scope.
    """
    nodes = () if declaration is None else walk(declaration)
    uses = sorted(nodes, key=lambda each: each.span.start)
    until = _bound_again(uses, target)
    indices = {
        use: index
        for use in uses
        if target.span.start < use.span.start < until
        and (index := _index(use, target, count)) is not None
    }
    if not indices:
        others = ", ".join(f"_other{at}" if count > 2 else "_other" for at in range(1, count))
        return Help("name each of them, in their order", f"{target.text}, {others} = {written}")
    binds = [each for each in uses if isinstance(each, ast.Bind) and each.value in indices]
    bound = (each.span.end for each in uses if _binds(each, target))
    start = next(bound, target.span.end)
    binds = [each for each in binds if not _is_read(each, start, uses)]
    names = _names(target.text, indices, binds, count, {*known, *_written_names(uses)})
    code = f"{', '.join(names)} = {written}"
    kept = {names[indices[each.value]]: each for each in binds if _is_plain(each, indices, names)}
    if len(kept) == len(indices):
        lines = [f"`{' '.join(each.span.text.split())}`" for each in kept.values()]
        return Help(f"name each of them, and leave out {_and(lines)}", code)
    shown = dict.fromkeys((use.span.text, names[index]) for use, index in indices.items())
    told = [f"`{text}` is `{name}`" for text, name in shown]
    return Help(f"name each of them: {_and(told)}", code)


def count_cure(
    named: Mapping[str, ElabValue],
    block: ast.Block,
    declared: Sequence[TensorType],
    results: Sequence[Tensor],
) -> Help:
    """The last `return` with as many results as are declared, from the values that are `named`.

    Of more than are declared, those that have the declared types.
    """
    returns = [each for each in walk(block) if isinstance(each, ast.Return)]
    written = [" ".join(each.span.text.split()) for each in returns[-1].values] if returns else []
    types = ", ".join(map(str, declared)) or "none"
    text = f"the signature has {types}"
    if len(written) != len(results) or any("\n" in each for each in written):
        return Help(f"{text}: return as many", "return ...")
    if len(results) > len(declared):
        kept = [at for at, each in enumerate(results) if each.type in declared]
        if [results[at].type for at in kept] == list(declared):
            return Help(text, f"return {', '.join(written[at] for at in kept)}")
        given = ", ".join(str(each.type) for each in results)
        return Help(f"{text}; if all are meant, let it have them", f"-> {given}")
    inputs = {item.name for item in block.inputs}
    more, code = list(results), list[str]()
    for wanted in declared:
        if more and more[0].type == wanted:
            code.append(written[len(results) - len(more)])
            more.pop(0)
            continue
        free = [
            name
            for name, value in named.items()
            if is_tensor(value)
            and name not in inputs
            and value.type == wanted
            and name not in (*code, *written)
        ]
        code.append(free[0] if len(free) == 1 else "...")
    if more:
        return Help(f"{text}: return as many", "return ...")
    rest = f"-> {', '.join(str(each.type) for each in results)}".replace("f32[", "[")
    return Help(f"{text}: return as many, or declare `{rest}`", f"return {', '.join(code)}")


def _index(node: ast.Node, target: ast.Name, count: int) -> int | None:
    """Returns the place of the result that `latent[0]` or `latent[-1]` takes; else `None`."""
    match node:
        case ast.Subscript(base=ast.Name(text=name), entries=(entry,)) if name == target.text:
            pass
        case _:
            return None
    match entry:
        case ast.Integer(value=index):
            pass
        case ast.Unary(operator="-", operand=ast.Integer(value=behind)):
            index = count - behind
        case _:
            return None
    return index if 0 <= index < count else None


def _names(
    name: str,
    indices: Mapping[ast.Node, int],
    binds: Sequence[ast.Bind],
    count: int,
    taken: set[str],
) -> list[str]:
    """Returns a name for each result: the one it is bound to later, or one that is free."""
    found = dict[int, str]()
    for bind in binds:
        bound = bind.targets[0].text
        if len(bind.targets) == 1 and bound not in found.values():
            found.setdefault(indices[bind.value], bound)
    used = set(indices.values())
    unused = [at for at in range(count) if at not in used]
    for at in range(count):
        if at not in found:
            free = f"{name}{at}" if at in used else f"_other{at}" if len(unused) > 1 else "_other"
            while free in taken:
                free += "_"
            found[at] = free
    return [found[at] for at in range(count)]


def _binds(node: ast.Node, target: ast.Name) -> bool:
    """Returns True for the line in which `target` is bound."""
    return isinstance(node, ast.Bind) and target in node.targets


def _bound_again(uses: Sequence[ast.Node], target: ast.Name) -> float:
    """Returns the end of the first line below that binds the name of `target` to another value."""
    ends = (
        each.span.end
        for each in uses
        if isinstance(each, ast.Bind)
        and each.span.start > target.span.start
        and any(name.text == target.text for name in each.targets)
    )
    return next(ends, inf)


def _is_read(bind: ast.Bind, start: int, uses: Sequence[ast.Node]) -> bool:
    """Returns True if the name of a line stands for another value between `start` and the line."""
    return any(
        isinstance(each, ast.Name)
        and each.text == bind.targets[0].text
        and start <= each.span.start < bind.span.start
        for each in uses
    )


def _is_plain(bind: ast.Bind, indices: Mapping[ast.Node, int], names: Sequence[str]) -> bool:
    """Returns True for a line that does nothing but give a result the name it has in the cure."""
    return [each.text for each in bind.targets] == [names[indices[bind.value]]]


def _written_names(nodes: Sequence[ast.Node]) -> set[str]:
    return {each.text for each in nodes if isinstance(each, ast.Name)}


def _and(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
