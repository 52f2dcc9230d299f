"""`return`, and statements that stand in a `train` block only."""

from collections.abc import Iterable

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.result_problems import ResultOutOfPlace
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import NamedResults, Results, Tensor, describe, is_tensor
from meganeura_dsl.ir.graph import Value
from meganeura_dsl.syntax import ast


def run_return(statement: ast.Return, frame: Frame) -> Results:
    """The tensors that a `return` gives."""
    values = statement.values
    written = ((each, each.text if isinstance(each, ast.Name) else "") for each in values)
    _require_places(written, frame)
    results: list[Tensor] = []
    for node in values:
        value = frame.evaluate(node)
        if isinstance(value, NamedResults) and len(values) == 1:
            _require_places(((node, name) for name in value.names), frame)
            return value.tensors
        if (
            isinstance(value, tuple)
            and all(isinstance(part, Value) for part in value)
            and len(values) == 1
        ):
            return tuple(part for part in value if isinstance(part, Value))
        if not is_tensor(value):
            raise ProblemError(
                WrongKind(frame.location(node.span), "a tensor to return", describe(value))
            )
        results.append(value)
    return tuple(results)


def _require_places(named: Iterable[tuple[ast.Expression, str]], frame: Frame) -> None:
    """Refuse a returned name that the signature has for a result in another place."""
    block = frame.declaration
    wanted = block.result_names if isinstance(block, ast.Block) else ()
    for (node, name), place in zip(named, wanted, strict=False):
        if name != place and name in wanted:
            location = frame.location(node.span)
            raise ProblemError(ResultOutOfPlace(location, name, place, wanted))


def refuse_train_statement(statement: ast.TrainStatement, frame: Frame) -> ProblemError:
    """The error that a statement may be in a `train` block only."""
    word = type(statement).__name__.lower()
    return frame.refuse(statement.span, f"`{word}`", "stands only in a `train` block")
