"""`meganeura run`: what a model makes of inputs from files."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.driver.compiled_model import read_compiled
from meganeura.cli.options.device_options import Device, NotTuned, Precision, device_option
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    ConfiguredModel,
    DisabledRules,
    LoadedWeights,
    NoOptimizer,
    Prefix,
    RandomWeights,
    Renames,
    WeightFiles,
    allowed,
    configured,
    given_names,
    loaded_weights,
    require_weights,
    rewriting,
)
from meganeura.cli.options.output_file import Force, Kind, require_writable
from meganeura.cli.options.run_target import of_run
from meganeura.cli.options.trace_option import TraceFile, tracing
from meganeura.cli.ui.console import say
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.declarations.models import Asked, Elaboration
    from meganeura_dsl.ir.graph import Array, Graph
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
    from meganeura_runtime.backends.base import Session
    from meganeura_runtime.io.preprocess.images import Filter
    from meganeura_runtime.io.preprocess.input_transforms import Choices
    from meganeura_runtime.io.tensors.stored_tensor import StoredTensor

INPUT_HELP = "A tensor, image or sound; the name may be left out if there is one input."


def run(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL|RUN", help="A model, a file with one, the folder of a run, or a .mgb."
        ),
    ],
    *,
    inputs: Annotated[
        list[str] | None, typer.Option("--input", metavar="[NAME=]FILE", help=INPUT_HELP)
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="The start of all that a model draws.")
    ] = 0,
    weights: WeightFiles = None,
    random_weights: RandomWeights = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    changes: Changes = None,
    no_opt: NoOptimizer = False,
    disable_rule: DisabledRules = None,
    device: Device = "auto",
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
    profile: TraceFile = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write outputs: .npy, .safetensors or .png."
        ),
    ] = None,
    force: Force = False,
    show: Annotated[
        list[str] | None,
        typer.Option(
            "--show", metavar="NAME", help="A value to show: h, layers.0.attn, or 'layers.*'."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="How many classes to show.")] = 5,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of classes: lines, or JSON.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, max=100_000, help="Height and width an image gets.")
    ] = None,
    crop: Annotated[
        float | None, typer.Option(help="The share of a resized image that is kept, as 0.875.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(metavar="R,G,B", help="Taken away from colours in 0 ... 1.")
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="R,G,B", help="What colours are divided by then.")
    ] = None,
    resample: Annotated[
        str | None, typer.Option(help="nearest, box, bilinear, hamming, bicubic or lanczos.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.01, max=3600, help="How long sounds are made: 30.")
    ] = None,
) -> None:
    """Run a model on inputs from files."""
    from meganeura.cli.reports.model_outputs import (
        check_output,
        read_labels,
        show_outputs,
        split_outputs,
        write_outputs,
    )
    from meganeura_dsl.pipeline import Asked
    from meganeura_runtime.io.preprocess import preprocessor_config
    from meganeura_runtime.io.preprocess.input_transforms import Choices
    from meganeura_runtime.io.preprocess.preparation import preparation_of

    model, weights = of_run(model, weights, random_weights)
    fixed = {
        "--weights": weights,
        "--random-weights": random_weights,
        "--allow-missing": allow_missing,
        "--allow-unexpected": allow_unexpected,
        "--rename": rename,
        "--prefix": prefix or None,
        "--set": changes,
        "--no-opt": no_opt,
        "--disable-rule": disable_rule,
        "--no-tuned": no_tuned,
        "--show": show,
    }
    read = [Path(model), labels, *(weights or ()), *map(_file, inputs or ())]
    kinds = (Kind.ARRAY, Kind.PICTURE, Kind.OUTPUTS)
    require_writable(output, kinds, force=force, reads=read)
    compiled = read_compiled(model, fixed)
    prepared = preparation_of(weights or ()) if compiled is None else compiled.artefact.preparation
    names = None if labels is None else read_labels(labels)
    choices = Choices(
        image_size,
        _share(crop),
        _numbers("--mean", mean),
        _numbers("--std", std),
        _filter(resample),
        seconds,
        preprocessor_config.find(weights[0]) if weights else None,
        prepared,
    )
    if compiled is not None:
        if profile is not None:
            text = "a compiled model is profiled as the program it was made of"
            raise typer.BadParameter(text, param_hint="--profile")
        result_names = list(compiled.outputs)
        check_output(output, result_names)
        found = compiled.run(inputs or (), choices, device, precision, seed)
    else:
        require_weights(
            weights,
            random_weights,
            has_file_options=bool(allow_missing or allow_unexpected or rename or prefix),
        )
        chosen = configured(model, changes)
        symbolic = chosen.elaborate()
        result_names = list(symbolic.graph.outputs)
        check_output(output, result_names)
        tensors = _tensors(symbolic, choices, inputs or (), seed)
        excused, called = allowed(allow_missing, allow_unexpected), given_names(rename, prefix)
        loaded = loaded_weights(symbolic, weights or (), random_weights, excused, called)
        asked = Asked(tuple(show or ()), shown=True)
        rules = rewriting(no_opt=no_opt, disabled=disable_rule, device=device, precision=precision)
        options = _RunOptions(device, precision, rules, no_tuned, profile, asked)
        found = _computed(chosen, symbolic, tensors, loaded, options)
    results, shown = split_outputs(found, result_names)
    say(show_outputs(results, top, names, prepared.classes, shown))
    if output is not None:
        write_outputs(output, results, shown)
        say(f"written: {output}")


def _file(given: str) -> Path:
    """The file of an `--input`."""
    from meganeura_runtime.infer.input_files import Given

    return Given.parse(given).path


# --- the steps -----------------------------------------------------------------------------------


def _tensors(
    symbolic: "Elaboration", choices: "Choices", inputs: Sequence[str], seed: int
) -> Mapping[str, "StoredTensor"]:
    from meganeura_runtime.infer.input_files import Given, Reader

    reader = Reader(symbolic.inputs, choices, say, seed)
    return reader.read([Given.parse(text) for text in inputs])


def _computed(
    chosen: ConfiguredModel,
    symbolic: "Elaboration",
    tensors: Mapping[str, "StoredTensor"],
    loaded: LoadedWeights,
    options: "_RunOptions",
) -> dict[str, "Array"]:
    """The outputs, in sizes that follow from the inputs."""
    from meganeura_dsl.ir.index_checks import all_of, leaf_bounds
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.infer.feeds import feeds
    from meganeura_runtime.infer.size_binding import bind_sizes

    shapes = {name: each.shape for name, each in tensors.items()}
    sizes = bind_sizes(symbolic.inputs, shapes, chosen.sizes)
    concrete = chosen.elaborate(sizes, asked=options.asked)
    bounds = all_of(leaf_bounds(concrete.graph), concrete.stated_bounds({}))
    fed = feeds(bounds, concrete.inputs, tensors)
    with explained_failures(), options.session(concrete.graph, loaded) as session:
        session.load(loaded.values)
        for _ in range(options.steps - 1):
            dict(session.step(fed))
        return dict(session.step(fed))


@dataclass(frozen=True)
class _RunOptions:
    """The device of a run, and how closely it is watched."""

    device: str
    precision: ComputePrecision
    rules: "RewriteOptions"
    no_tuned: bool
    profile: Path | None
    asked: "Asked"

    @property
    def steps(self) -> int:
        """The number of runs: one, unless the time is measured."""
        from meganeura_runtime.profiling.trace import ENOUGH

        return 1 if self.profile is None else ENOUGH

    @contextmanager
    def session(self, graph: "Graph", loaded: LoadedWeights) -> Generator["Session"]:
        """Opens a session on the device and prints which."""
        from meganeura_runtime.backends.inference_session import open_inference

        chosen_device = device_option(self.device, no_tuned=self.no_tuned, precision=self.precision)
        with (
            tracing(self.profile, chosen_device) as traced,
            open_inference(
                graph, loaded.opening(chosen_device, traced.open), self.rules
            ) as session,
        ):
            yield session


# --- options -------------------------------------------------------------------------------------


def _share(crop: float | None) -> float | None:
    if crop is not None and not 0.01 <= crop <= 1:
        raise typer.BadParameter("it is a share from 0.01 to 1", param_hint="--crop")
    return crop


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    """`0.5` or `0.485,0.456,0.406`."""
    if text is None:
        return None
    try:
        numbers = tuple(float(each) for each in text.split(","))
    except ValueError:
        numbers = ()
    usable = all(isfinite(each) and (each > 0 or option != "--std") for each in numbers)
    if len(numbers) not in (1, 3) or not usable:
        raise typer.BadParameter(f"`{text}` is not such as 0.5 or 0.5,0.5,0.5", param_hint=option)
    return numbers


def _filter(name: str | None) -> "Filter | None":
    from meganeura_runtime.io.preprocess.images import Filter

    if name is None:
        return None
    if name.upper() not in Filter.__members__:
        known = ", ".join(each.name.lower() for each in Filter)
        raise typer.BadParameter(f"`{name}` is none of {known}", param_hint="--resample")
    return Filter[name.upper()]
