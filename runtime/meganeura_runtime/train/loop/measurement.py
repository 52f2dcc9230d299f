"""The loss and the metrics of weights on examples, without a run."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.pipeline import Program
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.registry import choose_device
from meganeura_runtime.io.preprocess.preparation import preparation_of
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.loop.confusion import CONFUSION
from meganeura_runtime.train.loop.earlier_run import EarlierRun
from meganeura_runtime.train.loop.evaluation import Evaluator, held_batches
from meganeura_runtime.train.records.visual_log import VisualLog
from meganeura_runtime.train.spec.resume import with_given
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import prepare_new, prepare_with
from meganeura_runtime.train.spec.train_spec import Start

UNUSED = ("sampling_weights", "balance", "stop_after", "eval_every_steps", "sample_prompt")
"""Settings that an evaluation alone has no use for."""


@dataclass(frozen=True)
class Measurement:
    """The loss, the metrics and the confusion matrix of weights on examples."""

    values: Mapping[str, float]
    """The loss and the metrics, as means over the examples."""
    examples: int
    is_held_out: bool
    """True if they are those that the data holds out; otherwise they are all of it."""
    confusion: Array | None
    """Shares of all examples, f64[classes, classes]: a row for each label."""
    classes: tuple[str, ...]
    """The names of the classes, where they are known."""
    device: str
    """The device, as people read it."""
    differences: tuple[str, ...]
    """Differences of the inputs' preparation from that of the weights, a line each."""


def measure(
    program: Program,
    train: str,
    folder: Path,
    overrides: Sequence[str],
    start: Start,
    data: object = None,
    run: EarlierRun | None = None,
) -> Measurement:
    """Returns what is measured of the examples held out, or all where the data holds none out.

    `folder` is what paths of the program are relative to; `data` takes the place of its files.
    The settings are those of `run`, if it is given, with what `overrides` has in their place.
    Raises `ProblemError` or `ProblemsError` for everything that is wrong with settings, data,
    weights or the device.
    """
    unset = [f"{each}=none" for each in UNUSED]
    trained = preparation_of(start.files)
    given = PythonData(data, is_trained_on=False, classes=trained.classes)
    wanted = [*unset, *overrides, "drop_last=false"]
    request = RunRequest(program, train, folder, wanted, given)
    if run is None:
        job = prepare_new(request, start)
    else:
        settings = with_given(run.settings(program), wanted, request.settings)
        job = prepare_with(request, settings, start, run.folder)
    held_out = job.dataset.test or job.dataset.train
    shown = VisualLog()
    with explained_failures((job.spec.input_spec.counter or "batch", job.batch)):
        chosen = choose_device(job.settings.device, precision=job.settings.precision)
        with closing(Evaluator(job.spec, chosen.open)) as evaluator:
            batches = held_batches(job.spec, held_out)
            values = evaluator.measure(batches, job.spec.initial_values(), shown)
    return Measurement(
        values,
        held_out.examples,
        job.dataset.test is not None,
        shown.matrix(CONFUSION.name),
        job.spec.preparation.classes,
        chosen.description,
        tuple(trained.differences(job.spec.preparation)),
    )
