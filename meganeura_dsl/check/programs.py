"""Whole programs: a block proved for all sizes, a model or a `train` elaborated, expectations met."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product as every

from meganeura_dsl import ops
from meganeura_dsl.check.apply import Arguments, bind_config, dtype_of, shape_of
from meganeura_dsl.check.elaborate import Application, Elaborator, Results
from meganeura_dsl.check.frame import Binding, Elaborating, Frame, ParameterInfo, UndecidableError
from meganeura_dsl.check.names import LinkedModule
from meganeura_dsl.check.patterns import size_names
from meganeura_dsl.check.place import Place
from meganeura_dsl.check.problems import CheckedPerModel, NotAllowedHere, WrongKind
from meganeura_dsl.check.refusals import example_of
from meganeura_dsl.check.shape_problems import (
    ExpectationFailed,
    LossNotScalar,
    NoLoss,
    RankMismatch,
    UnknownUnit,
)
from meganeura_dsl.check.tensors import equal
from meganeura_dsl.check.values import Axes, Evaluated, Invocation, Static, Tensor, Unknown, describe, is_static
from meganeura_dsl.diagnostics import Problem, ProblemError
from meganeura_dsl.graph.core import Builder, Graph
from meganeura_dsl.shapes.dim import Dim, dim, product
from meganeura_dsl.shapes.solve import Facts, Flag, Proved
from meganeura_dsl.shapes.tensor import TensorType
from meganeura_dsl.source import Span
from meganeura_dsl.syntax import ast

REST_RANKS = (1, 2)
"""How many axes a rest stands for in a proof. Ops see a rest only as axes to keep or to fold."""

LOSS = "loss"


@dataclass(frozen=True)
class Elaboration:
    """A model or a `train` block as a graph, with what a checkpoint and a reader need to know."""

    graph: Graph
    parameters: tuple[ParameterInfo, ...]
    inputs: Mapping[str, TensorType]
    bindings: tuple[Binding, ...]
    notes: tuple[Problem, ...]
    facts: Facts


@dataclass(frozen=True)
class Setting:
    """One line of `run:`, evaluated, and where it stands."""

    value: Static
    span: Span


class TrainElaborator(Elaborator):
    """An elaborator whose outermost frame may minimize and measure."""

    def train_statement(self, statement: ast.Minimize | ast.Metric | ast.Run, frame: Frame) -> None:
        if frame.parent is not None:
            super().train_statement(statement, frame)
        match statement:
            case ast.Minimize(value=node):
                self._minimize(node, statement, frame)
            case ast.Metric(name=name, value=node):
                if name.text in frame.state.outputs or name.text == LOSS:
                    raise ProblemError(
                        NotAllowedHere(frame.place(name.span), f"`{name.text}`", "is measured twice")
                    )
                frame.state.outputs[name.text] = self.tensor(node, frame)
            case ast.Run():
                pass

    def _minimize(self, node: ast.Expression, statement: ast.Minimize, frame: Frame) -> None:
        loss = self.tensor(node, frame)
        if loss.type.rank != 0 or not loss.type.dtype.is_float:
            raise ProblemError(LossNotScalar(frame.place(statement.value.span), str(loss.type)))
        if LOSS in frame.state.outputs:
            raise ProblemError(NoLoss(frame.place(statement.span), frame.name, 2))
        frame.state.outputs[LOSS] = loss


# --- blocks, for all sizes -----------------------------------------------------------------------


def prove_block(module: LinkedModule, block: ast.Block) -> Problem | None:
    """Prove a block for all sizes and configurations.

    Returns None when proved, the refutation when refuted, and a note when neither is decidable.
    """
    try:
        for ranks in _rest_ranks(block):
            _prove(module, block, ranks)
    except UndecidableError as error:
        return CheckedPerModel(Place(block.name.span), block.name.text, error.reason)
    except ProblemError as error:
        return error.problem
    return None


def _rests(block: ast.Block) -> list[str]:
    entries = [entry for item in block.inputs for entry in item.type.shape.entries]
    return list(dict.fromkeys(entry.name for entry in entries if isinstance(entry, ast.Rest)))


def _rest_ranks(block: ast.Block) -> Iterator[dict[str, int]]:
    names = _rests(block)
    for ranks in every(REST_RANKS, repeat=len(names)):
        yield dict(zip(names, ranks, strict=True))


def _prove(module: LinkedModule, block: ast.Block, ranks: Mapping[str, int]) -> None:
    if any(item.type.dtype == "any" for item in block.inputs):
        raise UndecidableError("its inputs may have several element types")
    elaborator = Elaborator()
    state = Elaborating(Builder(), Flag("training"), generic=True)
    frame = Frame(state, module, block.name.text, {}, declaration=block)
    for parameter in block.parameters:
        frame.names[parameter.name] = _any_config(parameter, frame, elaborator)
    for name, rank in ranks.items():
        frame.names[name] = Axes(dim(f"{name}{index}") for index in range(rank))
    _any_inputs(block.inputs, frame, elaborator)
    for clause in block.where:
        state.build.facts = state.build.facts.assume(elaborator.condition(clause, frame))
    elaborator.run_body(frame, block)


def _any_config(parameter: ast.Parameter, frame: Frame, elaborator: Elaborator) -> Evaluated:
    name = parameter.name
    if parameter.default is None:
        return dim(name)
    default = elaborator.evaluate(parameter.default, frame)
    match default:
        case bool():
            return Flag(name)
        case int():
            if default < 0:
                return default
            frame.build.facts = frame.facts.with_lower_bound(name, min(default, 1))
            return dim(name)
        case float():
            return Unknown.NUMBER
        case Dim():
            return dim(name)
        case list():
            raise UndecidableError(f"`{name}` is a list the configuration gives")
        case _:
            return default


def _any_inputs(inputs: tuple[ast.Input, ...], frame: Frame, elaborator: Elaborator) -> None:
    """Make a tensor of every size for each input; names that are not config are new sizes."""
    for item in inputs:
        for entry in item.type.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    frame.names.setdefault(name, dim(name))
    for item in inputs:
        shape = shape_of(item.type.shape, frame, elaborator.evaluate)
        leaf = ops.Input(item.name, dtype_of(item.type, frame), shape)
        frame.names[item.name] = frame.add(item.span, leaf)


# --- models --------------------------------------------------------------------------------------


def elaborate_model(
    module: LinkedModule,
    model: ast.Model,
    *,
    config: Mapping[str, Static],
    sizes: Mapping[str, int] | None,
    training: bool,
    inputs: tuple[TensorType, ...] | None = None,
) -> Elaboration:
    """The graph of a model, its free sizes symbolic unless `sizes` gives them.

    `inputs` replaces the types the block's signature says. Raises `ProblemError`.
    """
    elaborator = Elaborator()
    state = Elaborating(Builder(), training)
    root = Frame(state, module, model.name.text, {}, declaration=None)
    overrides = Arguments((), dict(config))
    application = elaborator.model_application(module, model, overrides, "", model.call.span, root)
    try:
        results = _run_model(elaborator, application, root, sizes or {}, inputs)
    except UndecidableError as error:
        place = Place(model.name.span)
        raise ProblemError(WrongKind(place, "a configuration that is known", error.reason)) from error
    names = [f"output{index}" for index in range(len(results))] if len(results) > 1 else ["output"]
    return _finish(state, dict(zip(names, results, strict=True)))


def _run_model(
    elaborator: Elaborator,
    application: Application,
    root: Frame,
    sizes: Mapping[str, int],
    inputs: tuple[TensorType, ...] | None,
) -> Results:
    block, state = application.block, root.state
    inner = Frame(
        state, application.module, block.name.text, {}, application.path,
        parent=root, call_span=application.span, declaration=block,
    )  # fmt: skip
    config = application.arguments
    bind_config(inner, block.name.text, block.parameters, config, application.span, elaborator.evaluate)
    given = _signature_inputs(inner, block, elaborator, sizes) if inputs is None else inputs
    tensors: list[Tensor] = []
    if len(given) != len(block.inputs):
        what = f"`{block.name.text}`"
        found = f"{len(given)} tensors"
        raise ProblemError(RankMismatch(root.place(application.span), what, f"{len(block.inputs)} tensors", found))
    for item, type_ in zip(block.inputs, given, strict=True):
        leaf = ops.Input(item.name, type_.dtype, type_.shape)
        tensors.append(root.add(item.span, leaf))
    arguments = Arguments((*tensors, *config.positional), config.named)
    run = Application(application.module, block, arguments, application.path, True, application.span)
    return elaborator.run_block(run, root)


def _signature_inputs(
    inner: Frame, block: ast.Block, elaborator: Elaborator, sizes: Mapping[str, int]
) -> tuple[TensorType, ...]:
    """The types a signature asks for, its own `where` assumed: the model's domain."""
    for name in _rests(block):
        inner.names[name] = Axes(dim(f"{name}{index}") for index in range(REST_RANKS[0]))
    for item in block.inputs:
        for entry in item.type.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    inner.names.setdefault(name, sizes.get(name, dim(name)))
    for clause in block.where:
        inner.build.facts = inner.facts.assume(elaborator.condition(clause, inner))
    return tuple(
        TensorType(dtype_of(item.type, inner), shape_of(item.type.shape, inner, elaborator.evaluate))
        for item in block.inputs
    )


def _finish(state: Elaborating, outputs: Mapping[str, Tensor]) -> Elaboration:
    inputs = {
        value.op.name: value.type for value in state.build.values if isinstance(value.op, ops.Input)
    }
    graph = state.build.graph(outputs, state.updates)
    return Elaboration(
        graph,
        tuple(state.parameters.values()),
        inputs,
        tuple(state.bindings),
        tuple(note.problem for note in state.notes),
        state.build.facts,
    )


# --- training ------------------------------------------------------------------------------------


def free_sizes(train: ast.Train) -> tuple[str, ...]:
    """The names in the inputs' shapes, which `run:` has to give a size."""
    entries = [entry for item in train.inputs for entry in item.type.shape.entries]
    names = [name for entry in entries if not isinstance(entry, ast.Rest) for name in size_names(entry)]
    return tuple(dict.fromkeys(names))


def elaborate_train(
    module: LinkedModule, train: ast.Train, *, sizes: Mapping[str, int], training: bool
) -> Elaboration:
    """The graph of a `train` block: outputs the loss and the metrics. Raises `ProblemError`."""
    elaborator = TrainElaborator()
    state = Elaborating(Builder(), training)
    frame = Frame(state, module, train.name.text, {}, declaration=train)
    frame.names.update((name, sizes.get(name, dim(name))) for name in free_sizes(train))
    for clause in train.where:
        state.build.facts = state.build.facts.assume(elaborator.condition(clause, frame))
    for item in train.inputs:
        if any(isinstance(entry, ast.Rest) for entry in item.type.shape.entries):
            raise frame.refuse(item.span, "a rest", "cannot stand in the inputs of a `train` block")
    _any_inputs(train.inputs, frame, elaborator)
    try:
        elaborator.execute(train.body, frame)
    except UndecidableError as error:
        place = frame.place(train.name.span)
        raise ProblemError(WrongKind(place, "a configuration that is known", error.reason)) from error
    if LOSS not in state.outputs:
        raise ProblemError(NoLoss(frame.place(train.name.span), train.name.text, 0))
    return _finish(state, state.outputs)


class SettingElaborator(Elaborator):
    """Evaluates settings: numbers, texts, lists, and calls such as `adam(lr=1e-3)` kept as data."""

    def apply(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Evaluated:
        """A call in a setting is not applied: it is data for whoever reads the setting."""
        arguments: dict[str, Static] = {}
        positional: list[Static] = []
        for argument in call.arguments:
            value = None if isinstance(argument.value, ast.Rearrangement) else self.evaluate(argument.value, frame)
            if value is None or not is_static(value) or piped is not None or call.inputs:
                raise ProblemError(WrongKind(frame.place(call.span), "a number, text or list", call.span.text))
            if argument.name is None:
                positional.append(value)
            else:
                arguments[argument.name] = value
        return Invocation(call.callee, arguments, tuple(positional))


def evaluate_setting(module: LinkedModule, node: ast.Expression) -> Static:
    """The value of one setting. Raises `ProblemError`."""
    frame = Frame(Elaborating(Builder(), False), module, "run", {})
    value = SettingElaborator().evaluate(node, frame)
    if not is_static(value):
        raise ProblemError(WrongKind(frame.place(node.span), "a number, text or list", describe(value)))
    return value


def train_settings(module: LinkedModule, train: ast.Train) -> dict[str, Setting]:
    """The settings under `run:`, evaluated. Raises `ProblemError`."""
    settings: dict[str, Setting] = {}
    for statement in train.body:
        if isinstance(statement, ast.Run):
            for setting in statement.settings:
                value = evaluate_setting(module, setting.value)
                settings[setting.name.text] = Setting(value, setting.span)
    return settings


# --- expectations --------------------------------------------------------------------------------


def check_expectation(module: LinkedModule, node: ast.ExpectHas | ast.ExpectMaps) -> None:
    """Raise `ProblemError` unless the expectation holds."""
    elaborator = Elaborator()
    frame = Frame(Elaborating(Builder(), False), module, "expect", {})
    found = module.find(node.call.callee)
    if found is None or not isinstance(found[1], ast.Model):
        raise ProblemError(WrongKind(frame.place(node.call.callee_span), "a model", f"`{node.call.callee}`"))
    owner, model = found
    config: dict[str, Static] = {}
    for argument in node.call.arguments:
        value = None if isinstance(argument.value, ast.Rearrangement) else elaborator.evaluate(argument.value, frame)
        if argument.name is None or value is None or not is_static(value):
            raise ProblemError(WrongKind(frame.place(argument.span), "a named configuration", argument.span.text))
        config[argument.name] = value
    match node:
        case ast.ExpectHas():
            _check_counts(node, elaborate_model(owner, model, config=config, sizes=None, training=False))
        case ast.ExpectMaps():
            _check_maps(owner, model, node, config)


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
            raise ProblemError(ExpectationFailed(Place(count.span), f"`{node.call.callee}`", expected, found))


def _elements(info: ParameterInfo) -> int:
    count = product(info.type.shape)
    assert isinstance(count, int)
    return count


def _check_maps(
    module: LinkedModule, model: ast.Model, node: ast.ExpectMaps, config: Mapping[str, Static]
) -> None:
    elaborator = Elaborator()
    frame = Frame(Elaborating(Builder(), False), module, "expect", {})
    for type_ in (*node.inputs, *node.results):
        for entry in type_.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    frame.names.setdefault(name, dim(name))
    types = tuple(_written_type(type_, frame, elaborator) for type_ in node.inputs)
    elaboration = elaborate_model(module, model, config=config, sizes=None, training=False, inputs=types)
    wanted = tuple(_written_type(type_, frame, elaborator) for type_ in node.results)
    found = tuple(value.type for value in elaboration.graph.outputs.values())
    frame.build.facts = elaboration.facts
    for left, right in zip(wanted, found, strict=False):
        _check_mapped(node, frame, left, right)
    if len(wanted) != len(found):
        expected = f"{len(wanted)} results"
        raise ProblemError(ExpectationFailed(Place(node.span), f"`{node.call.callee}`", expected, str(len(found))))


def _check_mapped(node: ast.ExpectMaps, frame: Frame, wanted: TensorType, found: TensorType) -> None:
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
