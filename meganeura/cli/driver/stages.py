"""A program at every stage: as it is written, as it runs, and what the optimizer did in between."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal, assert_never

import typer

from meganeura.cli.options.model_options import configured, rewriting_settings
from meganeura.cli.options.target_program import load
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.declarations.models import Elaboration
    from meganeura_dsl.elaborate.values import StaticValue
    from meganeura_dsl.ir.cost_model import DeviceModel
    from meganeura_dsl.ir.graph import Graph
    from meganeura_dsl.ir.types import TensorType
    from meganeura_dsl.pipeline import Program
    from meganeura_dsl.transforms.egraph.optimized import Optimized
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
    from meganeura_dsl.transforms.egraph.rewrite_report import RewriteReport
    from meganeura_runtime.backends.backend import Backend
    from meganeura_runtime.export.mgb.compile import TokenModel

CAPACITY_BY_DEFAULT = 512
"""Tokens that the caches of a compiled generation hold, where nobody says."""


class Mode(StrEnum):
    """The purpose that a program is built for."""

    TRAIN = "train"
    INFER = "infer"
    GENERATE = "generate"


class GraphMode(StrEnum):
    """The purpose of one graph; generation has several."""

    TRAIN = "train"
    INFER = "infer"


@dataclass(frozen=True)
class Compiled:
    """The graph of a program, the graph that runs, and the reports of how one became the other.

    `load` gives the parameters that only `optimized` has; it is empty where there are none.
    """

    graph: "Graph"
    optimized: "Graph"
    load: "Graph"
    optimizations: tuple["Optimized", ...]

    @property
    def reports(self) -> tuple["RewriteReport", ...]:
        """The reports of the optimizer, phase after phase."""
        return tuple(each.report for each in self.optimizations)


@dataclass(frozen=True)
class Stages:
    """A program, what it is built for, and each stage once it is asked for."""

    program: "Program"
    mode: Mode
    sizes: Mapping[str, int]
    rules: "RewriteOptions"
    config: Mapping[str, "StaticValue"] = field(default_factory=dict[str, "StaticValue"])
    """The arguments of a model in `--set`."""
    changes: Sequence[str] = ()
    """The settings of a `train` in `--set`."""
    precision: ComputePrecision = ComputePrecision.F32
    """The precision of a model; a `train` has a setting for it."""

    @cached_property
    def graph(self) -> "Graph":
        """A training step or a model, as it is written; sizes may be open."""
        match self.mode:
            case Mode.INFER:
                return self.elaboration.graph
            case Mode.GENERATE:
                return self.token_model.graph(1, self.capacity)
            case Mode.TRAIN:
                return compiled_step(self.program, [*self._settings, "optimize=false"]).graph
            case _:
                assert_never(self.mode)

    @cached_property
    def elaboration(self) -> "Elaboration":
        """The model, with what a checkpoint of it holds."""
        from meganeura_dsl import pipeline

        symbolic = pipeline.elaborate_model(self.program, config=self.config)
        check_names(self.sizes, symbolic.inputs.values())
        return pipeline.elaborate_model(self.program, config=self.config, sizes=self.sizes)

    @property
    def token_model(self) -> "TokenModel":
        """The model as one that writes texts."""
        from meganeura_runtime.export.mgb.compile import TokenModel

        return TokenModel(self.program, self.program.model(), self.config, self.rules)

    @cached_property
    def capacity(self) -> int:
        """The capacity of a generation's caches in tokens: `--set capacity=N`, or all that fit."""
        from meganeura_dsl.elaborate.declarations.generation import CAPACITY

        room = self.token_model.room
        given = self.config.get(CAPACITY, min(room, CAPACITY_BY_DEFAULT))
        if type(given) is not int or not 1 <= given <= room:
            text = f"`capacity` is a number from 1 to {room:,}, the positions of the model"
            raise typer.BadParameter(text, param_hint="--set")
        return given

    @cached_property
    def compiled(self) -> Compiled:
        """The graph as it runs; all sizes have to be known."""
        match self.mode:
            case Mode.INFER:
                require_numbers(self.graph)
                return compiled_model(self.graph, self.rules)
            case Mode.GENERATE:
                return compiled_model(self.graph, self.rules, "train")
            case Mode.TRAIN:
                return compiled_step(
                    self.program,
                    [*self._settings, *rewriting_settings(self.rules)],
                    self.rules.device,
                )
            case _:
                assert_never(self.mode)

    @property
    def floats(self) -> ComputePrecision:
        """The precision of the graph, unless its backend has only one."""
        if self.mode is not Mode.TRAIN or self.precision is not ComputePrecision.F32:
            return self.precision
        from meganeura_runtime.train.spec.train_spec import settings_of

        return settings_of(self.program, self.program.train(), self._settings).precision

    @property
    def _settings(self) -> list[str]:
        return [*(f"{name}={number}" for name, number in self.sizes.items()), *self.changes]


def stages_of(
    target: str,
    mode: Mode,
    sizes: Sequence[str] | None,
    changes: Sequence[str] | None,
    rules: "RewriteOptions",
    precision: ComputePrecision = ComputePrecision.F32,
) -> Stages:
    """The stages of a target with what `--size` and `--set` say."""
    given = parsed_sizes(sizes or ())
    match mode:
        case Mode.INFER | Mode.GENERATE:
            chosen = configured(target, changes)
            if mode is Mode.GENERATE and (given or chosen.sizes):
                text = "a generation has one sequence, of up to `--set capacity=N` tokens"
                raise typer.BadParameter(text, param_hint="--size")
            return Stages(
                chosen.program,
                mode,
                {**chosen.sizes, **given},
                rules,
                config=chosen.config,
                precision=precision,
            )
        case Mode.TRAIN:
            return Stages(
                load(target),
                mode,
                given,
                rules,
                changes=tuple(changes or ()),
                precision=precision,
            )
        case _:
            assert_never(mode)


def compiled_model(
    graph: "Graph", rewriting: "RewriteOptions", mode: Literal["infer", "train"] = "infer"
) -> Compiled:
    """All stages of a model's graph; `infer` lets it have other parameters than the model."""
    from meganeura_dsl.ir.graph import Graph
    from meganeura_dsl.ir.index_checks import with_checks

    graph = with_checks(graph)

    if not rewriting.enabled:
        return Compiled(graph, graph, Graph((), {}), ())
    done = rewriting.optimize(graph, mode)
    return Compiled(graph, done.graph, done.load, (done,))


def compiled_step(
    program: "Program", overrides: Sequence[str], device: "DeviceModel | None" = None
) -> Compiled:
    """All stages of a training step, with some settings replaced."""
    from meganeura_dsl.ir.cost_model import DEFAULT_DEVICE
    from meganeura_dsl.ir.graph import Graph
    from meganeura_runtime.train.spec.step_graphs import step_of
    from meganeura_runtime.train.spec.train_spec import settings_of

    name = program.train()
    step = step_of(program, name, settings_of(program, name, overrides), device or DEFAULT_DEVICE)
    return Compiled(step.graph, step.optimized.graph, Graph((), {}), step.optimized.optimizations)


@dataclass(frozen=True)
class Emission:
    """A stage of a backend, and what it is printed for: a device, as it was tuned, or any."""

    stage: str
    device: str | None
    precision: ComputePrecision
    tuned: bool


def emitted(wanted: Emission, backend: "Backend", graph: "Graph") -> str:
    """The text of a stage of a backend."""
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import AUTO, backend_of, choose_device

    with explained_failures():
        chosen = None
        if wanted.device is not None:
            backend = backend if wanted.device == AUTO else backend_of(wanted.device)
            if not backend.is_portable(wanted.stage):
                chosen = choose_device(
                    wanted.device, tuned=wanted.tuned, precision=wanted.precision
                )
                backend = chosen.backend
        backend.require_precision(wanted.precision)
        if not backend.can_emit(wanted.stage):
            others = " or ".join(backend.capabilities.stages)
            text = f"there is no {wanted.stage} for the {backend.title}"
            text += f", but {others}" if others else ""
            raise typer.BadParameter(text, param_hint="--device")
        try:
            return backend.emit(wanted.stage, graph, chosen, wanted.precision)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--emit") from None


def parsed_sizes(texts: Iterable[str]) -> dict[str, int]:
    """The sizes that `--size` gives."""
    return dict(map(_size, texts))


def _size(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name.isidentifier() or not number.isdecimal() or int(number) < 1:
        raise typer.BadParameter(f"`{text}` is not a size such as n=1", param_hint="--size")
    return name, int(number)


def check_names(sizes: Mapping[str, int], inputs: Iterable["TensorType"]) -> None:
    """Refuse a size that no input of the model mentions."""
    from meganeura_dsl.ir.types import free_sizes

    free = free_sizes(inputs)
    for name in sizes:
        if name not in free:
            text = f"no input has a size `{name}`; free are: {', '.join(free) or 'none'}"
            raise typer.BadParameter(text, param_hint="--size")


def require_numbers(graph: "Graph") -> None:
    """Refuse a graph with a size that is not known."""
    from meganeura_dsl.ir.types import free_sizes

    free = free_sizes(value.type for value in graph.values)
    if free:
        sizes = " ".join(f"--size {name}={'1' if name == 'n' else '...'}" for name in free)
        text = f"numbers are needed for {', '.join(free)}, as {sizes}"
        raise typer.BadParameter(text, param_hint="--size")
