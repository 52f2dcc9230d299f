"""Decisions of conditions: `a if c else b`, and the condition of an `if`."""

from functools import partial

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.name_problems import UndecidedChoice
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import ByIterationError, UndecidableError
from meganeura_dsl.elaborate.typecheck.conditions import evaluate_condition
from meganeura_dsl.elaborate.values import ElabValue, Tensor, is_tensor
from meganeura_dsl.limits.language_limits import MOST_PATHS
from meganeura_dsl.symbolic.assumptions import Condition, negate, show_condition
from meganeura_dsl.symbolic.conditions import sizes_in, with_differing
from meganeura_dsl.syntax import ast


def evaluate_conditional(node: ast.Conditional, frame: Frame) -> ElabValue:
    """The value of `a if c else b`: of the side that is chosen."""
    branch = node.then if choose(node, frame) else node.otherwise
    return frame.evaluate(branch)


def choose(
    choice: ast.If | ast.Conditional,
    frame: Frame,
    rest: tuple[ast.Statement, ...] = (),
) -> bool:
    """Decides a condition; if it depends on configuration, one path at a time.

    `rest` are the statements behind a choice, for what is said where it may not stand.
    """
    node = choice.condition
    condition = evaluate_condition(node, frame, partial(_without_choice, choice, rest, frame))
    if frame.state.abstract.numbers:
        condition = with_differing(condition, frame.state.abstract.numbers)
    truth = frame.facts.truth(condition)
    if truth is not None:
        return truth
    if frame.choices.is_joined:
        return _follow(node, condition, frame)
    words = show_condition(condition)
    if frame.state.differs_by_iteration(condition):
        cure = f"pick values instead: where({words}, ..., ...)"
        raise ProblemError(DiffersByIteration(frame.location(node.span), f"whether {words}", cure))
    if frame.state.proof is None:
        raise ProblemError(UndecidedChoice(frame.location(node.span), words))
    return _follow(node, condition, frame)


def _follow(node: ast.Expression, condition: Condition, frame: Frame) -> bool:
    choices = frame.choices
    if not choices.is_joined and frame.state.loops.indices & sizes_in(condition):
        raise ByIterationError(node, condition)
    if choices.next == len(choices.decided):
        if choices.next >= MOST_PATHS.bit_length():
            raise UndecidableError("it has too many paths to prove at once")
        choices.decided.append(True)
    decision = choices.decided[choices.next]
    choices.next += 1
    assumed = condition if decision else negate(condition)
    choices.words.append(show_condition(assumed))
    choices.assumed.append(assumed)
    frame.build.facts = frame.facts.assume(assumed)
    return decision


def _without_choice(
    choice: ast.If | ast.Conditional, rest: tuple[ast.Statement, ...], frame: Frame, found: Tensor
) -> Help:
    tensors = {name: each.type.shape for name, each in frame.names.items() if is_tensor(each)}
    return habits.of_choice(choice, rest, found.type.shape, tensors)
