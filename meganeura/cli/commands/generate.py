"""`meganeura generate`: the text that a model writes, or the pictures that it draws."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.commands.run import run
from meganeura.cli.options.device_options import Device, NotTuned, Precision, announce
from meganeura.cli.options.model_options import (
    AllowMissing,
    AllowUnexpected,
    Changes,
    DisabledRules,
    NoOptimizer,
    Prefix,
    RandomWeights,
    Renames,
    WeightFiles,
    allowed,
    configured,
    given_names,
    load,
    loaded_weights,
    require_weights,
    rewriting,
)
from meganeura.cli.options.output_file import Force, require_writable
from meganeura.cli.options.run_target import ModelOrRun, of_run
from meganeura.cli.ui.console import say, show, write
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_runtime.infer.generator import Generator, Sampling
    from meganeura_runtime.infer.recomputation import Recomputation
    from meganeura_runtime.infer.text_task import TextTask
    from meganeura_runtime.infer.transcription import Speech
    from meganeura_runtime.io.preprocess.tokens import Tokenizer

SAMPLING = ("steps", "temperature", "top_k")
SPEECH = ("language", "task", "timestamps")
"""Options of `--set` for the generation; all others are arguments of the model."""
WHOLE = "_full"
"""The suffix of a model that writes, if its encoder has the plain name: `whisper_tiny_full`."""


def generate(
    model: ModelOrRun,
    sound: Annotated[
        Path | None, typer.Argument(metavar="SOUND", help="A sound to write down.")
    ] = None,
    *,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the text begins with, or answers.")
    ] = None,
    weights: WeightFiles = None,
    random_weights: RandomWeights = None,
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
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Draw: write pictures as .png."),
    ] = None,
    force: Force = False,
    no_opt: NoOptimizer = False,
    disable_rule: DisabledRules = None,
    device: Device = "auto",
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
) -> None:
    """Write the text that follows a prompt, or what is said in a sound, token by token.

    `--set` gives `steps`, the most tokens (128, or what fits); `temperature`, 0 for the likeliest
    token each time (0); and `top_k`, from how many of the likeliest one is drawn, 0 for all (0).
    Of a sound it gives `language`, such as en (the one that is heard); `task`, transcribe or
    translate (transcribe); and `timestamps` (false). With `-o` a model that takes no inputs draws.
    """
    model, weights = of_run(model, weights, random_weights)
    if output is not None:
        run(
            _drawing(model, (sound, prompt, tokenizer)), seed=seed, weights=weights,
            random_weights=random_weights, allow_missing=allow_missing,
            allow_unexpected=allow_unexpected, rename=rename, prefix=prefix, changes=changes,
            no_opt=no_opt, disable_rule=disable_rule, device=device, precision=precision,
            no_tuned=no_tuned, output=output, force=force,
        )  # fmt: skip
        return
    require_writable(None, (), force=force)
    if (sound is None) == (prompt is None):
        raise typer.BadParameter("give a --prompt, or a file with a sound", param_hint="--prompt")
    require_weights(
        weights,
        random_weights,
        has_file_options=bool(allow_missing or allow_unexpected or rename or prefix),
    )
    settings, rest = _split(changes or ())
    from meganeura_dsl import pipeline
    from meganeura_dsl.elaborate.declarations.generation import TokenGraph, TokenStep
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.infer.recomputation import open_generator
    from meganeura_runtime.infer.text_task import TextTask
    from meganeura_runtime.infer.transcription import SpeechTask, Transcriber
    from meganeura_runtime.io.preprocess.speech_tokens import speech_tokens
    from meganeura_runtime.io.preprocess.tokens import require_vocabulary, tokenizer_of

    sampling, steps = _sampling(settings, seed)
    speech = _speech(settings, hears=sound is not None)
    chosen = configured(model, rest, whole=WHOLE)

    def elaborate(step: TokenStep) -> TokenGraph:
        return pipeline.elaborate_tokens(chosen.program, chosen.name, chosen.config, step)

    files = weights or []
    words = tokenizer_of(files, tokenizer)
    if prompt is None:
        task = SpeechTask.of(elaborate, files)
    else:
        task = TextTask.of(elaborate, words, prompt, steps, sampling)
    loaded = loaded_weights(
        chosen.elaborate(),
        files,
        random_weights,
        allowed(allow_missing, allow_unexpected),
        given_names(rename, prefix),
        err=True,
    )
    with explained_failures():
        chosen_device = choose_device(device, tuned=not no_tuned, precision=precision)
        announce(chosen_device, err=True)
        with open_generator(
            elaborate,
            loaded.values,
            loaded.opening(chosen_device),
            rewriting(no_opt=no_opt, disabled=disable_rule, device=device, precision=precision),
            task.step,
        ) as generator:
            require_vocabulary(words, generator.vocabulary)
            if isinstance(task, TextTask):
                _answer(generator, task, words, sampling)
            elif sound is not None:
                tokens = speech_tokens(files, words, generator.vocabulary)
                transcriber = Transcriber(generator, task, words, tokens)
                _write_down(transcriber(sound, speech, steps, sampling))


def _drawing(target: str, given: Sequence[object]) -> str:
    """The model that a target names, or the only one of its file that takes no inputs."""
    from meganeura_dsl import pipeline
    from meganeura_dsl.elaborate.declarations.block_domain import model_configuration

    if any(each is not None for each in given):
        raise typer.BadParameter("pictures are drawn of a seed alone", param_hint="--output")
    chosen = pipeline.find(target).chosen
    program = load(target)
    blocks = {
        name: model_configuration(program.module, model)[1]
        for name, model in program.module.models.items()
    }
    names = [name for name, block in blocks.items() if not block.inputs]
    if chosen in names:
        return target
    if chosen in blocks:
        takes = ", ".join(f"`{each.name}`" for each in blocks[chosen].inputs)
        text = f"`{target}` takes {takes}, so it draws nothing: leave out -o, or `meganeura run` it"
        raise typer.BadParameter(text, param_hint="--output")
    if not names:
        text = f"no model of `{target}` draws: each takes inputs, see `meganeura run`"
        raise typer.BadParameter(text, param_hint="MODEL")
    if len(names) > 1:
        text = f"{count(len(names), 'model')} of `{target}` draw: name one, `{target}:{names[0]}`"
        raise typer.BadParameter(text, param_hint="MODEL")
    return f"{target}:{names[0]}"


def _answer(
    generator: "Generator | Recomputation",
    task: "TextTask",
    words: "Tokenizer",
    sampling: "Sampling",
) -> None:
    """Write what follows a text."""
    from meganeura_runtime.infer.generator import streamed
    from meganeura_runtime.infer.recomputation import Recomputation

    show(task.notes, sys.stderr)
    times = [perf_counter()]
    if task.context:
        generator.read(task.context)
    tokens = generator.tokens(task.ids, task.steps, sampling)
    drawn = (token for token in tokens if not times.append(perf_counter()))
    for piece in streamed(words, drawn, task.ends):
        write(piece)
    say("")
    say(_measured(task.length, times), err=True)
    if isinstance(generator, Recomputation) and generator.window is not None:
        most = count(generator.window, "token")
        say(f"the model takes {most}: what comes later follows from the last of them", err=True)


def _write_down(pieces: "Iterator[str]") -> None:
    """Write what is said in a sound."""
    begin, last = perf_counter(), ""
    for last in pieces:
        write(last)
    if not last.endswith("\n"):
        say("")
    say(f"{perf_counter() - begin:.2f} s", err=True)


def _split(changes: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits changes into those of the generation and those of the model."""
    names = (*SAMPLING, *SPEECH)
    ours = [each for each in changes if each.partition("=")[0].strip() in names]
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


def _speech(settings: Sequence[str], *, hears: bool) -> "Speech":
    """Returns the options for the transcription of a sound."""
    from meganeura_dsl.elaborate.values import Invocation
    from meganeura_dsl.settings.setting_values import with_overrides
    from meganeura_runtime.infer.transcription import Speech

    given = {name: each.value for name, each in with_overrides({}, settings).items()}
    said = {name: given[name] for name in SPEECH if name in given}
    if said and not hears:
        raise typer.BadParameter(f"`{next(iter(said))}` is about a sound", param_hint="--set")
    for name, value in said.items():
        is_name = isinstance(value, Invocation) and not value.positional and not value.arguments
        said[name] = value.name if isinstance(value, Invocation) and is_name else value
    timestamps = said.pop("timestamps", False)
    if not isinstance(timestamps, bool):
        raise typer.BadParameter("`timestamps` is true or false", param_hint="--set")
    words = {name: str(value) for name, value in said.items()}
    return Speech(words.get("language"), words.get("task"), timestamps)


def _whole(given: Mapping[str, object], name: str) -> int:
    value = given[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise typer.BadParameter(f"`{name}` is a whole number", param_hint="--set")
    return value


def _measured(prompt: int, times: Sequence[float]) -> str:
    """Returns the time of the prompt, and of each token after the first, as text."""
    first = times[min(1, len(times) - 1)] - times[0]
    text = (
        f"{count(len(times) - 1, 'token')}, the first {first:.2f} s after {count(prompt, 'token')}"
    )
    if len(times) < 3:
        return text
    each = (times[-1] - times[1]) / (len(times) - 2)
    return f"{text}, then {1000 * each:.1f} ms each"
