"""A page: a compiled model, and the choices of the command line that say how it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from meganeura.cli.driver.stages import Mode
from meganeura_dsl.diagnostics.problem import ProblemError

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Array
    from meganeura_dsl.ir.index_checks import Bound
    from meganeura_dsl.ir.types import TensorType
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.train.spec.train_job import TrainJob

SUFFIX = ".html"


@dataclass(frozen=True)
class PageOptions:
    """Options of pages alone."""

    split: bool = False
    with_data: bool = False
    labels: Sequence[str] | None = None
    """Names of classes."""
    white: float | None = None
    tokenizer: Path | None = None

    def require_page(self, output: Path | None, mode: Mode) -> None:
        """Refuse them where no page is written, and those that are not about its mode."""
        given = {
            "--split": self.split,
            "--with-data": self.with_data,
            "--labels": self.labels is not None,
            "--white": self.white is not None,
            "--tokenizer": self.tokenizer is not None and mode is not Mode.GENERATE,
        }
        is_page = output is not None and output.suffix == SUFFIX
        for option, is_given in given.items():
            if not is_given:
                continue
            if not is_page:
                raise typer.BadParameter("it is about a page: -o page.html", param_hint=option)
            if option == "--with-data" and mode is not Mode.TRAIN:
                text = "the page of a model has no data: --mode train"
                raise typer.BadParameter(text, param_hint=option)
            if option == "--tokenizer" and mode is Mode.TRAIN:
                raise typer.BadParameter("a page that trains reads no text", param_hint=option)
            if option in ("--labels", "--white") and mode is Mode.GENERATE:
                raise typer.BadParameter("a page that writes has no pictures", param_hint=option)


def write_page(
    output: Path,
    title: str,
    artefact: "Artefact",
    job: "TrainJob | None",
    weights: list[Path] | None,
    options: PageOptions,
) -> str:
    """Write the page of a model or of a training step; what was written."""
    from meganeura_runtime.export.page.forms import TokensForm, input_forms
    from meganeura_runtime.export.page.reading_tokenizer import reading_tokenizer
    from meganeura_runtime.export.page.write import Page
    from meganeura_runtime.io.preprocess import preprocessor_config
    from meganeura_runtime.io.preprocess.input_transforms import Choices

    training = artefact.training
    named = {each.name for each in training.inputs} if training else artefact.inputs.keys()
    inputs = {name: of for name, of in artefact.inputs.items() if name in named}
    if artefact.generation is not None:
        inputs = {}
    tokenizer = None
    if artefact.training is None and artefact.generation is None:
        tokenizer = reading_tokenizer(weights or (), options.tokenizer)
    config = preprocessor_config.find(weights[0]) if weights else None
    forms = input_forms(
        inputs,
        artefact.bounds,
        Choices(config=config, prepared=artefact.preparation),
        options.white,
        tokens=tokenizer.size if tokenizer else 0,
        batches=training is not None,
    )
    reads = any(isinstance(form, TokensForm) for form in forms.values())
    if options.tokenizer is not None and tokenizer is not None and not reads:
        _require_text(inputs, artefact.bounds, tokenizer.size)
    page = Page(
        artefact,
        title,
        forms,
        options.labels or artefact.preparation.classes,
        _data(job) if job is not None and options.with_data else None,
        tokenizer.text if tokenizer and reads else None,
        options.split,
    )
    return " and ".join(f"{path} ({_size(path)})" for path in page.write(output))


def _require_text(
    inputs: "Mapping[str, TensorType]", bounds: "Mapping[str, Bound]", tokens: int
) -> NoReturn:
    """Say why a tokenizer that was given cannot be used."""
    from meganeura_runtime.io.preprocess.token_problems import OtherVocabulary

    counts = [bounds[name].count for name in inputs if name in bounds]
    if counts and max(counts) < tokens:
        raise ProblemError(OtherVocabulary("the tokenizer", tokens, max(counts)))
    text = "no input takes tokens and another of its shape, bool[1, s], says which are the text's"
    raise typer.BadParameter(text, param_hint="--tokenizer")


def _data(job: "TrainJob") -> "Mapping[str, Array]":
    from meganeura.cli.driver.compiled_training import held_data

    return held_data(job)


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1024:,.0f} KiB"
