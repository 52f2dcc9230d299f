"""The front of the compiler on one screen: find, parse, link, prove, elaborate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from meganeura_dsl.diagnostics.problem import (
    Problem,
    ProblemError,
    ProblemsError,
    Report,
    Severity,
    Sink,
)
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.body.layer_summaries import with_summaries
from meganeura_dsl.elaborate.declarations import generation, models, training_blocks
from meganeura_dsl.elaborate.declarations.block_proofs import Prover
from meganeura_dsl.elaborate.declarations.example_expectation import example_expectation
from meganeura_dsl.elaborate.declarations.expectations import Expectations
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.declarations.training_blocks import Setting
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import CheckedPerModel, TooMuchWork
from meganeura_dsl.elaborate.problems.training_problems import NoModelHolds, NothingChecks
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker, Loader, library, nearest
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.scope.unused_values import unused_values, walk
from meganeura_dsl.elaborate.values import Static
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits.language_limits import CHECK, CHECK_CHARACTER
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, within
from meganeura_dsl.proof_cache import known_notes, store_notes
from meganeura_dsl.resources import standard_model_names, standard_models
from meganeura_dsl.support.phases import phase
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline
from meganeura_dsl.syntax.parser.source_files import read_source
from meganeura_dsl.target_problems import AmbiguousTarget, UnknownTarget


@dataclass(frozen=True)
class CheckResult:
    """What a check found: all problems, what was proved, and every visible value's type."""

    program: Program
    problems: tuple[Problem, ...]
    types: Mapping[tuple[int, str], TensorType]
    proved: tuple[str, ...]
    holds: int

    @property
    def reports(self) -> tuple[Report, ...]:
        """What is said about each problem."""
        return tuple(problem.report() for problem in self.problems)

    @property
    def bindings(self) -> Mapping[tuple[int, str], str]:
        """Every visible value's type as text, by its line and name."""
        return {location: str(type_) for location, type_ in self.types.items()}

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong; notes are not wrong."""
        return all(problem.severity is not Severity.ERROR for problem in self.problems)


@dataclass(frozen=True)
class Program:
    """A linked file, ready to be elaborated; one that `load` gives is proved."""

    module: LinkedModule
    chosen: str | None = None
    """The model or `train` asked for by name, if one was."""
    prefix: str = ""
    """What stands before the `:` where one of its declarations is asked for; its name if empty."""
    notes: tuple[Report, ...] = ()
    """What its proof has to say although nothing is wrong."""
    is_standard: bool = False
    """Whether it ships with the package."""

    @property
    def source(self) -> Source:
        """The file itself."""
        return self.module.source

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models declared in the file."""
        return tuple(self.module.models)

    @property
    def trains(self) -> tuple[str, ...]:
        """The names of the `train` blocks declared in the file."""
        return tuple(self.module.trains)

    def model(self, name: str | None = None) -> str:
        """The model asked for: by name, by the target, or the only one. Raises `ProblemError`."""
        return self._pick("model", name, self.models)

    def train(self, name: str | None = None) -> str:
        """The `train` asked for: by name, by the target, or the only one. Raises `ProblemError`.

        Where the target is a model, only those are meant that apply it.
        """
        known, model = self.trains, self.chosen
        if name is None and known and model in self.models:
            applying = tuple(each for each in known if self._applies(each, model))
            if not applying:
                cure = tuple(map(self._target, known))
                raise ProblemError(UnknownTarget(self.source.name, "train", "", cure, model))
            known = applying
        return self._pick("train", name, known)

    def _applies(self, train: str, model: str) -> bool:
        """Whether a `train` block applies a model by its name."""
        return any(
            isinstance(node, ast.Call) and node.callee == model
            for node in walk(self.module.trains[train])
        )

    def _pick(self, kind: str, name: str | None, known: tuple[str, ...]) -> str:
        if name is None and self.chosen in known:
            name = self.chosen
        if name is None and len(known) == 1:
            name = known[0]
        if name is not None and name in known:
            return name
        cure = known if name else tuple(map(self._target, known))
        raise ProblemError(UnknownTarget(self.source.name, kind, name or "", cure))

    def _target(self, name: str) -> str:
        """How one of its declarations is asked for."""
        return f"{self.prefix or self.source.name}:{name}"


@dataclass(frozen=True)
class Target:
    """Where a program is, and which of its declarations is meant, if one was named."""

    path: Path
    chosen: str | None
    is_standard: bool = False

    @property
    def prefix(self) -> str:
        """What names the program alone."""
        return self.path.stem if self.is_standard else str(self.path)

    def read(self) -> Source:
        """The program; a standard one is shown by its name alone. Raises `ProblemError`."""
        return read_source(self.path, self.path.name if self.is_standard else None)


def find(target: str) -> Target:
    """A path, `path:name`, or the name of a standard file or of what only one of them declares.

    A standard file may be followed by `:name` as well. Raises `ProblemError`.
    """
    path, _, chosen = target.partition(".mgn:")
    if chosen:
        return Target(Path(f"{path}.mgn"), chosen)
    if target.endswith(".mgn") or "/" in target or Path(target).is_file():
        return Target(Path(target), None)
    folder = Path(str(standard_models()))
    if (folder / f"{target}.mgn").is_file():
        return Target(folder / f"{target}.mgn", None, is_standard=True)
    name, _, chosen = target.partition(":")
    if chosen and name in standard_model_names():
        return Target(folder / f"{name}.mgn", chosen, is_standard=True)
    return _declared_in_library(target, folder)


def _declared_in_library(target: str, folder: Path) -> Target:
    """The model or `train` of that name, which one standard file declares."""
    known = list(standard_model_names())
    holders: list[str] = []
    for name in standard_model_names():
        source = read_source(folder / f"{name}.mgn")
        declared = [found.name for found in outline(source) if found.kind in ("model", "train")]
        holders += [name] if target in declared else []
        known += declared
    if len(holders) > 1:
        raise ProblemError(AmbiguousTarget(target, tuple(f"{each}:{target}" for each in holders)))
    if not holders:
        raise ProblemError(UnknownTarget("", "model", target, nearest(target, known)))
    return Target(folder / f"{holders[0]}.mgn", target, is_standard=True)


def load(target: str) -> Program:
    """Parse a program, follow its imports, and prove all of it, whatever the target chooses.

    This is the one way to a program: nothing is made of one that is refuted, or one of whose
    expectations fails. What was proved before is not proved again. Raises `ProblemError`, or
    `ProblemsError` with everything that `check` says.
    """
    found = find(target)
    with phase("parse"):
        checker = Checker(found.read(), loader_beside(found.path))
    notes = None
    if not checker.sink.has_errors:
        if found.chosen is not None and found.chosen not in checker.names:
            raise ProblemError(checker.unknown(found.chosen))
        notes = known_notes(checker.texts)
    if notes is None:
        with phase("check"):
            result = checker.run()
        if not result.fine:
            raise ProblemsError(result.problems)
        notes = result.reports
        store_notes(checker.texts, notes)
    return Program(checker.module, found.chosen, found.prefix, notes, found.is_standard)


def loader_beside(path: Path) -> Loader:
    """Finds imports beside a file, then in the standard models; never above the file's folder."""

    def load_module(words: tuple[str, ...]) -> Source | None:
        relative = Path(*words).with_suffix(".mgn")
        if (path.parent / relative).is_file():
            return _known_source(read_source(path.parent / relative))
        standard = Path(str(standard_models())) / relative
        if not standard.is_file():
            return None
        return _known_source(read_source(standard, str(relative)))

    return load_module


def _known_source(source: Source) -> Source:
    """A source that was read before with the same text, so that what is known of it is found."""
    return _source_of(source.name, source.text)


@lru_cache(maxsize=64)
def _source_of(name: str, text: str) -> Source:
    return Source(name, text)


# --- check ---------------------------------------------------------------------------------------


def check_file(target: str) -> CheckResult:
    """Check all of the file a target names, as `load` does. Raises `ProblemError` if unreadable.

    Of a file of this package only what the target chooses is checked: the rest has not changed.
    """
    found = find(target)
    checker = Checker(found.read(), loader_beside(found.path), found.chosen, found.prefix)
    checker.only = found.chosen if found.is_standard else None
    result = checker.run()
    if result.fine and checker.only is None:
        store_notes(checker.texts, result.reports)
    return result


def check(source: Source, loader: Loader) -> CheckResult:
    """Prove everything a file declares: its blocks, models, expectations and trainings."""
    return Checker(source, loader).run()


class Checker:
    """One check of one file: a declaration at a time, each problem kept, none fatal."""

    def __init__(
        self, source: Source, loader: Loader, chosen: str | None = None, prefix: str = ""
    ) -> None:
        self.sink = Sink()
        self._linker = Linker(loader, self.sink)
        self.module = self._linker.link(source)
        self.chosen = chosen
        self.only: str | None = None
        """The one model or `train` that is checked beside all blocks; all, if it is None."""
        self.prefix = prefix
        self.proved: list[str] = []
        self.types: dict[tuple[int, str], TensorType] = {}
        self.holds = 0
        self._budget = Budget(CHECK + CHECK_CHARACTER * len(source.text))
        self._locations: set[tuple[str, int, int]] = set()
        self._summaries = Summaries()
        self._elaborated: dict[tuple[str, str], Elaboration] = {}
        self._undecided: list[tuple[Problem, ast.Block]] = []
        self._used: set[ast.Block] = set()
        """The blocks that a model, an expectation, a training or another block's proof ran."""
        self._failed = False
        """Whether a model, an expectation or a training was refused."""

    @property
    def texts(self) -> list[tuple[str, Source]]:
        """All that the outcome depends on."""
        return [
            ("", self.module.source),
            *((".".join(words), each.source) for words, each in self._linker.imports.items()),
            *((each.source.name, each.source) for each in library()),
        ]

    def run(self) -> CheckResult:
        """Check every declaration and gather what was found."""
        if self.chosen is not None and self.chosen not in self.names:
            self.sink.add(self.unknown(self.chosen))
        self._blocks()
        self._declarations()
        problems = tuple(map(self._judged, self.sink))
        program = Program(self.module, self.chosen, self.prefix)
        return CheckResult(program, problems, self.types, tuple(self.proved), self.holds)

    def _declarations(self) -> None:
        for name, model in self.module.models.items():
            if self._is_asked(name):
                self._attempt(
                    model.name.span, lambda m=model: self._keep(self._elaborate(self.module, m, {}))
                )
        expectations = Expectations(self.module, self._elaborate, self._summaries)
        for expectation in self.module.expectations:
            if self._is_asked(expectation.call.callee):
                self.holds += self._attempt(
                    expectation.call.span,
                    lambda e=expectation: self._used.update(expectations.check(e).blocks),
                )
        for name, train in self.module.trains.items():
            if self._is_asked(name):
                self._attempt(train.name.span, lambda t=train: self._train(t))

    def _is_asked(self, name: str) -> bool:
        return self.only in (None, name)

    @property
    def names(self) -> tuple[str, ...]:
        """What a target can choose."""
        return (*self.module.models, *self.module.trains)

    def unknown(self, chosen: str) -> UnknownTarget:
        """That a target chooses what is not there."""
        return UnknownTarget(self.module.source.name, "model", chosen, self.names)

    def _judged(self, problem: Problem) -> Problem:
        """The problem itself; of a block that is left to others, an error if there are none.

        There may be some among what was not asked for, or behind what was refused.
        """
        block = next((block for each, block in self._undecided if each is problem), None)
        if block is None or block in self._used or self.only is not None or self._failed:
            return problem
        assert isinstance(problem, CheckedPerModel)
        example = example_expectation(self.module, block, problem.reason)
        return NothingChecks(problem.location, problem.block, problem.reason, example)

    def _elaborate(
        self, module: LinkedModule, model: ast.Model, config: Mapping[str, Static]
    ) -> Elaboration:
        key = (model.name.text, repr(sorted(config.items())))
        if key not in self._elaborated:
            self._elaborated[key] = with_summaries(
                self._summaries,
                lambda summaries: models.elaborate_model(
                    module, model, config=config, sizes=None, training=False, summaries=summaries
                ),
            )
        return self._elaborated[key]

    def _blocks(self) -> None:
        """Prove every block, leaving out those a syntax problem has cut short."""
        cut = self._cut_short()
        prover = Prover(self._summaries.facts)
        for node in (*self.module.own.values(), *self.module.trains.values()):
            if not isinstance(node, ast.Model) and node not in cut:
                for problem in unused_values(node):
                    self._add(problem)
        for module, block in self._imported_blocks():
            problem = prover.prove_imported(module, block)
            if problem is not None and problem.severity is Severity.ERROR:
                self._add(problem)
        for name, block in self.module.blocks.items():
            if block in cut or self._budget.is_spent:
                continue
            with within(self._budget):
                problem = prover.prove(self.module, block)
            if problem is None:
                self.proved.append(name)
                continue
            self._add(problem)
            if isinstance(problem, CheckedPerModel):
                self._undecided.append((problem, block))
        self._used |= prover.blocks
        self._bind(prover.bindings)

    def _imported_blocks(self) -> list[tuple[LinkedModule, ast.Block]]:
        """The blocks of other files that this one uses, also through others, innermost first."""
        if not self.module.imported:
            return []
        found: dict[ast.Node, LinkedModule | None] = {}

        def visit(module: LinkedModule, node: ast.Node) -> None:
            for each in walk(node):
                match each:
                    case ast.Call(callee=name) | ast.Name(text=name):
                        declared = module.find(name)
                    case _:
                        continue
                if declared is None or declared[0].is_library or declared[1] in found:
                    continue
                owner, declaration = declared
                found[declaration] = None
                visit(owner, declaration)
                del found[declaration]
                found[declaration] = owner

        own = (*self.module.own.values(), *self.module.trains.values(), *self.module.expectations)
        for node in own:
            visit(self.module, node)
        return [
            (module, block)
            for block, module in found.items()
            if isinstance(block, ast.Block) and module is not None and module is not self.module
        ]

    def _cut_short(self) -> set[ast.Node]:
        """The declarations that stand right before text that could not be read."""
        nodes = (*self.module.own.values(), *self.module.trains.values())
        ends = {node.span.end: node for node in nodes}
        broken = [report.label.span.start for report in self.sink.reports if report.label]
        return {
            ends[max(end for end in ends if end <= start)]
            for start in broken
            if any(end <= start for end in ends)
        }

    def _train(self, train: ast.Train) -> None:
        training_blocks.train_settings(self.module, train)
        elaboration = self._elaborate_train(train, training=True)
        self._keep(elaboration)
        if any(isinstance(each, ast.Show) for each in train.body):
            self._elaborate_train(train, training=False)
        if elaboration.own:
            self._compare_with_models(train, elaboration.own)

    def _elaborate_train(self, train: ast.Train, *, training: bool) -> Elaboration:
        return with_summaries(
            self._summaries,
            lambda summaries: training_blocks.elaborate_train(
                self.module, train, sizes={}, training=training, summaries=summaries
            ),
        )

    def _compare_with_models(self, train: ast.Train, own: tuple[str, ...]) -> None:
        """Note what a `train` block trains that could not be run afterwards."""
        held: set[str] = set()
        for model in self.module.models.values():
            try:
                found = self._elaborate(self.module, model, {})
            except ProblemError:
                return  # of which models hold what, nothing is known until this is mended
            held |= {info.name for info in found.parameters}
        alone = tuple(name for name in own if name not in held)
        if alone:
            self._add(NoModelHolds(Location(train.name.span), train.name.text, alone))

    def _keep(self, elaboration: Elaboration) -> None:
        self._used |= elaboration.blocks
        for note in elaboration.notes:
            self._add(note)
        self._bind(elaboration.bindings)

    def _bind(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            if binding.span.source is self.module.source:
                self.types.setdefault((binding.span.line, binding.name), binding.type)

    def _attempt(self, span: Span, action: Callable[[], None]) -> bool:
        if self._budget.is_spent:
            self._failed = True
            return False
        try:
            with within(self._budget):
                action()
        except ProblemError as error:
            self._add(error.problem)
            self._failed = True
            return False
        except OutOfWorkError as error:
            self._add(TooMuchWork(Location(span), error.reason, span.text))
            self._failed = True
            return False
        return True

    def _add(self, problem: Problem) -> None:
        """Keep a problem unless one of its kind was found at its place before."""
        report = problem.report()
        if report.label is not None:
            location = (report.code, id(report.label.span.source), report.label.span.start)
            if location in self._locations:
                return
            self._locations.add(location)
        self.sink.add(problem)


# --- elaborate -----------------------------------------------------------------------------------


def elaborate_model(
    program: Program,
    model: str | None = None,
    *,
    config: Mapping[str, Static] | None = None,
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
    optional: frozenset[str] = frozenset(),
) -> Elaboration:
    """The graph of a model; sizes that are not given stay symbols. Raises `ProblemError`.

    `optional` names inputs with a default that are fed as well.
    """
    node = program.module.models[program.model(model)]
    return models.elaborate_model(
        program.module,
        node,
        config=config or {},
        sizes=sizes,
        training=training,
        inputs=models.Inputs(optional=optional),
    )


def elaborate_tokens(
    program: Program, model: str | None, config: Mapping[str, Static], step: generation.TokenStep
) -> generation.TokenGraph:
    """The graph that draws the token after some others. Raises `ProblemError`."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_tokens(program.module, node, config, step)


def elaborate_logits(
    program: Program, model: str | None, config: Mapping[str, Static], step: generation.TokenStep
) -> generation.TokenGraph:
    """The graph that gives the logits of the token after some others. Raises `ProblemError`."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_logits(program.module, node, config, step)


def elaborate_draw(
    program: Program, model: str | None, vocabulary: int, draw: generation.Draw
) -> Elaboration:
    """The graph that draws a token from the logits of a model."""
    node = program.module.models[program.model(model)]
    return generation.elaborate_draw(program.module, node, vocabulary, draw)


def elaborate_train(
    program: Program, train: str | None = None, *, sizes: Mapping[str, int], training: bool
) -> Elaboration:
    """The graph of a `train` block: its loss and metrics. Raises `ProblemError`."""
    node = program.module.trains[program.train(train)]
    with phase("check"):
        return training_blocks.elaborate_train(program.module, node, sizes=sizes, training=training)


def train_settings(program: Program, train: str | None = None) -> dict[str, Setting]:
    """What is written under `run:`, evaluated but not judged. Raises `ProblemError`."""
    return training_blocks.train_settings(
        program.module, program.module.trains[program.train(train)]
    )


def whole_inputs(program: Program, train: str | None = None) -> frozenset[str]:
    """The inputs that are fed as they are at every step."""
    return training_blocks.whole_inputs(program.module.trains[program.train(train)])


def free_sizes(program: Program, train: str | None = None) -> tuple[str, ...]:
    """The sizes `run:` has to give."""
    return training_blocks.free_sizes(program.module.trains[program.train(train)])
