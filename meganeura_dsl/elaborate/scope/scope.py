"""The scope of a block that is elaborated: its names, and its place in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, cast

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.problems.proof_failures import is_countable, refusal, require_countable
from meganeura_dsl.elaborate.problems.resolution_cures import Around
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByRound
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.proof import ProofPath
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.values import Opaque
from meganeura_dsl.ir.graph import Builder, Op, Origin, TypeRuleError
from meganeura_dsl.limits.language_limits import EXPRESSION
from meganeura_dsl.limits.work_budget import OutOfWorkError, spend
from meganeura_dsl.symbolic.assumptions import Facts, Unproved
from meganeura_dsl.symbolic.size import Dim, show

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.problem import Help
    from meganeura_dsl.diagnostics.source import Span
    from meganeura_dsl.elaborate.scope.arguments import Arguments
    from meganeura_dsl.elaborate.scope.elaboration_state import ElaborationState
    from meganeura_dsl.elaborate.scope.linker import LinkedModule
    from meganeura_dsl.elaborate.values import ElabValue, Results, Tensor
    from meganeura_dsl.ir.initializers import Initializer
    from meganeura_dsl.syntax import ast

    Statements = tuple[ast.Statement, ...]


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
                if isinstance(size, Dim) and self.state.differs_by_round(size):
                    raise ProblemError(
                        DiffersByRound(self.location(span), f"the size `{show(size)}`")
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
