"""The names that the iterations of a `scan` bind, read and choose among."""

from collections import Counter
from collections.abc import Mapping

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.tensor_values import broadcast, equal
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Tensor,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.assumptions import Proved, Verdict
from meganeura_dsl.syntax import ast


def chosen(frame: Frame, span: Span, scan: OpenScan, value: Tensor, otherwise: Tensor) -> Tensor:
    """The value of an iteration, or another one of an iteration that `while` left out."""
    if scan.goes_on is None:
        return value
    going = broadcast(frame, span, scan.goes_on, value.type.shape, ())
    return frame.add(span, ops.Where(), going, value, otherwise)


def states_by_name(frame: Frame, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The states that have a name in the block itself, by that name."""
    return {name: states[full] for name in frame.own if (full := frame.join(name)) in states}


def bound_names(statement: ast.Scan) -> list[str]:
    """The names that an iteration binds, each once."""
    found: dict[str, None] = {}
    for node in walk(statement):
        match node:
            case ast.Bind(targets=targets):
                found.update((target.text, None) for target in targets)
            case ast.Part(target=target):
                found[target.text] = None
            case _:
                pass
    return sorted(found)


def mentions(statement: ast.Scan) -> Counter[str]:
    """Returns how often each name stands in an iteration; what a loop repeats counts twice."""
    nodes = list(walk(statement))
    repeated = [node for loop in nodes if isinstance(loop, ast.For) for node in walk(loop)]
    return Counter(each.text for each in (*nodes, *repeated) if isinstance(each, ast.Name))


def has_same_type(frame: Frame, value: Tensor, after: ElabValue) -> tuple[bool, Verdict | None]:
    """Returns True if an iteration keeps the type of a tensor; else the verdict on a size."""
    if not is_tensor(after) or after.type.rank != value.type.rank:
        return False, None
    for one, other in zip(value.type.shape, after.type.shape, strict=True):
        verdict = equal(frame, one, other)
        if not isinstance(verdict, Proved):
            return False, verdict
    return after.type.dtype is value.type.dtype, None
