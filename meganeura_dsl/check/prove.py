"""A block proved once, for all sizes and configurations."""

from collections.abc import Iterator, Mapping
from itertools import product as every

from meganeura_dsl.check.elaborate import Elaborator
from meganeura_dsl.check.frame import Elaborating, Frame, UndecidableError
from meganeura_dsl.check.names import LinkedModule
from meganeura_dsl.check.place import Place
from meganeura_dsl.check.problems import CheckedPerModel
from meganeura_dsl.check.symbols import REST_RANKS, any_inputs, rest_names
from meganeura_dsl.check.values import (
    Axes,
    Evaluated,
    Unknown,
)
from meganeura_dsl.diagnostics import Problem, ProblemError
from meganeura_dsl.graph.core import Builder
from meganeura_dsl.shapes.dim import Dim, dim
from meganeura_dsl.shapes.solve import Flag
from meganeura_dsl.syntax import ast


def prove_block(module: LinkedModule, block: ast.Block) -> Problem | None:
    """Prove a block for all sizes and configurations.

    Returns None when proved, the refutation when refuted, and a note when neither is decidable.
    """
    try:
        for ranks in _rest_ranks(block):
            _prove(module, block, ranks)
    except UndecidableError as error:
        return CheckedPerModel(Place(block.name.span), block.name.text, error.reason)
    except ProblemError as error:
        return error.problem
    return None


def _rest_ranks(block: ast.Block) -> Iterator[dict[str, int]]:
    names = rest_names(block)
    for ranks in every(REST_RANKS, repeat=len(names)):
        yield dict(zip(names, ranks, strict=True))


def _prove(module: LinkedModule, block: ast.Block, ranks: Mapping[str, int]) -> None:
    if any(item.type.dtype == "any" for item in block.inputs):
        raise UndecidableError("its inputs may have several element types")
    elaborator = Elaborator()
    state = Elaborating(Builder(), Flag("training"), generic=True)
    frame = Frame(state, module, block.name.text, {}, declaration=block)
    for parameter in block.parameters:
        frame.names[parameter.name] = _any_config(parameter, frame, elaborator)
    for name, rank in ranks.items():
        frame.names[name] = Axes(dim(f"{name}{index}") for index in range(rank))
    any_inputs(block.inputs, frame, elaborator)
    for clause in block.where:
        state.build.facts = state.build.facts.assume(elaborator.condition(clause, frame))
    elaborator.run_body(frame, block)


def _any_config(parameter: ast.Parameter, frame: Frame, elaborator: Elaborator) -> Evaluated:
    name = parameter.name
    if parameter.default is None:
        return dim(name)
    default = elaborator.evaluate(parameter.default, frame)
    match default:
        case bool():
            return Flag(name)
        case int():
            if default < 0:
                return default
            frame.build.facts = frame.facts.with_lower_bound(name, min(default, 1))
            return dim(name)
        case float():
            return Unknown.NUMBER
        case Dim():
            return dim(name)
        case list():
            raise UndecidableError(f"`{name}` is a list the configuration gives")
        case _:
            return default
