"""Labels of layers: a path such as `layers[i].conv{i + 1}`, its numbers evaluated."""

import re

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.name_problems import UnfitLabel
from meganeura_dsl.elaborate.problems.scan_problems import LabelOfIteration
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.config_kinds import is_configured
from meganeura_dsl.elaborate.typecheck.expected_kinds import evaluate_size
from meganeura_dsl.elaborate.values import ElabValue, OpenText, describe
from meganeura_dsl.symbolic.size import Dim, show
from meganeura_dsl.syntax import ast

_IN_A_WORD = re.compile(r"\w*", re.ASCII)

OWN_PATH = "."
"""The label of a layer that shares the path of the block around it."""


def path_text(path: ast.Path, frame: Frame) -> str:
    """A label with its numbers evaluated: `layers[i].conv{i + 1}` is `layers.3.conv4`."""
    words: list[str] = []
    for part in path.parts:
        match part:
            case str():
                words.append(part)
            case ast.Splice(value=value):
                words[-1] += splice_text(value, frame)
            case _:
                words.append(path_item_text(part, frame))
    return ".".join(words)


def splice_text(node: ast.Expression, frame: Frame) -> str:
    """Returns the text of a number or text in a label; one open in a proof stays in braces."""
    value, location = frame.evaluate(node), frame.location(node.span)
    _require_known_label(value, frame)
    if frame.state.differs_by_iteration(value):
        raise ProblemError(LabelOfIteration(location))
    match value:
        case OpenText(name):
            return f"{{{name}}}"
        case Dim() if is_configured(frame, value):
            return f"{{{value}}}"
        case int() if not isinstance(value, bool) and value >= 0:
            return str(value)
        case str() if _IN_A_WORD.fullmatch(value):
            return value
        case Dim():
            found = f"the size {value}, which the data decides"
            raise ProblemError(UnfitLabel(location, found, of_data=True))
        case _:
            raise ProblemError(UnfitLabel(location, describe(value)))


def path_item_text(node: ast.Expression, frame: Frame) -> str:
    """The text of an index in a label."""
    size = evaluate_size(node, frame)
    _require_known_label(size, frame)
    if frame.state.differs_by_iteration(size):
        raise ProblemError(LabelOfIteration(frame.location(node.span)))
    return show(size)


def _require_known_label(value: ElabValue, frame: Frame) -> None:
    if frame.state.depends_on_symbol(value):
        raise UndecidableError("a label depends on a number that a symbol stands for")
