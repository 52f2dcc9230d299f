"""`meganeura train`: a `train` block on its data, into a run folder."""

import json
import os
import shlex
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.interrupts import Interruption
from meganeura.cli.options.certificate_option import OPTION, CertificateFile, certify
from meganeura.cli.options.device_options import DEVICE_HELP, NotTuned, announce
from meganeura.cli.options.host_options import Coordinator, HostCount, HostIndex, rendezvous
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    DisabledRules,
    NoOptimizer,
    Prefix,
    Renames,
    WeightFiles,
    allowed,
    exceptions,
    given_names,
    rewriting,
    rewriting_settings,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.target_program import load
from meganeura.cli.options.trace_option import TraceFile, tracing
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.support.phases import recorded

if TYPE_CHECKING:
    from meganeura_dsl.pipeline import Program
    from meganeura_runtime.backends.backend import Hosts, OpenDevice, Rendezvous
    from meganeura_runtime.io.weight_names import Names
    from meganeura_runtime.io.weights import Allowed
    from meganeura_runtime.train.events import Finished
    from meganeura_runtime.train.records.run_folder import RunFolder
    from meganeura_runtime.train.spec.resume import Resumption
    from meganeura_runtime.train.spec.run_request import RunRequest
    from meganeura_runtime.train.spec.train_job import TrainJob
    from meganeura_runtime.train.spec.train_spec import Start

NAMED = 8
"""Tensors named in a line."""


def train(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|FILE.mgn:NAME|MODEL",
            help="A program, one `train` of it, or a standard model.",
        ),
    ],
    device: Annotated[str | None, typer.Option(help=DEVICE_HELP)] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder; runs/NAME-1, -2, ... without one.")
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Override a setting, such as batch=32."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same as --set seed=N.")] = None,
    *,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    weights: WeightFiles = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Go on with the run in this folder.")
    ] = None,
    detect_anomaly: Annotated[
        bool, typer.Option("--detect-anomaly", help="Look at each step; slow.")
    ] = False,
    log: Annotated[
        list[str] | None,
        typer.Option(metavar="tensorboard|wandb", help="Keep such a log too; may be repeated."),
    ] = None,
    no_tuned: NotTuned = False,
    profile: TraceFile = None,
    certified: CertificateFile = None,
    force: Force = False,
    coordinator: Coordinator = None,
    hosts: HostCount = None,
    host: HostIndex = None,
) -> None:
    """Train a model and measure it on the examples held out."""
    from meganeura.cli.ui.progress import display
    from meganeura_dsl import pipeline
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.train.loop.training_loop import train as run_job
    from meganeura_runtime.train.records.run_folder import folder_of, resumed_folder
    from meganeura_runtime.train.spec.resume import RunOptions, resume_job
    from meganeura_runtime.train.spec.run_request import RunRequest
    from meganeura_runtime.train.spec.train_job import prepare_new

    require_writable(
        certified, [Kind.RUNS], force=force, reads=[Path(target), *(weights or ())], option=OPTION
    )
    overrides = [
        *_overrides(changes, device, seed, log),
        *rewriting_settings(rewriting(no_opt=no_opt, disabled=disabled)),
    ]
    start = _start(weights, allowed(allow_missing, allow_unexpected), given_names(rename, prefix))
    meeting = rendezvous(coordinator, hosts, host)
    _require_nothing_new(resume, out, start)
    with ExitStack() as held:
        built = held.enter_context(recorded())
        program = load(target)
        request = RunRequest(program, program.train(), pipeline.find(target).path.parent, overrides)
        met = _meet(request, resume, meeting)
        if resume is None:
            job = prepare_new(request, start, tuned=not no_tuned)
            resumed, folder = None, None
        else:
            folder = held.enter_context(resumed_folder(resume, met))
            job, resumed = resume_job(request, folder, tuned=not no_tuned)
        _certify(program, job, certified if met.is_first else None)
        held.enter_context(explained_failures((job.spec.input_spec.counter or "batch", job.batch)))
        chosen = job.spec.spread_over(
            choose_device(job.settings.device, tuned=not no_tuned, precision=job.settings.precision)
        )
        if met.is_first:
            _announce(job, chosen, resumed, folder)
        folder = folder or held.enter_context(folder_of(request.train, out, met))
        stream = sys.stdout if met.is_first else held.enter_context(Path(os.devnull).open("w"))
        with (
            tracing(profile, chosen, job.steps, built) as traced,
            Interruption() as interruption,
            closing(display(stream)) as shown,
        ):
            options = RunOptions(resumed, detect_anomaly, traced.span, met, chosen, _command())
            finished = run_job(
                job,
                folder,
                traced.open,
                interruption.ended_with(shown.watch),
                interruption.is_wanted,
                options,
            )
    if met.is_first:
        say(_summary(finished, folder))
    if finished.interrupted:
        raise typer.Exit(interruption.exit_code)


def _meet(request: "RunRequest", resume: Path | None, meeting: "Rendezvous | None") -> "Hosts":
    """Wait for the other processes of the run; returns all of them."""
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import meet_hosts
    from meganeura_runtime.train.records.run_folder import RunFolder
    from meganeura_runtime.train.spec.resume import resumed_device

    if resume is None:
        device = request.settings_with_data.device
    else:
        device = resumed_device(request, RunFolder(resume))
    if meeting is not None and meeting.hosts.is_first:
        say(f"waiting for {meeting.hosts.count} hosts at {meeting.coordinator}")
    with explained_failures():
        return meet_hosts(device, meeting)


def _overrides(
    changes: list[str] | None, device: str | None, seed: int | None, log: list[str] | None
) -> list[str]:
    """Returns the settings of the command line."""
    given = list(changes or ())
    given += [] if device is None else [f"device={device}"]
    given += [] if seed is None else [f"seed={seed}"]
    given += [] if log is None else [f"log={json.dumps(log)}"]
    return given


def _start(files: list[Path] | None, excused: "Allowed", called: "Names") -> "Start | None":
    """Returns the weights named by `--weights` and the options beside it."""
    from meganeura_runtime.io.weight_names import AS_STORED
    from meganeura_runtime.io.weights import STRICT
    from meganeura_runtime.train.spec.train_spec import Start

    if files:
        return Start(tuple(files), excused, called)
    if (excused, called) != (STRICT, AS_STORED):
        raise typer.BadParameter("there are no weights to compare with", param_hint="--weights")
    return None


def _require_nothing_new(resume: Path | None, out: Path | None, start: "Start | None") -> None:
    """Refuse what is for the start of a run, where one is resumed."""
    from meganeura_runtime.train.training_problems import CannotResume

    if resume is None:
        return
    if out is not None:
        raise typer.BadParameter("the run has its folder", param_hint="--resume")
    if start is not None:
        given = "`--weights` is for the start of a run, and this one has weights of its own"
        raise ProblemError(CannotResume(given))


def _certify(program: "Program", job: "TrainJob", file: Path | None) -> None:
    """Write the certificate of every step of a run, where a file is given."""
    if file is not None:
        steps = (job.spec.whole_step, *job.others)
        certify(program, [each for step in steps for each in step.optimizations()], file)


def _announce(
    job: "TrainJob", chosen: "OpenDevice", resumed: "Resumption | None", folder: "RunFolder | None"
) -> None:
    """Say where the run is, what each of several devices holds whole, and what it starts from.

    Where it goes on and looks for the best weights anew, what counted no longer does; where its
    learning rate goes on otherwise than it began, that is said too.
    """
    from meganeura_dsl.transforms.joined_loss import Joins
    from meganeura_runtime.backends.loop_advice import other_device
    from meganeura_runtime.train.spec.resume import compares_anew, other_rates

    announce(chosen)
    if advice := other_device(job.spec.compiled, chosen):
        say(advice)
    whole = chosen.replicated(job.spec.compiled)
    if whole:
        more = f" and {len(whole) - NAMED} more" if len(whole) > NAMED else ""
        say(
            f"whole on each device, as it divides no axis of them: {', '.join(whole[:NAMED])}{more}"
        )
    if job.spec.start is not None:
        say("\n  ".join([f"weights: {job.spec.start.file}", *exceptions(job.spec.start)]))
    if job.settings.accumulate > 1 and job.spec.joins is Joins.NOT:
        count, batch = job.settings.accumulate, job.batch
        say(
            f"accumulate: the loss is no function of sums over the examples, so that {count:,} "
            f"batches of {batch:,} are not one of {count * batch:,}: their gradients are averaged"
        )
    if resumed is not None and resumed.progress.step >= job.steps:
        more = "epochs" if job.settings.steps is None else "steps"
        say(f"the run is at its end, and no step is left: give it more with --set {more}=...")
    if resumed is not None and compares_anew(resumed.progress, job.settings, folder):
        say(f"best: {job.settings.best} from here on; no evaluation before counts")
    for each in () if resumed is None else other_rates(job, resumed.progress):
        say(str(each))


def _command() -> str:
    """Returns the command of this process, as a shell takes it."""
    return shlex.join(["meganeura", *sys.argv[1:]])


def _summary(finished: "Finished", folder: "RunFolder") -> str:
    """Returns the last lines of a run: its use of the device, its steps and time, its page."""
    from meganeura.cli.ui.narration import clock, used

    how = "stopped" if finished.interrupted else "done"
    done = f"{how} after {finished.steps:,} steps in {clock(finished.seconds)}: {folder.report}"
    return "\n".join(filter(None, [used(finished.usage), done]))
