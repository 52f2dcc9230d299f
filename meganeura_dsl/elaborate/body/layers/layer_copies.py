"""Layers that begin as copies of others, and that follow them: exponential moving averages."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.layer_problems import UnappliedLayer, UnlikeLayers
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import UnknownName
from meganeura_dsl.elaborate.problems.objective_problems import MovedTwice
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_tensor
from meganeura_dsl.elaborate.typecheck.tensor_values import cast, require_fit
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.syntax import ast


class Evaluates(Protocol):
    """The part of the elaborator that updates of layers need."""

    def tensor(self, node: ast.Expression, frame: Frame) -> Tensor:
        """The value of an expression that must be a tensor."""
        ...


def copied(
    parameters: Sequence[ParameterInfo], copies: Mapping[str, tuple[str, Location]]
) -> tuple[ParameterInfo, ...]:
    """The parameters, those of layers that are copies beginning as those of the other layer.

    `copies` has the path of the other layer for each path, and the statement that says so. Raises
    `ProblemError` where the two layers differ.
    """
    known = {each.name: each for each in parameters}
    built = dict(known)
    for path, (source, location) in copies.items():
        if _below(path, known) and not _below(source, known):
            raise ProblemError(
                UnappliedLayer(location, location.span.text.rpartition("=")[2].strip())
            )
        for name, other in pairs(path, source, known, location):
            of = built[other]
            built[name] = known[name]._replace(
                initializer=of.initializer, begins_as=of.begins_as or other
            )
    return tuple(built.values())


def pairs(
    path: str, source: str, known: Mapping[str, ParameterInfo], location: Location
) -> list[tuple[str, str]]:
    """The names below two paths, which must be those of tensors of the same types."""
    mine, others = (_below(each, known) for each in (path, source))
    for rest in dict.fromkeys((*mine, *others)):
        a, b = known.get(mine.get(rest, "")), known.get(others.get(rest, ""))
        if a is None or b is None or a.type != b.type:
            found = (rest, str(a.type) if a else "", str(b.type) if b else "")
            raise ProblemError(UnlikeLayers(location, path, source, *found))
    return [(mine[rest], others[rest]) for rest in mine]


def _below(path: str, known: Mapping[str, ParameterInfo]) -> dict[str, str]:
    """Returns the full names of a layer's tensors, without caches, by their names inside of it."""
    start = f"{path}." if path else ""
    return {
        name.removeprefix(start): name
        for name, info in known.items()
        if name.startswith(start) and info.kind != "cache"
    }


def source_path(path: ast.Path, relative: str, frame: Frame) -> str:
    """The full path of a layer in scope, or the label of a model, which may be applied later."""
    layer = frame.layers.get(relative)
    if layer is not None and layer.path is not None:
        return layer.path
    declared = frame.module.find(relative)
    if declared is not None and isinstance(declared[1], ast.Model):
        label = declared[1].call.label
        if label is not None:
            return label.span.text
        name, call = declared[1].name.text, declared[1].call.span.text
        cure = Help(
            "name its weights by a label", f"model {name} = {name}: {' '.join(call.split())}"
        )
        reason = "has no label, so that its weights stand beside those of others"
        raise frame.refuse(path.span, f"the model `{name}`", reason, cure)
    known = tuple(frame.layers)
    raise ProblemError(UnknownName(frame.location(path.span), relative, "layer", known))


def update_layer(statement: ast.Update, relative: str, frame: Frame) -> None:
    """Evaluate an update for each float that a layer has; names of layers stand for theirs.

    In evaluation nothing changes. Raises `ProblemError` for a layer that an objective moves, and
    for layers that differ in their weights.
    """
    location, state = frame.location(statement.span), frame.state
    path = frame.layers[relative].path
    assert path is not None
    if path in state.body.unapplied_layers:
        raise ProblemError(UnappliedLayer(location, relative))
    names = layers_named(statement.value, frame)
    for name, each in names.items():
        if not _below(each, state.body.parameters):
            raise ProblemError(UnappliedLayer(location, name))
    rows = {name: dict(pairs(path, names[name], state.body.parameters, location)) for name in names}
    for name in _below(path, state.body.parameters).values():
        info = state.body.parameters[name]
        if not info.type.dtype.is_float:
            continue
        mover = state.mover(name)
        if mover is not None:
            value = " ".join(statement.value.span.text.split())
            code = f"project {relative} = {value}" if set(names) == {relative} else ""
            raise ProblemError(MovedTwice(location, name, mover.location, projected=code))
        if name in state.body.updates and not state.is_carried(name):
            cure = "is updated by the layer itself: apply it with `training=false`"
            raise frame.refuse(statement.span, f"`{name}`", cure)
        of = {key: rows[key][name] for key in rows}
        value = evaluated_with(statement.span, statement.value, frame, of)
        require_fit(frame, statement.value.span, f"update {name}", info.type, value)
        if state.context.training:
            state.body.updates[name] = value
            state.body.averaged[name] = location


def layers_named(value: ast.Expression, frame: Frame, but: str = "") -> dict[str, str]:
    """Returns the full paths of the layers and models that a value names, except one, as such."""
    nodes = list(walk(value))
    paths = (ast.Attribute, ast.Spliced)
    inner = {id(each) for node in nodes if isinstance(node, paths) for each in walk(node.base)}
    return {
        node.text: source_path(ast.Path(node.span, (node.text,)), node.text, frame)
        for node in nodes
        if isinstance(node, ast.Name) and id(node) not in inner and node.text != but
        if is_layer(node.text, frame)
    }


def evaluated_with(span: Span, node: ast.Expression, frame: Frame, of: Mapping[str, str]) -> Tensor:
    """The value of an update where names of layers stand for tensors of theirs."""
    state, before = frame.state, dict(frame.names)
    try:
        with state.within(frozen=True):
            frame.names.update((name, state.current(full)) for name, full in of.items())
            value = evaluate_tensor(node, frame)
    finally:
        frame.names = before
    wanted = {state.body.parameters[full].type.dtype for full in of.values()}
    dtype = next(iter(wanted), value.type.dtype)
    return cast(frame, span, value, dtype) if value.type.dtype.is_float else value


def is_layer(name: str, frame: Frame) -> bool:
    """True if a name in an update of a layer is that of a layer or a model."""
    if name in frame.layers:
        return True
    found = frame.module.find(name) if name not in frame.names else None
    return found is not None and isinstance(found[1], ast.Model)
