"""Layers and blocks: made in a constructor, applied in `forward`."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.configuration import config, configuration
from meganeura_runtime.export.source.layers import Given, referenced, tensors_of
from meganeura_runtime.export.source.library_use import function_for
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.paths import path_key
from meganeura_runtime.export.source.text import Code, call
from meganeura_runtime.export.source.torch import library
from meganeura_runtime.export.source.torch.sizes import size_text
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.torch.widths import source_of
from meganeura_runtime.export.source.trace import Event, label_of
from meganeura_runtime.export.source.unit import Unit

Nodes = Mapping[str, ast.Expression]
"""The tensors that a call gives a block, by the names of its inputs."""


def declare_layer(writer: TorchWriter, statement: ast.Layer) -> None:
    """Makes a layer that is declared before it is applied."""
    path = statement.call.label
    assert path is not None
    if statement.source is not None:
        raise refuse(statement, "a layer that begins as a copy")
    events: list[Event] = []
    for instance in writer.instances:
        for label in instance.labels.get(statement, ()):
            full = instance.frame.join(".".join(label.words))
            events += [
                Event(label.names, each)
                for each in writer.source.trace
                if each.path == full
                and each.frame.state is instance.frame.state
                and each.parent is not None
                and each.parent.path != full
            ]
    writer.declared[".".join(path_key(path))] = statement
    if events:
        _make(writer, statement.call, path, events)
        _note_width(writer, statement.call)


def _make(writer: TorchWriter, node: ast.Call, path: ast.Path, events: Sequence[Event]) -> None:
    made = _constructor(writer, node, events, {})
    if made is not None:
        writer.create(path, made.text, then=_initials(events))


def _constructor(
    writer: TorchWriter, node: ast.Call, events: Sequence[Event], nodes: Nodes
) -> Code | None:
    """The text that makes a layer; None of one without weights."""
    layer = library.layer_for(writer, node, events, nodes)
    if layer is not None:
        return layer
    unit = writer.source.unit(node, [each.child for each in events])
    if not unit.owns:
        return None
    return _constructed(writer, node, unit, events, nodes)


def _constructed(
    writer: TorchWriter, node: ast.Call, unit: Unit, events: Sequence[Event], nodes: Nodes
) -> Code:
    """A class of the source, given its sizes and its configuration."""
    arguments: list[str] = []
    for size in unit.sizes:
        wanted = [(each, each.child.signature[size]) for each in events]
        source = source_of(writer, unit.block, nodes, size)
        arguments.append(str(size_text(writer, node, wanted, source)))
    arguments += configuration(writer, node, unit, events, "init")
    return Code(f"{unit.name}({', '.join(arguments)})")


def _frozen(writer: TorchWriter, node: ast.Call) -> list[str]:
    """The statement that keeps a layer from being trained, if its call says so."""
    for each in node.arguments:
        if each.name == "frozen" and not isinstance(each.value, ast.Rearrangement):
            values = writer.seen.values(each.value)
            if any(value != values[0] for value in values):
                raise refuse(node, "a layer that is trained in some places")
            return ["{}.requires_grad_(False)"] if values[0] is True else []
    return []


def _initials(events: Sequence[Event]) -> list[str]:
    """Statements that give the parameters of a layer other first values than its own."""
    found: list[str] = []
    first = events[0].child
    layer = library.TORCH.get(first.block.name.text)
    if not first.frame.module.is_library or layer is None:
        return found
    for name, info in first.frame.state.body.parameters.items():
        prefix = f"{first.path}."
        if not name.startswith(prefix):
            continue
        own = name.removeprefix(prefix)
        text = library.initial_text(layer.name, own, info.initializer)
        if text is not None:
            found.append(text.replace("@", f"{{}}.{own}"))
    return found


def apply_block(writer: TorchWriter, node: ast.Call, events: Sequence[Event], found: Nodes) -> Code:
    """A layer, a block or a model, applied to tensors."""
    if library.is_torch(events):
        given = {name: writer.whole(each) for name, each in found.items()}
    else:
        given = {name: writer.tensor(each) for name, each in found.items()}
    reference = _reference(writer, node)
    if reference is not None:
        return _called(writer, node, reference, events, given)
    label = label_of(node, writer.instances[0].frame.module)
    if label is not None and label.parts:
        key = path_key(label)
        is_again = node.label is None and key in writer.made  # a model, which has its own label
        made = None if is_again else _constructor(writer, node, events, found)
        if made is not None:
            writer.made.add(key)
            writer.create(label, made.text, then=[*_initials(events), *_frozen(writer, node)])
        writer.declared[".".join(key)] = node
        _note_width(writer, node)
        if key in writer.made:
            target = writer.paths.access(writer.steps(label, "forward"), key)
            return _called(writer, node, target, events, given)
    function = function_for(library.FUNCTIONS, writer, node, events, given)
    if function is not None:
        return function
    if library.is_torch(events):
        return _inherited(writer, node, None, events, found, given)
    unit = writer.source.unit(node, [each.child for each in events])
    if unit.owns:
        return _inherited(writer, node, unit, events, found, given)
    arguments = [str(each) for each in tensors_of(node, unit, given)]
    arguments += configuration(writer, node, unit, events, "forward")
    if unit.training:
        writer.unit.training = True
        arguments.append(f"training={'self.training' if writer.is_class else 'training'}")
    return Code(f"{unit.name}({', '.join(arguments)})")


def _note_width(writer: TorchWriter, node: ast.Call) -> None:
    places = [each.value for each in node.arguments if each.name is None]
    at = 1 if node.callee == "embedding" else 0
    width = places[at] if at < len(places) else None
    if width is not None and not isinstance(width, ast.Rearrangement):
        writer.widths.append(width)


def _reference(writer: TorchWriter, node: ast.Call) -> str | None:
    """The layer that a call applies again, or that a statement declared."""
    path = referenced(writer, node)
    if path is None:
        return None
    keys = {tuple(name.split(".")) for name in writer.declared}
    key = path_key(path)
    if key not in writer.paths.kinds and tuple(key) not in keys:
        key = writer.paths.like(key)
    return writer.paths.access(writer.steps(path, "forward"), key)


def _called(
    writer: TorchWriter, node: ast.Call, target: str, events: Sequence[Event], given: Given
) -> Code:
    """Returns the call of a layer with weights."""
    if library.is_torch(events):
        first = given[events[0].child.block.inputs[0].name]
        return call(target, first)
    unit = writer.source.unit(node, [each.child for each in events])
    late = (config(writer, node, events, name, "forward") for name in unit.late_read)
    return call(target, *tensors_of(node, unit, given), *(each for each in late if each))


def _inherited(
    writer: TorchWriter,
    node: ast.Call,
    unit: Unit | None,
    events: Sequence[Event],
    nodes: Nodes,
    given: Given,
) -> Code:
    """A block whose weights are on the path of this one: its class is the base of this one."""
    made = _constructor(writer, node, events, nodes)
    assert made is not None
    text = made.text.partition("(")[2]
    if writer.base_text not in ("", text) or not writer.is_class:
        raise refuse(node, "two blocks whose weights have the path of this one")
    writer.base_text = text
    writer.inherited = frozenset(".".join(words) for each in events for words in each.child.order)
    writer.unit.base = made.text.partition("(")[0]
    writer.base = unit
    return _called(writer, node, "super().forward", events, given)
