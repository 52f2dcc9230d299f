"""The scope of a block that is elaborated: its names, and its place in the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Unpack, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.problems.parameter_problems import InputSizedParameter
from meganeura_dsl.elaborate.problems.path_problems import DuplicatePath, applied_again
from meganeura_dsl.elaborate.problems.proof_failures import is_countable, refusal, require_countable
from meganeura_dsl.elaborate.problems.resolution_cures import Around
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.scope.body import Body
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.proof import Abstraction, Proof, ProofPath
from meganeura_dsl.elaborate.scope.state import (
    Context,
    ContextChanges,
    ElaboratedObjective,
    Memo,
    Repeated,
    SymbolicLoops,
    Train,
    Uncertain,
)
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.value_facts import ValueFacts
from meganeura_dsl.elaborate.values import Axes, Opaque, is_symbolic
from meganeura_dsl.ir.graph import Builder, Op, Origin, TypeRuleError
from meganeura_dsl.ir.objectives import Moved
from meganeura_dsl.ir.ops import Parameter, StopGradient
from meganeura_dsl.limits.language_limits import EXPRESSION
from meganeura_dsl.limits.work_budget import OutOfWorkError, spend
from meganeura_dsl.symbolic.assumptions import Compare, Facts, Unproved
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, show

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.problem import Help, Problem
    from meganeura_dsl.diagnostics.source import Span
    from meganeura_dsl.elaborate.scope.arguments import Arguments
    from meganeura_dsl.elaborate.scope.linker import LinkedModule
    from meganeura_dsl.elaborate.scope.open_scan import OpenScan
    from meganeura_dsl.elaborate.scope.recovery import Recovery
    from meganeura_dsl.elaborate.values import ElabValue, Results, Tensor
    from meganeura_dsl.ir.initializers import Initializer
    from meganeura_dsl.ir.types import TensorType
    from meganeura_dsl.syntax import ast

    Statements = tuple[ast.Statement, ...]


_WORD = re.compile(r"[A-Za-z_]\w*'*")
"""A word of a path; the index of a loop may have marks behind it."""


MODES = ("training", "frozen")
"""The arguments that every application takes."""


@dataclass(frozen=True)
class Elaborator:
    """The walk over syntax: what evaluates each form of expression, and what runs statements.

    The functions are in `body`. They come back to one another through `Frame.evaluate`,
    `Frame.execute` and `apply_block`, and in no other way.
    """

    expressions: Mapping[type[ast.Node], Callable[..., ElabValue]]
    """The function of a node and a frame that evaluates each form of expression."""
    run: Callable[[ast.Statement, Frame, Statements], Results | None]
    """Runs a statement before others; returns the results of a `return`, None if there is none."""
    run_recovered: Callable[[ast.Statement, Frame, Statements], Results | None]
    """Runs a statement of a declaration that was refused, for all that is wrong with it."""
    apply_block: Callable[[ast.Call, BoundBlock, Arguments, Frame], Results]
    """Applies a block value as a call says; returns its results."""


@dataclass
class ElaborationState:
    """State shared by all frames of one elaboration."""

    elaborator: Elaborator
    build: Builder
    context: Context = field(default_factory=Context)
    body: Body = field(default_factory=Body)
    train: Train = field(default_factory=Train)
    values: ValueFacts = field(default_factory=ValueFacts)
    loops: SymbolicLoops = field(default_factory=SymbolicLoops)
    proof: Proof[Frame] | None = None
    """The state of a proof for all sizes and configurations; None in a walk with numbers."""
    abstract: Abstraction[Frame] = field(default_factory=Abstraction["Frame"])
    memo: Memo = field(default_factory=Memo)
    scans: dict[str, OpenScan] = field(default_factory=dict[str, "OpenScan"])
    """The scans whose bodies are being elaborated, by the symbols of their indices."""
    uncertain: Uncertain = field(default_factory=Uncertain)
    """Scans before this that may have no iteration."""
    recovery: Recovery | None = None
    """The state of a recovery, if a refused block is run again for all of its problems."""

    def in_order(self) -> tuple[ParameterInfo, ...]:
        """All parameters, those of a layer where the layer was declared."""
        if not self.body.declared_layers:
            return tuple(self.body.parameters.values())
        places = {
            path: (before, 0, index)
            for index, (path, before) in enumerate(self.body.declared_layers.items())
        }

        def location(item: tuple[int, ParameterInfo]) -> tuple[tuple[int, int, int], ...]:
            """The places of the layers around a parameter, in their order, and its own."""
            number, info = item
            words = info.name.split(".")
            paths = accumulate(words[:-1], "{}.{}".format)
            around = sorted((places[path] for path in paths if path in places), key=itemgetter(2))
            return (*around, (number, 1, 0))

        return tuple(
            info for _, info in sorted(enumerate(self.body.parameters.values()), key=location)
        )

    def note_repeated(self, name: str, problem: Problem) -> None:
        """Keep the problem of a second iteration for each loop whose index is not in a new name."""
        facts, words = self.build.facts, _WORD.findall(name)
        found = (Repeated(each, problem, facts) for each in self.loops.open if each not in words)
        self.loops.repeated += tuple(found)

    @contextmanager
    def within(self, **changes: Unpack[ContextChanges]) -> Generator[None]:
        """Elaborates the `with` block in a context with these changes."""
        before = self.context
        self.context = replace(before, **changes)
        try:
            yield
        finally:
            self.context = before

    @contextmanager
    def without_recovery(self) -> Generator[None]:
        """Runs attempts in the `with` block that may fail for other reasons than a mistake."""
        before, self.recovery = self.recovery, None
        try:
            yield
        finally:
            self.recovery = before

    @contextmanager
    def shared_later(self) -> Generator[None]:
        """Marks declarations of the `with` block as shared by further iterations."""
        before, self.loops.open = self.loops.open, ()
        try:
            yield
        finally:
            self.loops.open = before

    def claim(self, name: str, location: Location, label: str, *, is_sure: bool = False) -> None:
        """Reserve a path for the weights of a layer that is not looked into.

        `is_sure` says that it has some there whatever it is given.
        """
        declared = self.body.parameters.get(name)
        first = (
            self.body.claimed.setdefault(name, location) if declared is None else declared.location
        )
        if first is location:
            first = self._unknown_around(name) or location
        if first is not location and not self.context.shared:
            self._refuse_again(DuplicatePath(location, name, first, label))
        if is_sure and self.loops.open and not self.context.shared:
            self.note_repeated(name, DuplicatePath(location, name, location, label))

    def claim_below(self, path: str, location: Location, label: str) -> None:
        """Reserve all paths below that of a block of which only its header is known."""
        known = {
            **self.body.claimed,
            **{each.name: each.location for each in self.body.parameters.values()},
        }
        first = next((at for name, at in known.items() if name.startswith(f"{path}.")), None)
        if first is not None and not self.context.shared:
            raise ProblemError(DuplicatePath(location, path, first, label))
        self.body.claimed[f"{path}.*"] = location

    def _unknown_around(self, name: str) -> Location | None:
        """Returns the place of a block around a path, if only its header is known."""
        if self.proof is None or not self.proof.contracts:
            return None
        parts = name.split(".")
        paths = (".".join(parts[:count]) for count in range(1, len(parts)))
        return next(
            (
                self.body.claimed[each]
                for path in paths
                if (each := f"{path}.*") in self.body.claimed
            ),
            None,
        )

    def _refuse_again(self, problem: Problem) -> None:
        """Refuse a path that is taken; a recovery goes on, as the type of the layer is known."""
        if self.recovery is None:
            raise ProblemError(problem)
        self.recovery.add(problem)

    def _is_same(self, first: TensorType, again: TensorType) -> bool:
        """True if two types are equal for all sizes the facts admit."""
        if first == again:
            return True
        if first.dtype is not again.dtype or first.rank != again.rank:
            return False
        pairs = zip(first.shape, again.shape, strict=True)
        return all(self.build.facts.proves(Compare("==", a, b)) for a, b in pairs)

    def declare(self, info: ParameterInfo, label: str) -> Tensor:
        """The leaf of a parameter, made at its first declaration and refused at a second."""
        known = self.body.parameters.get(info.name)
        if known is not None:
            if not self.context.shared:
                self._refuse_again(DuplicatePath(info.location, info.name, known.location, label))
                return self.declare(info.named(f"{info.name}#"), label)
            if not self._is_same(known.type, info.type):
                weights = {name: each.type for name, each in self.body.parameters.items()}
                here, types = self.context.again or info.location, (known.type, info.type)
                self._refuse_again(
                    applied_again(here, info.name, types, known.location, label, weights)
                )
                return self.declare(info.named(f"{info.name}#"), label)
            return self.current(info.name)
        first = self.body.claimed.get(info.name) or self._unknown_around(info.name)
        if first is not None and not self.context.shared:
            self._refuse_again(DuplicatePath(info.location, info.name, first, label))
        if self.proof is None and info.kind != "cache":
            symbolic = {
                name
                for size in info.type.shape
                if isinstance(size, Dim)
                for name in size.variables() - self.abstract.symbols
            }
            if symbolic:
                names = tuple(sorted(symbolic))
                raise ProblemError(
                    InputSizedParameter(info.location, info.name, str(info.type), names)
                )
        for size in info.type.shape:
            if self.differs_by_iteration(size):
                raise ProblemError(DiffersByIteration(info.location, f"the size `{show(size)}`"))
        require_countable(info.type, info.location, self.build.facts)
        op = Parameter(info.name, info.type.dtype, info.type.shape, info.kind)
        try:
            leaf = self.build.add(op)
        except Unproved as error:
            raise ProblemError(refusal(info.location, error, self.build.facts, ())) from error
        if self.loops.open:
            again = DuplicatePath(info.location, info.name, info.location, label)
            self.note_repeated(info.name, again)
        self._add(info, leaf)
        return self.current(info.name)

    def declare_like(
        self, declared: Iterable[tuple[str, ParameterInfo]], prefix: str, label: str
    ) -> None:
        """Declare parameters like others that were declared under the same facts.

        Each is said with its name behind the prefix.
        """
        named = [(prefix + relative, info) for relative, info in declared]
        is_open = self.body.claimed or (self.proof is not None and self.proof.contracts)
        if is_open or any(name in self.body.parameters for name, _ in named):
            for name, info in named:
                self.declare(info.named(name), label)
            return
        ops = [Parameter(name, each.type.dtype, each.type.shape, each.kind) for name, each in named]
        leaves = self.build.add_leaves(ops, [each.type for _, each in named])
        for (name, info), leaf in zip(named, leaves, strict=True):
            self.body.parameters[name] = info.named(name)
            self.body.leaves[name] = leaf
        if not self.context.open_models:
            self.body.own += [name for name, _ in named]

    def _add(self, info: ParameterInfo, leaf: Tensor) -> None:
        self.body.parameters[info.name] = info
        if not self.context.open_models:
            self.body.own.append(info.name)
        self.body.leaves[info.name] = leaf

    def mover(self, name: str) -> ElaboratedObjective | None:
        """The objective that has moved a parameter, if one has."""
        return next((each for each in self.train.objectives if name in each.moves), None)

    def is_carried(self, name: str) -> bool:
        """True if a parameter or state is as the iteration that is being elaborated found it."""
        scan = next(reversed(self.scans.values()), None)
        found = None if scan is None else scan.states.get(name)
        return found is not None and self.body.updates.get(name) is found

    @property
    def iterations_open(self) -> tuple[int, ...]:
        """A key for the open iterations, which tells their values from those of others."""
        return tuple([scan.number for scan in self.scans.values()])

    @property
    def in_empty_scan(self) -> bool:
        """True in a scan that has no iteration for these sizes."""
        return any(scan.is_empty for scan in self.scans.values())

    def depends_on_symbol(self, value: ElabValue) -> bool:
        """True if a size, or one of some axes, depends on a number that a symbol stands for."""
        if not self.abstract.symbols:
            return False
        sizes = value if isinstance(value, Axes) else (value,)
        return any(
            isinstance(size, Dim) and not size.variables().isdisjoint(self.abstract.symbols)
            for size in sizes
        )

    def differs_by_iteration(self, value: ElabValue) -> bool:
        """True if a size or condition speaks of the index of a scan that is open."""
        if not self.scans:
            return False
        if isinstance(value, Dim):
            return not value.variables().isdisjoint(self.scans)
        return is_symbolic(value) and not sizes_in(value).isdisjoint(self.scans)

    def current(self, name: str) -> Tensor:
        """The value a parameter or state has now: as it was updated or moved last, or its leaf.

        In a layer that is applied with changed weights it is what was given. In a frozen part, a
        parameter is a constant.
        """
        value = self.body.updates.get(name, self.body.leaves[name])
        given = self.context.weights and self.context.weights.tensors.get(name)
        mover = self.mover(name)
        if given:
            value = given
        elif (
            mover is not None and name not in self.body.updates and isinstance(value.op, Parameter)
        ):
            value = self.build.add(Moved.by(mover.number, value.op))
        if self.context.frozen and self.body.parameters[name].kind == "param":
            return self.build.add(StopGradient(), value)
        return value


@dataclass
class Frame:
    """One application of a block, or the body of a `train`: its names and place in the model."""

    state: ElaborationState
    module: LinkedModule
    name: str
    names: dict[str, ElabValue]
    path: str = ""
    may_own: bool = True
    parent: Frame | None = None
    call_span: Span | None = None
    declaration: ast.Node | None = None
    layers: dict[str, BoundBlock] = field(default_factory=dict[str, BoundBlock])
    loop_labels: set[str] = field(default_factory=set[str])
    """Labels of layers in symbolic loops, which cannot be named behind the loop."""
    scan_locals: dict[str, str] = field(default_factory=dict[str, str])
    """Names that only the iterations of a scan had, with their types if they had another before."""
    own: set[str] = field(default_factory=set[str])
    """Names of the parameters and states that were declared here."""
    choices: ProofPath = field(default_factory=ProofPath)
    initials: dict[str, Initializer] = field(default_factory=dict[str, "Initializer"])
    """Initial values that the caller gave for parameters declared here."""
    signature: Mapping[str, ElabValue] = field(default_factory=dict[str, "ElabValue"])
    """The values of the signature's names before the body, which may bind them again."""

    @property
    def label(self) -> str:
        """The last component of the path, or nothing if it is the path of the block around it."""
        if self.parent is not None and self.path == self.parent.path:
            return ""
        return self.path.rsplit(".", 1)[-1]

    def enclosing(self) -> Iterator[Frame]:
        """The frames around this one, the nearest first."""
        frame = self.parent
        while frame is not None:
            yield frame
            frame = frame.parent

    @property
    def depth(self) -> int:
        """The number of frames around this one."""
        return sum(1 for _ in self.enclosing())

    @property
    def build(self) -> Builder:
        """The builder all frames share."""
        return self.state.build

    @property
    def facts(self) -> Facts:
        """The facts about sizes here."""
        return self.state.build.facts

    def outermost(self, span: Span) -> tuple[str, Location]:
        """The declaration that is being checked, and the place in it that led to this one."""
        frame = self
        while frame.parent is not None:
            span = frame.call_span or span
            frame = frame.parent
        return frame.name, Location(span)

    def join(self, relative: str) -> str:
        """The full path of a name inside this layer."""
        return f"{self.path}.{relative}" if self.path and relative else self.path or relative

    def location(self, span: Span) -> Location:
        """Returns the place in the user's text, with the library layers that contain the span."""
        inside: list[tuple[str, Span]] = []
        frame = self
        words = [*self.choices.case, *self.choices.words]
        while frame.module.is_library and frame.parent is not None and frame.call_span is not None:
            inside.append((frame.name, span))
            span, frame = frame.call_span, frame.parent
            words = [*frame.choices.case, *frame.choices.words, *words]
        said = " and ".join(dict.fromkeys(words))
        return Location(span, self.path, tuple(reversed(inside)), said)

    def caller_location(self, span: Span) -> Location:
        """Returns the place, in the calling frame, where this block was applied."""
        return self.location(span) if self.parent is None else self.parent.location(span)

    def caller_names(self) -> Mapping[str, ElabValue]:
        """Returns the names in scope at `caller_location`, in the user's own text."""
        frame = self.parent
        while frame is not None and frame.module.is_library and frame.parent is not None:
            frame = frame.parent
        return {} if frame is None else frame.names

    def evaluate(self, node: ast.Expression) -> ElabValue:
        """The value of an expression here. Raises `ProblemError`, `UndecidableError`."""
        value = self.operand(node)
        if value is Opaque.NUMBER and self.state.abstract.symbols:
            raise UndecidableError("a number depends on one that a symbol stands for")
        return value

    def operand(self, node: ast.Expression) -> ElabValue:
        """The value of a part of an expression, which need not be known while symbols are not."""
        try:
            spend(EXPRESSION)
            return self.state.elaborator.expressions[type(node)](node, self)
        except OutOfWorkError as error:
            name, location = self.outermost(node.span)
            problem = TooMuchWork(location, error.reason, name)
            raise ProblemError(problem) from error

    def execute(self, statements: Statements) -> Results | None:
        """Run statements in order; the results of a `return`, or None if there was none."""
        elaborator = self.state.elaborator
        is_recovered = self.state.recovery is not None and self.parent is None
        run = elaborator.run_recovered if is_recovered else elaborator.run
        recorder = self.facts.recorder
        for place, statement in enumerate(statements):
            after = statements[place + 1 :]
            if recorder is None:
                results = run(statement, self, after)
            else:
                span = statement.span
                where = f"{span.source.name}:{span.line}"
                results = recorder.at(where, lambda s=statement, a=after: run(s, self, a))
            if results is not None:
                return results
        return None

    def add(self, span: Span, op: Op, *operands: Tensor) -> Tensor:
        """The value of an op; a refusal by its type rule becomes a problem at `span`."""
        if self.state.scans:
            self._require_one_body(span, op)
        build = self.state.build
        before, build.origin = build.origin, Origin(self.user_span(span), self.path)
        try:
            value = build.add(op, *operands)
        except (Unproved, TypeRuleError) as error:
            around = Around(self.names, self.state.values.source_of, self.may_change)
            problem = refusal(self.location(span), error, self.facts, operands, around)
            raise ProblemError(problem) from error
        finally:
            build.origin = before
        if not is_countable(value.type.shape, build.facts):
            require_countable(value.type, self.location(span), build.facts)
        return value

    def _require_one_body(self, span: Span, op: Op) -> None:
        for each in fields(op):
            value = getattr(op, each.name)
            sizes = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            for size in sizes:
                if isinstance(size, Dim) and self.state.differs_by_iteration(size):
                    raise ProblemError(
                        DiffersByIteration(self.location(span), f"the size `{show(size)}`")
                    )

    def user_span(self, span: Span) -> Span:
        """The span itself, or the call in the user's text that led into the library."""
        frame = self
        while frame.module.is_library and frame.parent is not None and frame.call_span is not None:
            span, frame = frame.call_span, frame.parent
        return span

    def may_change(self, span: Span) -> bool:
        """Returns True for text of this declaration, and for blocks that declare no results.

        `span` is in the text of the user.
        """
        frame = self
        while frame.module.is_library and frame.parent is not None:
            frame = frame.parent
        block = frame.module.block_at(span)
        return block is None or block is frame.declaration or block.results is None

    def refused(self, span: Span, error: Unproved) -> ProblemError:
        """The error that something about sizes cannot be shown here."""
        return ProblemError(refusal(self.location(span), error, self.facts, ()))

    def refuse(self, span: Span, what: str, where: str, cure: Help | None = None) -> ProblemError:
        """The error that a statement is not allowed here."""
        return ProblemError(NotAllowedHere(self.location(span), what, where, cure))
