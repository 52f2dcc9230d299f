"""Dead results of loops are removed, and loops over the same iterations are merged.

Differentiation applies a loop a second time that collects more, and collects the cotangents of all
that was sliced, whoever reads them.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.ir.graph import (
    Body,
    Builder,
    Graph,
    Value,
    by_application,
    dependencies,
    reachable,
)
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.primitive.loop import CAPTURED, CARRY, COLLECTED, ITERATION, SLICE, Loop


def simplify_loops(graph: Graph) -> Graph:
    """The same outputs and updates, from fewer and smaller loops."""
    if not any(isinstance(value.op, Loop) for value in graph.values):
        return graph
    return _pruned(_merged(graph))


# --- the same iterations once --------------------------------------------------------------------


def _merged(graph: Graph) -> Graph:
    """The graph with loops that compute the same iterations as one that collects what each does."""
    known: dict[Hashable, list[Loop]] = {}
    for results in by_application(graph.values):
        op = results[0].op
        if isinstance(op, Loop):
            known.setdefault(_iterations(results[0], op), []).append(op)
    unions = {key: _union(ops) for key, ops in known.items()}
    build = Builder()
    rebuilt: dict[int, Value] = {}
    for value in graph.values:
        operands = tuple(rebuilt[each.id] for each in value.operands)
        with build.at(value.origin):
            op = value.op
            if isinstance(op, Loop):
                union = unions[_iterations(value, op)]
                rebuilt[value.id] = build.add_all(union, *operands)[
                    _result_number(union, op, value.index)
                ]
            else:
                rebuilt[value.id] = build.reapply(value, *operands)
    return build.graph(
        {name: rebuilt[value.id] for name, value in graph.outputs.items()},
        {name: rebuilt[value.id] for name, value in graph.updates.items()},
    )


def _iterations(value: Value, op: Loop) -> Hashable:
    """Returns a key that is equal for loops that differ at most in what they collect."""
    following = tuple(op.body.numbers[each.id] for each in op.next)
    operands = tuple(each.id for each in value.operands)
    return operands, op.body.computation, following, op.iterations, op.sliced, op.backward


def _union(ops: Sequence[Loop]) -> Loop:
    """The first loop, collecting what any of them does; it stops if all of them do."""
    first = replace(ops[0], stops=all(op.stops for op in ops))
    wanted = list(dict.fromkeys(each for op in ops for each in _collected(op)))
    if wanted == _collected(first):
        return first
    values = first.body.graph.values
    outputs = {f"{CARRY}{number}": value for number, value in enumerate(first.next)}
    outputs |= {f"{COLLECTED}{n}": values[number] for n, (number, _) in enumerate(wanted)}
    body = Body(Graph(values, outputs))
    return replace(first, body=body, collected=tuple(axis for _, axis in wanted))


def _collected(op: Loop) -> list[tuple[int, int]]:
    """The numbers of the values of the body that are collected, and the axes."""
    numbers = (op.body.numbers[value.id] for value in op.given)
    return list(zip(numbers, op.collected, strict=True))


def _result_number(union: Loop, op: Loop, index: int) -> int:
    """Returns the number of a loop's result among those of the union."""
    if index < op.carried:
        return index
    return op.carried + _collected(union).index(_collected(op)[index - op.carried])


# --- no more than is read ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pruned:
    """A loop that gives some of the results of another, and which, and from which operands."""

    op: Loop
    results: tuple[int, ...]
    operands: tuple[int, ...]


def _pruned(graph: Graph) -> Graph:
    needed = {root.id for root in graph.roots}
    kept: dict[Hashable, _Pruned] = {}
    for results in reversed(by_application(graph.values)):
        value, op = results[0], results[0].op
        used = [each.index for each in results if each.id in needed]
        if not used:
            continue
        read: Iterable[Value] = value.operands
        if isinstance(op, Loop):
            pruned = kept[value.application] = _without(op, used)
            read = [value.operands[number] for number in pruned.operands]
        needed.update(each.id for each in read)
    build = Builder()
    rebuilt: dict[int, Value] = {}
    for value in graph.values:
        if value.id not in needed and value.operands:
            continue
        with build.at(value.origin):
            pruned = kept.get(value.application) if isinstance(value.op, Loop) else None
            if pruned is None:
                operands = [rebuilt[each.id] for each in value.operands]
                rebuilt[value.id] = build.reapply(value, *operands)
                continue
            operands = [rebuilt[value.operands[number].id] for number in pruned.operands]
            results = build.add_all(pruned.op, *operands)
            rebuilt[value.id] = results[pruned.results.index(value.index)]
    return build.graph(
        {name: rebuilt[value.id] for name, value in graph.outputs.items()},
        {name: rebuilt[value.id] for name, value in graph.updates.items()},
    )


def _without(op: Loop, used: Collection[int]) -> _Pruned:
    """The loop without results that nobody reads, and without what only they need."""
    inner = simplify_loops(op.body.graph)
    op = op if inner is op.body.graph else replace(op, body=Body(inner))
    collected = [index - op.carried for index in sorted(used) if index >= op.carried]
    carried = {index for index in used if index < op.carried}
    while True:
        roots = [*(op.next[index] for index in carried), *(op.given[n] for n in collected)]
        read = _read(roots)
        more = {index for index in range(op.carried) if f"{CARRY}{index}" in read} - carried
        if not more:
            break
        carried |= more
    carries = sorted(carried)
    results = (*carries, *(op.carried + number for number in collected))
    names = [f"{CARRY}{index}" for index in carries]
    names += [name for name in op.names[op.carried :] if name in read]
    names = names or [op.names[0]]  # a value without operands is a leaf
    operands = tuple(op.names.index(name) for name in names)
    if len(results) == op.carried + len(op.collected) and len(operands) == len(op.names):
        return _Pruned(op, results, operands)
    return _Pruned(_narrowed(op, carries, collected, names), results, operands)


def _read(roots: Iterable[Value]) -> set[str]:
    """The names of the leaves that roots are computed from."""
    return {value.op.name for value in dependencies(roots) if isinstance(value.op, Input)}


def _narrowed(
    op: Loop, carries: Sequence[int], collected: Sequence[int], names: Sequence[str]
) -> Loop:
    """The loop with these carries, these collected, and the leaves of these names."""
    renamed = _renamed(names, len(carries))
    build = Builder()
    of = {ITERATION: build.add(op.body.inputs[ITERATION].op)}
    for name in names:
        leaf = op.body.inputs[name]
        of[name] = build.add(Input(renamed[name], leaf.type.dtype, leaf.type.shape))
    roots = [*(op.next[index] for index in carries), *(op.given[number] for number in collected)]
    rebuilt: dict[int, Value] = {}
    live = reachable(roots)
    for value in op.body.graph.values:
        if value.id not in live:
            continue
        if isinstance(value.op, Input):
            rebuilt[value.id] = of[value.op.name]
            continue
        with build.at(value.origin):
            rebuilt[value.id] = build.reapply(value, *(rebuilt[each.id] for each in value.operands))
    outputs = {f"{CARRY}{n}": rebuilt[op.next[index].id] for n, index in enumerate(carries)}
    outputs |= {f"{COLLECTED}{n}": rebuilt[op.given[each].id] for n, each in enumerate(collected)}
    sliced = [
        axis
        for number, axis in enumerate(op.sliced, start=op.carried)
        if op.names[number] in renamed
    ]
    return replace(
        op,
        body=Body(build.graph(outputs)),
        carried=len(carries),
        sliced=tuple(sliced),
        collected=tuple(op.collected[number] for number in collected),
        stops=op.stops and op.carried - 1 in carries,
    )


def _renamed(names: Sequence[str], carried: int) -> Mapping[str, str]:
    """Each name with its number among those of its kind.

    A carry beyond those that are carried is read by nothing, and stays as an operand.
    """
    counts: dict[str, int] = dict.fromkeys((CARRY, SLICE, CAPTURED), 0)
    renamed: dict[str, str] = {}
    for name in names:
        kind = name.rstrip("0123456789")
        if kind == CARRY and counts[CARRY] == carried:
            kind = CAPTURED
        renamed[name] = f"{kind}{counts[kind]}"
        counts[kind] += 1
    return renamed
