"""The parameters and states of a layer or a model, by their names inside of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meganeura_dsl.syntax import ast

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.scope.bound_block import BoundBlock
    from meganeura_dsl.elaborate.scope.linker import LinkedModule
    from meganeura_dsl.elaborate.scope.scope import Frame


def names_below(value: BoundBlock, frame: Frame) -> dict[str, str]:
    """Returns the full names of what a layer or a model has so far, by their names inside of it.

    It has none before it is applied.
    """
    body = frame.state.body
    if value.path is None and not isinstance(value.declaration, ast.Model):
        return {}
    path = path_of(value, frame)
    own = list(body.parameters)
    if value.path is None:
        assert isinstance(value.declaration, ast.Model)
        own = body.weights.get(value.declaration, [])
    return _behind(f"{path}." if path else "", own)


def path_of(value: BoundBlock, frame: Frame) -> str:
    """Returns the path of a layer in scope, or of a model that is applied here without a label."""
    if value.path is not None:
        return value.path
    assert isinstance(value.declaration, ast.Model)
    return frame.join(_label(value.module, value.declaration))


def is_known(value: BoundBlock, frame: Frame) -> bool:
    """Returns True for a layer or a model that was applied, whether or not it has weights."""
    if value.path is not None:
        return value.path not in frame.state.body.unapplied_layers
    return value.declaration in frame.state.body.weights


def _behind(start: str, names: list[str]) -> dict[str, str]:
    return {name.removeprefix(start): name for name in names if name.startswith(start)}


def _label(module: LinkedModule, model: ast.Model) -> str:
    """Returns the path that a model labels its block with, models of models included."""
    labels = [] if model.call.label is None else [model.call.label.span.text]
    found = module.find(model.call.callee)
    if found is not None and isinstance(found[1], ast.Model):
        inner = _label(found[0], found[1])
        labels += [inner] if inner else []
    return ".".join(labels)
