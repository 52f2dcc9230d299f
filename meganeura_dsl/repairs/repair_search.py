"""A search for small edits with which a refused declaration holds."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from meganeura_dsl.checker import Checker
from meganeura_dsl.diagnostics.fixes import apply
from meganeura_dsl.diagnostics.problem import ProblemError, Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations import training_blocks
from meganeura_dsl.elaborate.declarations.block_proofs import Prover
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Loader
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.limits.language_limits import CHECK, REPAIR
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, at_most, within
from meganeura_dsl.repairs.known_slips import Slip, known_slips
from meganeura_dsl.repairs.placements import placements
from meganeura_dsl.repairs.read_statements import read_statements
from meganeura_dsl.repairs.small_edits import (
    Around,
    Edits,
    each_once,
    further_edits,
    likely_edits,
    named_sizes,
)
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration

Repaired = ast.Block | ast.Train
"""A declaration that small edits may mend."""

MOST_TRIALS = 96
"""Edits of one kind that are tried for one declaration."""
MOST_PLACES = 12
"""Places of the code of a help that are tried."""
MOST_CONFIRMED = 4
"""Edits with which a declaration holds and the whole file is checked."""
MOST_FACTS = 3
"""Facts that are stated one behind the other to see whether a declaration then holds."""


@dataclass(frozen=True)
class Repairs:
    """The edits with which a declaration holds, and the file has no new error."""

    slip: Slip | None = None
    likely: tuple[Edits, ...] = ()
    further: tuple[Edits, ...] = ()


class RepairSearch:
    """Tries edits of one file, of which the errors are known."""

    def __init__(self, checker: Checker, loader: Loader, reports: Iterable[Report]) -> None:
        self._module = checker.module
        self._loader = loader
        self._errors = errors_of(reports)
        self._prover = Prover()
        self._budget = Budget(REPAIR)
        with suppress(OutOfWorkError), at_most(CHECK):
            for block in self._module.blocks.values():
                self._prover.prove(self._module, block)

    def repairs(self, report: Report, declaration: Repaired) -> Repairs:
        """The small edits that mend the declaration in which an error stands."""
        if report.label is None:
            return Repairs()
        around = Around(declaration, self._module)
        statements = read_statements(declaration, report.label.span)
        if report.code == "E0201":
            named = partial(named_sizes, report.label.span)
            return Repairs(
                likely=self._mending(around, lambda _, here: named(here), statements[:1])
            )
        slip = self._slip(around, statements)
        if slip is not None and slip.is_only:
            return Repairs(slip)
        likely = self._mending(around, likely_edits, statements)
        further = () if slip or likely else self._mending(around, further_edits, statements)
        return Repairs(slip, likely, further)

    def declaration(self, report: Report) -> Repaired | None:
        """The block or the training in which an error stands."""
        return _around(report, self._module)

    def is_confirmed(self, code: str, report: Report, declaration: Repaired) -> bool:
        """True if a declaration holds with the code of a help in one of its places."""
        if report.label is None:
            return False
        span = report.label.span
        declared = [each for each in declaration.body if isinstance(each, ast.Declare)]
        statements = (*read_statements(declaration, span), *declared)
        found = islice(placements(code, span, statements), MOST_PLACES)
        return any(self._holds(declaration, each) for each in found)

    def is_mended_by_facts(self, declaration: Repaired, edits: Edits) -> bool:
        """True if a declaration holds once a fact is stated, and then those that it still lacks."""
        name, source = declaration.name.text, self._module.source
        for _ in range(MOST_FACTS):
            source = Source(source.name, apply(source.text, edits))
            checker = Checker(source, self._loader)
            errors = errors_of(checker.run().reports)
            here = [each for each in errors if _name_around(each, checker.module) == name]
            if not here:
                return True
            if any(each.help is None or not each.help.edits for each in here):
                return False
            edits = here[0].help.edits if here[0].help is not None else ()
        return False

    def left_in(self, declaration: Repaired, edits: Edits) -> int | None:
        """The errors that a declaration has with some edits made.

        None if anything else is refused then that was not before, and no fact can be stated there.
        """
        module, errors = self._checked(edits)
        names = [_name_around(each, module) for each in errors]
        for each, name in zip(errors, names, strict=True):
            is_block = isinstance(_around(each, module), ast.Block)
            lacks_fact = is_block and each.help is not None and bool(each.help.edits)
            if self._is_new(each) and not lacks_fact and name != declaration.name.text:
                return None
        return names.count(declaration.name.text)

    def _mends(self, edits: Edits) -> bool:
        """True if the file has fewer errors with some edits made, and no new one."""
        _, errors = self._checked(edits)
        return len(errors) < len(self._errors) and not any(map(self._is_new, errors))

    def _checked(self, edits: Edits) -> tuple[LinkedModule, tuple[Report, ...]]:
        source = self._module.source
        checker = Checker(Source(source.name, apply(source.text, edits)), self._loader)
        return checker.module, errors_of(checker.run().reports)

    def _is_new(self, error: Report) -> bool:
        return (error.code, error.headline) not in {
            (each.code, each.headline) for each in self._errors
        }

    def _slip(self, around: Around, statements: Iterable[ast.Node]) -> Slip | None:
        """The first known slip whose edits mend a declaration."""
        found = (slip for each in statements for slip in known_slips(each, around))
        return next(
            (
                slip for slip in islice(found, MOST_TRIALS)
                if self._holds(around.declaration, slip.edits) and self._mends(slip.edits)
            ),
            None,
        )  # fmt: skip

    def _mending(
        self,
        around: Around,
        edits_of: Callable[[ast.Node, Around], Iterator[Edits]],
        statements: Iterable[ast.Node],
    ) -> tuple[Edits, ...]:
        """The edits that mend a declaration, those of the nearest statement first."""
        edits = each_once(edit for each in statements for edit in edits_of(each, around))
        holding = filter(partial(self._holds, around.declaration), islice(edits, MOST_TRIALS))
        return tuple(filter(self._mends, islice(holding, MOST_CONFIRMED)))

    def _holds(self, declaration: Repaired, edits: Edits) -> bool:
        """True if a declaration holds with some edits made."""
        if self._budget.is_spent:
            return False
        source = self._module.source
        edited = _parsed(Source(source.name, apply(source.text, edits)), declaration)
        try:
            with within(self._budget):
                return edited is not None and self._is_proved(edited)
        except (ProblemError, UndecidableError, OutOfWorkError):
            return False

    def _is_proved(self, declaration: Repaired) -> bool:
        name, module = declaration.name.text, self._module
        if isinstance(declaration, ast.Train):
            trains = {**module.trains, name: declaration}
            training_blocks.elaborate_train(
                replace(module, source=declaration.span.source, trains=trains),
                declaration,
                sizes={},
                training=True,
            )
            return True
        own = {**module.own, name: declaration}
        problem = self._prover.prove(
            replace(module, source=declaration.span.source, own=own), declaration
        )
        return problem is None or problem.severity is not Severity.ERROR


def errors_of(reports: Iterable[Report]) -> tuple[Report, ...]:
    """The errors among some reports."""
    return tuple(each for each in reports if each.severity is Severity.ERROR)


def _around(report: Report, module: LinkedModule) -> Repaired | None:
    """The declaration of a file in which an error stands."""
    nodes = (*module.blocks.values(), *module.trains.values())
    span = None if report.label is None else report.label.span
    return next((each for each in nodes if span and each.span.contains(span)), None)


def _name_around(report: Report, module: LinkedModule) -> str | None:
    node = _around(report, module)
    return None if node is None else node.name.text


def _parsed(source: Source, like: Repaired) -> Repaired | None:
    """The declaration of a text that has the kind and the name of another; None if unreadable."""
    kind = "block" if isinstance(like, ast.Block) else "train"
    for found in outline(source):
        if (found.kind, found.name) == (kind, like.name.text):
            declaration, problems = parse_declaration(found)
            if isinstance(declaration, ast.Block | ast.Train) and not problems:
                return declaration
    return None
