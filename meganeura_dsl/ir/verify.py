"""Verifies the invariants of a graph that every stage relies on, after each pass under test."""

from meganeura_dsl.ir.graph import Body, Graph, Leaf, TypeRuleError, Value, dependencies
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Unproved

ILL_FORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of type rules whose operands or attributes are not of the op at all."""


class GraphError(Exception):
    """A graph breaks an invariant; the message names the value."""


def verify(graph: Graph, facts: Facts | None = None) -> None:
    """Raise `GraphError` unless the graph is closed, in order, well typed and free of clashes."""
    facts = Facts() if facts is None else facts
    known: dict[int, Value] = {}
    for before, value in zip((None, *graph.values), graph.values, strict=False):
        if before is not None and value.id <= before.id:
            raise GraphError(f"{label(value)} comes after {label(before)}")
        _verify_operands(value, known)
        for body in value.op.bodies:
            _verify_body(value, body, facts)
        _verify_type(value, facts)
        known[value.id] = value
    for name, root in (*graph.outputs.items(), *graph.updates.items()):
        if known.get(root.id) is not root:
            raise GraphError(f"`{name}` is {label(root)}, which is not among the graph's values")
    _verify_use(graph)
    _verify_names(graph, facts)


def label(value: Value) -> str:
    """A value as messages name it: `%12 = Add of layer1.0`."""
    path = f" of {value.origin.path}" if value.origin.path else ""
    return f"%{value.id} = {type(value.op).__name__}{path}"


def _verify_operands(value: Value, known: dict[int, Value]) -> None:
    wanted, count = value.op.operands, len(value.operands)
    if not wanted.accepts(count):
        raise GraphError(f"{label(value)} is ill formed: it takes {wanted}, not {count} operands")
    for operand in value.operands:
        if known.get(operand.id) is not operand:
            raise GraphError(f"{label(value)} reads {label(operand)}, which does not come before")


def _verify_body(value: Value, body: Body, facts: Facts) -> None:
    try:
        verify(body.graph, facts)
    except GraphError as error:
        raise GraphError(f"in the body of {label(value)}: {error}") from error


def _verify_type(value: Value, facts: Facts) -> None:
    try:
        results = value.op.result_types(facts, *(operand.type for operand in value.operands))
    except (TypeRuleError, Unproved) as error:
        raise GraphError(f"{label(value)} is ill typed: {error}") from error
    except ILL_FORMED as error:
        raise GraphError(f"{label(value)} is ill formed: {error}") from error
    if not 0 <= value.index < len(results):
        raise GraphError(f"{label(value)} is result {value.index} of {len(results)}")
    inferred = results[value.index]
    if not _same_type(facts, inferred, value.type):
        raise GraphError(f"{label(value)} is marked {value.type}, but its op gives {inferred}")


def _same_type(facts: Facts, left: TensorType, right: TensorType) -> bool:
    if left == right:
        return True
    if left.dtype is not right.dtype or left.rank != right.rank:
        return False
    pairs = zip(left.shape, right.shape, strict=True)
    return all(facts.normalize(a) == facts.normalize(b) for a, b in pairs)


def _verify_use(graph: Graph) -> None:
    live = {value.id for value in dependencies(graph.roots)}
    for value in graph.values:
        if value.operands and value.id not in live:
            raise GraphError(f"{label(value)} is computed for nothing")


def _verify_names(graph: Graph, facts: Facts) -> None:
    leaves: dict[str, Leaf] = {}
    for value in graph.values:
        op = value.op
        if isinstance(op, Leaf) and leaves.setdefault(op.name, op) is not op:
            raise GraphError(f"{label(value)} is a second leaf with the name `{op.name}`")
    for name, new in graph.updates.items():
        leaf = leaves.get(name)
        if leaf is None or not leaf.is_persistent:
            raise GraphError(f"{label(new)} updates `{name}`, which is no parameter")
        if not _same_type(facts, new.type, leaf.infer(facts)):
            raise GraphError(f"{label(new)}, a {new.type}, cannot update `{name}`")
