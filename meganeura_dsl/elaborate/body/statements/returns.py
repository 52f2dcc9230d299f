"""`return`, and statements that stand in a `train` block only."""

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.values import Results, Tensor, describe, is_tensor
from meganeura_dsl.ir.graph import Value
from meganeura_dsl.syntax import ast


def run_return(statement: ast.Return, frame: Frame) -> Results:
    """The tensors that a `return` gives."""
    values = statement.values
    results: list[Tensor] = []
    for node in values:
        value = frame.evaluate(node)
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


def refuse_train_statement(statement: ast.TrainStatement, frame: Frame) -> ProblemError:
    """The error that a statement may be in a `train` block only."""
    word = type(statement).__name__.lower()
    return frame.refuse(statement.span, f"`{word}`", "stands only in a `train` block")
