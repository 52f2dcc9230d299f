"""Properties of every text that claims to be a program, and of every accepted program."""

import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from random import Random
from unittest.mock import patch

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Problem, ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.body.blocks import block_application
from meganeura_dsl.elaborate.declarations.block_domain import model_configuration
from meganeura_dsl.elaborate.declarations.models import Elaboration, elaborate_model
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import NormOverOne, WhereUnproved
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker, configuration
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.config_kinds import is_real
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.finite_differences import slopes
from meganeura_dsl.gradcheck.locate_fault import first_wrong
from meganeura_dsl.gradcheck.probe import NoGradientError, fitting, probe
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.subjects import Subject, block_subject
from meganeura_dsl.gradcheck.verdict_text import describe_fault
from meganeura_dsl.gradcheck.verdicts import WrongGradient
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.text import format_graph, parse_graph
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.symbolic.size import substitute
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from tests.dsl.syntax.trees import plain
from tests.properties.decoding import reads_in_parts
from tests.properties.gradient_slopes import SLOPE, slopes_hold
from tests.properties.graph_sizes import is_small
from tests.properties.objective_slopes import follows_slopes
from tests.properties.repeated_steps import repeats_as_steps

LARGEST_SIZE = 100_000
"""A case with a larger size is not elaborated: loops may be as long."""
CASES = 2
"""Configurations and sizes tried of each block and model that was accepted."""


class Outcome(Enum):
    """The last stage that a text reached."""

    UNREADABLE = "unreadable"
    REFUSED = "refused"
    ACCEPTED = "accepted"


@dataclass
class Tally:
    """Statistics of one text."""

    outcome: Outcome
    runs: int = 0
    """Graphs that were run."""
    slopes: int = 0
    """Directions in which gradients were compared with differences."""
    repeats: int = 0
    """`train` blocks of which a repeated step was compared with several."""
    readings: int = 0
    """Sequences that a model with caches read in parts."""


def examine(text: str, random: Random, *, is_mutant: bool = False) -> Tally:
    """Hold a text to all that is promised. Raises `AssertionError`, or whatever else escapes.

    A mutant may forget to update a cache, or do so twice: what it reads in parts may differ.
    """
    source = Source("random.mgn", text)
    sink = Sink()
    tree = parse(source, sink)
    if sink.has_errors:
        for report in sink.reports:
            render(report, colour=False)
        return Tally(Outcome.UNREADABLE)
    formatted = format_module(tree, find_comments(source))
    again = Source("formatted.mgn", formatted)
    assert plain(parse(again, sink)) == plain(tree), "formatting changed the program"
    assert format_module(parse(again, sink), find_comments(again)) == formatted, "not settled"
    result = pipeline.check(source, lambda _: None)
    for report in result.reports:
        render(report, colour=False)
    if not result.fine:
        return Tally(Outcome.REFUSED)
    tally = Tally(Outcome.ACCEPTED)
    module = Linker(lambda _: None, Sink()).link(source)
    with suppress(OutsideError) if is_mutant else nullcontext():
        _hold(text, module, result.proved, random, tally, is_mutant=is_mutant)
    return tally


def _hold(
    text: str,
    module: LinkedModule,
    proved: Iterable[str],
    random: Random,
    tally: Tally,
    *,
    is_mutant: bool,
) -> None:
    """Runs accepted programs; a mutant may compute indices out of range, which are reported."""
    for name in proved:
        _proved_block(block_subject(module, module.blocks[name]), random, tally)
    for name in module.models:
        _model(module, name, random, tally)
        tally.readings += 0 if is_mutant else reads_in_parts(module, name, random)
    if SLOPE in module.blocks and not is_mutant:
        tally.slopes += slopes_hold(module, random)
    for name in module.trains:
        tally.slopes += follows_slopes(module, name, random)
        if not is_mutant and text.rstrip().endswith(module.trains[name].span.text.rstrip()):
            tally.repeats += repeats_as_steps(text, name, random.randrange(1000))


def _proved_block(subject: Subject, random: Random, tally: Tally) -> None:
    """A block that was proved for all sizes and configurations holds for any of them."""
    for _ in range(CASES):
        try:
            case = choose_case(random.choice, subject)
        except (DeadEndError, UndecidableError):
            continue
        if max(case.sizes.values(), default=0) > LARGEST_SIZE:
            continue
        elaboration = _elaborated(case, "proved") if _is_covered(case) else _tried(case)
        if elaboration is None:
            continue
        _runs(elaboration, case, random, tally)


def _is_covered(case: Case) -> bool:
    """True if a proof takes the case: of an axis counted from the last it takes the default."""
    return not any(
        parameter.kind is None
        and isinstance(parameter.default, ast.Unary)
        and case.config.get(parameter.name) == 0
        for parameter in case.subject.block.parameters
    )


def _tried(case: Case) -> Elaboration | None:
    """The graph of a case that may be refused."""
    with suppress(ProblemError):
        return case.elaborate()
    return None


def _model(module: LinkedModule, name: str, random: Random, tally: Tally) -> None:
    """A model that was accepted for all sizes is accepted for any, with the shapes inferred."""
    symbolic = elaborate_model(module, module.models[name], config={}, sizes=None, training=False)
    home, block, given = model_configuration(module, module.models[name])
    subject = Subject(name, home, block, is_model=True, given=given)
    for _ in range(CASES):
        try:
            case = choose_case(random.choice, subject)
        except DeadEndError:
            continue
        if max(case.sizes.values(), default=0) > LARGEST_SIZE:
            continue
        elaboration = _elaborated(case, "accepted")
        if elaboration is None:
            continue
        if [each.type.rank for each in elaboration.graph.outputs.values()] == [
            each.type.rank for each in symbolic.graph.outputs.values()
        ]:
            _same_shapes(symbolic.graph, elaboration.graph, case)
        _runs(elaboration, case, random, tally)


def _elaborated(case: Case, known: str) -> Elaboration | None:
    """The graph of a case that must be fine, but for what only numbers decide."""
    try:
        return case.elaborate()
    except ProblemError as error:
        if _is_of_numbers(error.problem, case):
            return None
        headline = error.problem.report().headline
        raise AssertionError(
            f"{known}, and refused for {case.snippet}, {case.inputs}: {headline}"
        ) from error


def _is_of_numbers(problem: Problem, case: Case) -> bool:
    """A norm over one element, a tensor divided by zero, a fact about a number that is no size."""
    match problem:
        case NormOverOne() | WrongKind(wanted="a divisor other than zero"):
            return True
        case WhereUnproved(block=name, clause=clause):
            found = case.subject.module.find(name)
            assert found is not None
            module, block = found
            assert isinstance(block, ast.Block | ast.Model)
            words = set(re.findall(r"\w+", clause))
            return any(is_real(each) for each in configuration(module, block) if each.name in words)
        case _:
            return False


def _same_shapes(symbolic: Graph, concrete: Graph, case: Case) -> None:
    """The shapes inferred for all sizes are those inferred for these."""
    for name, value in concrete.outputs.items():
        shape = tuple(substitute(size, case.sizes) for size in symbolic.outputs[name].type.shape)
        assert shape == value.type.shape, f"{name}: {shape} for all, {value.type} for {case.sizes}"


def _runs(elaboration: Elaboration, case: Case, random: Random, tally: Tally) -> None:
    """The graph runs, gives what was inferred, survives its text, and has the right gradient."""
    graph = elaboration.graph
    verify(graph)
    text = format_graph(graph)
    assert format_graph(parse_graph(text, OPS)).splitlines() == _without_places(text)
    if random.random() < 0.3:
        with patch.object(block_application, "apply_template", lambda *arguments: arguments[-1]()):
            assert format_graph(case.elaborate().graph) == text, "a layer is not what it was before"
    if not is_small(graph):
        return
    feeds = RandomInputs(case.seed).feeds(graph)
    outputs = evaluate(graph, feeds, Precision.DOUBLE)
    for name, value in {**graph.outputs, **graph.updates}.items():
        array = {**outputs.outputs, **outputs.updates}[name]
        assert array.shape == value.type.shape, f"{name}: {array.shape} instead of {value.type}"
    tally.runs += 1
    if random.random() < 0.3:
        _differentiated(graph, case.seed, tally)


def _is_regular(graph: Graph, feeds: Mapping[str, Array]) -> bool:
    """True if all on the way is finite; a quotient by a number that is given as 0 has no slope."""
    values = Interpreter(graph, Precision.DOUBLE).every_value(feeds)
    return all(np.isfinite(each).all() for each in values if each is not None)


def _without_places(text: str) -> list[str]:
    return [line.partition("  # ")[0] for line in text.splitlines()]


def _differentiated(graph: Graph, seed: int, tally: Tally) -> None:
    try:
        probed = probe(graph)
    except NoGradientError:
        return
    point = probed.at(RandomInputs(seed).feeds(probed.graph))
    if not point.is_finite:
        return
    for slope in islice(slopes(point, seed), 8):
        tally.slopes += 1
        if not slope.agrees and _is_regular(graph, fitting(graph, point.feeds)):
            culprit = first_wrong(graph, fitting(graph, point.feeds), seed)
            raise AssertionError(describe_fault(WrongGradient(slope, culprit)))
