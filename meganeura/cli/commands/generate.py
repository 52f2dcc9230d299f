"""`meganeura generate`: the text that a model writes behind a prompt, as it is written."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.device_options import Device, NotTuned, Precision, announce
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    DisabledRules,
    NoOptimizer,
    Prefix,
    Renames,
    WeightFiles,
    allowed,
    configured,
    given_names,
    loaded_values,
    require_weights,
    rewriting,
)
from meganeura.cli.ui.console import count, say, write
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_runtime.infer.generator import Sampling

SETTINGS = ("steps", "temperature", "top_k")
"""What `--set` says of the generation; all else is an argument of the model."""


def generate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or a file with one.")],
    *,
    prompt: Annotated[str, typer.Option(metavar="TEXT", help="What the text begins with.")],
    weights: WeightFiles = None,
    random_weights: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Untrained weights, to try things.")
    ] = None,
    allow_missing: AllowMissing = None,
    allow_unexpected: AllowUnexpected = None,
    rename: Renames = None,
    prefix: Prefix = "",
    changes: Changes = None,
    seed: Annotated[
        int, typer.Option(min=0, max=(1 << 32) - 1, help="Of the tokens drawn at random.")
    ] = 0,
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A tokenizer.json not beside the weights.")
    ] = None,
    no_opt: NoOptimizer = False,
    disable_rule: DisabledRules = None,
    device: Device = "auto",
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
) -> None:
    """Write the text that follows a prompt, token by token.

    `--set` gives `steps`, the most tokens (128, or what fits); `temperature`, 0 for the likeliest
    token each time (0); and `top_k`, from how many of the likeliest one is drawn, 0 for all (0).
    """
    told = bool(allow_missing or allow_unexpected or rename or prefix)
    require_weights(weights, random_weights, told=told)
    settings, rest = _split(changes or ())
    from meganeura_dsl import pipeline
    from meganeura_dsl.elaborate.declarations.generation import TokenGraph, TokenStep
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.infer.generator import (
        Generator,
        capacity_for,
        room_for,
        steps_for,
        streamed,
    )
    from meganeura_runtime.io.preprocess.tokens import require_vocabulary, tokenizer_of

    sampling, said = _sampling(settings, seed)
    chosen = configured(model, rest)

    def elaborate(step: TokenStep) -> TokenGraph:
        return pipeline.elaborate_tokens(chosen.program, chosen.name, chosen.config, step)

    room = room_for(elaborate)
    words = tokenizer_of(weights or (), tokenizer)
    ids = words.encode(prompt)
    steps = steps_for(len(ids), room) if said is None else said
    step = TokenStep(capacity_for(len(ids), steps, room), 1, 1, sampling.drawn_from)
    excused, called = allowed(allow_missing, allow_unexpected), given_names(rename, prefix)
    symbolic = chosen.elaborate()
    values = loaded_values(symbolic, weights or (), random_weights, excused, called, err=True)
    rules = rewriting(no_opt=no_opt, disabled=disable_rule, device=device, precision=precision)
    with explained_failures():
        place = choose_device(device, tuned=not no_tuned, precision=precision)
        announce(place, err=True)
        with Generator(elaborate, values, place.open, rules, step) as generator:
            require_vocabulary(words, generator.vocabulary)
            times = [perf_counter()]
            tokens = generator.tokens(ids, steps, sampling)
            drawn = (token for token in tokens if not times.append(perf_counter()))
            for piece in streamed(words, drawn):
                write(piece)
            say("")
            say(_measured(len(ids), times), err=True)


def _split(changes: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is said of the generation, and what of the model."""
    ours = [each for each in changes if each.partition("=")[0].strip() in SETTINGS]
    return ours, [each for each in changes if each not in ours]


def _sampling(settings: Sequence[str], seed: int) -> "tuple[Sampling, int | None]":
    from meganeura_dsl.settings.setting_values import with_overrides
    from meganeura_runtime.infer.generator import Sampling

    given: Mapping[str, object] = {
        name: each.value for name, each in with_overrides({}, settings).items()
    }
    steps = _whole(given, "steps") if "steps" in given else None
    top_k = _whole(given, "top_k") if "top_k" in given else 0
    temperature = given.get("temperature", 0)
    if not isinstance(temperature, int | float) or isinstance(temperature, bool):
        raise typer.BadParameter("`temperature` is a number from 0", param_hint="--set")
    return Sampling(float(temperature), top_k, seed), steps


def _whole(given: Mapping[str, object], name: str) -> int:
    value = given[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise typer.BadParameter(f"`{name}` is a whole number", param_hint="--set")
    return value


def _measured(prompt: int, times: Sequence[float]) -> str:
    """How long the prompt took, and each token after the first."""
    first = times[min(1, len(times) - 1)] - times[0]
    text = (
        f"{count(len(times) - 1, 'token')}, the first {first:.2f} s after {count(prompt, 'token')}"
    )
    if len(times) < 3:
        return text
    each = (times[-1] - times[1]) / (len(times) - 2)
    return f"{text}, then {1000 * each:.1f} ms each"
