"""`scan`: its body is elaborated once, for an iteration at any index, and becomes one op.

A name that is bound before the scan, and anew in it, is carried and keeps its type: one iteration
proves it for any number of them. The rules are those of the page `scans.md`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.expressions.scan_reads import note_read
from meganeura_dsl.elaborate.body.statements.carried_names import (
    carry_rebound,
    refuse_changed,
    refuse_other_parts,
    two_types,
)
from meganeura_dsl.elaborate.body.statements.carried_weights import (
    in_parts,
    join_parts,
    tensors_in,
)
from meganeura_dsl.elaborate.body.statements.collected_slices import bind_written, collected_slice
from meganeura_dsl.elaborate.body.statements.scan_names import (
    bound_names,
    chosen,
    mentions,
    states_by_name,
)
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import refusal
from meganeura_dsl.elaborate.problems.scan_problems import (
    DiffersByIteration,
    NoIteration,
    misplaced,
)
from meganeura_dsl.elaborate.scope.gradient_names import bound_value
from meganeura_dsl.elaborate.scope.named_values import note_value
from meganeura_dsl.elaborate.scope.new_symbols import new_symbol
from meganeura_dsl.elaborate.scope.open_scan import OpenScan
from meganeura_dsl.elaborate.scope.savepoint import Savepoint
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted
from meganeura_dsl.elaborate.typecheck.positions import (
    Invariants,
    assume_bounds,
    bounds_of,
    kept_bounds,
)
from meganeura_dsl.elaborate.values import (
    ElabValue,
    NamedTensors,
    Tensor,
    describe,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.objectives import Entering
from meganeura_dsl.ir.ops.primitive.loop_region import Carry, Collected, Region
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Compare, Facts, Unproved
from meganeura_dsl.symbolic.size import Dim, Size, dim, show
from meganeura_dsl.syntax import ast

MOST_BOUNDS = 12
"""Bounds of whole numbers that are tried of each of those that iterations carry."""


def run_scan(statement: ast.Scan, frame: Frame) -> tuple[Tensor, ...]:
    """Elaborate one iteration at any index, and bind what all iterations together leave.

    Returns the losses of a `repeat`, each with one entry for each iteration.
    """
    if frame.state.abstract.symbols:
        raise UndecidableError("how many iterations there are may depend on a number")
    with frame.state.without_recovery():
        return _run_iterations(statement, frame, dim(new_symbol(statement.variable.text, frame)))


def _run_iterations(statement: ast.Scan, frame: Frame, index: Dim) -> tuple[Tensor, ...]:
    """Elaborate one iteration at `index`, a new symbol, and bind the results of all."""
    _require_fitting(statement, frame)
    start, stop = (evaluate_size(end, frame) for end in (statement.start, statement.stop))
    facts = frame.facts
    is_certain = _has_iterations(statement, frame, start, stop)
    inside = (
        facts.with_lower_bound(str(index), 0)
        .assume(Compare(">=", index, start))
        .assume(Compare("<", index, stop))
    )
    saved = Savepoint.of(frame)
    iteration = _Iteration(statement, frame, (index, start, stop), inside, is_certain)
    if isinstance(start, int) and isinstance(stop, int) and start >= stop:
        _declare_alone(iteration, saved)
        return ()
    if not is_certain:
        frame.state.uncertain.has_iterations[Compare("<", start, stop)] = None
    known = _known(statement, frame)
    updated = _moving(frame) if isinstance(statement, ast.Repeat) else {}
    while True:
        scan = iteration.run(updated, known)
        updates, kept = _updated(saved, frame, scan), iteration.kept(scan, known)
        if kept == known and updates == updated:
            break
        # The iteration updates states, which the next one reads, or facts from before the first
        # iteration do not hold before the others: run it again.
        saved.undo_iteration(frame)
        updated, known = updates, kept
    _require_slices(scan, facts)
    iterations, states = dict(frame.names), dict(frame.state.body.updates)
    frame.names, frame.state.body.updates = dict(saved.names), dict(saved.body.updates)
    losses = _close(statement, frame, scan, iterations, states)
    join_parts(frame, scan)
    for name, bounds in known.items():
        after = frame.names.get(name, 0)
        if bounds and name in scan.read and name not in scan.written and is_tensor(after):
            assume_bounds(frame, after, bounds)
    learned = frame.facts.stated[len(inside.stated) :] if is_certain else saved.chosen(frame)
    for fact in learned:
        facts = facts.assume(fact)
    frame.build.facts = facts
    return losses


def _moving(frame: Frame) -> dict[str, TensorType]:
    """Returns the types of the parameters that the iterations of a `repeat` may move, by name."""
    state = frame.state
    if not state.context.training:
        return {}
    return {
        name: info.type
        for name, info in state.body.parameters.items()
        if info.kind == "param" and name not in state.body.updates and state.mover(name) is None
    }


def _updated(saved: Savepoint, frame: Frame, scan: OpenScan) -> dict[str, TensorType]:
    """Returns the types of what an iteration updates or moves, by name."""
    return {
        name: of
        for name, of in saved.updated(frame).items()
        if frame.state.body.parameters[name].kind != "param"
        or frame.state.body.updates[name] is not scan.states.get(name)
    }


def _declare_alone(iteration: "_Iteration", saved: Savepoint) -> None:
    """Declare the weights of a scan that has no iteration for these sizes, and leave all as it was.

    The facts of such an iteration exclude each other, so that everything is proved of it.
    """
    frame, facts = iteration.frame, saved.facts
    frame.state.uncertain.is_any_empty = True
    scan = iteration.run({}, {})
    _require_slices(scan, facts)
    ended = {*frame.names, *scan.carried} - {*saved.names, iteration.statement.variable.text}
    frame.names, frame.state.body.updates = dict(saved.names), dict(saved.body.updates)
    frame.scan_locals = {**dict.fromkeys(ended, ""), **frame.scan_locals}
    frame.build.facts = facts
    for fact in saved.chosen(frame):
        frame.build.facts = frame.facts.assume(fact)


def _require_slices(scan: OpenScan, facts: Facts) -> None:
    """Prove that there is an iteration where some tensor is made of what iterations write."""
    if scan.is_certain:
        return
    frame = scan.frame
    assert isinstance(frame, Frame)
    for name, written in scan.written.items():
        try:
            facts.require(Compare("<", scan.start, scan.stop), f"`{name}` gets at least one slice")
        except Unproved as error:
            problem = refusal(frame.location(written.statement.span), error, facts, ())
            raise ProblemError(problem) from error


def _known(statement: ast.Scan, frame: Frame) -> dict[str, Invariants]:
    """Returns bounds of the carried whole numbers before the first iteration."""
    values = {
        name: value
        for name in bound_names(statement)
        if is_tensor(value := frame.names.get(name, 0)) and value.type.dtype is DType.I32
    }
    bounds = dict.fromkeys(each for value in values.values() for each in bounds_of(frame, value))
    tried = (*bounds,)[:MOST_BOUNDS]
    return {name: kept_bounds(frame, value, tried) for name, value in values.items()}


@dataclass(frozen=True)
class _Iteration:
    """An iteration of a scan, to be elaborated."""

    statement: ast.Scan
    frame: Frame
    symbols: tuple[Dim, Size, Size]
    facts: Facts
    is_certain: bool
    """True if there is an iteration for all sizes."""

    def run(self, updated: Mapping[str, TensorType], known: Mapping[str, Invariants]) -> OpenScan:
        """Elaborates an iteration that updates these states, known by their full names.

        The carried whole numbers are taken to be between what is `known`.
        """
        frame, state, (index, _, _) = self.frame, self.frame.state, self.symbols
        names = in_parts(frame.names)
        scan = _opened(self.statement, frame, self.symbols, is_certain=self.is_certain)
        scan.states.update((name, scan.region.leaf(of)) for name, of in updated.items())
        frame.names.update(scan.carried)
        join_parts(frame, scan, keep=True)
        frame.names.update(states_by_name(frame, scan.states))
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
            refuse_other_parts(self.statement, frame, scan)
            frame.names = in_parts(frame.names)
            carry_rebound(frame, scan)
            refuse_changed(self.statement, frame, names, scan)
        finally:
            del state.scans[str(index)]
        return scan

    def kept(self, scan: OpenScan, known: Mapping[str, Invariants]) -> dict[str, Invariants]:
        """Returns the assumed facts that an iteration preserves: by induction they always hold."""
        frame = self.frame
        frame.state.scans[str(scan.index)] = scan
        try:
            return {
                name: kept_bounds(frame, after, bounds)
                if name in scan.read
                and is_tensor(after := frame.names.get(name, scan.carried[name]))
                else bounds
                for name, bounds in known.items()
            }
        finally:
            del frame.state.scans[str(scan.index)]

    def _begin(self, scan: OpenScan) -> None:
        """Read the condition of `while`; an iteration that it skips finds what the first one did.

        So what such an iteration computes, which nobody reads, is as finite as that of the first
        iteration, and its gradient is 0.
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


def _require_fitting(statement: ast.Scan, frame: Frame) -> None:
    """Refuse statements that stand in no iteration."""
    for node in walk(statement):
        match node:
            case ast.Minimize() | ast.Project() if isinstance(statement, ast.Repeat):
                pass
            case ast.Repeat() if node is statement:
                pass
            case (
                ast.Return()
                | ast.Repeat()
                | ast.Minimize()
                | ast.Project()
                | ast.Metric()
                | ast.Show()
                | ast.Run()
            ):
                word, around = (type(each).__name__.lower() for each in (node, statement))
                where, cure = f"does not stand in a `{around}`", misplaced(node, statement)
                raise frame.refuse(node.span, f"`{word}`", where, cure)
            case _:
                pass


def _has_iterations(statement: ast.Scan, frame: Frame, start: Size, stop: Size) -> bool:
    """Returns True if all sizes give an iteration; requires that all give one, or none does.

    Refuses a scan that has none for any size.
    """
    span, facts = statement.span, frame.facts
    for end, node in ((start, statement.start), (stop, statement.stop)):
        if frame.state.differs_by_iteration(end):
            location = frame.location(node.span)
            raise ProblemError(
                DiffersByIteration(location, f"the number of iterations up to `{show(end)}`")
            )
    try:
        facts.require(Compare(">=", start, 0), "a scan counts from 0 or more")
    except Unproved as error:
        raise frame.refused(span, error) from error
    if facts.proves(Compare("<", start, stop)):
        return True
    is_general = frame.state.proof is not None and not frame.choices.assumed
    if is_general and facts.proves(Compare(">=", start, stop)):
        variable = statement.variable.text
        raise ProblemError(NoIteration(frame.location(span), variable, show(start), show(stop)))
    if isinstance(statement, ast.Repeat):
        try:
            facts.require(Compare("<", start, stop), "a `repeat` has an iteration")
        except Unproved as error:
            raise frame.refused(span, error) from error
    return False


def _opened(
    statement: ast.Scan, frame: Frame, symbols: tuple[Dim, Size, Size], *, is_certain: bool
) -> OpenScan:
    index, start, stop = symbols
    region = Region(frame.build, stop - start)
    bound = {name: frame.names[name] for name in bound_names(statement) if name in frame.names}
    bound.pop(statement.variable.text, None)
    before = tensors_in(bound)
    grouped = {name: each for name, each in bound.items() if isinstance(each, NamedTensors)}
    carried = {name: region.leaf(value.type) for name, value in before.items()}
    once = frozenset(name for name, count in mentions(statement).items() if count == 1)
    parts = frozenset(each.target.text for each in walk(statement) if isinstance(each, ast.Part))
    bound = {
        target.text: each
        for each in walk(statement)
        if isinstance(each, ast.Bind)
        for target in each.targets
    }
    return OpenScan(
        frame, region, index, start, stop, frame.build.count, carried, before, parts, once, bound,
        is_certain=is_certain, read=set(in_parts(grouped)), grouped=grouped,
        known=frozenset(frame.state.body.parameters),
    )  # fmt: skip


def _close(
    statement: ast.Scan,
    frame: Frame,
    scan: OpenScan,
    iterations: Mapping[str, ElabValue],
    updates: Mapping[str, Tensor],
) -> tuple[Tensor, ...]:
    """Make the scan, and bind what it leaves; returns the losses of a `repeat`."""
    carries: dict[str, Carry] = {}
    for name, leaf in scan.carried.items():
        after = iterations.get(name, leaf)
        if name not in scan.read:
            if not scan.is_at_start(name, after):
                frame.names.pop(name, None)
                frame.scan_locals[name] = two_types(leaf, after)
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
            _first(frame, name) if name in scan.moved else frame.state.current(name),
            chosen(frame, statement.span, scan, updates[name], leaf),
        )
        for name, leaf in scan.states.items()
    }
    ended = set(iterations) - set(frame.names) - {statement.variable.text}
    frame.scan_locals = {**dict.fromkeys(ended, ""), **frame.scan_locals}
    written = scan.written
    losses = [Collected(each, 0) for each in scan.losses]
    if not carries and not states and not written and not losses:
        return ()
    backward = sum(1 if each.backward else -1 for each in written.values()) > 0
    kept = [Collected(collected_slice(frame, scan, each), each.axis) for each in written.values()]
    ends = [] if scan.goes_on is None else [Collected(scan.goes_on, 0)]
    ending = _ending(statement, frame, scan)
    with frame.state.uncertain.with_iterations(frame.build):
        attributes, operands = scan.region.close(
            [*carries.values(), *states.values(), *ending],
            [*kept, *ends, *losses],
            backward=backward,
        )
    stops = scan.goes_on is not None
    first = frame.add(statement.span, ops.Scan(*attributes, stops=stops), *operands)
    found = frame.build.results_of(first)
    results = found if not losses else [constant(frame, statement.span, each) for each in found]
    for name, result in zip(carries, results, strict=False):
        frame.names[name] = bound_value(frame, statement.span, name, result)
        note_value(frame, name, frame.names[name])
    after = dict(zip(states, results[len(carries) :], strict=False))
    frame.state.body.updates.update(after)
    frame.names.update(states_by_name(frame, after))
    given = results[attributes[2] :]
    bind_written(statement, frame, scan, (given, backward))
    for name in (*carries, *written):
        frame.scan_locals.pop(name, None)
    return tuple(found[len(found) - len(losses) :])


def _first(frame: Frame, name: str) -> Tensor:
    """The value of a parameter before the iterations that move it."""
    leaf = frame.state.body.leaves[name].op
    assert isinstance(leaf, ops.Parameter)
    return frame.build.add(Entering.of(leaf))


def constant(frame: Frame, span: Span, value: Tensor) -> Tensor:
    """A value that no gradient goes through."""
    return frame.add(span, ops.StopGradient(), value) if value.type.dtype.is_float else value


def _ending(statement: ast.Scan, frame: Frame, scan: OpenScan) -> list[Carry]:
    """Returns carries that say, for a scan with `while`, that an earlier iteration was the last."""
    if scan.going is None or scan.goes_on is None:
        return []
    yes = frame.add(statement.span, ops.Constant(value=True, dtype=DType.BOOL))
    return [Carry(scan.going, yes, scan.goes_on)]
