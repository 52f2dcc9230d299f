"""`expect` lines: what a model holds and what it maps to."""

from collections.abc import Callable, Mapping

from meganeura_dsl.check.apply import dtype_of, shape_of
from meganeura_dsl.check.elaborate import Elaborator
from meganeura_dsl.check.frame import Elaborating, Frame, ParameterInfo
from meganeura_dsl.check.models import Elaboration, elaborate_model
from meganeura_dsl.check.names import LinkedModule
from meganeura_dsl.check.patterns import size_names
from meganeura_dsl.check.place import Place, counted
from meganeura_dsl.check.problems import WrongKind
from meganeura_dsl.check.refusals import example_of
from meganeura_dsl.check.tensors import equal
from meganeura_dsl.check.train_problems import ExpectationFailed, UnknownUnit
from meganeura_dsl.check.values import (
    Static,
    is_static,
)
from meganeura_dsl.diagnostics import ProblemError
from meganeura_dsl.graph.core import Builder
from meganeura_dsl.shapes.dim import dim, product
from meganeura_dsl.shapes.solve import Proved
from meganeura_dsl.shapes.tensor import TensorType
from meganeura_dsl.syntax import ast

Elaborate = Callable[[LinkedModule, ast.Model, Mapping[str, Static]], Elaboration]
"""The graph of a model under a configuration; whoever checks a file keeps those it has."""


def check_expectation(
    module: LinkedModule, node: ast.ExpectHas | ast.ExpectMaps, elaborate: Elaborate
) -> None:
    """Raise `ProblemError` unless the expectation holds."""
    elaborator = Elaborator()
    frame = Frame(Elaborating(Builder()), module, "expect", {})
    owner, model = module.find(node.call.callee) or (module, None)
    if not isinstance(model, ast.Model):
        raise ProblemError(
            WrongKind(frame.place(node.call.callee_span), "a model", f"`{node.call.callee}`")
        )
    config: dict[str, Static] = {}
    for argument in node.call.arguments:
        value = (
            None
            if isinstance(argument.value, ast.Rearrangement)
            else elaborator.evaluate(argument.value, frame)
        )
        if argument.name is None or value is None or not is_static(value):
            raise ProblemError(
                WrongKind(frame.place(argument.span), "a named configuration", argument.span.text)
            )
        config[argument.name] = value
    match node:
        case ast.ExpectHas():
            _check_counts(node, elaborate(owner, model, config))
        case ast.ExpectMaps():
            _check_maps(owner, model, node, config, elaborate)


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
                raise ProblemError(UnknownUnit(Place(count.span), count.unit))
        if actual != count.number:
            expected, found = f"{count.number:_} {count.unit}", f"{actual:_} {count.unit}"
            raise ProblemError(
                ExpectationFailed(Place(count.span), f"`{node.call.callee}`", expected, found)
            )


def _elements(info: ParameterInfo) -> int:
    count = product(info.type.shape)
    assert isinstance(count, int)
    return count


def _check_maps(
    module: LinkedModule,
    model: ast.Model,
    node: ast.ExpectMaps,
    config: Mapping[str, Static],
    elaborate: Elaborate,
) -> None:
    elaborator = Elaborator()
    frame = Frame(Elaborating(Builder()), module, "expect", {})
    for type_ in (*node.inputs, *node.results):
        for entry in type_.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    frame.names.setdefault(name, dim(name))
    types = tuple(_written_type(type_, frame, elaborator) for type_ in node.inputs)
    elaboration = elaborate(module, model, config)
    if tuple(elaboration.inputs.values()) != types:
        elaboration = elaborate_model(
            module, model, config=config, sizes=None, training=False, inputs=types
        )
    wanted = tuple(_written_type(type_, frame, elaborator) for type_ in node.results)
    found = tuple(value.type for value in elaboration.graph.outputs.values())
    frame.build.facts = elaboration.facts
    for left, right in zip(wanted, found, strict=False):
        _check_mapped(node, frame, left, right)
    if len(wanted) != len(found):
        expected = counted(len(wanted), "result")
        raise ProblemError(
            ExpectationFailed(Place(node.span), f"`{node.call.callee}`", expected, str(len(found)))
        )


def _check_mapped(
    node: ast.ExpectMaps, frame: Frame, wanted: TensorType, found: TensorType
) -> None:
    place, what = Place(node.span), f"what `{node.call.callee}` maps to"
    if wanted.dtype is not found.dtype or wanted.rank != found.rank:
        raise ProblemError(ExpectationFailed(place, what, str(wanted), str(found)))
    for left, right in zip(wanted.shape, found.shape, strict=True):
        verdict = equal(frame, left, right)
        if not isinstance(verdict, Proved):
            example = example_of(verdict, [("expected", wanted.shape), ("found", found.shape)])
            told = str(found) if example is None else f"{found}; {example.remark().text}"
            raise ProblemError(ExpectationFailed(place, what, str(wanted), told))


def _written_type(node: ast.Type, frame: Frame, elaborator: Elaborator) -> TensorType:
    return TensorType(dtype_of(node, frame), shape_of(node.shape, frame, elaborator.evaluate))
