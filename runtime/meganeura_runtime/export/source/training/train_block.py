"""A `train` block as a model whose results are the loss and the metrics."""

from dataclasses import dataclass, replace

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.bindings import bound_in
from meganeura_runtime.export.source.form_problems import refusal

LOSS = "loss"
"""The name of what is minimized."""


@dataclass(frozen=True)
class LossModel:
    """A `train` block as a model, and the module that declares it."""

    module: LinkedModule
    model: ast.Model
    measured: tuple[str, ...]
    """The names of its results: the loss, and the metrics in their order."""


def loss_model(module: LinkedModule, train: ast.Train) -> LossModel:
    """Returns a `train` block as a model.

    Raises `ProblemError` (E0598) for several objectives, for one that moves some of the weights it
    reaches, for `repeat` and for `project`.
    """
    nodes = [node for each in train.body for node in walk(each)]
    metrics = [each.name for each in nodes if isinstance(each, ast.Metric)]
    taken = {each.text for each in nodes if isinstance(each, ast.Name) and each not in metrics}
    taken |= {each.name for each in train.inputs}
    body: list[ast.Statement] = []
    results: dict[str, ast.Name] = {}
    for at, statement in enumerate(train.body):
        later = set[str]().union(*map(bound_in, train.body[at + 1 :]))
        match statement:
            case ast.Minimize(value=value):
                _require_whole(statement, is_second=LOSS in results)
                results[LOSS] = _named(LOSS, value, body, taken, later)
            case ast.Metric(name=name, value=value):
                results[name.text] = _named(name.text, value, body, taken, later)
            case ast.Repeat() | ast.Project():
                word = "repeat" if isinstance(statement, ast.Repeat) else "project"
                reason = "a loop of source moves each weight once a step, by its gradient"
                raise refusal(f"`{word}`", reason, statement.span)
            case ast.Run() | ast.Show():
                pass
            case _:
                body.append(statement)
    measured = (LOSS, *(name for name in results if name != LOSS))
    body.append(ast.Return(train.span, tuple(results[name] for name in measured)))
    block = ast.Block(train.span, train.name, (), train.inputs, None, train.where, tuple(body))
    key = f"train {train.name.text}"  # no name of a program has a space
    call = ast.Call(train.span, None, key, train.name.span, (), ())
    declared = replace(module, own={**module.own, key: block})
    return LossModel(declared, ast.Model(train.span, train.name, call), measured)


def _require_whole(statement: ast.Minimize, *, is_second: bool) -> None:
    """Raise `ProblemError` for a second objective, or one with `over`."""
    if is_second:
        reason = "it is the second objective, and a loop of source has one optimizer and one loss"
        raise refusal("`minimize`", reason, statement.span)
    if statement.over:
        reason = "a loop of source moves all weights that its loss reaches"
        raise refusal("`over`", reason, statement.over[0].span)


def _named(
    name: str,
    value: ast.Expression,
    body: list[ast.Statement],
    taken: set[str],
    later: set[str],
) -> ast.Name:
    """Returns the name of a value; a statement binds one that has none, or one in `later`."""
    if isinstance(value, ast.Name) and value.text not in later:
        return value
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    taken.add(free)
    target = ast.Name(value.span, free)
    body.append(ast.Bind(value.span, (target,), value))
    return target
