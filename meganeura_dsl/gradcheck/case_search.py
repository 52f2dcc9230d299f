"""The search for a case whose gradient is wrong, and for the smallest such case."""

from dataclasses import replace
from functools import cached_property

import hypothesis
import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable, UnsatisfiedAssumption

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.block_proofs import prove_block
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.problems.shape_problems import NormOverOne
from meganeura_dsl.elaborate.scope.scope import UndecidableError
from meganeura_dsl.gradcheck.cases import Case, cases
from meganeura_dsl.gradcheck.device_check import RunGraph, compare
from meganeura_dsl.gradcheck.finite_differences import slopes
from meganeura_dsl.gradcheck.locate_fault import first_wrong
from meganeura_dsl.gradcheck.probe import NoGradientError, Point, Probe, probe
from meganeura_dsl.gradcheck.random_inputs import InputDistribution, RandomInputs
from meganeura_dsl.gradcheck.subjects import Subject
from meganeura_dsl.gradcheck.verdicts import (
    Failed,
    Fault,
    NotFinite,
    Passed,
    RefusedAfterProof,
    Skipped,
    Verdict,
    WrongGradient,
)
from meganeura_dsl.ir.graph import Graph, NotDifferentiableError
from meganeura_dsl.startup.deferred_dataclass import dataclass

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
        return Skipped(subject.name, reason)
    except Unsatisfiable:
        return Skipped(subject.name, search.refusal or NO_CASE)
    if not search.examples:
        return Skipped(subject.name, search.refusal or NO_CASE)
    return Passed(subject.name, search.examples, search.slopes, search.worst)


class _Search:
    """One search, with its results so far."""

    def __init__(self, subject: Subject, effort: SearchBudget) -> None:
        self.subject = subject
        self.effort = effort
        self.found: tuple[Case, Fault] | None = None
        self.examples = 0
        self.slopes = 0
        self.worst = 0.0
        self.refusal = ""
        self._probes: dict[str, tuple[Elaboration, Probe]] = {}

    @cached_property
    def is_proved(self) -> bool:
        """Whether its block is proved for all sizes, which a proof of whole numbers is about."""
        subject = self.subject
        return not subject.reals and prove_block(subject.module, subject.block) is None

    def run(self) -> None:
        """Draw and examine. Raises `_FoundError` with the smallest case in `found`."""

        @settings(
            max_examples=self.effort.examples,
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
        """What is wrong with one case, if anything."""
        try:
            elaboration, probed = self._probe(case)
        except ProblemError as error:
            return self._refused(error)
        point = self._point(case, probed)
        self.examples += 1
        if self.effort.kinks:
            fault = _finite(point, elaboration, case.seed)
        else:
            fault = self._differentiated(point, elaboration, case.seed)
        if fault is None and self.effort.run is not None:
            return compare(probed, point.feeds, self.effort.run)
        return fault

    def _probe(self, case: Case) -> tuple[Elaboration, Probe]:
        """The graph of a case and its probe: the same for cases that differ in their seed alone."""
        config = self.subject.drawn(case.config)
        key = repr((config, case.sizes, case.inputs, case.training))
        if key not in self._probes:
            if len(self._probes) >= MOST_PROBES:
                self._probes.clear()
            elaboration = case.elaborate()
            self._probes[key] = elaboration, probe(elaboration.graph)
        return self._probes[key]

    def _refused(self, error: ProblemError) -> RefusedAfterProof:
        """A refusal is a fault after a proof, except for a norm over one element."""
        report = error.problem.report()
        if not isinstance(error.problem, NormOverOne) and self.is_proved:
            return RefusedAfterProof(report)
        self.refusal = report.headline
        raise UnsatisfiedAssumption(self.refusal)

    def _point(self, case: Case, probed: Probe) -> Point:
        """Numbers for which the loss is finite: any, or all positive."""
        distributions = (
            (InputDistribution.KINKS,)
            if self.effort.kinks
            else (InputDistribution.SMOOTH, InputDistribution.POSITIVE)
        )
        for distribution in distributions:
            feeds = RandomInputs(case.seed, distribution).feeds(probed.graph, probed.indices)
            point = probed.at(feeds)
            if point.is_finite:
                return point
        self.refusal = "its result is not finite for the numbers tried"
        raise UnsatisfiedAssumption(self.refusal)

    def _differentiated(
        self, point: Point, elaboration: Elaboration, seed: int
    ) -> WrongGradient | None:
        for slope in slopes(point, seed):
            if not slope.agrees:
                return WrongGradient(slope, first_wrong(elaboration.graph, point.feeds, seed))
            self.slopes += 1
            self.worst = max(self.worst, slope.error)
        return None


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
