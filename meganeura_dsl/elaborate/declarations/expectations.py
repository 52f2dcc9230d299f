"""`expect` lines: what a model or a block holds, and what it maps to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.layer_summaries import with_summaries
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.declarations.models import (
    Elaboration,
    Inputs,
    elaborate_block,
    elaborate_model,
)
from meganeura_dsl.elaborate.problems.location import LocatedProblem, Location, counted
from meganeura_dsl.elaborate.problems.name_problems import UnreadName, WrongKind
from meganeura_dsl.elaborate.problems.proof_failures import example_of
from meganeura_dsl.elaborate.problems.shape_problems import ImpossibleWhere, IndexOverrun
from meganeura_dsl.elaborate.problems.training_problems import (
    ExpectationFailed,
    NotHeld,
    UnknownUnit,
)
from meganeura_dsl.elaborate.scope.linker import LinkedModule, nearest
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.typecheck.conditions import condition_on_all_paths
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.typecheck.written_types import (
    dtype_of,
    shape_of,
    without_configuration,
)
from meganeura_dsl.elaborate.values import StaticValue, is_static
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.symbolic.assumptions import Facts, Proved
from meganeura_dsl.symbolic.size import dim, product, show
from meganeura_dsl.syntax import ast

Elaborate = Callable[[LinkedModule, ast.Model, Mapping[str, StaticValue]], Elaboration]
"""The graph of a model under a configuration; whoever checks a file keeps those it has."""


_OF_INPUTS = frozenset(("E0302", "E0307", "E0308"))
"""The codes of inputs of another number, kind or shape."""


@dataclass(frozen=True)
class Subject:
    """The subject of an expectation: a model or a block, and its configuration."""

    module: LinkedModule
    declaration: ast.Model | ast.Block
    config: Mapping[str, StaticValue]
    span: Span

    @property
    def key(self) -> tuple[ast.Model | ast.Block, str]:
        """The key of the subject, equal for expectations of the same one."""
        return self.declaration, repr(sorted(self.config.items()))

    def elaborated(self, inputs: Inputs, summaries: Summaries | None) -> Elaboration:
        """Its graph for these inputs; a block is tried in training as well."""
        match self.declaration:
            case ast.Model() as model:
                return elaborate_model(
                    self.module, model, config=self.config, sizes=None,
                    training=False, inputs=inputs, summaries=summaries,
                )  # fmt: skip
            case ast.Block() as block:
                _, found = (
                    elaborate_block(
                        self.module, block, config=self.config, inputs=inputs,
                        training=training, span=self.span, summaries=summaries,
                    )
                    for training in (True, False)
                )  # fmt: skip
                return found
            case _:
                assert_never(self.declaration)


class Expectations:
    """The `expect` lines of a file, one after the other."""

    def __init__(self, module: LinkedModule, elaborate: Elaborate, summaries: Summaries) -> None:
        self.module = module
        self._summaries = summaries
        self._elaborate = elaborate
        self._mapped: dict[tuple[ast.Model | ast.Block, str], Elaboration] = {}
        """The graphs of the `maps` so far, by their subjects."""

    def check(self, node: ast.Expect) -> Elaboration:
        """The graph that an expectation was checked against. Raises `ProblemError` if it fails."""
        subject = self._subject(node.call)
        match node:
            case ast.ExpectHas():
                found = self._found(subject, node)
                _check_counts(node, found)
            case ast.ExpectHolds():
                found = self._found(subject, node)
                _check_tensors(self.module, node, found)
            case ast.ExpectMaps():
                found = self._check_maps(subject, node)
            case _:
                assert_never(node)
        return found

    def _subject(self, call: ast.Call) -> Subject:
        frame = _frame(self.module)
        owner, declaration = self.module.find(call.callee) or (self.module, None)
        if not isinstance(declaration, ast.Model | ast.Block):
            location = frame.location(call.callee_span)
            if call.callee in self.module.unread:
                raise ProblemError(UnreadName(location, call.callee, "model", ()))
            raise ProblemError(WrongKind(location, "a model or a block", f"`{call.callee}`"))
        config: dict[str, StaticValue] = {}
        for argument in call.arguments:
            value = (
                None
                if isinstance(argument.value, ast.Rearrangement)
                else frame.evaluate(argument.value)
            )
            if argument.name is None or value is None or not is_static(value):
                raise ProblemError(
                    WrongKind(
                        frame.location(argument.span), "a named configuration", argument.span.text
                    )
                )
            config[argument.name] = value
        return Subject(owner, declaration, config, call.span)

    def _found(self, subject: Subject, node: ast.ExpectHas | ast.ExpectHolds) -> Elaboration:
        """The graph for the sizes of the `maps` above, or of a model for all sizes."""
        mapped = self._mapped.get(subject.key)
        if mapped is not None:
            return mapped
        if isinstance(subject.declaration, ast.Block):
            wanted = "a model, or a block whose `expect ... maps` stands above"
            location = Location(node.call.callee_span)
            raise ProblemError(WrongKind(location, wanted, f"`{node.call.callee}`"))
        return self._elaborate(subject.module, subject.declaration, subject.config)

    def _check_maps(self, subject: Subject, node: ast.ExpectMaps) -> Elaboration:
        frame = _frame(self.module)
        for type_ in (*node.inputs, *node.results):
            for entry in type_.shape.entries:
                if not isinstance(entry, ast.Rest):
                    for name in size_names(entry):
                        frame.names.setdefault(name, dim(name))
        types = tuple(_written_type(type_, frame) for type_ in node.inputs)
        for clause in node.where:
            with without_configuration(Location(clause.span)):
                frame.build.facts = frame.facts.assume(condition_on_all_paths(clause, frame))
            if frame.facts.is_contradictory:
                raise ProblemError(ImpossibleWhere(Location(clause.span), node.call.callee))
        try:
            elaboration = self._elaborated(subject, types, frame.facts if node.where else None)
        except ProblemError as error:
            raise self._asked(error, subject, node, types) from error
        self._mapped[subject.key] = elaboration
        wanted = tuple(_written_type(type_, frame) for type_ in node.results)
        found = tuple(value.type for value in elaboration.graph.outputs.values())
        frame.build.facts = elaboration.facts
        for left, right in zip(wanted, found, strict=False):
            _check_mapped(node, frame, left, right)
        names = [each.name for each in node.results]
        outputs = [*elaboration.graph.outputs]
        if len(wanted) == len(found) and any(names) and names != outputs:
            what, expected = f"`{node.call.callee}`", ", ".join(f"`{each}`" for each in names)
            found_names = ", ".join(f"`{each}`" for each in outputs)
            raise ProblemError(ExpectationFailed(Location(node.span), what, expected, found_names))
        if len(wanted) != len(found):
            what, expected = f"`{node.call.callee}`", counted(len(wanted), "result")
            raise ProblemError(
                ExpectationFailed(Location(node.span), what, expected, str(len(found)))
            )
        return elaboration

    def _asked(
        self,
        error: ProblemError,
        subject: Subject,
        node: ast.ExpectMaps,
        types: tuple[TensorType, ...],
    ) -> ProblemError:
        """The problem that an expectation has, with its line where the sizes are what is wrong.

        A model that holds for the inputs it declares is not to blame for those of an expectation.
        """
        problem, model = error.problem, subject.declaration
        if isinstance(problem, IndexOverrun):
            return ProblemError(replace(problem, applied=node.span))
        if not isinstance(model, ast.Model) or not isinstance(problem, LocatedProblem):
            return error
        if not model.span.contains(problem.location.span):
            return error
        try:
            known = self._elaborate(subject.module, model, subject.config)
        except ProblemError:
            return error
        if problem.code not in _OF_INPUTS:
            return ProblemError(replace(problem, location=Location(node.span)))
        takes = ", ".join(map(_shown, known.inputs.values()))
        given = ", ".join(map(_shown, types))
        span = node.call.span
        if node.inputs:
            span = replace(node.inputs[0].span, end=node.inputs[-1].span.end)
        what = f"the input of `{node.call.callee}`"
        cure = Help("by its declaration it is", f"expect {node.call.span.text} maps {takes} -> ...")
        return ProblemError(ExpectationFailed(Location(span), what, given, takes, cure))

    def _elaborated(
        self, subject: Subject, types: tuple[TensorType, ...], facts: Facts | None
    ) -> Elaboration:
        """The graph for these types; the one that is kept, if it was made for the very same."""
        if facts is None and isinstance(subject.declaration, ast.Model):
            known = self._elaborate(subject.module, subject.declaration, subject.config)
            if tuple(known.inputs.values()) == types:
                return known
        return with_summaries(
            self._summaries,
            lambda summaries: subject.elaborated(Inputs(types, facts=facts), summaries),
        )


def _frame(module: LinkedModule) -> Frame:
    return Frame(ElaborationState(ELABORATOR, Builder()), module, "expect", {})


def _check_counts(node: ast.ExpectHas, elaboration: Elaboration) -> None:
    trained = [info for info in elaboration.parameters if info.kind != "state"]
    for count in node.counts:
        match count.unit:
            case "param" | "params":
                actual = len(trained)
            case "weight" | "weights":
                actual = sum(_elements(info) for info in trained)
            case "state" | "states":
                actual = sum(info.kind == "state" for info in elaboration.parameters)
            case _:
                raise ProblemError(UnknownUnit(Location(count.span), count.unit))
        if actual != count.number:
            expected, found = f"{count.number:_} {count.unit}", f"{actual:_} {count.unit}"
            raise ProblemError(
                ExpectationFailed(Location(count.span), f"`{node.call.callee}`", expected, found)
            )


def _elements(info: ParameterInfo) -> int:
    count = product(info.type.shape)
    assert isinstance(count, int)
    return count


def _check_tensors(module: LinkedModule, node: ast.ExpectHolds, elaboration: Elaboration) -> None:
    """Every tensor is there, of its shape, behind the one before it."""
    frame = _frame(module)
    subject = f"`{node.call.callee}`"
    shapes = {info.name: pattern_of(info.type.shape) for info in elaboration.parameters}
    stored = {info.name: info.stored for info in elaboration.parameters}
    order = list(shapes)
    last = -1
    for held in node.tensors:
        name = path_text(held.path, frame)
        shape = pattern_of(shape_of(held.type.shape, frame))
        dtype = held.type.dtype or stored.get(name, "")
        wanted = f"{name}: {held.type.dtype or ''}{shape}"
        location = Location(held.span)
        if name not in shapes:
            same_shape = [each for each in shapes if shapes[each] == shape]
            close = nearest(name, same_shape) or nearest(name, shapes)
            likely = tuple(f"`{each}`, which is {shapes[each]}" for each in close[:1])
            known = tuple(same_shape or shapes)
            raise ProblemError(NotHeld(location, subject, wanted, likely=likely, known=known))
        if (shapes[name], stored[name]) != (shape, dtype):
            shown = stored[name] if held.type.dtype else ""
            raise ProblemError(NotHeld(location, subject, wanted, f"it is {shown}{shapes[name]}"))
        at = order.index(name)
        if at <= last:
            raise ProblemError(NotHeld(location, subject, wanted, after=order[last]))
        last = at


def _shown(type_: TensorType) -> str:
    """A type as a signature has it: `[n, 3]`, `i32[n]`."""
    return str(type_).removeprefix("f32")


def pattern_of(shape: Shape) -> str:
    """A shape as it is written: `[n, 10]`."""
    return f"[{', '.join(show(size) for size in shape)}]"


def _check_mapped(
    node: ast.ExpectMaps, frame: Frame, wanted: TensorType, found: TensorType
) -> None:
    location, what = Location(node.span), f"what `{node.call.callee}` maps to"
    if wanted.dtype is not found.dtype or wanted.rank != found.rank:
        raise ProblemError(ExpectationFailed(location, what, str(wanted), str(found)))
    for left, right in zip(wanted.shape, found.shape, strict=True):
        verdict = equal(frame, left, right)
        if not isinstance(verdict, Proved):
            example = example_of(verdict, [("expected", wanted.shape), ("found", found.shape)])
            found_text = str(found) if example is None else f"{found}; {example.remark().text}"
            raise ProblemError(ExpectationFailed(location, what, str(wanted), found_text))


def _written_type(node: ast.Type, frame: Frame) -> TensorType:
    with without_configuration(Location(node.span)):
        return TensorType(dtype_of(node, frame), shape_of(node.shape, frame))
