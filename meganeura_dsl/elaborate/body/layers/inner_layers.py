"""Layers of layers, applied by their paths: `x |> net.encoder`."""

import re
from collections.abc import Iterable
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.body.blocks.modes import kept_below, split_mode
from meganeura_dsl.elaborate.body.expressions.inner_layers import layer_around, require_looked_into
from meganeura_dsl.elaborate.problems.layer_problems import NotYetApplied
from meganeura_dsl.elaborate.problems.name_problems import UnknownName, WrongKind
from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
from meganeura_dsl.elaborate.scope.layer_weights import is_known, path_of
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import layer_text
from meganeura_dsl.syntax import ast


def keep_layer(layer: BoundBlock, frame: Frame) -> None:
    """Make a layer of this frame known by its full path, in the mode of all its applications."""
    assert layer.path is not None
    if frame.state.context.shared:
        return
    config, mode = split_mode(dict(layer.config))
    kept = kept_below(mode, frame, layer.span or frame.call_span or layer.declaration.span)
    config = (*((name, each) for name, each in layer.config if name in config), *kept)
    frame.state.body.layers[layer.path] = replace(layer, config=config)


def layer_inside(label: str, call: ast.Call, frame: Frame) -> BoundBlock | None:
    """Returns the layer at a path that begins with a layer or a model; None for other paths.

    Raises `ProblemError` for a layer around it that was not applied, and for a path without a
    layer.
    """
    outer, rest = layer_around(label, frame)
    if outer is None:
        return None
    require_looked_into(outer, label, frame)
    location, written = frame.location(call.callee_span), label.removesuffix(f".{rest}")
    if not is_known(outer, frame):
        raise ProblemError(NotYetApplied(location, written))
    body, path = frame.state.body, path_of(outer, frame)
    prefix = f"{path}." if path else ""
    inside = {
        name.removeprefix(prefix): each
        for name, each in body.layers.items()
        if name.startswith(prefix) and _is_of(outer, name, frame)
    }
    layer = inside.get(rest)
    if (
        frame.state.proof is not None
        and call.path is not None
        and _is_open(call.path, rest, inside)
    ):
        raise UndecidableError(f"which layer `{layer_text(call)}` is depends on numbers")
    if layer is None:
        several = next((each for each in inside if each.startswith(f"{rest}.")), "")
        number = several.removeprefix(f"{rest}.").partition(".")[0]
        if number.isdigit():
            cure = Help("name one of them", f"{label}[{number}]")
            raise ProblemError(WrongKind(location, "one layer", "the label of several", cure))
        known = [f"{written}.{each}" for each in inside]
        raise ProblemError(UnknownName(location, label, "layer", nearest(label, known)))
    if layer.path in body.unapplied_layers:
        raise ProblemError(NotYetApplied(location, label, is_inside=True))
    return replace(layer, span=call.span)


def _is_open(path: ast.Path, rest: str, inside: Iterable[str]) -> bool:
    """Returns True if a proof for all numbers leaves open which layer a path with indexes means."""
    indexes = sum(not isinstance(each, str | ast.Splice) for each in path.parts)
    numbers = sum(word.isdigit() for word in rest.split("."))
    if numbers < indexes or "{" in rest:
        return True
    same = re.compile(re.sub(r"\b\d+\b", r"([^.]+)", re.escape(rest)))
    found = (same.fullmatch(each) for each in inside)
    return any(each and not all(map(str.isdigit, each.groups())) for each in found)


def _is_of(outer: BoundBlock, path: str, frame: Frame) -> bool:
    """Returns True for the path of a layer that a layer or a model brought with it."""
    if outer.path is not None:
        return True
    assert isinstance(outer.declaration, ast.Model)
    return path in frame.state.body.model_layers.get(outer.declaration, ())
