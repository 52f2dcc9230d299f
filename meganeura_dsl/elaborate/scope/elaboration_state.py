"""The state of a whole elaboration, which all its scopes share."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, Unpack

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import DuplicatePath
from meganeura_dsl.elaborate.problems.parameter_problems import InputSizedParameter
from meganeura_dsl.elaborate.problems.proof_failures import refusal, require_countable
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByRound
from meganeura_dsl.elaborate.scope.body import Body
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.proof import Abstraction, Proof
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
from meganeura_dsl.elaborate.scope.value_facts import ValueFacts
from meganeura_dsl.elaborate.values import Axes, is_symbolic
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.objectives import Moved
from meganeura_dsl.ir.ops import Parameter, StopGradient
from meganeura_dsl.symbolic.assumptions import Compare, Unproved
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, show

if TYPE_CHECKING:
    from meganeura_dsl.diagnostics.problem import Problem
    from meganeura_dsl.elaborate.scope.open_scan import OpenScan
    from meganeura_dsl.elaborate.scope.recovery import Recovery
    from meganeura_dsl.elaborate.scope.scope import Elaborator, Frame
    from meganeura_dsl.elaborate.values import ElabValue, Tensor
    from meganeura_dsl.ir.types import TensorType
    from meganeura_dsl.syntax import ast

    Statements = tuple[ast.Statement, ...]


_WORD = re.compile(r"[A-Za-z_]\w*'*")
"""A word of a path; the index of a loop may have marks behind it."""


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
            types = (str(known.type), str(info.type)) if self.context.shared else None
            if types is None or not self._is_same(known.type, info.type):
                self._refuse_again(
                    DuplicatePath(info.location, info.name, known.location, label, types)
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
            if self.differs_by_round(size):
                raise ProblemError(DiffersByRound(info.location, f"the size `{show(size)}`"))
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

    @property
    def rounds_open(self) -> tuple[int, ...]:
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

    def differs_by_round(self, value: ElabValue) -> bool:
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
