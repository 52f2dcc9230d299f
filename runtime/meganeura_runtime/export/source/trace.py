"""The applications of blocks while a model is elaborated, with all that was evaluated in each.

The source of a model is written from its syntax tree. The trace says of each node of the tree what
it was: a size, a number, a tensor of some type, and which block a call applied.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from meganeura_dsl.elaborate.body.blocks.block_application import model_application
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.body.expressions.choices import choose
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.declarations.models import (
    Elaboration,
    Inputs,
    finish,
    named_results,
    opened,
    run_model,
)
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Elaborator, Frame
from meganeura_dsl.elaborate.values import ElabValue, Results, StaticValue, is_static
from meganeura_dsl.syntax import ast

Names = Mapping[str, ElabValue]


@dataclass(frozen=True)
class Event:
    """One application of a block: the names that were known around it, and what was applied."""

    names: Names
    child: "Instance"


@dataclass(frozen=True)
class Labelled:
    """A path that a statement or a label named, its numbers evaluated, and the names around it."""

    names: Names
    words: tuple[str, ...]


@dataclass(eq=False)
class Instance:
    """One application of a block, and what was evaluated in its body."""

    block: ast.Block
    frame: Frame
    parent: "Instance | None"
    signature: Names
    """The values of its inputs, of its configuration and of the sizes in its signature."""
    values: dict[ast.Node, list[ElabValue]] = field(
        default_factory=dict[ast.Node, "list[ElabValue]"]
    )
    choices: dict[ast.Node, list[bool]] = field(default_factory=dict[ast.Node, "list[bool]"])
    events: dict[ast.Call, list[Event]] = field(default_factory=dict[ast.Call, "list[Event]"])
    binds: dict[ast.Bind, list[Names]] = field(default_factory=dict["ast.Bind", "list[Names]"])
    """The names that were known before each run of a statement that binds."""
    labels: dict[ast.Node, list[Labelled]] = field(default_factory=dict[ast.Node, "list[Labelled]"])
    """The paths of its layers, parameters and states, by call or statement, in order."""
    order: list[tuple[str, ...]] = field(default_factory=list["tuple[str, ...]"])
    """These paths in the order in which they came."""
    owns: bool = False
    """True if there are parameters or states in it or below it."""

    @property
    def path(self) -> str:
        """The path of its weights."""
        return self.frame.path

    def fill_of(self, value: ElabValue) -> StaticValue | None:
        """The number that fills an optional tensor that was not given; None of another."""
        known = self.frame.state.values.fill_values
        return known.get(getattr(value, "id", -1))

    def label(self, node: ast.Node, words: tuple[str, ...], names: Names) -> None:
        """Notes the path of a layer, a parameter or a state."""
        self.labels.setdefault(node, []).append(Labelled(names, words))
        if words not in self.order:
            self.order.append(words)


def label_of(call: ast.Call, module: LinkedModule) -> ast.Path | None:
    """The path of what a call applies: its own label or, of a model, the model's."""
    if call.label is not None:
        return call.label
    found = module.find(call.callee)
    match found:
        case (home, ast.Model(call=inner)):
            return label_of(inner, home)
        case _:
            return None


class Tracer:
    """Makes an elaborator that keeps what it evaluates, by application and node."""

    def __init__(self) -> None:
        self.root: Instance | None = None
        self.state: ElaborationState | None = None
        """The state of the model's elaboration; other states try if blocks fit."""
        self.all: list[Instance] = []
        self._by_frame: dict[int, Instance] = {}
        self._calls: list[tuple[ast.Call, Frame]] = []

    def elaborator(self) -> Elaborator:
        """Returns the table of the walk, each function of which is seen."""
        expressions = {
            kind: partial(self._evaluate, evaluate)
            for kind, evaluate in ELABORATOR.expressions.items()
        }
        return replace(ELABORATOR, expressions=expressions, run=self._run)

    def _instance(self, frame: Frame) -> Instance | None:
        """Returns the application that a frame is of, begun with the first statement in it."""
        found = self._by_frame.get(id(frame))
        return found if found is not None and found.frame is frame else None

    def _evaluate(
        self, evaluate: Callable[..., ElabValue], node: ast.Expression, frame: Frame
    ) -> ElabValue:
        instance = self._instance(frame)
        if instance is not None and isinstance(node, ast.Conditional):
            instance.choices.setdefault(node, []).append(choose(node, frame))
        call = node.layer if isinstance(node, ast.Pipe) else node
        if isinstance(call, ast.Call):
            self._calls.append((call, frame))
            try:
                value = evaluate(node, frame)
            finally:
                self._calls.pop()
        else:
            value = evaluate(node, frame)
        if instance is not None:
            instance.values.setdefault(node, []).append(value)
        return value

    def _run(
        self, statement: ast.Statement, frame: Frame, rest: tuple[ast.Statement, ...]
    ) -> Results | None:
        instance = self._instance(frame)
        is_new = instance is None and frame.state is self.state
        if is_new and isinstance(frame.declaration, ast.Block):
            instance = self._begin(frame.declaration, frame)
        match statement:
            case ast.If() if instance is not None:
                chosen = choose(statement, frame, rest)
                instance.choices.setdefault(statement, []).append(chosen)
            case ast.Bind() if instance is not None:
                instance.binds.setdefault(statement, []).append(_static(frame))
            case ast.Declare(path=path) if instance is not None:
                words = tuple(path_text(path, frame).split("."))
                instance.label(statement, words, _static(frame))
                around: Instance | None = instance
                while around is not None:
                    around.owns = True
                    around = around.parent
            case ast.Layer(call=ast.Call(label=ast.Path() as path)) if instance is not None:
                words = tuple(path_text(path, frame).split("."))
                instance.label(statement, words, _static(frame))
            case _:
                pass
        return ELABORATOR.run(statement, frame, rest)

    def _begin(self, block: ast.Block, frame: Frame) -> Instance:
        """Notes an application, whose signature is bound, with the call that led to it."""
        call, around = self._calls[-1] if self._calls else (None, None)
        parent = None if around is None else self._instance(around)
        found = Instance(block, frame, parent, dict(frame.signature))
        self.root = self.root or found
        self._by_frame[id(frame)] = found
        self.all.append(found)
        if parent is not None and call is not None and around is not None:
            event = Event(_static(around), found)
            parent.events.setdefault(call, []).append(event)
            label = label_of(call, around.module)
            if label is not None and label.parts:
                text = path_text(label, around)
                parent.label(call, tuple(text.split(".")), event.names)
        return found


def _static(frame: Frame) -> Names:
    return {name: value for name, value in frame.names.items() if is_static(value)}


@dataclass(frozen=True)
class Trace:
    """The applications of all blocks of a model, in evaluation and in training."""

    elaborated: Elaboration
    """The elaboration in evaluation."""
    roots: tuple[Instance, ...]
    all: tuple[Instance, ...]

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.all)


def traced(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
) -> Trace:
    """The trace of a model; sizes that are not given stay open. Raises `ProblemError`."""
    tracers = Tracer(), Tracer()
    found = [
        _elaborated(tracer, module, model, config, sizes, training=training)
        for training, tracer in zip((False, True), tracers, strict=True)
    ]
    roots = tuple(each.root for each in tracers if each.root is not None)
    return Trace(found[0], roots, tuple(each for tracer in tracers for each in tracer.all))


def _elaborated(
    tracer: Tracer,
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
    *,
    training: bool,
) -> Elaboration:
    """Elaborates a model, each application of a block by itself, so that all of it is seen."""
    state = opened(tracer.elaborator(), training=training)
    state.memo.templates = None
    tracer.state = state
    root = Frame(state, module, model.name.text, {}, declaration=None)
    overrides = Arguments((), dict(config))
    application = model_application(module, model, overrides, "", model.call.span, root)
    results = run_model(application, root, sizes, Inputs())
    return finish(state, named_results(application, results))
