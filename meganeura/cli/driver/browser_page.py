"""A page: a compiled model, and the choices of the command line that say how it is shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from meganeura.cli.driver.stages import Mode

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Array
    from meganeura_runtime.export.mgb import Artefact
    from meganeura_runtime.train.job import Job

SUFFIX = ".html"


@dataclass(frozen=True)
class PageOptions:
    """What is said of pages alone."""

    split: bool = False
    with_data: bool = False
    labels: Sequence[str] | None = None
    """Names of classes."""
    white: float | None = None

    def require_page(self, output: Path | None, mode: Mode) -> None:
        """Refuse them where no page is written, and those that are not about its mode."""
        given = {
            "--split": self.split,
            "--with-data": self.with_data,
            "--labels": self.labels is not None,
            "--white": self.white is not None,
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
            if option in ("--labels", "--white") and mode is Mode.GENERATE:
                raise typer.BadParameter("a page that writes has no pictures", param_hint=option)


def write_page(
    output: Path,
    title: str,
    artefact: "Artefact",
    job: "Job | None",
    weights: list[Path] | None,
    options: PageOptions,
) -> str:
    """Write the page of a model or of a training step; what was written."""
    from meganeura_runtime.export.page.forms import input_forms
    from meganeura_runtime.export.page.write import Page
    from meganeura_runtime.io.preprocess import preprocessor_config
    from meganeura_runtime.io.preprocess.input_transforms import Choices

    training = artefact.training
    named = {each.name for each in training.inputs} if training else artefact.inputs.keys()
    inputs = {name: of for name, of in artefact.inputs.items() if name in named}
    if artefact.generation is not None:
        inputs = {}
    config = preprocessor_config.find(weights[0]) if weights else None
    forms = input_forms(
        inputs,
        artefact.bounds,
        Choices(config=config),
        options.white,
        batches=training is not None,
    )
    page = Page(
        artefact,
        title,
        forms,
        options.labels or (),
        _data(job) if job is not None and options.with_data else None,
        options.split,
    )
    return " and ".join(f"{path} ({_size(path)})" for path in page.write(output))


def _data(job: "Job") -> "Mapping[str, Array]":
    from meganeura.cli.driver.compiled_training import held_data

    return held_data(job)


def _size(path: Path) -> str:
    return f"{path.stat().st_size / 1024:,.0f} KiB"
