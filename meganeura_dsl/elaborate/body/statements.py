"""The walk over statements: bindings, choices, loops and what a block returns."""

from abc import ABC
from collections.abc import Mapping

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.expressions import Expressions
from meganeura_dsl.elaborate.body.parameters import declare_parameter, set_update
from meganeura_dsl.elaborate.body.scans import run_scan, write_part
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import UnstableLoop
from meganeura_dsl.elaborate.scope.scope import Binding, Frame, UndecidableError
from meganeura_dsl.elaborate.typecheck.tensor_arithmetic import equal
from meganeura_dsl.elaborate.values import Axes, Evaluated, Tensor, describe, is_static, is_tensor
from meganeura_dsl.ir.graph import Value
from meganeura_dsl.limits.language_limits import MOST_ROUNDS
from meganeura_dsl.symbolic.assumptions import Compare, Proved
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, dim
from meganeura_dsl.syntax import ast

Results = tuple[Tensor, ...]


class Statements(Expressions, ABC):
    """Runs statements in a frame; what a layer does is for the subclass."""

    def execute(self, statements: tuple[ast.Statement, ...], frame: Frame) -> Results | None:
        """Run statements in order; the results of a `return`, or None if there was none."""
        for statement in statements:
            results = self._statement(statement, frame)
            if results is not None:
                return results
        return None

    def _statement(self, statement: ast.Statement, frame: Frame) -> Results | None:
        match statement:
            case ast.Bind():
                self._bind(statement, frame)
            case ast.Return(values=values):
                return self._return(values, frame)
            case ast.If(condition=condition, then=then, otherwise=otherwise):
                return self.execute(then if self.choose(condition, frame) else otherwise, frame)
            case ast.For():
                return self._for(statement, frame)
            case ast.Scan(variable=variable):
                run_scan(statement, frame, self, dim(_unused(variable.text, frame)))
            case ast.Part():
                write_part(statement, frame, self)
            case ast.Declare():
                declare_parameter(statement, frame, self)
            case ast.Update():
                set_update(statement, frame, self)
            case ast.Minimize() | ast.Metric() | ast.Run():
                self.train_statement(statement, frame)
        return None

    def train_statement(self, statement: ast.Minimize | ast.Metric | ast.Run, frame: Frame) -> None:
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
                    WrongKind(frame.place(node.span), "a tensor to return", describe(value))
                )
            results.append(value)
        return tuple(results)

    def _bind(self, statement: ast.Bind, frame: Frame) -> None:
        value = self.evaluate(statement.value, frame)
        if len(statement.targets) == 1:
            self._assign(statement.targets[0], value, frame)
            return
        parts = value if isinstance(value, tuple | list) else (value,)
        if len(parts) != len(statement.targets):
            wanted = f"{len(statement.targets)} values for {len(statement.targets)} names"
            raise ProblemError(WrongKind(frame.place(statement.span), wanted, describe(value)))
        for target, part in zip(statement.targets, parts, strict=True):
            self._assign(target, part, frame)

    def _assign(self, target: ast.Name, value: Evaluated, frame: Frame) -> None:
        if not is_tensor(value) and not is_static(value):
            raise ProblemError(
                WrongKind(frame.place(target.span), "one value for one name", describe(value))
            )
        frame.names[target.text] = value
        if is_tensor(value) and not frame.module.is_library:
            frame.state.bindings.append(Binding(target.span, target.text, frame.path, value.type))

    def _for(self, statement: ast.For, frame: Frame) -> Results | None:
        start, stop = self.size(statement.start, frame), self.size(statement.stop, frame)
        if isinstance(start, int) and isinstance(stop, int):
            frame.state.rounds += max(0, stop - start)
            if frame.state.rounds > MOST_ROUNDS:
                wanted = f"at most {MOST_ROUNDS:,} rounds of all loops together"
                found = f"{frame.state.rounds:,} rounds"
                raise ProblemError(WrongKind(frame.place(statement.span), wanted, found))
            for index in range(start, stop):
                frame.names[statement.variable.text] = index
                results = self.execute(statement.body, frame)
                if results is not None:
                    return results
            return None
        return self._induction(statement, frame)

    def _induction(self, statement: ast.For, frame: Frame) -> Results | None:
        """A symbolic number of rounds: one round, at any index, must keep every name's type.

        What holds in a round, that there is one among it, is not known behind the loop, unless the
        facts say that there is a round.
        """
        before, layers = dict(frame.names), dict(frame.layers)
        name = statement.variable.text
        start, stop = self.size(statement.start, frame), self.size(statement.stop, frame)
        index = dim(_unused(name, frame))
        facts = frame.facts
        has_round = isinstance(facts.decide(Compare("<", start, stop)), Proved)
        inside = (
            facts.with_lower_bound(str(index), 0)
            .assume(Compare(">=", index, start))
            .assume(Compare("<", index, stop))
        )
        frame.build.facts = inside
        frame.names[name] = index
        frame.state.indices.add(str(index))
        results = self.execute(statement.body, frame)
        frame.state.indices.discard(str(index))
        self._require_stable(statement, frame, before)
        for chosen in frame.facts.stated[len(inside.stated) :]:
            facts = facts.assume(chosen)
        frame.build.facts = facts.with_lower_bound(str(index), 0)
        if has_round:
            return results
        if results is not None:
            raise UndecidableError("whether a loop that returns has a round is not known")
        known = before.keys() - {name}
        frame.names = {key: value for key, value in frame.names.items() if key in known}
        frame.layers = layers
        return None

    def _require_stable(
        self, statement: ast.For, frame: Frame, before: Mapping[str, Evaluated]
    ) -> None:
        """Refuse a round that leaves another type, or another number, than it finds."""
        for key, value in before.items():
            after = frame.names[key]
            if key == statement.variable.text or after is value:
                continue
            if not is_tensor(value) or not is_tensor(after):
                if type(after) is type(value) and after == value:
                    continue
                raise UndecidableError(f"a loop changes `{key}` round by round")
            same = after.type.rank == value.type.rank and all(
                isinstance(equal(frame, a, b), Proved)
                for a, b in zip(value.type.shape, after.type.shape, strict=True)
            )
            if not same or after.type.dtype is not value.type.dtype:
                if frame.state.generic:
                    raise UndecidableError(f"a loop changes the shape of `{key}` round by round")
                place = frame.place(statement.span)
                raise ProblemError(UnstableLoop(place, key, str(value.type), str(after.type)))


def _unused(name: str, frame: Frame) -> str:
    """The name, with marks behind it where it is that of a size or of another loop's index."""
    used = {*frame.state.indices, *frame.state.scans}
    inner: Frame | None = frame
    while inner is not None:
        used.update(*map(_variables, inner.names.values()))
        inner = inner.parent
    while name in used:
        name += "'"
    return name


def _variables(value: Evaluated) -> frozenset[str]:
    """The sizes that occur in a value."""
    if is_tensor(value):
        return frozenset[str]().union(*map(variables_of, value.type.shape))
    if isinstance(value, Axes):
        return frozenset[str]().union(*map(variables_of, value))
    return variables_of(value) if isinstance(value, Dim) else frozenset()
