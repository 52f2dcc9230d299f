"""Checks certificates of shapes: conditions on sizes that follow from facts, or are refuted.

A context has facts of the program, those of the context that it is in included, and steps that
derive what follows of them. A question is a claim in a context, with a proof, or with an example:
sizes for which the facts hold, and the claim does not.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from meganeura_verify import CertificateError, require
from meganeura_verify.conditions import holds, lines_of, names_in
from meganeura_verify.scope import NEW, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = Any
FORMAT = "meganeura-shapes-1"


class Context:
    """Facts, and what follows from them."""

    def __init__(self, around: Context | None, data: Json) -> None:
        self.scope = Scope(around.scope if around else None)
        self.facts: list[Json] = [*(around.facts if around else ()), *data["facts"]]
        self.bounds: dict[str, int] = around.bounds if around else dict(data["least"])
        if around is None:
            require(not any(name.startswith(NEW) for name in self.bounds), "a name is reserved")
            are_sizes = all(type(low) is int and low >= 0 for low in self.bounds.values())
            require(are_sizes, "a size is never negative")
            self.scope.least = dict(self.bounds)
        for fact in data["facts"]:
            self.scope.lines += self.scope.state(fact)
        for step in data["steps"]:
            self.scope.step(step)

    def check(self, question: Json) -> None:
        """Raise `CertificateError` unless a question is answered as it should be."""
        claim = question["claim"]
        if "example" in question:
            check_example(question, self.facts, self.bounds)
        else:
            self.scope.show_all(self.scope.state(claim), question["proofs"])


def check_example(question: Json, facts: list[Json], bounds: Mapping[str, int]) -> None:
    """Raise unless sizes satisfy all facts, and not the claim."""
    at = question["example"]
    conditions = [question["claim"], *facts]
    used = names_in(chain.from_iterable(map(lines_of, conditions)))
    require(all(type(value) in (int, bool) for value in at.values()), "these are no sizes")
    require(used <= at.keys(), "the example leaves a size open")
    require(all(at[name] >= bounds.get(name, 1) for name in used), "a size is below its bound")
    require(all(holds(fact, at) for fact in facts), "the example is outside the facts")
    require(not holds(question["claim"], at), "the claim holds for the example")


def check_shapes(certificate: Json) -> Json:
    """Check every answer; raises `CertificateError`, or returns the certificate."""
    require(isinstance(certificate, dict), "this is no certificate")
    require(certificate.get("format") == FORMAT, f"the format is not {FORMAT}")
    try:
        contexts: list[Context] = []
        for data in certificate["contexts"]:
            around = data.get("in")
            require(around is None or 0 <= around < len(contexts), "a context comes later")
            contexts.append(Context(None if around is None else contexts[around], data))
        for number, question in enumerate(certificate["questions"]):
            try:
                place = question["in"]
                require(type(place) is int and place >= 0, "there is no such context")
                contexts[place].check(question)
            except CertificateError as error:
                raise CertificateError(f"question {number}: {error}") from None
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise CertificateError(f"malformed: {error!r}") from None
    return certificate
