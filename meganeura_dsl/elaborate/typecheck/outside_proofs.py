"""Applications that no proof covers: a parameter without a kind that is given less than it assumed.

A block is proved with a whole number from 1 for such a parameter, or from its default if that is 0.
A model may give it less: a rate, a padding or a number of iterations may be 0. The model is
elaborated with that number, so what fails then is not what was proved, but what was given.
"""

from meganeura_dsl.diagnostics.problem import Help, Problem
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import (
    KindMismatch,
    NoResult,
    UnfitLabel,
    WrongKind,
)
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.config_kinds import size_uses
from meganeura_dsl.elaborate.values import describe
from meganeura_dsl.syntax import ast


def outside_proof(inner: Frame, block: ast.Block, location: Location) -> KindMismatch | None:
    """The refusal of a number that the proof of a block does not take; None if there is none.

    Of several it is that of a parameter whose uses need a size. It is right if the block is proved.
    """
    below = [each for each in block.parameters if _is_below(inner, each)]
    if not below:
        return None
    sizes = (each for each in below if next(size_uses(block, each.name), None) is not None)
    parameter = next(sizes, below[0])
    headline = f"`{parameter.name}` of `{block.name.text}` takes a whole number from "
    found, declared = describe(inner.names[parameter.name]), Location(parameter.span)
    least = _least(parameter)
    advice = Help(
        f"give it at least {least}; if less is meant, let the block say what it does then, "
        "and declare",
        f"{parameter.name}: int",
    )
    return KindMismatch(location, f"{headline}{least}", found, declared, advice=advice)


def is_of_numbers(problem: Problem) -> bool:
    """True if a proof for other numbers would have found a problem: it is no limit, and no name."""
    if isinstance(problem, WrongKind | NoResult | UnfitLabel):
        return True
    return problem.code.startswith("E03") and problem.topic != "limits"


def _is_below(inner: Frame, parameter: ast.Parameter) -> bool:
    value = inner.names.get(parameter.name)
    is_open = parameter.default is None or isinstance(parameter.default, ast.Integer)
    is_whole = parameter.kind is None and is_open and type(value) is int
    return is_whole and isinstance(value, int) and value < _least(parameter)


def _least(parameter: ast.Parameter) -> int:
    """The least number that a proof takes for a parameter without a kind."""
    default = parameter.default
    return min(default.value, 1) if isinstance(default, ast.Integer) else 1
