"""The front of the compiler on one screen: find, parse, link, prove, elaborate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from meganeura_dsl.check import models, trains
from meganeura_dsl.check.expectations import check_expectation
from meganeura_dsl.check.frame import Binding
from meganeura_dsl.check.models import Elaboration
from meganeura_dsl.check.names import LinkedModule, Linker, Loader, nearest
from meganeura_dsl.check.place import Place
from meganeura_dsl.check.problems import TooMuchWork
from meganeura_dsl.check.prove import Prover
from meganeura_dsl.check.train_problems import NoModelHolds
from meganeura_dsl.check.trains import Setting
from meganeura_dsl.check.usage import unused_values
from meganeura_dsl.diagnostics import Problem, ProblemError, ProblemsError, Severity, Sink
from meganeura_dsl.limits import CHECK, CHECK_CHARACTER
from meganeura_dsl.phases import phase
from meganeura_dsl.resources import standard_model_names, standard_models
from meganeura_dsl.source import Source, Span
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.files import read_source
from meganeura_dsl.syntax.parser import outline
from meganeura_dsl.targets import UnknownTarget
from meganeura_dsl.work import Budget, OutOfWorkError, within

if TYPE_CHECKING:
    from meganeura_dsl.check.values import Static
    from meganeura_dsl.diagnostics import Report
    from meganeura_dsl.shapes.tensor import TensorType


@dataclass(frozen=True)
class CheckResult:
    """What a check found: all reports, what was proved, and every visible value's type."""

    reports: tuple[Report, ...]
    types: Mapping[tuple[int, str], TensorType]
    proved: tuple[str, ...]
    holds: int

    @property
    def bindings(self) -> Mapping[tuple[int, str], str]:
        """Every visible value's type as text, by its line and name."""
        return {place: str(type_) for place, type_ in self.types.items()}

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong; notes are not wrong."""
        return all(report.severity is not Severity.ERROR for report in self.reports)


@dataclass(frozen=True)
class Program:
    """A linked file, ready to be elaborated."""

    module: LinkedModule
    chosen: str | None = None
    """The model or `train` asked for by name, if one was."""

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
        """The `train` asked for: by name, by the target, or the only one. Raises `ProblemError`."""
        return self._pick("train", name, self.trains)

    def _pick(self, kind: str, name: str | None, known: tuple[str, ...]) -> str:
        if name is None and self.chosen in known:
            name = self.chosen
        if name is None and (len(known) == 1 or (kind == "train" and known)):
            name = known[0]
        if name is not None and name in known:
            return name
        raise ProblemError(UnknownTarget(self.source.name, kind, name or "", known))


@dataclass(frozen=True)
class Target:
    """Where a program is, and which of its declarations is meant, if one was named."""

    path: Path
    chosen: str | None
    is_standard: bool = False

    def read(self) -> Source:
        """The program; a standard one is shown by its name alone. Raises `ProblemError`."""
        return read_source(self.path, self.path.name if self.is_standard else None)


def find(target: str) -> Target:
    """A path, `path:name`, or the name of a standard model or file. Raises `ProblemError`."""
    path, _, chosen = target.partition(".mgn:")
    if chosen:
        return Target(Path(f"{path}.mgn"), chosen)
    if target.endswith(".mgn") or "/" in target or Path(target).is_file():
        return Target(Path(target), None)
    folder = Path(str(standard_models()))
    if (folder / f"{target}.mgn").is_file():
        return Target(folder / f"{target}.mgn", None, is_standard=True)
    known = list(standard_model_names())
    for name in standard_model_names():
        source = read_source(folder / f"{name}.mgn")
        declared = [found.name for found in outline(source) if found.kind in ("model", "train")]
        if target in declared:
            return Target(folder / f"{name}.mgn", target, is_standard=True)
        known += declared
    raise ProblemError(UnknownTarget("", "model", target, nearest(target, known)))


def load(target: str) -> Program:
    """Parse a program and follow its imports. Raises `ProblemError` or `ProblemsError`."""
    found = find(target)
    sink = Sink()
    with phase("parse"):
        module = Linker(loader_beside(found.path), sink).link(found.read())
    if sink.has_errors:
        raise ProblemsError(tuple(sink))
    declared = (*module.models, *module.trains)
    if found.chosen is not None and found.chosen not in declared:
        name = module.source.name
        raise ProblemError(UnknownTarget(name, "model", found.chosen, declared))
    return Program(module, found.chosen)


def loader_beside(path: Path) -> Loader:
    """Finds imports beside a file, then in the standard models; never above the file's folder."""

    def load_module(words: tuple[str, ...]) -> Source | None:
        relative = Path(*words).with_suffix(".mgn")
        if (path.parent / relative).is_file():
            return read_source(path.parent / relative)
        standard = Path(str(standard_models())) / relative
        return read_source(standard, str(relative)) if standard.is_file() else None

    return load_module


# --- check ---------------------------------------------------------------------------------------


def check_file(target: str) -> CheckResult:
    """Check the file a target names, or one model of it. Raises `ProblemError` if unreadable."""
    found = find(target)
    return check(found.read(), loader_beside(found.path), found.chosen)


def check(source: Source, loader: Loader, chosen: str | None = None) -> CheckResult:
    """Prove everything a file declares: its blocks, models, expectations and trainings.

    With `chosen`, of the models and trainings only the one of that name.
    """
    return Checker(source, loader, chosen).run()


class Checker:
    """One check of one file: a declaration at a time, each problem kept, none fatal."""

    def __init__(self, source: Source, loader: Loader, chosen: str | None = None) -> None:
        self.sink = Sink()
        self.module = Linker(loader, self.sink).link(source)
        self.chosen = chosen
        self.proved: list[str] = []
        self.types: dict[tuple[int, str], TensorType] = {}
        self.holds = 0
        self._budget = Budget(CHECK + CHECK_CHARACTER * len(source.text))
        self._places: set[tuple[str, int, int]] = set()
        self._elaborated: dict[tuple[str, str], Elaboration] = {}

    def run(self) -> CheckResult:
        """Check every declaration and gather what was found."""
        if self.chosen is not None and not self._is_declared(self.chosen):
            self.sink.add(
                UnknownTarget(self.module.source.name, "model", self.chosen, self._names())
            )
        self._blocks()
        self._declarations()
        return CheckResult(self.sink.reports, self.types, tuple(self.proved), self.holds)

    def _declarations(self) -> None:
        for name, model in self.module.models.items():
            if self._is_chosen(name):
                self._attempt(
                    model.name.span, lambda m=model: self._keep(self._elaborate(self.module, m, {}))
                )
        for expectation in self.module.expectations:
            if self._is_chosen(expectation.call.callee):
                self.holds += self._attempt(
                    expectation.call.span,
                    lambda e=expectation: check_expectation(self.module, e, self._elaborate),
                )
        for name, train in self.module.trains.items():
            if self._is_chosen(name):
                self._attempt(train.name.span, lambda t=train: self._train(t))

    def _names(self) -> tuple[str, ...]:
        return (*self.module.models, *self.module.trains)

    def _is_declared(self, name: str) -> bool:
        return name in self._names()

    def _is_chosen(self, name: str) -> bool:
        return self.chosen is None or name == self.chosen

    def _elaborate(
        self, module: LinkedModule, model: ast.Model, config: Mapping[str, Static]
    ) -> Elaboration:
        key = (model.name.text, repr(sorted(config.items())))
        if key not in self._elaborated:
            self._elaborated[key] = models.elaborate_model(
                module, model, config=config, sizes=None, training=False
            )
        return self._elaborated[key]

    def _blocks(self) -> None:
        """Prove every block, leaving out those a syntax problem has cut short."""
        cut = self._cut_short()
        prover = Prover()
        for node in (*self.module.own.values(), *self.module.trains.values()):
            if not isinstance(node, ast.Model) and node not in cut:
                for problem in unused_values(node):
                    self._add(problem)
        for name, block in self.module.blocks.items():
            if block in cut or self._budget.is_spent:
                continue
            with within(self._budget):
                problem = prover.prove(self.module, block)
            if problem is None:
                self.proved.append(name)
            else:
                self._add(problem)
        self._bind(prover.bindings)

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
        trains.train_settings(self.module, train)
        elaboration = trains.elaborate_train(self.module, train, sizes={}, training=True)
        self._keep(elaboration)
        if elaboration.own:
            self._compare_with_models(train, elaboration.own)

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
            self._add(NoModelHolds(Place(train.name.span), train.name.text, alone))

    def _keep(self, elaboration: Elaboration) -> None:
        for note in elaboration.notes:
            self._add(note)
        self._bind(elaboration.bindings)

    def _bind(self, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            if binding.span.source is self.module.source:
                self.types.setdefault((binding.span.line, binding.name), binding.type)

    def _attempt(self, span: Span, action: Callable[[], None]) -> bool:
        if self._budget.is_spent:
            return False
        try:
            with within(self._budget):
                action()
        except ProblemError as error:
            self._add(error.problem)
            return False
        except OutOfWorkError as error:
            self._add(TooMuchWork(Place(span), error.reason, span.text))
            return False
        return True

    def _add(self, problem: Problem) -> None:
        """Keep a problem unless one of its kind was found at its place before."""
        report = problem.report()
        if report.label is not None:
            place = (report.code, id(report.label.span.source), report.label.span.start)
            if place in self._places:
                return
            self._places.add(place)
        self.sink.add(problem)


# --- elaborate -----------------------------------------------------------------------------------


def elaborate_model(
    program: Program,
    model: str | None = None,
    *,
    config: Mapping[str, Static] | None = None,
    sizes: Mapping[str, int] | None = None,
    training: bool = False,
) -> Elaboration:
    """The graph of a model; sizes that are not given stay symbols. Raises `ProblemError`."""
    node = program.module.models[program.model(model)]
    return models.elaborate_model(
        program.module, node, config=config or {}, sizes=sizes, training=training
    )


def elaborate_train(
    program: Program, train: str | None = None, *, sizes: Mapping[str, int], training: bool
) -> Elaboration:
    """The graph of a `train` block: its loss and metrics. Raises `ProblemError`."""
    node = program.module.trains[program.train(train)]
    with phase("check"):
        return trains.elaborate_train(program.module, node, sizes=sizes, training=training)


def train_settings(program: Program, train: str | None = None) -> dict[str, Setting]:
    """What is written under `run:`, evaluated but not judged. Raises `ProblemError`."""
    return trains.train_settings(program.module, program.module.trains[program.train(train)])


def whole_inputs(program: Program, train: str | None = None) -> frozenset[str]:
    """The inputs that are fed as they are at every step."""
    return trains.whole_inputs(program.module.trains[program.train(train)])


def free_sizes(program: Program, train: str | None = None) -> tuple[str, ...]:
    """The sizes `run:` has to give."""
    return trains.free_sizes(program.module.trains[program.train(train)])
