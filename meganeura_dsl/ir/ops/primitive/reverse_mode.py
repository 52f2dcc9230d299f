"""The walk of reverse mode: back from some values, each op applied giving its own pullback."""

from collections.abc import Iterable, Mapping, Sequence

from meganeura_dsl.ir.graph import Builder, NotDifferentiableError, Value, dependencies
from meganeura_dsl.ir.ops.primitive.elementwise import Add


def pull_back(
    build: Builder, seeds: Mapping[Value, Value], wrt: Sequence[Value]
) -> tuple[Value | None, ...]:
    """The cotangent of each of `wrt`, where `seeds` gives those of some values, each of its type.

    That is the sum of the vector-Jacobian products, with `None` for what no gradient flows to. A
    value made here has the origin of the forward value whose pullback made it.
    """
    for value in wrt:
        if not value.type.dtype.is_float:
            raise NotDifferentiableError(f"there is no gradient with respect to a {value.type}")
    cotangents = {value.id: seed for value, seed in seeds.items()}
    path = _path(seeds, wrt)
    active = {value.id for value in path}
    done: set[int] = set()
    for value in reversed(path):
        # Whatever reads a result comes after all results of the application, and was visited.
        results = build.results_of(value)
        given = tuple([cotangents.get(each.id) for each in results])
        if (
            results[0].id in done
            or not any(given)
            or active.isdisjoint(operand.id for operand in value.operands)
        ):
            continue
        done.add(results[0].id)
        op, several = value.op, value.op.multiple_results
        with build.at(value.origin):
            parts = op.pullback(build, *((results, given) if several else (value, given[0])))
            for operand, part in zip(value.operands, parts, strict=True):
                if part is not None and operand.id in active:
                    known = cotangents.get(operand.id)
                    total = part if known is None else build.add(Add(), known, part)
                    cotangents[operand.id] = total
    return tuple(cotangents.get(value.id) for value in wrt)


def _path(roots: Iterable[Value], wrt: Sequence[Value]) -> tuple[Value, ...]:
    """The float values that depend on `wrt` and that a root depends on, in order."""
    active = {value.id for value in wrt}
    path: list[Value] = []
    for value in dependencies(roots):
        depends = any(operand.id in active for operand in value.operands)
        if value.type.dtype.is_float and (depends or value.id in active):
            active.add(value.id)
            path.append(value)
    return tuple(path)
