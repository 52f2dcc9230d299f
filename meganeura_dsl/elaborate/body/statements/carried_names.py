"""Names that the iterations of a `scan` carry, which keep their types."""

import re
from collections.abc import Mapping
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.statements.scan_names import has_same_type
from meganeura_dsl.elaborate.problems import origin_cures
from meganeura_dsl.elaborate.problems.proof_failures import example_of
from meganeura_dsl.elaborate.problems.scan_problems import (
    UnstableCarry,
)
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.values import (
    ElabValue,
    NamedTensors,
    Tensor,
    describe,
    is_tensor,
    show_shape,
)
from meganeura_dsl.symbolic.assumptions import Compare, Proved, Verdict
from meganeura_dsl.syntax import ast


def carry_rebound(frame: Frame, scan: OpenScan) -> None:
    """Note the names that an iteration binds anew without reading them, and leaves to the next.

    One that an iteration binds to another type belongs to that iteration alone.
    """
    for name, leaf in scan.carried.items():
        after = frame.names.get(name)
        if name in scan.read or after is None or scan.is_at_start(name, after):
            continue
        if has_same_type(frame, leaf, after)[0]:
            scan.read.add(name)


def refuse_other_parts(statement: ast.Scan, frame: Frame, scan: OpenScan) -> None:
    """Refuse an iteration that leaves something else in place of weights or of named results."""
    for name, value in scan.grouped.items():
        after = frame.names.get(name, value)
        if isinstance(after, NamedTensors) and after.names == value.names:
            continue
        problem = _unstable(statement, frame, name, (value, after), None)
        cure = Help("what an iteration binds to another kind of value needs another name")
        raise ProblemError(replace(problem, cure=cure))


def refuse_changed(
    statement: ast.Scan, frame: Frame, before: Mapping[str, ElabValue], scan: OpenScan
) -> None:
    """Refuse an iteration that leaves another type, or another number, than it finds."""
    for name, value in before.items():
        after = frame.names.get(name)
        if name == statement.variable.text or after is None or name in scan.written:
            continue
        if is_tensor(value):
            if after is value or name not in scan.read:
                continue
            same, verdict = has_same_type(frame, value, after)
            if same:
                continue
        elif after is value or (type(after) is type(value) and after == value):
            continue
        else:
            verdict = None
        raise ProblemError(_unstable(statement, frame, name, (value, after), verdict))


def _growing_axis(before: Tensor, after: Tensor) -> int:
    """Returns the first axis along which an iteration leaves another size; 1 if there is none.

    What gains an axis is collected behind the first, which counts examples.
    """
    if before.type.rank != after.type.rank:
        return 1
    pairs = zip(before.type.shape, after.type.shape, strict=False)
    return next((axis for axis, (old, new) in enumerate(pairs) if old != new), 1)


def _unstable(
    statement: ast.Scan,
    frame: Frame,
    name: str,
    values: tuple[ElabValue, ElabValue],
    verdict: Verdict | None,
) -> UnstableCarry:
    before, after = values
    example = None
    if verdict is not None and is_tensor(before) and is_tensor(after):
        shapes = [("before", before.type.shape), ("after", after.type.shape)]
        example = example_of(verdict, shapes)
    axis = _growing_axis(before, after) if is_tensor(before) and is_tensor(after) else 1
    place = ", ".join((*":" * axis, statement.variable.text))
    cure, begun = Help("collect what grows", f"y[{place}] = ..."), None
    if is_tensor(before) and is_tensor(after) and not _grows(frame, before, after):
        first, later = show_shape(before.type.shape), show_shape(after.type.shape)
        cure = origin_cures.initial_cure(name, before, after) or Help(
            f"`{name}` is one tensor for all iterations: let an iteration end with {first},\n"
            f"or begin with {later}; what has another shape gets a name of its own"
        )
    elif is_tensor(before) and is_tensor(after) and before.type.rank < after.type.rank:
        begun = origin_cures.initial_cure(name, before, after)
        cure = begun or cure
    if not is_tensor(before):
        cure = _collected(statement, name) or Help(
            f"begin with a tensor, such as `{name} = zeros([...])`"
        )
    elif is_tensor(after) and before.type.dtype is not after.type.dtype:
        cure = Help(f"convert it: `{before.type.dtype.value}(...)`")
    written = [
        target.span
        for node in walk(statement)
        if isinstance(node, ast.Bind)
        for target in node.targets
        if target.text == name
    ]
    span = max(written, key=lambda each: each.start, default=statement.variable.span)
    if begun is not None and is_tensor(before) and before.origin.span is not None:
        span = before.origin.span
    return UnstableCarry(
        frame.location(span), name, _shown(before, after), _shown(after, before), example, cure
    )


def _collected(statement: ast.Scan, name: str) -> Help | None:
    """The cure for iterations that add an entry to a list: the scan collects it."""
    added = rf"{re.escape(name)} = {re.escape(name)} \+ \[(.+)\]"
    for node in walk(statement):
        found = re.fullmatch(added, " ".join(node.span.text.split()))
        if found is None or not isinstance(node, ast.Bind):
            continue
        alone = re.fullmatch(r"insert_axis\((.+), 1, 1\)", found[1])
        value, index = alone[1] if alone else found[1], statement.variable.text
        text = (
            f"a scan collects what each iteration makes: `{name}` has it along axis 1, without\n"
            f"`{name} = []` before and `concat` behind"
        )
        return Help(text, f"{name}[:, {index}] = {value}")
    return None


def _grows(frame: Frame, before: Tensor, after: Tensor) -> bool:
    """True if an iteration adds entries to an axis for every size, or adds an axis."""
    if before.type.rank != after.type.rank:
        return before.type.rank < after.type.rank
    pairs = zip(before.type.shape, after.type.shape, strict=True)
    return any(isinstance(frame.facts.decide(Compare(">", b, a)), Proved) for a, b in pairs)


def _shown(value: ElabValue, other: ElabValue) -> str:
    if not is_tensor(value):
        return describe(value)
    if is_tensor(other) and other.type.dtype is value.type.dtype:
        return show_shape(value.type.shape)
    return str(value.type)


def two_types(before: Tensor, after: ElabValue) -> str:
    """Returns words on a name that an iteration binds to another type than before the scan."""
    bound = str(after.type) if is_tensor(after) else describe(after)
    return f"it is {before.type} before the scan, and {bound} in each iteration"
