"""A library layer is elaborated once and then replayed from a template.

A network applies the same few layers to the same few types many times. The ops of the
first application are recorded with the indices of their operands; a further one of the same
configuration, types and facts replays them under its own path. A layer that draws random bits is
not recorded: each draw has its own number.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.template import RecordedOp, RecordedParameter, Source, Template
from meganeura_dsl.elaborate.typecheck.index_reach import reach_of
from meganeura_dsl.elaborate.values import BlockValue, ElabValue, Tensor, is_tensor
from meganeura_dsl.ir.graph import Leaf, Origin
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.syntax import ast


def apply_template(
    inner: Frame, block: ast.Block, span: Span, run: Callable[[], tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """The results of `run`, or of the template of an equal application before it."""
    templates = inner.state.memo.templates
    if templates is None:
        return run()
    inputs = [value for item in block.inputs if is_tensor(value := inner.names[item.name])]
    key = application_key(inner, block, inputs) if inner.module.is_library else None
    if key is None or not all(reach_of(inner, value).is_trivial for value in inputs):
        return run()
    known = templates.get(key)
    if known is not None:
        return _repeat(inner, known, inputs, span)
    recorder = _Recorder(inner, inputs)
    results = run()
    template = recorder.template(results)
    if template is not None:
        templates[key] = template
    return results


def application_key(inner: Frame, block: ast.Block, inputs: Sequence[Tensor]) -> Hashable:
    """Returns a key that is equal for equal applications, or None if that cannot be decided."""
    state = inner.state
    distinct = len({value.id for value in inputs}) == len(inputs)
    if state.proof is not None or state.context.shared or not distinct:
        return None
    config = tuple(inner.names[parameter.name] for parameter in block.parameters)
    if any(isinstance(value, BlockValue) and value.path is not None for value in config):
        return None  # the weights of a layer that is given are not its own
    types = tuple(value.type for value in inputs)
    # An input that is the same number everywhere is left out of what it changes nothing in.
    neutral = _hashable(tuple(state.values.fill_values.get(value.id) for value in inputs))
    initials = frozenset(inner.initials.items())
    mode = (
        state.context.training,
        state.context.frozen,
        state.context.kept_mode,
        state.abstract.symbols,
        state.abstract.numbers,
    )
    configured = _hashable(config)
    if configured is None:
        return None
    return (
        block, configured, initials, types, neutral, mode, inner.facts, state.iterations_open
    )  # fmt: skip


def _hashable(config: tuple[ElabValue | None, ...]) -> Hashable:
    return tuple(map(with_types, config)) if is_hashable(config) else None


def is_hashable(key: tuple[object, ...]) -> bool:
    """True if a dict can have a key; one with a list in it, it cannot."""
    try:
        hash(key)
    except TypeError:
        return False
    return True


def with_types(value: ElabValue | None) -> tuple[Hashable, object]:
    """A key that distinguishes 1 from true and from 1.0, also in the arguments of a block."""
    if not isinstance(value, BlockValue):
        return type(value), value
    return value, tuple((name, with_types(each)) for name, each in value.config)


class _Recorder:
    """Sees what is made between its creation and `template`."""

    def __init__(self, inner: Frame, inputs: Sequence[Tensor]) -> None:
        self.inner = inner
        self.inputs = inputs
        state = inner.state
        self.values = state.build.count
        self.parameters = len(state.body.parameters)
        self.updates = dict(state.body.updates)
        self.reserved = len(state.body.declared_layers)
        self.notes = len(state.body.notes)
        self.layers = len(state.body.layers)

    def template(self, results: Sequence[Tensor]) -> Template | None:
        """The template of the recorded ops, if it can be replayed."""
        state, prefix = self.inner.state, self.inner.join("x")[:-1]
        built = state.build.values_from(self.values)
        if len(state.body.declared_layers) > self.reserved:
            return None
        if len(state.body.notes) > self.notes or any(isinstance(v.op, RandomBits) for v in built):
            return None
        declared = {
            state.body.leaves[info.name].id: RecordedParameter(info.name.removeprefix(prefix), info)
            for info in list(state.body.parameters.values())[self.parameters :]
        }
        numbers = {value.id: number for number, value in enumerate([*self.inputs, *built])}

        def source(value: Tensor) -> Source:
            return numbers.get(value.id, value)

        changed = {
            name: value
            for name, value in state.body.updates.items()
            if self.updates.get(name) is not value
        }
        read = [*results, *changed.values(), *(operand for v in built for operand in v.operands)]
        if not _are_numbers(each for each in read if each.id not in numbers):
            return None  # made before, of these inputs or parameters: not what another one is
        return Template(
            tuple(
                declared.get(v.id)
                or RecordedOp(v.op, tuple(map(source, v.operands)), v.type, v.index)
                for v in built
            ),
            tuple(map(source, results)),
            tuple((name.removeprefix(prefix), source(value)) for name, value in changed.items()),
            tuple(
                (path.removeprefix(prefix), layer)
                for path, layer in list(state.body.layers.items())[self.layers :]
            ),
        )


def _are_numbers(values: Iterable[Tensor]) -> bool:
    """True if values depend on no leaf of the graph; each value is visited once."""
    pending = list(values)
    seen = {value.id for value in pending}
    while pending:
        value = pending.pop()
        if isinstance(value.op, Leaf):
            return False
        new = [operand for operand in value.operands if operand.id not in seen]
        seen.update(operand.id for operand in new)
        pending.extend(new)
    return True


def _repeat(
    inner: Frame, template: Template, inputs: Sequence[Tensor], span: Span
) -> tuple[Tensor, ...]:
    state, location = inner.state, inner.location(span).outside()
    built: list[Tensor] = list(inputs)

    def value(source: Source) -> Tensor:
        return built[source] if isinstance(source, int) else source

    with state.build.at(Origin(inner.user_span(span), inner.path)):
        for step in template.steps:
            match step:
                case RecordedParameter(relative, info):
                    again = info._replace(name=inner.join(relative), location=location)
                    state.declare(again, inner.label)
                    built.append(state.body.leaves[again.name])
                case RecordedOp(op, operands, type_, index):
                    operands = map(value, operands)
                    built.append(state.build.add_typed(op, type_, *operands, index=index))
    for relative, source in template.updates:
        state.body.updates[inner.join(relative)] = value(source)
    for relative, layer in template.layers:
        path = inner.join(relative)
        state.body.layers[path] = replace(layer, path=path)
    return tuple(map(value, template.results))
