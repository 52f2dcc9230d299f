"""The search for a case whose gradient is wrong, and for the smallest such case."""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.elaborate.declarations.block_proofs import prove_block
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.problems.name_problems import WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import NormOverOne
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.unused_values import walk
from meganeura_dsl.elaborate.typecheck.config_kinds import is_named
from meganeura_dsl.elaborate.typecheck.static_arithmetic import NONZERO
from meganeura_dsl.gradcheck.cases import Case, cases
from meganeura_dsl.gradcheck.device_check import RunGraph, compare
from meganeura_dsl.gradcheck.finite_differences import sided_slopes, slopes
from meganeura_dsl.gradcheck.locate_fault import first_wrong
from meganeura_dsl.gradcheck.probe import NoGradientError, Point, Probe, probe
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.gradcheck.stated_numbers import agree, stated_numbers
from meganeura_dsl.gradcheck.subjects import Subject
from meganeura_dsl.gradcheck.verdicts import (
    Deviation,
    DividesByZero,
    Failed,
    Fault,
    NotFinite,
    Passed,
    RefusedAfterProof,
    Skipped,
    Verdict,
    WrongAtPoint,
    WrongGradient,
)
from meganeura_dsl.ir.graph import Array, Graph, Leaf, NotDifferentiableError
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.syntax import ast

UNNEEDED = (
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.too_slow,
    HealthCheck.large_base_example,
)
"""Checks of strategies by Hypothesis, which a program could fail without being wrong."""

NO_CASE = "no sizes were found that it accepts"

MOST_PROBES = 128
"""Probes in the memory of one search; at this number, all are dropped."""


ATTEMPTS = 50
"""The number of draws of whole numbers until facts about several of them hold."""
SPECIAL_SHARE = 4
"""One example at special points for so many others."""

ALL_ZERO = (
    "every slope is 0, in both ways of differentiation: no result depends smoothly on what is moved"
)
DROWNED = (
    "the rounding of its results, or kinks nearby, drown every slope: return what varies without "
    "a large number that is added to it"
)
NOT_COMPARED = (
    "no example could be compared on the device: in single precision each of them overflows, or is "
    "on the other side of a kink"
)


class _FoundError(Exception):
    """A case is wrong."""


@dataclass(frozen=True)
class SearchBudget:
    """Limits of one search."""

    examples: int = 200
    seed: int = 0
    kinks: bool = False
    """Draw numbers on kinks, where gradients must be finite and equal on all devices."""
    run: RunGraph | None = None
    """A device to compare with the reference."""


def check_gradients(subject: Subject, effort: SearchBudget) -> Verdict:
    """Check cases of a subject until one is wrong, and then look for the smallest that is."""
    verdict = _verdict(subject, effort)
    if isinstance(verdict, Skipped) and subject.reals:  # those drawn may be too small
        return _verdict(replace(subject, largest_real=1.0), effort)
    return verdict


def _verdict(subject: Subject, effort: SearchBudget) -> Verdict:
    search = _Search(subject, effort)
    try:
        search.run()
    except _FoundError:
        assert search.found is not None
        case, fault = search.found
        return Failed(subject.name, case, fault)
    except (ProblemError, UndecidableError, NoGradientError, NotDifferentiableError) as error:
        reason = error.problem.report().headline if isinstance(error, ProblemError) else str(error)
        return Skipped(subject.name, reason, is_constant=isinstance(error, NoGradientError))
    except Unsatisfiable:
        return Skipped(subject.name, search.refusal or NO_CASE)
    return search.verdict()


class _Search:
    """One search, with its results so far."""

    def __init__(self, subject: Subject, effort: SearchBudget) -> None:
        self.subject = subject
        self.effort = effort
        self.found: tuple[Case, Fault] | None = None
        self.examples = 0
        self.slopes = 0
        self.worst = 0.0
        self.zeros = 0
        self.is_constant = True
        self.special = 0
        self.kinks = 0
        self.left_out = 0
        self.deviation: Deviation | None = None
        self.refusal = ""
        self.is_special = False
        self._probes: dict[str, tuple[Elaboration, Probe]] = {}

    @cached_property
    def is_proved(self) -> bool:
        """True if its block is proved for all sizes and flags that are drawn.

        A proof says nothing of a real number, such as an `eps: real` that `where eps < 1` bounds:
        a case that is refused for one is left out.
        """
        subject = self.subject
        has_reals = bool(subject.reals) or any(
            is_named(each.kind, "real") and each.default is None
            for each in subject.block.parameters
        )
        return not has_reals and prove_block(subject.module, subject.block) is None

    def verdict(self) -> Verdict:
        """The verdict if nothing is wrong."""
        name, effort = self.subject.name, self.effort
        if not self.examples:
            return Skipped(name, self.refusal or NO_CASE)
        if effort.run is not None and self.deviation is None:
            return Skipped(name, NOT_COMPARED)
        if not (self.slopes or self.special or effort.kinks):
            is_constant = self.is_constant and self.zeros > 0
            return Skipped(name, ALL_ZERO if is_constant else DROWNED, is_constant)
        return Passed(
            name, self.examples, self.slopes, self.worst,
            self.special, self.kinks, self.deviation, self.left_out,
        )  # fmt: skip

    def run(self) -> None:
        """Draw and examine, then at special points as well.

        Raises `_FoundError` with the smallest case in `found`.
        """
        self._run(self.effort.examples)
        if not self.effort.kinks:
            self.is_special = True
            with suppress(Unsatisfiable):
                self._run(max(1, self.effort.examples // SPECIAL_SHARE))

    def _run(self, examples: int) -> None:
        @settings(
            max_examples=examples,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=UNNEEDED,
            database=None,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
        )
        @hypothesis.seed(self.effort.seed)
        @given(cases(self.subject))
        def every_case(case: Case) -> None:
            fault = self.examine(case)
            if fault is not None:
                self.found = case, fault
                raise _FoundError

        every_case()

    def examine(self, case: Case) -> Fault | None:
        """Returns the fault of one case, or None."""
        try:
            elaboration, probed = self._probe(case)
        except ProblemError as error:
            return self._refused(error)
        try:
            return self._examined(case, elaboration, probed)
        except OutsideError as error:
            self.left_out += 1
            self.refusal = _outside(error)
            raise UnsatisfiedAssumption(self.refusal) from None

    def _examined(self, case: Case, elaboration: Elaboration, probed: Probe) -> Fault | None:
        find = self._special_point if self.is_special else self._point
        point = find(case, elaboration, probed)
        if point is None:
            return None
        if self.is_special:
            fault = self._on_both_sides(point, elaboration, case.seed)
        else:
            self.examples += 1
            fault = (
                _finite(point, elaboration, case.seed)
                if self.effort.kinks
                else self._differentiated(point, elaboration, case.seed)
            )
        if fault is not None or self.effort.run is None:
            return fault
        compared = compare(probed, point.feeds, self.effort.run)
        if isinstance(compared, Deviation):
            worst = self.deviation
            if (
                worst is None
                or compared.difference / compared.allowed > worst.difference / worst.allowed
            ):
                self.deviation = compared
            return None
        return compared

    def _probe(self, case: Case) -> tuple[Elaboration, Probe]:
        """The graph of a case and its probe: the same for cases that differ in their seed alone."""
        config = self.subject.drawn(case.config)
        key = repr((config, case.sizes, case.inputs, case.training))
        if key not in self._probes:
            if len(self._probes) >= MOST_PROBES:
                self._probes.clear()
            elaboration = case.elaborate()
            self._probes[key] = elaboration, probe(elaboration.graph, stated_numbers(elaboration))
        return self._probes[key]

    def _refused(self, error: ProblemError) -> RefusedAfterProof | DividesByZero:
        """A refusal is a fault after a proof, except for a norm over one element."""
        report = error.problem.report()
        if not isinstance(error.problem, NormOverOne) and self.is_proved:
            fact = _missing_fact(error.problem, self.subject.module)
            return RefusedAfterProof(report) if fact is None else DividesByZero(report, fact)
        self.refusal = report.headline
        raise UnsatisfiedAssumption(self.refusal)

    def _point(self, case: Case, elaboration: Elaboration, probed: Probe) -> Point:
        """Numbers for which the loss is finite: any, or all positive."""
        distributions = (
            (InputDistribution.KINKS,)
            if self.effort.kinks
            else (InputDistribution.SMOOTH, InputDistribution.POSITIVE)
        )
        for distribution in distributions:
            point = probed.at(_feeds(case.seed, distribution, elaboration, probed))
            if point.is_finite:
                return point
        self.refusal = "its result is not finite for the numbers tried"
        raise UnsatisfiedAssumption(self.refusal)

    def _special_point(self, case: Case, elaboration: Elaboration, probed: Probe) -> Point | None:
        """Inputs at special numbers, or parameters at 0; None where the loss is finite at none."""
        inputs = (InputDistribution.SPECIAL, InputDistribution.SPECIAL_POSITIVE)
        zeros = (InputDistribution.ZEROS,)
        moved = {
            value.op.name: value for value in probed.graph.values if isinstance(value.op, Leaf)
        }
        kinds = {isinstance(moved[name].op, Parameter) for name in probed.moved}
        order = (*zeros, *inputs) if case.seed % 2 else (*inputs, *zeros)
        for distribution in order:
            if (distribution in zeros) not in kinds:
                continue
            point = probed.at(_feeds(case.seed, distribution, elaboration, probed))
            if point.is_finite:
                return point
        return None

    def _on_both_sides(
        self, point: Point, elaboration: Elaboration, seed: int
    ) -> WrongAtPoint | None:
        for slope in sided_slopes(point, seed):
            if not slope.agrees:
                culprit = first_wrong(elaboration.graph, point.feeds, seed, sided=True)
                return WrongAtPoint(slope, culprit)
            self.special += 1
            self.kinks += slope.is_kink
        return None

    def _differentiated(
        self, point: Point, elaboration: Elaboration, seed: int
    ) -> WrongGradient | None:
        self.is_constant &= not any(np.any(each) for each in point.gradients.values())
        for slope in slopes(point, seed):
            if not slope.agrees:
                return WrongGradient(slope, first_wrong(elaboration.graph, point.feeds, seed))
            self.slopes += slope.is_decided
            self.zeros += slope.scale == 0
            self.worst = max(self.worst, slope.error)
        return None


def _outside(error: OutsideError) -> str:
    """Returns the index that is out of range, its place, and the cure."""
    place = "".join(error.__notes__[:1]).removeprefix("in ")
    location = f" in {place}" if place else ""
    return (
        f"an index is {error.id}{location}, and must be 0 or more and below {error.size}: state in "
        "`where` what the whole numbers are (`where 0 <= ids, ids < n`), or bring it into range"
    )


def _missing_fact(problem: Problem, module: LinkedModule) -> str | None:
    """Returns a fact that excludes sizes for which a program divides by 0; None otherwise.

    Empty where the divisor is not in this file.
    """
    if not isinstance(problem, WrongKind) or problem.wanted != NONZERO:
        return None
    label = problem.report().label
    for block in module.blocks.values():
        for node in walk(block):
            if (
                label is not None
                and isinstance(node, ast.Binary)
                and node.operator_span == label.span
            ):
                return _not_zero(node.right)
    return ""


def _not_zero(divisor: ast.Expression) -> str:
    match divisor:
        case ast.Binary(operator="-", left=ast.Name(text=name), right=ast.Integer(value=least)):
            return f"{name} >= {least + 1}"
        case _:
            return f"{divisor.span.text} >= 1"


def _feeds(
    seed: int, distribution: InputDistribution, elaboration: Elaboration, probed: Probe
) -> dict[str, Array]:
    """Numbers of a distribution; whole ones as the facts say. Raises `UnsatisfiedAssumption`."""
    for attempt in range(ATTEMPTS):
        numbers = RandomInputs(seed + attempt, distribution)
        feeds = numbers.feeds(probed.graph, probed.indices)
        if agree(elaboration, feeds):
            return feeds
    raise UnsatisfiedAssumption("no whole numbers were found for which all of `where` holds")


def _finite(point: Point, elaboration: Elaboration, seed: int) -> NotFinite | None:
    for name, gradient in point.gradients.items():
        if not np.all(np.isfinite(gradient)):
            return NotFinite(name, first_wrong(elaboration.graph, point.feeds, seed))
    return None


def check_graph(graph: Graph, effort: SearchBudget) -> WrongGradient | None:
    """Check the gradient of one graph of known sizes, with numbers that the seed gives."""
    probed = probe(graph)
    for distribution in (InputDistribution.SMOOTH, InputDistribution.POSITIVE):
        point = probed.at(RandomInputs(effort.seed, distribution).feeds(probed.graph))
        if point.is_finite:
            break
    for slope in slopes(point, effort.seed):
        if not slope.agrees:
            return WrongGradient(slope, first_wrong(graph, point.feeds, effort.seed))
    return None
