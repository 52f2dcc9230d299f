"""One check of one file: everything it declares is proved, each problem kept, none fatal."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase

from meganeura_dsl.check_result import CheckResult
from meganeura_dsl.diagnostics.problem import (
    Label,
    Problem,
    ProblemError,
    Severity,
    Sink,
)
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.body.blocks.layer_summaries import with_summaries
from meganeura_dsl.elaborate.declarations import (
    models,
    train_statements,
    training_blocks,
    written_settings,
)
from meganeura_dsl.elaborate.declarations.block_proofs import Prover, is_held_back
from meganeura_dsl.elaborate.declarations.example_expectation import example_expectation
from meganeura_dsl.elaborate.declarations.expectations import Expectations
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.declarations.optimizer_rules import RuleProver
from meganeura_dsl.elaborate.problems.binding_problems import WrongCount
from meganeura_dsl.elaborate.problems.layer_problems import UnappliedLayer
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.name_problems import (
    CheckedPerModel,
    NoResult,
    UnknownName,
    UnreadName,
    UnusedValue,
)
from meganeura_dsl.elaborate.problems.training_problems import (
    NoLoss,
    NoModelHolds,
    NothingChecks,
)
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.linker import LinkedModule, Linker, Loader, library
from meganeura_dsl.elaborate.scope.summary import Summaries
from meganeura_dsl.elaborate.scope.unused_values import unused_values, walk
from meganeura_dsl.elaborate.values import Invocation, StaticValue
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.objectives import objectives, reached
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.limits.language_limits import CHECK, CHECK_CHARACTER
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, within
from meganeura_dsl.program import Program
from meganeura_dsl.startup.collector import few_collections
from meganeura_dsl.symbolic.assumptions import Facts, Recorder
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import outline
from meganeura_dsl.target_problems import UnknownTarget


def _go_on() -> None:
    """Never ends a check."""


@few_collections()
def check(source: Source, loader: Loader, before_each: Callable[[], None] = _go_on) -> CheckResult:
    """Prove everything a file declares: its blocks, models, expectations and trainings.

    `before_each` is called before each declaration; what it raises ends the check.
    """
    return Checker(source, loader, before_each=before_each).run()


class Checker:
    """One check of one file: a declaration at a time, each problem kept, none fatal."""

    def __init__(
        self,
        source: Source,
        loader: Loader,
        chosen: str | None = None,
        prefix: str = "",
        before_each: Callable[[], None] = _go_on,
        recorder: Recorder | None = None,
    ) -> None:
        """`recorder` notes what is proved and refuted of sizes."""
        self.sink = Sink()
        self._linker = Linker(loader, self.sink)
        self.module = self._linker.link(source)
        self.chosen = chosen
        self.only: str | None = None
        """The one model or `train` that is checked beside all blocks; all, if it is None."""
        self.prefix = prefix
        self.proved: list[str] = []
        self.types: dict[tuple[int, str], TensorType] = {}
        self._values: dict[tuple[int, int, str], Binding] = {}
        self._before_each = before_each
        self.holds = 0
        self._budget = Budget(CHECK + CHECK_CHARACTER * len(source.text))
        self._locations: set[tuple[str, int, int]] = set()
        self._recorder = recorder
        self._summaries = Summaries(Facts(recorder=recorder))
        self._elaborated: dict[tuple[str, str], Elaboration] = {}
        self._refusals: dict[tuple[str, str], ProblemError] = {}
        """The reasons why models have no graph, by the same keys; each expectation of them is
        refused too."""
        self._undecided: list[tuple[Problem, ast.Block]] = []
        self._refused: set[ast.Block | ast.Optimizer] = set()
        """The blocks that do not hold, whose problems are all reported."""
        self._used: set[ast.Block] = set()
        """The blocks that a model, an expectation, a training or another block's proof ran."""
        self._failed = bool(self.module.unread)
        """True if a model, an expectation or a training was refused, or could not be read."""

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
        known = (*self.names, *self.module.unread)
        if self.chosen is not None and self.chosen not in known:
            self.sink.add(self.unknown(self.chosen))
        self._blocks()
        self._declarations()
        explained = self._explained()
        found = [self._judged(each) for each in self.sink if each not in explained]
        problems = tuple(sorted(found, key=lambda each: each.severity is not Severity.ERROR))
        program = Program(self.module, self.chosen, self.prefix)
        return CheckResult(
            program,
            problems,
            self.types,
            tuple(self.proved),
            self.holds,
            tuple(self._values.values()),
            {name: found for (name, given), found in self._elaborated.items() if given == "[]"},
            tuple(self.texts),
        )

    def _explained(self) -> set[Problem]:
        """The problems of unused names that another problem of the same declaration explains.

        Without a `return` or a loss nothing is used, nor is a value whose name is misspelt where it
        is read, or one of more names than there are values.
        """
        roots = [
            (each, each.report().label)
            for each in self.sink
            if isinstance(each, NoResult | NoLoss | UnknownName | WrongCount)
        ]
        return {
            each
            for each in self.sink
            if isinstance(each, UnusedValue | UnappliedLayer)
            for label in (each.report().label,)
            for declaration in (*self.module.own.values(), *self.module.trains.values())
            if _is_within(label, declaration)
            if any(_is_within(at, declaration) and _explains(root, each) for root, at in roots)
        }

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
                is_set = self._attempt(train.name.span, lambda t=train: self._settings(t))
                if not self._attempt(
                    train.name.span, lambda t=train, s=is_set: self._train(t, is_set=s)
                ):
                    self._attempt(train.name.span, lambda t=train: self._rest_of(t))

    def _is_asked(self, name: str) -> bool:
        return self.only in (None, name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that a target can choose."""
        return (*self.module.models, *self.module.trains)

    def unknown(self, chosen: str) -> UnknownTarget:
        """Returns the problem of a target that chooses an unknown declaration."""
        return UnknownTarget(self.module.source.name, "model", chosen, self.names)

    def _judged(self, problem: Problem) -> Problem:
        """The problem itself; of a block that is left to others, an error if there are none.

        There may be some among what was not asked for, or behind what was refused. The report of
        an unused value has the types of its declaration, which are known at the end.
        """
        if isinstance(problem, UnusedValue):
            return replace(problem, types=self._types_around(problem.location.span))
        block = next((block for each, block in self._undecided if each is problem), None)
        if block is None or block in self._used or self.only is not None or self._failed:
            return problem
        assert isinstance(problem, CheckedPerModel)
        example = example_expectation(self.module, block, problem.reason)
        return NothingChecks(problem.location, problem.block, problem.reason, example, problem.form)

    def _types_around(self, span: Span) -> tuple[tuple[str, TensorType], ...]:
        """The types of what the declaration around a place binds, in the order of the text."""
        nodes = (*self.module.own.values(), *self.module.trains.values())
        around = next(each.span for each in nodes if each.span.start <= span.start < each.span.end)
        return tuple(
            (each.name, each.type)
            for (start, *_), each in sorted(self._values.items())
            if around.start <= start < around.end
        )

    def _elaborate(
        self, module: LinkedModule, model: ast.Model, config: Mapping[str, StaticValue]
    ) -> Elaboration:
        """The graph of a model for all sizes, made once; raises what it raised before."""
        key = (model.name.text, repr(sorted(config.items())))
        if key in self._refusals:
            raise self._refusals[key].with_traceback(None)
        if key not in self._elaborated:
            try:
                self._elaborated[key] = with_summaries(
                    self._summaries,
                    lambda summaries: models.elaborate_model(
                        module, model, config=config, sizes=None, training=False,
                        summaries=summaries,
                    ),
                )  # fmt: skip
            except ProblemError as error:
                self._refusals[key] = error
                raise
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
            self._begin(block.name.span)
            problem = prover.prove_imported(module, block)
            if problem is not None and problem.severity is Severity.ERROR:
                self._add(problem)
        self._optimizers(cut)
        for name, block in self.module.blocks.items():
            if block in cut or self._budget.is_spent:
                continue
            self._begin(block.name.span)
            with within(self._budget):
                problem = prover.prove(self.module, block)
            if problem is None:
                self.proved.append(name)
                continue
            is_told = self._is_of_refused(problem)
            further: tuple[Problem, ...] = ()
            if problem.severity is Severity.ERROR and not isinstance(problem, TooMuchWork):
                self._refused.add(block)
                with within(self._budget):
                    further = prover.further(self.module, block, problem)
            if not is_told and not is_held_back(problem, further):
                self._add(next((each for each in further if _is_same(each, problem)), problem))
            self._add_further(further)
            if isinstance(problem, CheckedPerModel):
                self._undecided.append((problem, block))
        for note in prover.notes:
            self._add(note)
        self._used |= prover.blocks
        self._bind(prover.bindings)

    def _optimizers(self, cut: set[ast.Node]) -> None:
        """Prove every optimizer, and those that are imported."""
        prover = RuleProver(self._summaries.facts)
        for name, (module, node) in self.module.optimizers.items():
            if node in cut or self._budget.is_spent:
                continue
            self._begin(node.name.span)
            with within(self._budget):
                problems = prover.problems(module, node)
            if not problems:
                self.proved += [name] if module is self.module else []
                continue
            self._refused.add(node)
            self._add(problems[0])
            self._add_further(problems[1:])
        for note in prover.notes:
            self._add(note)
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
        """The declarations right behind which text of theirs could not be read."""
        source = self.module.source
        starts = [each.span.start for each in outline(source)]
        broken = {
            bisect_right(starts, label.span.start)
            for label in self._labels()
            if label.span.source is source
        }
        nodes = (*self.module.own.values(), *self.module.trains.values())
        return {node for node in nodes if bisect_right(starts, node.span.start) in broken}

    def _settings(self, train: ast.Train) -> None:
        settings = written_settings.train_settings(self.module, train)
        for note in written_settings.setting_notes(settings):
            self._add(note)

    def _rest_of(self, train: ast.Train) -> None:
        """Keep what else is wrong with a `train` block that was refused."""
        self._add_further(training_blocks.all_problems(self.module, train))

    def _train(self, train: ast.Train, *, is_set: bool) -> None:
        elaboration = self._elaborate_train(train, training=True)
        self._keep(elaboration)
        if any(isinstance(each, ast.Show) for each in train.body):
            self._elaborate_train(train, training=False)
        if is_set and elaboration.own:
            moved = _moved(elaboration.graph, train, self.module)
            own = tuple(name for name in elaboration.own if name in moved)
            if own:
                self._compare_with_models(train, own)

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
                key = (binding.span.start, binding.span.end, binding.name)
                self._values.setdefault(key, binding)

    def _begin(self, span: Span) -> None:
        """Begin with the declaration at a place."""
        self._before_each()
        if self._recorder is not None:
            self._recorder.place = f"{span.source.name}:{span.line}"

    def _attempt(self, span: Span, action: Callable[[], None]) -> bool:
        self._begin(span)
        if self._budget.is_spent:
            self._failed = True
            return False
        try:
            with within(self._budget):
                action()
        except ProblemError as error:
            if not self._is_of_refused(error.problem):
                self._add(error.problem)
            self._failed = True
            return False
        except OutOfWorkError as error:
            self._add(TooMuchWork(Location(span), error.reason, span.text))
            self._failed = True
            return False
        return True

    def _add_further(self, further: Iterable[Problem]) -> None:
        """Keep further problems of a declaration that has no report so far."""
        told = {(id(each.span.source), each.span.start) for each in self._labels()}
        for problem in further:
            label = problem.report().label
            if label is None or (id(label.span.source), label.span.start) not in told:
                self._add(problem)

    def _is_of_refused(self, problem: Problem) -> bool:
        """True if a problem is in a refused block, whose problems are all reported."""
        label = problem.report().label if self._refused else None
        return any(_is_within(label, each) for each in self._refused)

    def _labels(self) -> Iterator[Label]:
        """Yields the labels of problems that are reported already."""
        yield from (each.label for each in self.sink.reports if each.label is not None)

    def _add(self, problem: Problem) -> None:
        """Keep a problem unless its cause is reported already, or one of its kind at its place."""
        if isinstance(problem, UnreadName):
            return
        report = problem.report()
        if report.label is not None:
            location = (report.code, id(report.label.span.source), report.label.span.start)
            if location in self._locations:
                return
            self._locations.add(location)
        self.sink.add(problem)


def _is_same(problem: Problem, other: Problem) -> bool:
    """True if two problems are one, with more or fewer remarks."""
    one, two = problem.report(), other.report()
    return (one.code, one.headline, one.label) == (two.code, two.headline, two.label)


def _is_within(label: Label | None, node: ast.Node) -> bool:
    """True if a label begins in a declaration."""
    if label is None or label.span.source is not node.span.source:
        return False
    return node.span.start <= label.span.start < node.span.end


def _explains(root: Problem, unused: UnusedValue | UnappliedLayer) -> bool:
    """True if a problem explains why something is unused."""
    if isinstance(root, WrongCount):
        return isinstance(unused, UnusedValue) and unused.name in root.names
    if isinstance(root, UnknownName) and root.kind == "layer or function":
        name = unused.name if isinstance(unused, UnusedValue) else unused.layer
        return name in root.nearest
    return True


def _moved(graph: Graph, train: ast.Train, module: LinkedModule) -> frozenset[str]:
    """The parameters that a `train` block moves: a gradient reaches them, and they are not frozen.

    So the teacher of a distillation is none, whose output alone a loss reads.
    """
    loss, players = graph.outputs[train_statements.LOSS], objectives(graph)
    found = frozenset[str]().union(
        *(reached(graph.outputs.get(each, loss)) & set(each.moves) for each in players)
    )
    if not players:
        found = reached(loss)
    settings = written_settings.train_settings(module, train)
    optimizers = [
        (each.glob, settings[written_settings.setting_key("optimizer", each.glob)].value)
        for run in train.body
        if isinstance(run, ast.Run)
        for each in run.settings
        if each.name.text == "optimizer"
    ]
    frozen = Invocation(written_settings.FROZEN, {})

    def is_moved(name: str) -> bool:
        own = [value for glob, value in optimizers if glob is not None and fnmatchcase(name, glob)]
        return not own or own[-1] != frozen

    return frozenset(filter(is_moved, found))
