"""`for`: its iterations one after the other, or by induction where their number is a symbol."""

from functools import partial

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.statements.induction import Loop, run_by_induction
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size
from meganeura_dsl.elaborate.values import Results
from meganeura_dsl.limits.language_limits import MOST_ITERATIONS
from meganeura_dsl.syntax import ast


def run_for(statement: ast.For, frame: Frame) -> Results | None:
    """Run a loop, whose index ends with it: a name that it hides is back behind it."""
    name = statement.variable.text
    hidden = frame.names.get(name)
    results = _iterations(statement, frame)
    frame.names.pop(name, None)
    if hidden is not None:
        frame.names[name] = hidden
    return results


def _iterations(statement: ast.For, frame: Frame) -> Results | None:
    start, stop = evaluate_size(statement.start, frame), evaluate_size(statement.stop, frame)
    if isinstance(start, int) and isinstance(stop, int):
        frame.state.body.iterations += max(0, stop - start)
        if frame.state.body.iterations > MOST_ITERATIONS:
            wanted = f"at most {MOST_ITERATIONS:,} iterations of all loops together"
            found = f"{frame.state.body.iterations:,} iterations"
            raise ProblemError(WrongKind(frame.location(statement.span), wanted, found))
        for index in range(start, stop):
            frame.names[statement.variable.text] = index
            results = frame.execute(statement.body)
            if results is not None:
                return results
        return None
    if frame.state.depends_on_symbol(start) or frame.state.depends_on_symbol(stop):
        raise UndecidableError("how many iterations there are depends on a number")
    body = partial(frame.execute, statement.body)
    with frame.state.without_recovery():
        return run_by_induction(Loop(statement, frame, start, stop, body))
