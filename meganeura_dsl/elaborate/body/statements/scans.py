"""`scan`: its body is elaborated once, for a round at any index, and becomes one op.

A name that is bound before the scan, and anew in it, is carried and keeps its type: one round
proves it for any number of them. The rules are those of the page `scans.md`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.scan_reads import note_read, speaks_of_round
from meganeura_dsl.elaborate.body.expressions.subscripts import value_of_part
from meganeura_dsl.elaborate.body.expressions.tensor_parts import entries_of_axes
from meganeura_dsl.elaborate.body.statements.carried_weights import (
    in_parts,
    join_parts,
    tensors_in,
)
from meganeura_dsl.elaborate.problems import origin_cures
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import example_of
from meganeura_dsl.elaborate.problems.scan_problems import (
    DiffersByRound,
    UnstableCarry,
    WronglyCollected,
)
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.gradient_names import bound_value
from meganeura_dsl.elaborate.scope.new_symbols import new_symbol
from meganeura_dsl.elaborate.scope.open_scan import OpenScan, Written
from meganeura_dsl.elaborate.scope.savepoint import Savepoint
from meganeura_dsl.elaborate.scope.scope import Frame, UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size, evaluate_tensor
from meganeura_dsl.elaborate.typecheck.positions import (
    Invariants,
    assume_bounds,
    bounds_of,
    has_bound,
)
from meganeura_dsl.elaborate.typecheck.round_numbers import lifted
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import broadcast, equal, scalar
from meganeura_dsl.elaborate.values import (
    ElabValue,
    LayerWeights,
    Tensor,
    describe,
    is_tensor,
    show_shape,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts, Proved, Unproved, Verdict
from meganeura_dsl.symbolic.size import Dim, Size, dim, show
from meganeura_dsl.syntax import ast

MOST_BOUNDS = 12
"""Bounds of whole numbers that are tried of each of those that rounds carry."""


def run_scan(statement: ast.Scan, frame: Frame) -> None:
    """Elaborate one round at any index, and bind what all rounds together leave."""
    if frame.state.abstract.symbols:
        raise UndecidableError("how many rounds there are may depend on a number")
    with frame.state.without_recovery():
        _run_rounds(statement, frame, dim(new_symbol(statement.variable.text, frame)))


def _run_rounds(statement: ast.Scan, frame: Frame, index: Dim) -> None:
    """Elaborate one round at `index`, a new symbol, and bind what all rounds together leave."""
    _require_fitting(statement, frame)
    start, stop = (evaluate_size(end, frame) for end in (statement.start, statement.stop))
    facts = frame.facts
    _require_rounds(statement, frame, start, stop)
    inside = (
        facts.with_lower_bound(str(index), 0)
        .assume(Compare(">=", index, start))
        .assume(Compare("<", index, stop))
    )
    saved = Savepoint.of(frame)
    round_ = _Round(statement, frame, (index, start, stop), inside)
    known = _known(statement, frame)
    updated: dict[str, TensorType] = {}
    while True:
        scan = round_.run(updated, known)
        updates, kept = saved.updated(frame), round_.kept(scan, known)
        if kept == known and (updated or not updates):
            break
        # The round updates states, so that it finds what the round before it left of them, or what
        # was known before the first round is not so before the others.
        saved.undo_iteration(frame)
        updated, known = updated or updates, kept
    rounds, states = dict(frame.names), dict(frame.state.body.updates)
    frame.names, frame.state.body.updates = dict(saved.names), dict(saved.body.updates)
    _close(statement, frame, scan, rounds, states)
    join_parts(frame, scan)
    for name, bounds in known.items():
        after = frame.names.get(name, 0)
        if bounds and name in scan.read and name not in scan.written and is_tensor(after):
            assume_bounds(frame, after, bounds)
    for chosen in frame.facts.stated[len(inside.stated) :]:
        facts = facts.assume(chosen)
    frame.build.facts = facts


def _known(statement: ast.Scan, frame: Frame) -> dict[str, Invariants]:
    """What carried whole numbers are between before the first round, of the bounds of them all."""
    values = {
        name: value
        for name in _bound(statement)
        if is_tensor(value := frame.names.get(name, 0)) and value.type.dtype is DType.I32
    }
    bounds = dict.fromkeys(each for value in values.values() for each in bounds_of(frame, value))
    tried = [*bounds][:MOST_BOUNDS]
    return {
        name: tuple(each for each in tried if has_bound(frame, value, *each))
        for name, value in values.items()
    }


@dataclass(frozen=True)
class _Round:
    """A round of a scan, to be elaborated."""

    statement: ast.Scan
    frame: Frame
    symbols: tuple[Dim, Size, Size]
    facts: Facts

    def run(self, updated: Mapping[str, TensorType], known: Mapping[str, Invariants]) -> OpenScan:
        """What a round does that updates these states, known by their full names.

        The carried whole numbers are taken to be between what is `known`.
        """
        frame, state, (index, _, _) = self.frame, self.frame.state, self.symbols
        names = in_parts(frame.names)
        scan = _opened(self.statement, frame, self.symbols)
        scan.states.update((name, scan.region.leaf(of)) for name, of in updated.items())
        frame.names.update(scan.carried)
        join_parts(frame, scan, keep=True)
        frame.names.update(_named(frame, scan.states))
        frame.names[self.statement.variable.text] = index
        state.body.updates.update(scan.states)
        frame.build.facts = self.facts
        for name, bounds in known.items():
            if name in scan.carried and bounds:
                assume_bounds(frame, scan.carried[name], bounds)
        state.scans[str(index)] = scan
        try:
            self._begin(scan)
            join_parts(frame, scan)
            frame.execute(self.statement.body)
            frame.names = in_parts(frame.names)
            _carry_rebound(frame, scan)
            _refuse_changed(self.statement, frame, names, scan)
        finally:
            del state.scans[str(index)]
        return scan

    def kept(self, scan: OpenScan, known: Mapping[str, Invariants]) -> dict[str, Invariants]:
        """Of what was taken to be known, what a round leaves so: by induction it always is."""
        frame = self.frame
        frame.state.scans[str(scan.index)] = scan
        try:
            return {
                name: tuple(
                    (operator, bound)
                    for operator, bound in bounds
                    if name not in scan.read
                    or not is_tensor(after := frame.names.get(name, scan.carried[name]))
                    or has_bound(frame, after, operator, bound)
                )
                for name, bounds in known.items()
            }
        finally:
            del frame.state.scans[str(scan.index)]

    def _begin(self, scan: OpenScan) -> None:
        """Read the condition of `while`; a round that it leaves out finds what the first one did.

        So what such a round computes, which nobody reads, is as finite as that of the first round,
        and its gradient is 0.
        """
        node, frame = self.statement.condition, self.frame
        if node is None:
            return
        going = scan.going = scan.region.leaf(TensorType(DType.BOOL, ()))
        condition = frame.evaluate(node)
        condition = lifted(frame, node.span, condition)
        if not is_tensor(condition) or condition.type != going.type:
            location, cure = frame.location(node.span), "reduce it     any(...)"
            raise ProblemError(WrongKind(location, "a tensor bool[]", describe(condition), cure))
        no = frame.add(node.span, ops.Constant(value=False, dtype=DType.BOOL))
        scan.goes_on = frame.add(node.span, ops.Where(), going, condition, no)
        for name, leaf in scan.carried.items():
            if frame.names.get(name) is leaf:
                safe = chosen(frame, node.span, scan, leaf, scan.before[name])
                frame.names[name] = scan.safe[name] = safe


def chosen(frame: Frame, span: Span, scan: OpenScan, value: Tensor, otherwise: Tensor) -> Tensor:
    """The value of a round, or another one of a round that `while` left out."""
    if scan.goes_on is None:
        return value
    going = broadcast(frame, span, scan.goes_on, value.type.shape, ())
    return frame.add(span, ops.Where(), going, value, otherwise)


def _named(frame: Frame, states: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The states that have a name in the block itself, by that name."""
    return {name: states[full] for name in frame.own if (full := frame.join(name)) in states}


def _require_fitting(statement: ast.Scan, frame: Frame) -> None:
    """Refuse statements that stand in no round."""
    for node in walk(statement):
        match node:
            case ast.Return() | ast.Minimize() | ast.Metric() | ast.Show() | ast.Run():
                word = type(node).__name__.lower()
                raise frame.refuse(node.span, f"`{word}`", "does not stand in a `scan`")
            case _:
                pass


def _require_rounds(statement: ast.Scan, frame: Frame, start: Size, stop: Size) -> None:
    """Prove that there is a round, and that their number is one for all."""
    span = statement.span
    for end, node in ((start, statement.start), (stop, statement.stop)):
        if frame.state.differs_by_round(end):
            location = frame.location(node.span)
            raise ProblemError(
                DiffersByRound(location, f"the number of rounds up to `{show(end)}`")
            )
    for condition, reason in (
        (Compare(">=", start, 0), "a scan counts from 0 or more"),
        (Compare("<", start, stop), "a scan has at least one round"),
    ):
        try:
            frame.facts.require(condition, reason)
        except Unproved as error:
            raise frame.refused(span, error) from error


def _opened(statement: ast.Scan, frame: Frame, symbols: tuple[Dim, Size, Size]) -> OpenScan:
    index, start, stop = symbols
    region = Region(frame.build, stop - start)
    bound = {name: frame.names[name] for name in _bound(statement) if name in frame.names}
    bound.pop(statement.variable.text, None)
    before = tensors_in(bound)
    weights = {name: each for name, each in bound.items() if isinstance(each, LayerWeights)}
    carried = {name: region.leaf(value.type) for name, value in before.items()}
    once = frozenset(name for name, count in _mentions(statement).items() if count == 1)
    parts = frozenset(each.target.text for each in walk(statement) if isinstance(each, ast.Part))
    bound = {
        target.text: each
        for each in walk(statement)
        if isinstance(each, ast.Bind)
        for target in each.targets
    }
    return OpenScan(
        frame, region, index, start, stop, frame.build.count, carried, before, parts, once, bound,
        read=set(in_parts(weights)), weights=weights,
    )  # fmt: skip


def _bound(statement: ast.Scan) -> list[str]:
    """The names that a round binds, each once."""
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


def _mentions(statement: ast.Scan) -> Counter[str]:
    """Returns how often each name stands in a round, where what a loop repeats counts twice."""
    nodes = list(walk(statement))
    repeated = [node for loop in nodes if isinstance(loop, ast.For) for node in walk(loop)]
    return Counter(each.text for each in (*nodes, *repeated) if isinstance(each, ast.Name))


# --- what is collected ---------------------------------------------------------------------------


def collects(statement: ast.Part, frame: Frame) -> bool:
    """Returns True if a part is collected: the slice of one round in a tensor that all write.

    It does if the name is not bound, and if the rounds write a tensor from before the scan whole
    and do nothing else with it. Otherwise the part is replaced in what the round finds.
    """
    scan, name = next(reversed(frame.state.scans.values()), None), statement.target.text
    if scan is None or scan.frame is not frame:
        return False
    return name not in frame.names or _is_rewritten(statement, frame, scan)


def _is_rewritten(statement: ast.Part, frame: Frame, scan: OpenScan) -> bool:
    """Returns whether the rounds write each slice of what they find once, and never read it."""
    name = statement.target.text
    if name not in scan.named_once or not scan.is_at_start(name, frame.names[name]):
        return False
    if not any(speaks_of_round(each, frame) for each in statement.entries):
        return False
    shape = scan.before[name].type.shape
    found = _slice_entry(frame, statement, len(shape))
    if found is None or not isinstance(equal(frame, shape[found[0]], scan.rounds), Proved):
        return False
    return _direction(frame, scan, evaluate_size(found[1], frame)) is not None


def write_part(statement: ast.Part, frame: Frame) -> None:
    """Collect a value of a round, as a slice of its own of what all rounds write."""
    scan, name = next(reversed(frame.state.scans.values())), statement.target.text
    location = frame.location(statement.span)
    if name in scan.written:
        fault = f"a round writes `{name}` twice"
        raise ProblemError(WronglyCollected(location, fault, "the second time", _begin(name)))
    value = _slice_value(statement, frame, scan)
    found = _slice_entry(frame, statement, value.type.rank + 1)
    if found is None:
        fault = f"a round writes one slice of `{name}`"
        raise ProblemError(
            WronglyCollected(
                location, fault, "one entry is the slice, the others `:`", _begin(name)
            )
        )
    axis, entry = found
    if len(statement.entries) > value.type.rank + 1:
        wrong = f"{len(statement.entries)} entries for the slices of {value.type}"
        raise ProblemError(WronglyCollected(location, f"`{name}` has fewer axes", wrong))
    at = evaluate_size(entry, frame)
    backward = _direction(frame, scan, at)
    if backward is None:
        raise _not_in_order(statement, entry, frame, scan, at)
    scan.written[name] = Written(value, axis, backward, statement)
    frame.names.pop(name, None)


def _begin(name: str) -> Help:
    """Returns advice for rounds that do more with a tensor than to collect it."""
    words = "rounds replace any part of a tensor that is bound before the scan"
    return Help(words, f"{name} = zeros([...])")


def _slice_value(statement: ast.Part, frame: Frame, scan: OpenScan) -> Tensor:
    """Returns the slice that a round writes; one of a tensor from before the scan has its type."""
    name = statement.target.text
    if name not in frame.names:
        return evaluate_tensor(statement.value, frame)
    before = scan.before[name].type
    found = _slice_entry(frame, statement, before.rank)
    assert found is not None
    shape = (*before.shape[: found[0]], *before.shape[found[0] + 1 :])
    return value_of_part(statement.value, name, TensorType(before.dtype, shape), frame)


def _slice_entry(frame: Frame, statement: ast.Part, rank: int) -> tuple[int, ast.Expression] | None:
    """Returns the axis and the entry of the only slice that is written; None if it is not one."""
    entries = entries_of_axes(frame, statement.span, statement.entries, rank)
    at = [axis for axis, each in enumerate(entries) if not _is_all(each)]
    entry = entries[at[0]] if len(at) == 1 else None
    return None if entry is None or isinstance(entry, ast.Range) else (at[0], entry)


def _is_all(entry: ast.AxisEntry) -> bool:
    return isinstance(entry, ast.Range) and entry.start is None and entry.stop is None


def _direction(frame: Frame, scan: OpenScan, at: Size) -> bool | None:
    """Returns whether the slices are written from the last to the first; None if in no order."""
    if isinstance(equal(frame, at, scan.index - scan.start), Proved):
        return False
    return True if isinstance(equal(frame, at, scan.stop - 1 - scan.index), Proved) else None


def _not_in_order(
    statement: ast.Part, entry: ast.Expression, frame: Frame, scan: OpenScan, at: Size
) -> ProblemError:
    name, t = statement.target.text, scan.index
    first, last = t - scan.start, scan.stop - 1 - t
    cure = f"write slice {show(first)}, or {show(last)} to begin with the last"
    fault = f"not every slice of `{name}` is written once"
    share, rest = at.split(str(t)) if isinstance(at, Dim) else (0, at)
    if share == 1 and frame.facts.proves(Compare(">", rest + scan.start, 0)):
        fault = f"slice 0 of `{name}` is never written"
    found = f"{show(t)} runs from {show(scan.start)} to {show(scan.stop - 1)}"
    return ProblemError(WronglyCollected(frame.location(entry.span), fault, found, Help(cure)))


# --- what is carried -----------------------------------------------------------------------------


def _carry_rebound(frame: Frame, scan: OpenScan) -> None:
    """Note the names that a round binds anew without reading them, and leaves to the next.

    One that a round binds to another type belongs to that round alone.
    """
    for name, leaf in scan.carried.items():
        after = frame.names.get(name)
        if name in scan.read or after is None or scan.is_at_start(name, after):
            continue
        if _same_type(frame, leaf, after)[0]:
            scan.read.add(name)


def _refuse_changed(
    statement: ast.Scan, frame: Frame, before: Mapping[str, ElabValue], scan: OpenScan
) -> None:
    """Refuse a round that leaves another type, or another number, than it finds."""
    for name, value in before.items():
        after = frame.names.get(name)
        if name == statement.variable.text or after is None or name in scan.written:
            continue
        if is_tensor(value):
            if after is value or name not in scan.read:
                continue
            same, verdict = _same_type(frame, value, after)
            if same:
                continue
        elif after is value or (type(after) is type(value) and after == value):
            continue
        else:
            verdict = None
        raise ProblemError(_unstable(statement, frame, name, (value, after), verdict))


def _same_type(frame: Frame, value: Tensor, after: ElabValue) -> tuple[bool, Verdict | None]:
    if not is_tensor(after) or after.type.rank != value.type.rank:
        return False, None
    for one, other in zip(value.type.shape, after.type.shape, strict=True):
        verdict = equal(frame, one, other)
        if not isinstance(verdict, Proved):
            return False, verdict
    return after.type.dtype is value.type.dtype, None


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
    cure = Help("collect what grows", f"y[:, {statement.variable.text}] = ...")
    if is_tensor(before) and is_tensor(after) and not _grows(frame, before, after):
        first, later = show_shape(before.type.shape), show_shape(after.type.shape)
        cure = origin_cures.initial_cure(name, before, after) or Help(
            f"`{name}` is one tensor for all rounds: let a round end with {first},\n"
            f"or begin with {later}; what has another shape gets a name of its own"
        )
    if not is_tensor(before):
        cure = Help(f"begin with a tensor, such as `{name} = zeros([...])`")
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
    return UnstableCarry(
        frame.location(span), name, _shown(before, after), _shown(after, before), example, cure
    )


def _grows(frame: Frame, before: Tensor, after: Tensor) -> bool:
    """Whether a round adds entries to an axis for every size, or adds an axis."""
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


def _close(
    statement: ast.Scan,
    frame: Frame,
    scan: OpenScan,
    rounds: Mapping[str, ElabValue],
    updates: Mapping[str, Tensor],
) -> None:
    """Make the scan, and bind what it leaves."""
    carries: dict[str, Carry] = {}
    for name, leaf in scan.carried.items():
        after = rounds.get(name, leaf)
        if name not in scan.read:
            if not scan.is_at_start(name, after):
                frame.names.pop(name, None)
                frame.scan_locals[name] = _two_types(leaf, after)
            continue
        assert is_tensor(after)
        if name in scan.written:
            where = "is read in the scan that writes it by parts"
            raise frame.refuse(statement.span, f"`{name}`", where)
        note_read(frame, name, scan.before[name])
        after = chosen(frame, statement.span, scan, after, leaf)
        carries[name] = Carry(leaf, scan.before[name], after)
    states = {
        name: Carry(
            leaf,
            frame.state.current(name),
            chosen(frame, statement.span, scan, updates[name], leaf),
        )
        for name, leaf in scan.states.items()
    }
    ended = set(rounds) - set(frame.names) - {statement.variable.text}
    frame.scan_locals = {**dict.fromkeys(ended, ""), **frame.scan_locals}
    written = scan.written
    if not carries and not states and not written:
        return
    backward = sum(1 if each.backward else -1 for each in written.values()) > 0
    kept = [Collected(_collected(frame, scan, each), each.axis) for each in written.values()]
    ends = [] if scan.goes_on is None else [Collected(scan.goes_on, 0)]
    attributes, operands = scan.region.close(
        [*carries.values(), *states.values(), *_ending(statement, frame, scan)],
        [*kept, *ends],
        backward=backward,
    )
    stops = scan.goes_on is not None
    first = frame.add(statement.span, ops.Scan(*attributes, stops=stops), *operands)
    results = frame.build.results_of(first)
    for name, result in zip(carries, results, strict=False):
        frame.names[name] = bound_value(frame, statement.span, name, result)
    after = dict(zip(states, results[len(carries) :], strict=False))
    frame.state.body.updates.update(after)
    frame.names.update(_named(frame, after))
    given = results[attributes[2] :]
    _bind_written(statement, frame, scan, (given, backward))
    for name in (*carries, *written):
        frame.scan_locals.pop(name, None)


def _two_types(before: Tensor, after: ElabValue) -> str:
    """Returns words on a name that a round binds to another type than before the scan."""
    bound = str(after.type) if is_tensor(after) else describe(after)
    return f"it is {before.type} before the scan, and {bound} in each round"


def _bind_written(
    statement: ast.Scan, frame: Frame, scan: OpenScan, collected: tuple[Sequence[Tensor], bool]
) -> None:
    """Bind what was collected, in the order in which it was written."""
    given, backward = collected
    for (name, each), built in zip(scan.written.items(), given, strict=False):
        turned = each.backward is not backward
        result = _in_order(statement, frame, built, each.axis, turned=turned)
        if scan.goes_on is not None and name in scan.before:
            wrote = _in_order(statement, frame, given[-1], 0, turned=turned)
            whole = broadcast(frame, statement.span, wrote, result.type.shape, (each.axis,))
            result = frame.add(statement.span, ops.Where(), whole, result, scan.before[name])
        frame.names[name] = bound_value(frame, each.statement.target.span, name, result)
        if not frame.module.is_library:
            span = each.statement.target.span
            frame.state.body.bindings.append(Binding(span, name, frame.path, result.type))


def _in_order(
    statement: ast.Scan, frame: Frame, stack: Tensor, axis: int, *, turned: bool
) -> Tensor:
    """What was collected, which is turned round if it was written the other way."""
    return frame.add(statement.span, ops.Reverse((axis,)), stack) if turned else stack


def _ending(statement: ast.Scan, frame: Frame, scan: OpenScan) -> list[Carry]:
    """What tells a round of a scan with `while` that one before it was the last."""
    if scan.going is None or scan.goes_on is None:
        return []
    yes = frame.add(statement.span, ops.Constant(value=True, dtype=DType.BOOL))
    return [Carry(scan.going, yes, scan.goes_on)]


def _collected(frame: Frame, scan: OpenScan, written: Written) -> Tensor:
    """A slice that a round writes; 0 of a round that `while` left out."""
    if scan.goes_on is None:
        return written.value
    of, span = written.value.type, written.statement.span
    value = False if of.dtype is DType.BOOL else 0
    return chosen(frame, span, scan, written.value, scalar(frame, span, value, of.dtype, of.shape))
