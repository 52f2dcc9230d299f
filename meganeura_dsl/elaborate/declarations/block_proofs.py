"""A block proved once, for all sizes and configurations."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import product as every

from meganeura_dsl.diagnostics.problem import Problem, ProblemError, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.body.blocks.block_arguments import require_block_fits
from meganeura_dsl.elaborate.body.blocks.bodies import run_body
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.declarations.loop_ends import with_last_apart
from meganeura_dsl.elaborate.declarations.stated_facts import (
    condition_of,
    preceding_where,
    with_clause,
)
from meganeura_dsl.elaborate.problems.layer_problems import ReservedParameter
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import CheckedPerModel
from meganeura_dsl.elaborate.problems.parameter_problems import InputSizedParameter
from meganeura_dsl.elaborate.problems.shape_problems import ImpossibleWhere
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Sources
from meganeura_dsl.elaborate.scope.proof import Proof, ProofPath
from meganeura_dsl.elaborate.scope.recovery import Recovery
from meganeura_dsl.elaborate.scope.scope import MODES, ElaborationState, Elaborator, Frame
from meganeura_dsl.elaborate.scope.state import Context
from meganeura_dsl.elaborate.scope.undecided import (
    ByIterationError,
    NeedsInliningError,
    UndecidableError,
)
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition_on_path
from meganeura_dsl.elaborate.typecheck.config_kinds import (
    Alternative,
    alternatives,
    require_known_texts,
    require_one_use,
)
from meganeura_dsl.elaborate.typecheck.index_ranges import settle
from meganeura_dsl.elaborate.typecheck.input_matching import default_tensor, require_given_sizes
from meganeura_dsl.elaborate.typecheck.meaning import meaning_notes
from meganeura_dsl.elaborate.typecheck.stated_positions import with_symbols
from meganeura_dsl.elaborate.typecheck.symbolic_inputs import (
    REST_RANKS,
    Clauses,
    any_config,
    any_inputs,
    any_sizes,
    rest_axes,
    rest_names,
    split_where,
)
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.limits.work_budget import OutOfWorkError
from meganeura_dsl.symbolic.assumptions import Facts, Flag
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline, parse_declaration

FlagsIfProved = Callable[[LinkedModule, ast.Block], frozenset[str] | None]
"""Returns a block's parameters that are conditions, if its signature may be assumed; else None."""


MOST_RECOVERED = 8
"""Paths through the signature of a refused block on which more problems are looked for."""
MOST_REPEATED = 12
"""Runs of a refused block, each with the facts that those before it lacked."""
MOST_IMPORTED = 1024
"""Proofs of imported blocks that a process remembers."""

_imported: dict[
    tuple[ast.Block, Sources], tuple[Problem | None, frozenset[str] | None, frozenset[ast.Block]]
] = {}
"""Proofs of blocks in the files they are linked with: the problem, if any; the parameters that
are conditions, or None if the signature may not be assumed; and the blocks that were run."""


class Prover:
    """Proves blocks of a program, and remembers which hold, so that others may rely on them."""

    elaborator = ELABORATOR
    """The walk over a block."""

    def __init__(self, facts: Facts | None = None) -> None:
        self._facts = Facts() if facts is None else facts
        """The facts that proofs start from; what one learns from `where` is known to the others."""
        self.proved: dict[ast.Block, frozenset[str]] = {}
        """The blocks that hold, and which of their parameters without a kind are conditions.

        One is left out that hands an input on to a block which states facts about it: its own
        signature does not say them, so whoever applies it has to look into it.
        """
        self.refused: set[ast.Block] = set()
        """The blocks that do not hold."""
        self.blocks: set[ast.Block] = set()
        """The blocks whose bodies were run in a proof that succeeded."""
        self.bindings: list[Binding] = []
        """The values of all blocks so far, for the first of their rest ranks."""
        self.notes: list[Problem] = []
        """The notes on the blocks so far."""

    def prove(self, module: LinkedModule, block: ast.Block) -> Problem | None:
        """Prove a block for all sizes and configurations.

        Returns None when proved, the refutation when refuted, a note when neither is decidable.
        """
        problem, flags = self._attempt(module, block)
        self._remember(block, flags)
        if problem is not None and problem.severity is Severity.ERROR:
            self.refused.add(block)
        return problem

    def _remember(self, block: ast.Block, flags: frozenset[str] | None) -> None:
        self.proved.pop(block, None)
        if flags is not None:
            self.proved[block] = flags

    def prove_imported(self, module: LinkedModule, block: ast.Block) -> Problem | None:
        """Prove a block of an imported file, as `prove` does, unless that was done before."""
        key = block, module.sources()
        recorder = self._facts.recorder
        if key not in _imported or recorder is not None:
            if len(_imported) >= MOST_IMPORTED:
                _imported.clear()
            prover = Prover(Facts(recorder=recorder))
            prover.proved = self.proved
            problem = prover.prove(module, block)
            _imported[key] = problem, self.proved.get(block), frozenset(prover.blocks)
        problem, flags, blocks = _imported[key]
        self._remember(block, flags)
        self.blocks |= blocks
        return problem

    def flags_if_proved(self, module: LinkedModule, block: ast.Block) -> frozenset[str] | None:
        """Returns a block's parameters without a kind that are conditions, if it holds; else None.

        That a block of the library holds, and has no such parameter, is for the tests to prove.
        """
        if module.is_library and module.own:
            return None if _is_of_several_types(block) else frozenset()
        return self.proved.get(block)

    def further(
        self, module: LinkedModule, block: ast.Block, first: Problem
    ) -> tuple[Problem, ...]:
        """All that is wrong with a block that was refused, and why it was.

        Of its layers, those that were refused are taken at their signatures. The values that are
        known in spite of it join `bindings`.
        """
        recovery = Recovery(block)
        recovery.add(first)
        for _ in range(MOST_REPEATED):
            lacking = tuple(recovery.lacking)
            recovery.begin_again()
            self._recover(module, block, recovery, lacking)
            if len(recovery.lacking) == len(lacking):
                break
        self.bindings += recovery.bindings
        found = recovery.problems
        left = (each for each in found if not _follows(each, found))
        problems = tuple(with_clause(each, block) for each in left)
        return _sized_by_data(module, block, recovery, problems)

    def _recover(
        self, module: LinkedModule, block: ast.Block, recovery: Recovery, lacking: tuple[str, ...]
    ) -> None:
        """Collect what is wrong with a block whose `where` states some more facts."""

        def flags(_: LinkedModule, other: ast.Block) -> frozenset[str] | None:
            return frozenset() if other in self.refused else None

        def run(ranks: Mapping[str, int], case: Alternative, path: ProofPath) -> None:
            start = _Start(ranks, case, path, self.elaborator, lacking)
            state = _prove_case(module, block, start, flags, self._facts, recovery=recovery)
            recovery.parameters = tuple(state.body.parameters.values())

        with suppress(UndecidableError, OutOfWorkError):
            for ranks, case in every(_rest_ranks(block), alternatives(block)):
                path = ProofPath(case=case.words)
                for _ in range(MOST_RECOVERED):
                    try:
                        run(ranks, case, path)
                    except (ImpossibleCaseError, NeedsInliningError):
                        pass
                    except ProblemError as error:  # of the header, or of what is never used
                        recovery.add(error.problem)
                    is_left = path.advance()
                    if not is_left:
                        break

    def _attempt(
        self, module: LinkedModule, block: ast.Block
    ) -> tuple[Problem | None, frozenset[str] | None]:
        blocks, flags, hands_on = set[ast.Block](), set[str](), False
        notes: list[Problem] = []
        for parameter in block.parameters:
            if parameter.name in MODES:
                location = Location(parameter.span)
                return ReservedParameter(location, parameter.name, block.name.text), None
        try:
            proofs = _proofs(module, block, self.flags_if_proved, self._facts, self.elaborator)
            for number, state in enumerate(proofs):
                self.bindings += state.body.bindings if number == 0 else ()
                notes += [note.problem for note in state.body.notes]
                flags.update({} if state.proof is None else state.proof.inferred_flags)
                blocks |= state.body.applied.blocks
                hands_on |= bool(state.values.unconstrained_indices)
        except UndecidableError as error:
            form = with_last_apart(error.node, block) if isinstance(error, ByIterationError) else ""
            place, name = Location(block.name.span), block.name.text
            return CheckedPerModel(place, name, error.reason, form), None
        except ProblemError as error:
            return with_clause(error.problem, block), None
        except OutOfWorkError as error:
            return TooMuchWork(Location(block.name.span), error.reason, block.name.text), None
        self.blocks |= blocks
        self.notes += notes
        return None, None if hands_on else frozenset(flags)


def _sized_by_data(
    module: LinkedModule, block: ast.Block, recovery: Recovery, problems: tuple[Problem, ...]
) -> tuple[Problem, ...]:
    """Problems of a block, with the weight first whose shape depends on the data in a model of it.

    Missing facts about the sizes of data are not reported: with numbers they hold or not.
    """
    names = {each.name for each in block.parameters}
    entries = [entry for each in block.inputs for entry in each.type.shape.entries]
    axes = {each.text for each in entries if isinstance(each, ast.Name)} - names
    models = (each for each in module.own.values() if isinstance(each, ast.Model))
    if not any(each.call.callee == block.name.text for each in models):
        return problems
    for info in recovery.parameters:
        used = {
            name for size in info.type.shape if isinstance(size, Dim) for name in size.variables()
        }
        dims = tuple(sorted(used & axes))
        if dims and info.kind != "cache":
            rest = tuple(each for each in problems if not _is_about(each, dims))
            sized = InputSizedParameter(info.location, info.name, str(info.type), dims)
            return (sized, *rest) if len(rest) < len(problems) else problems
    return problems


def is_held_back(problem: Problem, others: tuple[Problem, ...]) -> bool:
    """True if a problem lacks a fact that others make needless.

    They lack one that it follows from, or the first says that these sizes must be numbers.
    """
    first = others[0] if others else None
    is_sized = isinstance(first, InputSizedParameter) and _is_about(problem, first.dims)
    return is_sized or _follows(problem, others)


def _follows(problem: Problem, others: tuple[Problem, ...]) -> bool:
    """True if a problem lacks a smallest size, and another a divisor of the size, which has it.

    They are `h >= 2` and `h % 2 == 0`, or `h//2 >= 2` and `h % 4 == 0`.
    """
    least = re.fullmatch(r"(\w+)(?://(\d+))? >= (\d+)", _fact(problem))
    if least is None:
        return False
    needed = int(least[2] or 1) * int(least[3])
    clauses = (clause for each in others for clause in _fact(each).split(", "))
    divisors = (re.fullmatch(rf"{least[1]} % (\d+) == 0", clause) for clause in clauses)
    return any(each is not None and int(each[1]) >= needed for each in divisors)


def _fact(problem: Problem) -> str:
    """The fact that would cure a problem, as a clause of `where`, or nothing."""
    fact: str = getattr(problem, "fact", "")
    return fact


def _is_about(problem: Problem, dims: tuple[str, ...]) -> bool:
    """True if a fact about sizes of the data alone is what a problem lacks."""
    fact = _fact(problem)
    return bool(fact) and set(re.findall(r"[A-Za-z_]\w*", fact)) <= set(dims)


def prove_block(module: LinkedModule, block: ast.Block) -> Problem | None:
    """Prove one block, relying on no other of its file."""
    return Prover().prove(module, block)


def _is_of_several_types(block: ast.Block) -> bool:
    """True if an input may be of any element type, so that no proof covers the block."""
    return any(item.type.dtype == "any" for item in block.inputs)


def _rest_ranks(block: ast.Block) -> Iterator[dict[str, int]]:
    names = rest_names(block)
    for ranks in every(REST_RANKS, repeat=len(names)):
        yield dict(zip(names, ranks, strict=True))


def _proofs(
    module: LinkedModule,
    block: ast.Block,
    flags_if_proved: FlagsIfProved,
    facts: Facts,
    elaborator: Elaborator,
) -> Iterator[ElaborationState]:
    """A proof for each case, and each path through the signature, that `where` allows.

    Raises what a proof raises.
    """
    for ranks in _rest_ranks(block):
        impossible: list[ImpossibleCaseError] = []
        cases = alternatives(block)
        is_possible = False
        for case in cases:
            path = ProofPath(case=case.words)
            while True:
                try:
                    start = _Start(ranks, case, path, elaborator)
                    yield _prove(module, block, start, flags_if_proved, facts)
                    is_possible = True
                except ImpossibleCaseError as error:
                    impossible.append(error)
                if not path.advance():
                    break
        if not is_possible:
            raise ProblemError(ImpossibleWhere(impossible[0].location, block.name.text))


@dataclass(frozen=True)
class _Start:
    """The assumptions of a proof: ranks of rests, texts and signs, and choices."""

    ranks: Mapping[str, int]
    case: Alternative
    path: ProofPath
    elaborator: Elaborator
    lacking: tuple[str, ...] = ()
    """Facts that `where` does not state, and without which something was refused."""


class ImpossibleCaseError(Exception):
    """A block's `where` excludes what a proof takes for all of a case, on one of its paths."""

    def __init__(self, location: Location) -> None:
        super().__init__(location)
        self.location = location


def _prove(
    module: LinkedModule,
    block: ast.Block,
    start: _Start,
    flags_if_proved: FlagsIfProved,
    facts: Facts,
) -> ElaborationState:
    opened = frozenset[str]()
    while True:
        try:
            return _prove_case(module, block, start, flags_if_proved, facts, opened)
        except NeedsInliningError as error:
            if error.path is None or error.path in opened:
                break
            opened |= {error.path}
        except (ProblemError, UndecidableError, OutOfWorkError):
            if not opened:
                raise
            break  # with every body in place, the verdict and its words
    return _prove_case(module, block, start, None, facts)


def _prove_case(
    module: LinkedModule,
    block: ast.Block,
    start: _Start,
    flags_if_proved: FlagsIfProved | None,
    facts: Facts,
    opened: frozenset[str] = frozenset(),
    recovery: Recovery | None = None,
) -> ElaborationState:
    if _is_of_several_types(block):
        raise UndecidableError("its inputs may have several element types")
    state = ElaborationState(
        start.elaborator,
        Builder(facts),
        Context(Flag("training")),
        proof=(proof := Proof(flags_if_proved, opened)),
    )
    frame = Frame(state, module, block.name.text, dict(start.case.values), declaration=block)
    require_known_texts(block, frame)
    start.path.begin()
    frame.choices = start.path
    with preceding_where():
        for parameter in block.parameters:
            frame.names[parameter.name] = any_config(parameter, frame)
        for name, rank in start.ranks.items():
            frame.names[name] = rest_axes(block, name, rank)
    solved = any_sizes(block.inputs, frame)
    for fact in start.lacking:
        _assume_lacking(fact, frame, block)
    early, late = split_where(block, of_positions=True)
    _assume(early, frame, block)
    with preceding_where() if late else nullcontext():
        any_inputs(block.inputs, solved, frame)
    _assume(late, frame, block)
    for fact in start.lacking:
        _assume_lacking(fact, frame, block)
    require_given_sizes(frame, block)
    for item in block.inputs:
        if item.default is not None:
            default_tensor(frame, item, item.default)
    state.values.fill_values.clear()
    _require_fitting_defaults(frame, block)
    state.recovery = recovery
    try:
        run_body(frame, block)
    finally:
        proof.assumed.clear()  # whose frames hold the state, which would wait for the collector
    if recovery is not None:
        recovery.bindings += state.body.bindings
    require_one_use(block, frame)
    settle(state)
    if flags_if_proved is not None and recovery is None and not module.is_library:
        state.body.notes += map(ProblemError, meaning_notes(frame, block))
    return state


def _assume(clauses: Clauses, frame: Frame, block: ast.Block) -> None:
    """Take clauses of `where` for true, one after the other."""
    stated = with_symbols(frame, block)
    for clause in clauses:
        condition = condition_of(clause, stated, block)
        frame.build.facts = frame.facts.assume(condition)
        if frame.facts.is_contradictory:
            raise ImpossibleCaseError(frame.location(clause.span))


def _assume_lacking(fact: str, frame: Frame, block: ast.Block) -> None:
    """Take a fact for true that a problem asked for, if the block has names for it by now."""
    text = f"block {block.name.text}()(x: [n]) where {fact}:\n  return x\n"
    declaration, problems = parse_declaration(outline(Source(block.span.source.name, text))[0])
    if problems or not isinstance(declaration, ast.Block):
        return
    stated = with_symbols(frame, block)
    for clause in declaration.where:
        with suppress(ProblemError):
            facts = frame.facts.assume(clause_condition_on_path(clause, stated, block))
            if not facts.is_contradictory:
                frame.build.facts = facts


def _require_fitting_defaults(frame: Frame, block: ast.Block) -> None:
    """Refuse a default that does not fit the header its parameter states."""
    for parameter in block.parameters:
        if isinstance(parameter.kind, ast.BlockKind) and parameter.default is not None:
            default = frame.evaluate(parameter.default)
            require_block_fits(frame, block, parameter, default)
