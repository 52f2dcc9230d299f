"""Models as graphs, their free sizes symbolic or given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.block_application import (
    Application,
    model_application,
    run_block,
)
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.body.layers.layer_copies import copied
from meganeura_dsl.elaborate.builtins.initial_values import take_initials
from meganeura_dsl.elaborate.declarations.block_proofs import prove_block
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location, counted
from meganeura_dsl.elaborate.problems.name_problems import NotAllowedHere
from meganeura_dsl.elaborate.problems.shape_problems import RankMismatch
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.binding import Binding, NamedValue
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.named_values import chosen_values
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Elaborator, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.typecheck.argument_binding import bind_config
from meganeura_dsl.elaborate.typecheck.conditions import condition_on_all_paths
from meganeura_dsl.elaborate.typecheck.index_ranges import settle
from meganeura_dsl.elaborate.typecheck.result_facts import stated_facts
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import with_symbols
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import REST_RANKS, rest_axes, rest_names
from meganeura_dsl.elaborate.typecheck.written_types import (
    dtype_of,
    shape_of,
    without_configuration,
)
from meganeura_dsl.elaborate.values import Axes, Results, StaticValue, Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Builder, Graph, Leaf
from meganeura_dsl.ir.index_checks import Bound
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits.language_limits import CHECK
from meganeura_dsl.limits.work_budget import OutOfWorkError, at_most
from meganeura_dsl.symbolic.assumptions import Compare, Condition, Facts, show_condition
from meganeura_dsl.symbolic.conditions import with_sizes
from meganeura_dsl.symbolic.size import Dim, dim, substitute
from meganeura_dsl.syntax import ast

MOST_BELOW = 4096
"""The most numbers below 0 that data may hold if `where` allows them."""
TAKEN = "is the seed and the step where random numbers are drawn: it needs another name"
"""The reason why nothing else has the name of the counter."""


@dataclass(frozen=True)
class Elaboration:
    """A model or a `train` block as a graph, with what a checkpoint and a reader need to know."""

    graph: Graph
    parameters: tuple[ParameterInfo, ...]
    """The parameters that a checkpoint holds."""
    caches: tuple[ParameterInfo, ...]
    """The tensors that a session keeps from call to call and no checkpoint holds."""
    inputs: Mapping[str, TensorType]
    bindings: tuple[Binding, ...]
    notes: tuple[Problem, ...]
    facts: Facts
    own: tuple[str, ...]
    """The parameters that belong to no model that was applied, by name."""
    blocks: frozenset[ast.Block]
    """The blocks it is made of."""
    positions: Mapping[str, Dim]
    """The symbol for any element of each input of whole numbers that `where` uses."""
    symbols: frozenset[str]
    """The symbols in these sizes that stand for elements."""

    def stated_bounds(self, sizes: Mapping[str, int]) -> dict[str, Bound]:
        """Returns the bounds that `where` states for inputs, which data is compared with.

        Of numbers below 0 those are allowed that it states, if sizes decide which these are.
        """
        found: dict[str, Bound] = {}
        for name, size in self.positions.items():
            (symbol,) = (each for each in size.variables() if each in self.symbols)
            number = {symbol: dim(symbol) - (size - dim(symbol))}
            least = substitute(size - dim(symbol), sizes)
            if not isinstance(least, int):
                continue
            allowed = frozenset(range(max(least, -MOST_BELOW), 0))
            for fact in self.facts.stated:
                about = with_sizes(fact, number)
                count = count_below(with_sizes(about, sizes), symbol)
                if count is not None:
                    shown = show_condition(with_sizes(about, {symbol: dim(name)}))
                    bound = Bound(count, allowed, str(count), f"where {shown}")
                    found[name] = found.get(name, bound).narrowed(bound)
        return found


@dataclass(frozen=True)
class Inputs:
    """The inputs of a model, of the types in its signature unless others are given."""

    types: tuple[TensorType, ...] = ()
    """One for each input that has no default, or for each input; none for those it says."""
    optional: frozenset[str] = frozenset()
    """The names of inputs with a default that are fed as well."""
    facts: Facts | None = None
    """Facts about the sizes in the types that are given."""

    def of(self, block: ast.Block) -> tuple[ast.Input, ...]:
        """The inputs of a block that are fed, in order."""
        return tuple(
            each for each in block.inputs if each.default is None or each.name in self.optional
        )


@dataclass(frozen=True)
class Asked:
    """The values of a model that are given out beside its results."""

    patterns: tuple[str, ...] = ()
    """Names of values, in which `*` stands for any characters."""
    shown: bool = False
    """True adds those that the program shows."""


def count_below(fact: Condition, name: str) -> int | None:
    """The `c` of a fact that is `name < c`, however it is written; None if it is not."""
    if not isinstance(fact, Compare):
        return None
    left, right, operator = fact.left, fact.right, fact.operator
    if operator in (">", ">="):
        left, right, operator = right, left, "<" if operator == ">" else "<="
    rest = right - left + dim(name)
    if operator not in ("<", "<=") or not isinstance(rest, int):
        return None
    return rest if operator == "<" else rest + 1


def elaborate_model(
    module: LinkedModule,
    model: ast.Model,
    *,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int] | None,
    training: bool,
    inputs: Inputs | None = None,
    summaries: Summaries | None = None,
) -> Elaboration:
    """The graph of a model, its free sizes symbolic unless `sizes` gives them.

    With `summaries` the graph is one of a check. Raises `ProblemError`.
    """
    inputs = inputs or Inputs()
    state = opened(ELABORATOR, training=training, facts=inputs.facts, summaries=summaries)
    root = Frame(state, module, model.name.text, {}, declaration=None)
    overrides = Arguments((), dict(config))
    application = model_application(module, model, overrides, "", model.call.span, root)
    return _elaborate(application, root, sizes or {}, inputs)


def elaborate_values(
    module: LinkedModule,
    model: ast.Model,
    *,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int] | None,
    inputs: Inputs,
    asked: Asked,
) -> Elaboration:
    """The graph of a model in evaluation, with the values that are asked for behind its results.

    Raises `ProblemError`, also for a name of no value.
    """
    state = opened(ELABORATOR, training=False)
    state.body.named, state.memo.templates = [], None  # each layer is looked into
    root = Frame(state, module, model.name.text, {}, declaration=None)
    overrides = Arguments((), dict(config))
    application = model_application(module, model, overrides, "", model.call.span, root)
    results = named_results(application, run_model(application, root, sizes or {}, inputs))
    named = [*state.body.named, *(NamedValue(*each) for each in results.items())]
    values = chosen_values(named, asked.patterns, shown=asked.shown)
    others = {name: each for name, each in values.items() if name not in results}
    return finish(state, {**results, **others})


def elaborate_block(
    module: LinkedModule,
    block: ast.Block,
    *,
    config: Mapping[str, StaticValue],
    inputs: Inputs,
    training: bool,
    span: Span | None = None,
    summaries: Summaries | None = None,
) -> Elaboration:
    """The graph of a block by itself, as of a model with this configuration.

    `span` is where the block is applied, if anywhere. With `summaries` the graph is one of a
    check. Raises `ProblemError`.
    """
    state = opened(ELABORATOR, training=training, facts=inputs.facts, summaries=summaries)
    root = Frame(state, module, block.name.text, {}, declaration=None)
    arguments = Arguments((), dict(config))
    application = Application(module, block, arguments, "", span or block.name.span)
    return _elaborate(application, root, {}, inputs)


def opened(
    elaborator: Elaborator,
    *,
    training: bool,
    facts: Facts | None = None,
    summaries: Summaries | None = None,
) -> ElaborationState:
    """An elaboration that has not begun; those of one check start from the same facts."""
    if facts is None and summaries is not None:
        facts = summaries.facts
    # What fails with summaries is elaborated once more without them.
    is_proved = _is_proved if summaries is None else None
    context = Context(training, summaries=summaries, is_proved=is_proved)
    return ElaborationState(elaborator, Builder(facts), context)


def _is_proved(module: LinkedModule, block: ast.Block) -> bool:
    return prove_block(module, block) is None


def _elaborate(
    application: Application,
    root: Frame,
    sizes: Mapping[str, int],
    inputs: Inputs,
) -> Elaboration:
    results = run_model(application, root, sizes, inputs)
    return finish(root.state, named_results(application, results))


def named_results(application: Application, results: Results) -> dict[str, Tensor]:
    """The results of a model by the names of its outputs, which are those of the signature.

    Without names there a result is `output`, and several are `output0`, `output1` and so on.
    """
    names: Sequence[str] = application.block.result_names
    if not names:
        several = len(results) > 1
        names = [f"output{index}" for index in range(len(results))] if several else ["output"]
    return dict(zip(names, results, strict=True))


def run_model(
    application: Application,
    root: Frame,
    sizes: Mapping[str, int],
    inputs: Inputs,
) -> Results:
    """The results of a model's block on its own inputs. Raises `ProblemError`."""
    location = Location(application.span)
    try:
        with at_most(CHECK), without_configuration(location):
            return _run_model(application, root, sizes, inputs)
    except OutOfWorkError as error:
        raise ProblemError(TooMuchWork(location, error.reason, root.name)) from error


def _run_model(
    application: Application,
    root: Frame,
    sizes: Mapping[str, int],
    inputs: Inputs,
) -> Results:
    block, state = application.block, root.state
    inner = Frame(
        state, application.module, block.name.text, {}, application.path,
        parent=root, call_span=application.span, declaration=block,
    )  # fmt: skip
    config = take_initials(inner, block, application.arguments, application.span)
    bind_config(inner, block.name.text, block.parameters, config, application.span)
    fed = inputs.of(block)
    given = inputs.types or _signature_inputs(inner, block, fed, sizes)
    tensors: dict[str, Tensor] = {}
    items = block.inputs if len(given) == len(block.inputs) else fed
    if len(given) != len(items):
        what = f"`{block.name.text}`"
        wanted, found = (counted(len(each), "tensor") for each in (items, given))
        raise ProblemError(RankMismatch(root.location(application.span), what, wanted, found))
    for item, type_ in zip(items, given, strict=True):
        leaf = ops.Input(item.name, type_.dtype, type_.shape)
        tensors[item.name] = root.add(item.span, leaf)
    inner.names.update(tensors)
    with_symbols(inner, block)
    given_config = application.arguments
    arguments = Arguments(given_config.positional, {**given_config.named, **tensors})
    run = replace(application, arguments=arguments)
    results = run_block(run, root)
    for item in items:
        if item.name == COUNTER and state.body.counter is not None:
            raise root.refuse(item.span, f"`{COUNTER}`", TAKEN)
    return results


def _signature_inputs(
    inner: Frame,
    block: ast.Block,
    fed: tuple[ast.Input, ...],
    sizes: Mapping[str, int],
) -> tuple[TensorType, ...]:
    """The types a signature asks for, its own `where` assumed: the model's domain.

    A clause that this configuration makes false is not assumed, since everything would follow from
    it: the block's application refuses it.
    """
    for name in rest_names(block):
        axes = rest_axes(block, name, REST_RANKS[0])
        inner.names[name] = Axes(substitute(axis, sizes) for axis in axes)
    for item in block.inputs:
        for entry in item.type.shape.entries:
            if not isinstance(entry, ast.Rest):
                for name in size_names(entry):
                    inner.names.setdefault(name, sizes.get(name, dim(name)))
    stated = with_symbols(inner, block)
    for clause in stated_facts(block):
        assumed = inner.facts.assume(condition_on_all_paths(clause, stated))
        if not assumed.is_contradictory:
            inner.build.facts = assumed
    return tuple(
        TensorType(dtype_of(item.type, inner), shape_of(item.type.shape, inner)) for item in fed
    )


def finish(state: ElaborationState, outputs: Mapping[str, Tensor]) -> Elaboration:
    """Closes an elaboration into a graph. Raises `ProblemError`."""
    _require_one_counter(state)
    settle(state)
    inputs = {
        value.op.name: value.type for value in state.build.values if isinstance(value.op, ops.Input)
    }
    graph = state.build.graph(outputs, state.body.updates)
    declared = copied(state.in_order(), state.body.copies)
    return Elaboration(
        graph,
        tuple(each for each in declared if each.kind != "cache"),
        tuple(each for each in declared if each.kind == "cache"),
        inputs,
        tuple(state.body.bindings),
        tuple(note.problem for note in state.body.notes),
        state.build.facts,
        tuple(state.body.own),
        frozenset(state.body.applied.blocks),
        {
            value.op.name: size
            for value in state.build.values
            if isinstance(value.op, ops.Input)
            and value.id not in state.values.unconstrained_indices
            and isinstance(size := state.values.symbolic_ints.get(value.id), Dim)
        },
        frozenset(state.values.lasting_symbols),
    )


def _require_one_counter(state: ElaborationState) -> None:
    """Refuse a leaf that is called as the seed and the step are, which random numbers need."""
    for value in state.build.values if state.body.counter is not None else ():
        if (
            isinstance(value.op, Leaf)
            and value.op.name == COUNTER
            and value is not state.body.counter
        ):
            span = value.origin.span
            assert span is not None
            raise ProblemError(NotAllowedHere(Location(span), f"`{COUNTER}`", TAKEN))
