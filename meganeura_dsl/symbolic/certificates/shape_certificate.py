"""The certificate of what was proved of the sizes of a program."""

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from meganeura_verify.shapes import FORMAT, check_example

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.symbolic.certificates.derivation import Derivation
from meganeura_dsl.symbolic.certificates.proofs import entailed
from meganeura_dsl.symbolic.certificates.recorder import Answer
from meganeura_dsl.symbolic.certificates.size_data import condition_data
from meganeura_dsl.symbolic.certificates.trees import UNEXPLAINED, Unexplained
from meganeura_dsl.symbolic.conditions import Condition, show_condition
from meganeura_dsl.symbolic.prover.counterexample import Search, gathered, group_of, grouped
from meganeura_dsl.symbolic.prover.solver_state import SolverState

Json = Any
Least = tuple[tuple[str, int], ...]


def shape_certificate(answers: Iterable[Answer], texts: Iterable[tuple[str, Source]]) -> Json:
    """The certificate of the answers about a program, whose texts are named, its own first."""
    certificate = _Certificate()
    for answer in answers:
        certificate.add(answer)
    return {
        "format": FORMAT,
        "compiler": __version__,
        "texts": [
            [name or Path(source.name).name, sha256(source.text.encode()).hexdigest()]
            for name, source in texts
        ],
        "contexts": certificate.contexts,
        "questions": certificate.questions,
        "uncertified": certificate.uncertified,
    }


class _Certificate:
    """The answers so far with their proofs, and those that have none."""

    def __init__(self) -> None:
        self.contexts: list[Json] = []
        self.questions: list[Json] = []
        self.uncertified: list[Json] = []
        """Answers that are not certified: the condition, the line that asks it, and the reason."""
        self._derivations: dict[tuple[Least, tuple[Condition, ...]], tuple[int, Derivation]] = {}

    def add(self, answer: Answer) -> None:
        """Add the proof of one answer, or that there is none."""
        told = {"text": show_condition(answer.condition), "at": answer.place}
        try:
            self.questions.append({**told, **self._question(answer)})
        except UNEXPLAINED as error:
            self.uncertified.append({**told, "why": str(error)})

    def _question(self, answer: Answer) -> Json:
        number, at = self._context(tuple(sorted(answer.least.items())), answer.stated)
        condition, least = answer.condition, answer.least
        question = {"in": number, "claim": condition_data(condition)}
        if answer.example is not None:
            question["example"] = _completed(answer, at.known)
            facts = [condition_data(fact) for fact in answer.stated]
            check_example(question, facts, least)
        else:
            question["proofs"] = entailed(at, condition)
            at.scope.show_all(at.scope.state(question["claim"]), question["proofs"])
        return question

    def _context(self, least: Least, stated: tuple[Condition, ...]) -> tuple[int, Derivation]:
        key = least, stated
        if key not in self._derivations:
            if stated:
                around, outer = self._context(least, stated[:-1])
                derivation = outer.with_fact(stated[-1])
                facts = [condition_data(stated[-1])]
                data: Json = {"in": around, "facts": facts, "steps": derivation.steps}
            else:
                derivation = Derivation(SolverState(least=dict(least)))
                data = {"least": dict(least), "facts": [], "steps": []}
            self.contexts.append(data)
            self._derivations[key] = len(self.contexts) - 1, derivation
        return self._derivations[key]


def _completed(answer: Answer, known: SolverState) -> dict[str, int]:
    """The example with sizes for facts that have nothing to do with the condition."""
    example = dict(answer.example or {})
    _, others = gathered(group_of(answer.condition), grouped(answer.stated))
    for group in others:
        found = Search(group, known, answer.least).smallest(goal=True)
        if found is None:
            raise Unexplained("no sizes were found for other facts")
        example |= found
    return example
