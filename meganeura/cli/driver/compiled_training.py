"""A training step compiled into a file or a page, with all that its loop has to know."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meganeura.cli.driver.stages import Stages
from meganeura.cli.options.model_options import rewriting_settings
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Array
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.export.mgb.training_form import Evaluation
    from meganeura_runtime.io.weights import Allowed
    from meganeura_runtime.train.spec.train_job import TrainJob

_AS_THEY_ARE = "a page takes the examples as its data has them"
WITHOUT = {
    "validation": _AS_THEY_ARE,
    "sampling_weights": _AS_THEY_ARE,
    "balance": _AS_THEY_ARE,
    "steps": "a page goes on to the end of an epoch",
    "accumulate": "every batch of a page makes an update",
    "ema": "a page evaluates and saves the weights as they are",
    "best": "a page saves the last weights",
    "stop_after": "a page goes through all its epochs",
    "eval_every_steps": "a page evaluates after epochs",
    "sample_prompt": "a page writes no samples",
    "not_finite": "a page goes back to what it saved last",
}
"""Settings that have to be what they are by default, and why."""


def training_job(
    target: str, stages: Stages, weights: Sequence[Path] | None, excused: "Allowed"
) -> "TrainJob":
    """The run that is compiled; raises `ProblemError` for what a compiled one does not do."""
    from meganeura_dsl import pipeline
    from meganeura_runtime.train.spec.train_job import prepare
    from meganeura_runtime.train.spec.train_spec import Start

    program = stages.program
    sizes = [f"{name}={number}" for name, number in stages.sizes.items()]
    overrides = [*sizes, *stages.changes, *rewriting_settings(stages.rules), "device=cpu"]
    start = Start(tuple(weights), excused) if weights else None
    folder = pipeline.find(target).path.parent
    job = prepare(program, program.train(), folder, overrides, start)
    _require_one_plan(job)
    return job


def _require_one_plan(job: "TrainJob") -> None:
    from meganeura_dsl.settings.run_settings import RunSettings
    from meganeura_runtime.export.mgb.container_problems import NotCompiled

    settings = job.settings
    if settings.devices > 1:
        raise ProblemError(NotCompiled(f"devices={settings.devices}", "a page has one device"))
    if settings.precision is not ComputePrecision.F32:
        reason = "a page computes in single precision"
        raise ProblemError(NotCompiled(f"precision={settings.precision.value}", reason))
    if settings.schedule.follows is not None:
        reason = "a page lays out its learning rates before it begins"
        raise ProblemError(NotCompiled("schedule=plateau", reason))
    if settings.schedules:
        paths = next(iter(settings.schedules))
        raise ProblemError(NotCompiled(f'schedule["{paths}"]', "a page has one learning rate"))
    for size in job.spec.input_spec.ragged.names:
        reason = "a page makes steps of one size"
        raise ProblemError(NotCompiled(f"each {size} of {job.spec.input_spec.counter}", reason))
    if job.dataset.train.is_slow:
        reason = "a page takes tensors, and these examples are decoded as they are read"
        raise ProblemError(NotCompiled(f"data={settings.data}", reason))
    for name, reason in WITHOUT.items():
        given = getattr(settings, name)
        if given != RunSettings.model_fields[name].default:
            raise ProblemError(NotCompiled(f"{name}={given}", reason))
    if job.steps != job.steps_per_pass * settings.epochs:
        reason = "an epoch of a page is once through its data"
        raise ProblemError(NotCompiled(f"steps_per_epoch={job.steps_per_epoch}", reason))
    if job.last is not None:
        reason = f"the last batch would have {job.last.examples} examples, and is another step"
        raise ProblemError(NotCompiled("drop_last=false", reason))


def compiled_training(job: "TrainJob", stages: Stages) -> "Artefact":
    """The step of a job, the plans of its evaluations, and the values it starts from."""
    from meganeura_runtime.export.mgb.compile import compiled_model
    from meganeura_runtime.export.mgb.training_form import DataInput, TrainingForm, WeightsTensor

    settings = job.settings
    steady = settings.schedule.is_steady
    rates = [settings.learning_rate(step, job.length) for step in range(1 if steady else job.steps)]
    form = TrainingForm(
        name=job.spec.name,
        program=job.spec.program_hash,
        batch=job.batch,
        epochs=settings.epochs,
        seed=settings.seed,
        shuffle=settings.shuffle,
        inputs=tuple(
            DataInput(name, settings.tensors.get(name, name), job.spec.input_spec.rows.get(name, 0))
            for name in job.spec.input_spec.inputs
        ),
        parameters=tuple(WeightsTensor(each.name, each.stored) for each in job.spec.parameters),
        rates=tuple(rates),
        evaluations=_evaluations(job, stages),
    )
    stated = job.spec.graphs.bounds({})
    return compiled_model(job.spec.name, job.spec.compiled, job.spec.initial_values(), form, stated)


def _evaluations(job: "TrainJob", stages: Stages) -> "tuple[Evaluation, ...]":
    """Returns evaluations for batches that divide the held-out examples, and for single ones."""
    from meganeura_dsl.ir.index_checks import with_checks
    from meganeura_runtime.export.mgb.compile import portable_plan
    from meganeura_runtime.export.mgb.training_form import Evaluation
    from meganeura_runtime.io.data.batches import even_batch

    held_out, counter = job.dataset.test, job.spec.input_spec.counter
    batch = job.batch if held_out is None else even_batch(held_out.examples, job.batch)
    found: list[Evaluation] = []
    for examples in sorted({batch, 1}, reverse=True):
        graph = with_checks(
            job.spec.graphs.evaluation({} if counter is None else {counter: examples})
        )
        if stages.rules.enabled:
            graph = stages.rules.optimize(graph, "train").graph
        found.append(Evaluation(examples, portable_plan(graph)))
    return tuple(found)


def held_data(job: "TrainJob") -> "Mapping[str, Array]":
    """The examples of a job, as its file has them where that is a type of NumPy."""
    from meganeura_runtime.io.data.splits import StoredSplit

    splits = (job.dataset.train, job.dataset.test)
    return {
        feed.tensor.name: feed.take(slice(0, split.examples))
        if feed.tensor.stored in ("bf16", "bool")
        else feed.tensor.bits
        for split in splits
        if isinstance(split, StoredSplit)
        for feed in split.feeds.values()
    }
