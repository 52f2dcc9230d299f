"""A model as a file of source."""

from collections.abc import Mapping
from pathlib import Path

from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.jax.target import JAX
from meganeura_runtime.export.source.source_file import Target, source_text
from meganeura_runtime.export.source.torch.target import TORCH
from meganeura_runtime.io.files.atomic_write import write_text

MARK = "# Written by `meganeura export"
"""The beginning of a file that `meganeura export` wrote and may replace."""
TARGETS: Mapping[str, Target] = {"torch": TORCH, "jax": JAX}
"""The systems that source is written for, by the word behind `--to`."""


def write_source(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
    to: str,
    path: Path,
) -> int:
    """Writes a model as source; returns the number of lines. Raises `ProblemError`."""
    text = written(module, model, config, sizes, to)
    write_text(path, text)
    return text.count("\n")


def written(
    module: LinkedModule,
    model: ast.Model,
    config: Mapping[str, StaticValue],
    sizes: Mapping[str, int],
    to: str,
) -> str:
    """Returns the source of a model. Raises `ProblemError`."""
    body = source_text(TARGETS[to], module, model, config, sizes)
    closing = '\n\n\nif __name__ == "__main__":\n    main()\n'
    return f"{MARK} {model.name.text} --to {to}`.\n\n{body}{closing}"
