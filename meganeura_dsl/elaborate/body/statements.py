"""The walk over statements: bindings, choices, loops and what a block returns."""

from abc import ABC, abstractmethod
from functools import partial

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.both_sides import binds_only, on_both_sides
from meganeura_dsl.elaborate.body.expressions import Expressions
from meganeura_dsl.elaborate.body.induction import Loop, run_by_induction
from meganeura_dsl.elaborate.body.parameters import declare_parameter, set_update
from meganeura_dsl.elaborate.body.scans import collects, run_scan, write_part
from meganeura_dsl.elaborate.body.tensor_parts import replace_part
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.body import DECLARATIONS
from meganeura_dsl.elaborate.scope.new_symbols import new_symbol
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError, calls_of
from meganeura_dsl.elaborate.scope.scope import (
    ByRoundError,
    Frame,
    NeedsInliningError,
    UndecidableError,
)
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import require_fit, scalar
from meganeura_dsl.elaborate.values import (
    BlockValue,
    Evaluated,
    Tensor,
    TensorList,
    describe,
    is_number,
    is_static,
    is_tensor,
)
from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits.language_limits import MOST_ROUNDS
from meganeura_dsl.symbolic.size import dim
from meganeura_dsl.syntax import ast

Results = tuple[Tensor, ...]


class Statements(Expressions, ABC):
    """Runs statements in a frame; what a layer does is for the subclass."""

    def execute(self, statements: tuple[ast.Statement, ...], frame: Frame) -> Results | None:
        """Run statements in order; the results of a `return`, or None if there was none."""
        is_recovered = frame.state.recovery is not None and frame.parent is None
        run = self._recovered if is_recovered else self._statement
        for place, statement in enumerate(statements):
            results = run(statement, frame, statements[place + 1 :])
            if results is not None:
                return results
        return None

    def _recovered(
        self, statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
    ) -> Results | None:
        """Run a statement; behind one that fails or is left out, what it binds is unknown."""
        recovery = frame.state.recovery
        assert recovery is not None
        if not recovery.is_affected(statement):
            saved = frame.state.body.savepoint()
            try:
                results = self._statement(statement, frame, rest)
            except ProblemError as error:
                recovery.add_failure(statement, error.problem)
            except (UndecidableError, NeedsInliningError):
                pass
            else:
                recovery.learn(statement)
                return results
            frame.state.body.undo(saved, DECLARATIONS)
        recovery.forget(statement, frame.layers)
        is_one = not isinstance(statement, ast.If | ast.For | ast.Scan)
        for call, is_piped in calls_of(statement):
            try:
                self.check_alone(call, frame, is_piped=is_piped, is_reached=is_one)
            except ProblemError as error:
                recovery.add(error.problem)
            except (UndecidableError, NeedsInliningError):
                pass
        recovery.forget_new(statement, lambda name: self.is_known(name, frame))
        if any(isinstance(node, ast.Return) for node in walk(statement)):
            raise EndOfPathError
        return None

    @abstractmethod
    def check_alone(
        self, call: ast.Call, frame: Frame, *, is_piped: bool, is_reached: bool
    ) -> None:
        """Raise what is wrong with a call whatever it is applied to.

        Unless it is surely reached, that is its name alone.
        """

    @abstractmethod
    def is_known(self, name: str, frame: Frame) -> bool:
        """Whether anything has a name."""

    def _statement(
        self, statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
    ) -> Results | None:
        match statement:
            case ast.Bind():
                self._bind(statement, frame)
            case ast.Part() if collects(statement, frame, self):
                write_part(statement, frame, self)
            case ast.Part():
                self._replace_part(statement, frame)
            case ast.Return(values=values):
                return self._return(values, frame)
            case ast.If():
                return self._if(statement, frame, rest)
            case ast.For():
                return self._for(statement, frame)
            case ast.Scan() if frame.state.abstract.symbols:
                raise UndecidableError("how many rounds there are may depend on a number")
            case ast.Scan(variable=variable):
                with frame.state.without_recovery():
                    run_scan(statement, frame, self, dim(new_symbol(variable.text, frame)))
            case ast.Declare():
                declare_parameter(statement, frame, self)
            case ast.Layer():
                self.declare_layer(statement, frame)
            case ast.Update():
                set_update(statement, frame, self)
            case ast.Minimize() | ast.Metric() | ast.Show() | ast.Run():
                self.train_statement(statement, frame)
        return None

    def _if(
        self, statement: ast.If, frame: Frame, rest: tuple[ast.Statement, ...]
    ) -> Results | None:
        then, otherwise = statement.then, statement.otherwise
        try:
            is_then = self.choose(statement, frame, rest)
        except ByRoundError as error:
            if error.node is not statement.condition or not binds_only(statement):
                raise
            on_both_sides(
                error, frame, *(partial(self.execute, each, frame) for each in (then, otherwise))
            )
            return None
        return self.execute(then if is_then else otherwise, frame)

    @abstractmethod
    def declare_layer(self, statement: ast.Layer, frame: Frame) -> None:
        """Make a layer known under its path; its weights are made when it is first applied."""

    def train_statement(self, statement: ast.TrainStatement, frame: Frame) -> None:
        """What only a `train` block may say."""
        word = type(statement).__name__.lower()
        raise frame.refuse(statement.span, f"`{word}`", "stands only in a `train` block")

    def _return(self, values: tuple[ast.Expression, ...], frame: Frame) -> Results:
        results: list[Tensor] = []
        for node in values:
            value = self.evaluate(node, frame)
            if (
                isinstance(value, tuple)
                and all(isinstance(part, Value) for part in value)
                and len(values) == 1
            ):
                return tuple(part for part in value if isinstance(part, Value))
            if not is_tensor(value):
                raise ProblemError(
                    WrongKind(frame.location(node.span), "a tensor to return", describe(value))
                )
            results.append(value)
        return tuple(results)

    def _bind(self, statement: ast.Bind, frame: Frame) -> None:
        value = self.evaluate(statement.value, frame)
        if len(statement.targets) == 1:
            self._assign(statement.targets[0], value, frame)
            return
        if isinstance(value, TensorList):
            parts = value.items
        else:
            parts = value if isinstance(value, tuple | list) else (value,)
        if len(parts) != len(statement.targets):
            wanted = f"{len(statement.targets)} values for {len(statement.targets)} names"
            raise ProblemError(WrongKind(frame.location(statement.span), wanted, describe(value)))
        for target, part in zip(statement.targets, parts, strict=True):
            self._assign(target, part, frame)

    def _replace_part(self, statement: ast.Part, frame: Frame) -> None:
        """Bind the name to what it was, with a part replaced."""
        target, value = statement.target, statement.value
        base = self.tensor(target, frame)
        replaced = self.with_part(statement.span, base, statement.entries, value, frame)
        self._assign(target, replaced, frame)

    def with_part(
        self,
        span: Span,
        base: Tensor,
        entries: tuple[ast.Entry, ...],
        value: ast.Expression,
        frame: Frame,
    ) -> Tensor:
        """A tensor with a part of it replaced; a number fills the part."""
        part = self.part_of(span, entries, base, frame).whole
        given = self.evaluate(value, frame)
        if is_number(given) and not is_tensor(given):
            given = scalar(frame, value.span, given, base.type.dtype, part.kept(part.sizes))
        if not is_tensor(given):
            location = frame.location(value.span)
            raise ProblemError(WrongKind(location, "a tensor or a number", describe(given)))
        written = TensorType(base.type.dtype, part.kept(part.sizes))
        name = span.text.removeprefix("update ").partition("[")[0]
        require_fit(frame, value.span, f"{name}[...]", written, given)
        return replace_part(frame, span, base, part, given)

    def _assign(self, target: ast.Name, value: Evaluated, frame: Frame) -> None:
        if not is_tensor(value) and not is_static(value) and not isinstance(value, TensorList):
            raise ProblemError(
                WrongKind(frame.location(target.span), "one value for one name", describe(value))
            )
        if isinstance(value, BlockValue):
            cure = "give it a tensor, or declare a layer with `layer NAME: BLOCK(...)`"
            wanted, found = "a tensor or a number to name", describe(value)
            span = value.span or target.span
            raise ProblemError(WrongKind(frame.location(span), wanted, found, cure))
        frame.names[target.text] = value
        if is_tensor(value) and not frame.module.is_library:
            frame.state.body.bindings.append(
                Binding(target.span, target.text, frame.path, value.type)
            )

    def _for(self, statement: ast.For, frame: Frame) -> Results | None:
        """Run a loop, whose index ends with it: a name that it hides is back behind it."""
        name = statement.variable.text
        hidden = frame.names.get(name)
        results = self._rounds(statement, frame)
        frame.names.pop(name, None)
        if hidden is not None:
            frame.names[name] = hidden
        return results

    def _rounds(self, statement: ast.For, frame: Frame) -> Results | None:
        start, stop = self.size(statement.start, frame), self.size(statement.stop, frame)
        if isinstance(start, int) and isinstance(stop, int):
            frame.state.body.iterations += max(0, stop - start)
            if frame.state.body.iterations > MOST_ROUNDS:
                wanted = f"at most {MOST_ROUNDS:,} rounds of all loops together"
                found = f"{frame.state.body.iterations:,} rounds"
                raise ProblemError(WrongKind(frame.location(statement.span), wanted, found))
            for index in range(start, stop):
                frame.names[statement.variable.text] = index
                results = self.execute(statement.body, frame)
                if results is not None:
                    return results
            return None
        if frame.state.is_general(start) or frame.state.is_general(stop):
            raise UndecidableError("how many rounds there are depends on a number")
        body = partial(self.execute, statement.body, frame)
        with frame.state.without_recovery():
            return run_by_induction(Loop(statement, frame, start, stop, body))
