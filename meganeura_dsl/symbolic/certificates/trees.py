"""The reasons of the prover for `size >= 0` as a certificate writes them."""

from collections.abc import Sequence
from typing import Any

from meganeura_verify import CertificateError

from meganeura_dsl.symbolic.certificates.size_data import size_data
from meganeura_dsl.symbolic.prover.nonnegativity import (
    FactStep,
    FloorStep,
    InClasses,
    LeastFloors,
    Plain,
    Reason,
    Through,
    reason_for,
)
from meganeura_dsl.symbolic.prover.residue_classes import residue_classes
from meganeura_dsl.symbolic.size import Size, substitute

Json = Any


class Unexplained(Exception):
    """Something was decided in a way that a certificate cannot say."""


UNEXPLAINED = (Unexplained, CertificateError, ArithmeticError, LookupError, ValueError)
"""Errors that are raised where an answer has no proof, or one that the checker refuses."""


class Trees:
    """Writes trees about sizes whose names are counted from their least values.

    `used` are the facts that they refer to, which the certificate lists in this order.
    """

    def __init__(self, facts: Sequence[Size]) -> None:
        self._facts = tuple(facts)
        self.used: list[int] = []

    def tree(self, size: Size) -> Json:
        """The tree for a size that was shown to be >= 0; raises `Unexplained` if it was not."""
        return self._found(size, self._facts)

    def _found(self, size: Size, facts: tuple[Size, ...]) -> Json:
        reason = reason_for(size, facts)
        if reason is None:
            raise Unexplained(f"no reason for {size} >= 0")
        return self._written(reason, size, facts)

    def _written(self, reason: Reason, size: Size, facts: tuple[Size, ...]) -> Json:
        match reason:
            case Plain():
                return 1
            case LeastFloors(floors):
                return ["least", [self._least_floor(*each, facts) for each in floors]]
            case InClasses(periods, reasons):
                steps = {name: period for name, period in periods.items() if period > 1}
                trees = [
                    self._written(
                        each,
                        substitute(size, values),
                        tuple(substitute(fact, values) for fact in facts),
                    )
                    for values, each in zip(residue_classes(periods), reasons, strict=False)
                ]
                return ["classes", steps, trees]
            case Through(FactStep(place, scale, share), then):
                left = scale * size + scale - 1 - share * facts[place]
                rest = self._written(then, left, facts)
                return ["cut", scale, 1, size_data(share), self._place(place), 0, 1, rest]
            case Through(FloorStep() as step, then):
                return self._without_floor(step, then, size, facts)
            case _:
                raise AssertionError(reason)

    def _without_floor(
        self, step: FloorStep, then: Reason, size: Size, facts: tuple[Size, ...]
    ) -> Json:
        above, below, share, whole = step.above, step.below, step.share, step.whole
        scale = size_data(below)
        positive = self._positive(below, facts)
        bound = ["high" if step.is_added else "low", size_data(above), scale, positive]
        floor = above // below
        low = above - below * floor
        known = below - 1 - low if step.is_added else low
        if whole is None:
            rest = self._written(then, below * size - share * known, facts)
            shares = self._found(share, facts)
            return ["cut", scale, 0, size_data(share), bound, positive, shares, rest]
        part = whole + floor if step.is_added else whole - floor
        rest = self._written(then, below * part + below - 1 - known, facts)
        tree = ["cut", scale, 1, 1, bound, positive, 1, rest]
        if share == 1:
            return tree
        shares = self._found(share, facts)
        return ["cut", 1, 0, size_data(share), ["shown", size_data(part), tree], 0, shares, 1]

    def _least_floor(self, above: Size, below: Size, least: int, facts: tuple[Size, ...]) -> Json:
        positive = self._positive(below, facts)
        tree = self._found(above - below * least, facts)
        return [size_data(above), size_data(below), least, positive, tree]

    def _positive(self, below: Size, facts: tuple[Size, ...]) -> Json:
        """Returns the reason that a divisor is >= 1: a proof, or that it is >= 0 and not 0."""
        if isinstance(below, int):
            return 0
        if reason := reason_for(below - 1, facts):
            return ["tree", self._written(reason, below - 1, facts)]
        return ["divisor", self._found(below, facts)]

    def _place(self, place: int) -> int:
        if place not in self.used:
            self.used.append(place)
        return self.used.index(place)
