"""Optimizers of a program: their arguments, their proof, and the graph of a rule for one shape.

A rule is a block of a parameter, its gradient and the learning rate, which may have states of the
parameter's shape and scalars, and nothing else that outlasts a step.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from keyword import iskeyword

from meganeura_dsl.diagnostics.other_names import Answer
from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.block_application import Application
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR, EXPRESSIONS, run_statement
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.body.statements.parameters import declare_parameter, set_update
from meganeura_dsl.elaborate.declarations.block_proofs import Prover
from meganeura_dsl.elaborate.declarations.models import Inputs, finish, opened, run_model
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import CheckedPerModel, UnknownName
from meganeura_dsl.elaborate.problems.rule_problems import (
    NotInOptimizer,
    UnfitOptimizer,
    UnfitState,
)
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.scope.undecided import OpenNumberError
from meganeura_dsl.elaborate.values import ElabValue, Results, StaticValue, is_tensor
from meganeura_dsl.ir.graph import Builder, Graph
from meganeura_dsl.ir.reserved_names import OPTIMIZERS
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Flag
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

RESULT = "output"
"""The output of the graph of a rule: the next value of the parameter."""
TAKEN = ("kind", "from")
"""Names that records of settings have for other things."""
NUMBERS = ("real", "int", "size")
"""Kinds of arguments that are numbers."""
KINDS = (*NUMBERS, "bool")
"""Kinds of arguments that are words; the others are texts."""
GRADIENTS = ("g", "grad", "grads", "gradient", "dp", "dw")
"""Names that nobody gives a parameter."""
RATE = TensorType(DType.F32, ())


@dataclass(frozen=True)
class RuleArgument:
    """An argument of an optimizer, as the parameter of its header says."""

    name: str
    kind: str
    """`real`, `int`, `size` or `bool`; empty for texts."""
    texts: tuple[str, ...]
    default: StaticValue | None
    """None if it has to be given."""


# --- the header ----------------------------------------------------------------------------------


def rule_arguments(module: LinkedModule, node: ast.Optimizer) -> tuple[RuleArgument, ...]:
    """The arguments of an optimizer. Raises `ProblemError` for a header of another form."""
    _require_form(node)
    frame = Frame(ElaborationState(ELABORATOR, Builder()), module, node.name.text, {})
    return tuple(_argument(each, frame) for each in node.parameters)


def _require_form(node: ast.Optimizer) -> None:
    name = node.name.text
    if name in OPTIMIZERS:
        fault = f"`{name}` means something else where a run names its optimizer"
        cure = Help("give it another name", f"optimizer my_{name}")
        raise _unfit(node.name.span, fault, "this name is built in", cure)
    if not any(each.name == ast.RATE for each in node.parameters):
        fault = f"the optimizer `{name}` has no `{ast.RATE}`"
        raise _unfit(node.name.span, fault, "schedules and groups change the learning rate")
    names = {each.text for part in node.body for each in walk(part) if isinstance(each, ast.Name)}
    if ast.RATE not in names:
        fault = f"the optimizer `{name}` never reads `{ast.RATE}`"
        raise _unfit(node.name.span, fault, "schedules and groups would change nothing")
    if len(node.inputs) != 2:
        fault = f"the optimizer `{name}` takes {len(node.inputs)} tensors, not 2"
        raise _unfit(node.name.span, fault, "it takes a parameter, then its gradient")
    first, second = node.inputs
    if first.name in GRADIENTS and second.name not in GRADIENTS:
        fault = f"`{first.name}` is the parameter here, and `{second.name}` its gradient"
        raise _unfit(first.span, fault, "a rule takes a parameter, then its gradient")
    for each in node.inputs:
        if each.default is not None:
            fault = f"`{each.name}` has a default, and a step always gives it"
            raise _unfit(each.default.span, fault, "leave it out")
        if each.type.dtype not in (None, "f32"):
            fault = f"`{each.name}` is {each.type.dtype}, and optimizers compute in f32"
            raise _unfit(each.type.span, fault, "leave the element type out")
    if _shape(second.type) != _shape(first.type):
        fault = f"`{second.name}` has another shape than `{first.name}`"
        raise _unfit(second.type.span, fault, "a gradient has the shape of its parameter")
    results = node.results or ()
    if len(results) != 1 or _shape(results[0]) != _shape(first.type):
        span = results[0].span if results else node.name.span
        fault = f"the optimizer `{name}` does not state that it returns the next `{first.name}`"
        raise _unfit(span, fault, f"its result is {first.type.span.text}")
    if results[0].dtype not in (None, "f32"):
        fault = f"the result is {results[0].dtype}, and optimizers compute in f32"
        raise _unfit(results[0].span, fault, "leave the element type out")


def _shape(type_: ast.Type) -> str:
    return "".join(type_.shape.span.text.split())


def _argument(parameter: ast.Parameter, frame: Frame) -> RuleArgument:
    """The argument of a parameter; its default is a number, a truth value or a text."""
    name, kind, default = parameter.name, parameter.kind, parameter.default
    if name in TAKEN or iskeyword(name):
        fault = f"`{name}` is the name of something else where settings are kept"
        cure = Help("give it another name", f"{name}_: real")
        raise _unfit(parameter.span, fault, "this argument needs another name", cure)
    value = None if default is None else frame.evaluate(default)
    texts: tuple[str, ...] = ()
    match kind, value:
        case ast.TextKind(options=options), _:
            word, texts = "", tuple(each.value for each in options)
        case ast.NamedKind(name=word), _ if word in KINDS:
            pass
        case None, bool():
            word = "bool"
        case None, float():
            word = "real"
        case _:
            fault = f"`{name}` has no kind that an argument of an optimizer has"
            cure = Help(f"it is one of {', '.join(KINDS)} and texts", f"{name}: real")
            raise _unfit(parameter.span, fault, "settings give it a number, a word or a text", cure)
    if name == ast.RATE and word != "real":
        cure = Help("it is a real number", f"{ast.RATE}: real")
        raise _unfit(parameter.span, f"`{name}` is the learning rate", "a number above 0", cure)
    if name == ast.RATE and _is_of(value, "real", ()) and not _is_above_0(value):
        raise _unfit(parameter.span, f"`{name}` is {value} unless it is given", "it is above 0")
    if default is not None and not _is_of(value, word, texts):
        words = " or ".join(f'"{each}"' for each in texts) if texts else f"`{word}`"
        raise _unfit(default.span, f"the default of `{name}` is not {words}", "", _no_cure(name))
    return RuleArgument(name, word, texts, None if default is None else _static(value))


def _is_above_0(value: ElabValue | None) -> bool:
    return isinstance(value, int | float) and value > 0


def _is_of(value: ElabValue | None, kind: str, texts: tuple[str, ...]) -> bool:
    """True if a default is of a kind that an argument takes."""
    match value:
        case bool():
            return kind == "bool"
        case int():
            return kind in ("real", "int") or (kind == "size" and value > 0)
        case float():
            return kind == "real"
        case str():
            return value in texts
        case _:
            return False


def _static(value: ElabValue | None) -> StaticValue:
    assert isinstance(value, bool | int | float | str)
    return value


def _no_cure(name: str) -> Help:
    return Help(f"give `{name}` a default of its kind, or none")


def _unfit(span: Span, fault: str, label: str, cure: Help | None = None) -> ProblemError:
    problem = UnfitOptimizer(Location(span), fault, label)
    return ProblemError(problem if cure is None else replace(problem, cure=cure))


# --- the body ------------------------------------------------------------------------------------


def _is_outermost(frame: Frame) -> bool:
    """True in the rule itself, and not in a block that it applies."""
    return frame.parent is None or frame.parent.declaration is None


def _run(statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]) -> Results | None:
    """Runs a statement of a rule: states alone outlast it, each with one next value."""
    match statement:
        case ast.Declare():
            _declare(statement, frame)
        case ast.Layer():
            cure = Help("apply a block without weights where it is needed")
            raise ProblemError(
                NotInOptimizer(frame.location(statement.span), "layers", "this has weights", cure)
            )
        case ast.Update():
            _update(statement, frame)
        case ast.Return() if _is_outermost(frame):
            results = run_statement(statement, frame, rest)
            _require_updated(frame)
            return results
        case _:
            return run_statement(statement, frame, rest)
    return None


def _declare(statement: ast.Declare, frame: Frame) -> None:
    name = statement.path.span.text
    if not _is_outermost(frame):
        inner = frame
        while inner.parent is not None and not _is_outermost(inner.parent):
            inner = inner.parent
        assert inner.parent is not None
        location = inner.parent.location(inner.call_span or statement.span)
        what = "states in what it applies" if statement.kind == "state" else "weights"
        cure = Help("what outlasts a step is a state of the rule", "state m: [...s] = zeros")
        label = f"`{inner.name}` has the {statement.kind} `{name}`"
        raise ProblemError(NotInOptimizer(location, what, label, cure))
    location = frame.location(statement.span)
    if statement.kind != "state":
        what = "caches" if statement.kind == "cache" else "weights"
        cure = Help("what outlasts a step is a state", f"state {name}: [...s] = zeros")
        raise ProblemError(NotInOptimizer(location, what, "an optimizer has states", cure))
    if statement.initial is not None and statement.initial.span.text not in ("zeros", "zeros()"):
        cure = Help("let it hold the difference from that value", f"state {name}: ... = zeros")
        fault = f"begins as {statement.initial.span.text}"
        raise ProblemError(UnfitState(location, name, fault, "states begin at 0", cure))
    declare_parameter(statement, frame)
    moved = _parameter(frame)
    found = frame.state.body.parameters[frame.join(path_text(statement.path, frame))].type
    if found.shape not in (moved.shape, ()) or found.dtype not in (DType.F32, DType.I32):
        cure = Help("state it so, or as a scalar", f"state {name}: {_written(frame)} = zeros")
        label = f"the parameter is {moved}, in f32; a count may be i32"
        raise ProblemError(UnfitState(location, name, f"is {found}", label, cure))


def _parameter(frame: Frame) -> TensorType:
    """The type of the parameter that a rule moves."""
    assert isinstance(frame.declaration, ast.Block)
    value = frame.signature[frame.declaration.inputs[0].name]
    assert is_tensor(value)
    return value.type


def _written(frame: Frame) -> str:
    """The type of the parameter as the header has it."""
    assert isinstance(frame.declaration, ast.Block)
    return frame.declaration.inputs[0].type.span.text


def _update(statement: ast.Update, frame: Frame) -> None:
    name = path_text(statement.path, frame)
    if frame.join(name) in frame.state.body.updates:
        cure = Help("bind what is on the way to a name, and update the state once")
        location = frame.location(statement.span)
        raise ProblemError(
            UnfitState(location, name, "is updated twice", "it has its next value already", cure)
        )
    set_update(statement, frame)


def _require_updated(frame: Frame) -> None:
    """Refuse a state that keeps its first value."""
    body = frame.state.body
    for each in body.parameters.values() if frame.state.recovery is None else ():
        if each.name not in body.updates:
            cure = Help("say what it is after the step, or leave it out", f"update {each.name} = ")
            raise ProblemError(
                UnfitState(each.location, each.name, "is never updated", "it stays at 0", cure)
            )


def _without_draws(evaluate: Callable[..., ElabValue]) -> Callable[..., ElabValue]:
    """Evaluates calls, of which none may draw random numbers."""

    def evaluated(node: ast.Expression, frame: Frame) -> ElabValue:
        value, body = evaluate(node, frame), frame.state.body
        if body.counter is not None:
            body.counter = None
            cure = Help("draw them in the `train` block, where a seed and the step decide them")
            what, label = "random numbers", "this draws some"
            raise ProblemError(NotInOptimizer(frame.location(node.span), what, label, cure))
        return value

    return evaluated


def _named(node: ast.Name, frame: Frame) -> ElabValue:
    """The value of a name, of which a rule has few."""
    try:
        return EXPRESSIONS[ast.Name](node, frame)
    except ProblemError as error:
        problem = error.problem
        if type(problem) is not UnknownName or problem.nearest or problem.foreign:
            raise
        words = "a rule reads its parameter, its gradient, its arguments and its states alone"
        raise ProblemError(replace(problem, foreign=Answer(words, ()))) from error


def _compared(node: ast.Binary, frame: Frame) -> ElabValue:
    """The value of a binary expression; in a proof both answers to what arguments alone decide."""
    try:
        return EXPRESSIONS[ast.Binary](node, frame)
    except OpenNumberError:
        block = frame.declaration
        if not _is_outermost(frame) or not isinstance(block, ast.Block):
            raise
        nodes = [each for statement in block.body for each in walk(statement)]
        bound = {name.text for each in nodes if isinstance(each, ast.Bind) for name in each.targets}
        given = {each.name for each in block.parameters} - bound
        read = {each.text for each in walk(node) if isinstance(each, ast.Name)}
        if not read <= given:
            raise
        return Flag(" ".join(node.span.text.split()))


RULE_ELABORATOR = replace(
    ELABORATOR,
    expressions={
        **EXPRESSIONS,
        **{form: _without_draws(EXPRESSIONS[form]) for form in (ast.Call, ast.Pipe)},
        ast.Binary: _compared,
        ast.Name: _named,
    },
    run=_run,
)
"""Elaborates the rules of optimizers."""


# --- proof and graph -----------------------------------------------------------------------------


class RuleProver(Prover):
    """Proves rules for all shapes and arguments, looking into all that they apply."""

    elaborator = RULE_ELABORATOR

    def flags_if_proved(self, module: LinkedModule, block: ast.Block) -> None:
        """None: a signature does not say whether a block draws or has weights."""

    def problems(self, module: LinkedModule, node: ast.Optimizer) -> tuple[Problem, ...]:
        """Prove a rule; returns all that is wrong with it."""
        try:
            rule_arguments(module, node)
        except ProblemError as error:
            return (error.problem,)
        problem = self.prove(module, node.rule)
        if problem is None:
            return ()
        if isinstance(problem, CheckedPerModel):
            fault = f"the rule `{node.name.text}` cannot be proved for all shapes and arguments"
            cure = Help("leave that out")
            return (UnfitOptimizer(problem.location, fault, problem.reason, cure),)
        return (problem, *self.further(module, node.rule, problem))


def rule_graph(
    module: LinkedModule,
    node: ast.Optimizer,
    config: Mapping[str, StaticValue],
    of: TensorType,
) -> Graph:
    """The graph of a rule that moves parameters of a type: output `output`, and next states.

    Its inputs have the names of the header and `lr`. Raises `ProblemError` for a shape or arguments
    that the header does not allow.
    """
    given = {name: value for name, value in config.items() if name != ast.RATE}
    state = opened(RULE_ELABORATOR, training=True)
    root = Frame(state, module, node.name.text, {}, declaration=None)
    application = Application(module, node.rule, Arguments((), given), "", node.name.span)
    (result,) = run_model(application, root, {}, Inputs((of, of, RATE)))
    return finish(state, {RESULT: result}).graph
