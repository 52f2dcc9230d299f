"""`if` statements."""

from functools import partial

from meganeura_dsl.elaborate.body.expressions.choices import choose
from meganeura_dsl.elaborate.body.statements.both_sides import binds_only, on_both_sides
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import ByIterationError
from meganeura_dsl.elaborate.values import Results
from meganeura_dsl.syntax import ast


def run_if(statement: ast.If, frame: Frame, rest: tuple[ast.Statement, ...]) -> Results | None:
    """Run the side of an `if` that is chosen, or both, where each iteration of a loop chooses."""
    then, otherwise = statement.then, statement.otherwise
    try:
        is_then = choose(statement, frame, rest)
    except ByIterationError as error:
        if error.node is not statement.condition or not binds_only(statement):
            raise
        on_both_sides(error, frame, *(partial(frame.execute, each) for each in (then, otherwise)))
        return None
    return frame.execute(then if is_then else otherwise)
