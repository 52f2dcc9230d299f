"""Outputs of a model, shown as numbers or a table of classes, or written to files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import cast

import numpy as np
import typer

from meganeura_dsl.diagnostics.characters import printable
from meganeura_dsl.diagnostics.plain_table import table
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.support.limited_read import read_bytes
from meganeura_runtime.io.files.atomic_write import replacing
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.preprocess.picture_grid import SUFFIX, is_pictures, write_pictures
from meganeura_runtime.io.tensors.safetensors_file import HOLDS, OUTPUTS, write_tensors

FEW = 8
"""The number of values of a small output, and of examples of a batch, to show."""

LONGEST_LABELS = 16
"""Mebibytes of the names of classes."""

NAMES_OF_CONFIG = "id2label"
"""The entry of Hugging Face's `config.json` with the names of classes."""


def split_outputs(
    found: Mapping[str, Array], names: Sequence[str]
) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """The outputs of these names, and the values that were asked for beside them."""
    outputs = {name: found[name] for name in names}
    return outputs, {name: each for name, each in found.items() if name not in outputs}


def show_outputs(
    outputs: Mapping[str, Array],
    top: int,
    names: Sequence[str] | None,
    known: Sequence[str] = (),
    values: Mapping[str, Array] = MappingProxyType({}),
) -> str:
    """Each output with its type, shape and values, and the classes of those that have some.

    Before them stands a table of `values`, which the program or the user asks to see. `names` are
    those that the user gives, which have to fit; `known` those that the weights say, for outputs
    with as many classes.
    """
    parts = [_table_of(values)] if values else []
    for name, each in outputs.items():
        parts += [_summary(name, each), *_classes(each, top, _fitting(each, names, known))]
    return "\n".join(parts)


def _table_of(values: Mapping[str, Array]) -> str:
    """A table of values by their names: shape, mean, deviation, extremes and what is not finite."""
    head = ("value", "type", "mean", "deviation", "from", "to", "not finite")
    rows = [(printable(name), _type(each), *_statistics(each)) for name, each in values.items()]
    return table([head, *rows], (2, 3, 4, 5, 6))


def _statistics(values: Array) -> tuple[str, ...]:
    """Those of what is finite, and the share of what is not."""
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    share = 1 - finite.size / wide.size
    odd = f"{share:.2%}" if share else ""
    if not finite.size:
        return "", "", "", "", odd
    numbers = finite.mean(), finite.std(), finite.min(), finite.max()
    return (*(f"{each:.4g}" for each in numbers), odd)


def _fitting(
    values: Array, names: Sequence[str] | None, known: Sequence[str]
) -> Sequence[str] | None:
    """The names of the classes of an output."""
    if names is None and known and values.ndim == 2 and values.shape[1] == len(known):
        return known
    return names


def _summary(name: str, values: Array) -> str:
    """`output: float32[1, 10], from -3.1 to 4.2, mean 0.12`."""
    head = f"{name}: {_type(values)}"
    if values.size <= FEW:
        return f"{head} = {values.tolist()}"
    if values.dtype == np.bool_:
        return f"{head}, {np.count_nonzero(values):,} of {values.size:,} true"
    wide = values.astype(np.float64)
    odd = np.count_nonzero(~np.isfinite(wide))
    warning = f", {odd:,} NOT FINITE" if odd else ""
    return f"{head}, from {wide.min():g} to {wide.max():g}, mean {wide.mean():g}{warning}"


def _type(values: Array) -> str:
    return f"{values.dtype}[{', '.join(map(str, values.shape))}]"


def _classes(values: Array, top: int, names: Sequence[str] | None) -> list[str]:
    """The likeliest classes of each example, for floats [n, classes]."""
    if values.ndim != 2 or values.shape[1] < 2 or not np.issubdtype(values.dtype, np.floating):
        return []
    logits = values.astype(np.float64)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    rows = [("example", "class", *(("name",) if names else ()), "output", "softmax")]
    for example in range(min(len(values), FEW)):
        for best in np.argsort(-logits[example], kind="stable")[:top]:
            name = () if names is None else (_name(names, int(best), values.shape[1]),)
            share, output = f"{shares[example, best]:.4f}", f"{logits[example, best]:.5g}"
            rows.append((str(example), str(best), *name, output, share))
    more = [f"and {len(values) - FEW} more examples"] if len(values) > FEW else []
    right = (0, 1, len(rows[0]) - 2, len(rows[0]) - 1)
    return [table(rows, right), *more]


def _name(names: Sequence[str], number: int, classes: int) -> str:
    if len(names) != classes:
        text = f"there are {len(names):,} names, and the output has {classes:,} classes"
        raise typer.BadParameter(text, param_hint="--labels")
    return printable(names[number])


def read_labels(path: Path) -> list[str]:
    """The names of classes: one on each line, or a JSON list, or `config.json` with `id2label`."""
    try:
        text = read_bytes(path, LONGEST_LABELS).decode()
    except FileNotFoundError:
        raise ProblemError(NoSuchFile(path)) from None
    except (OSError, ValueError) as error:
        raise ProblemError(UnreadableFile(path, str(error))) from None
    names = _names_of_json(text) if path.suffix == ".json" else text.splitlines()
    if not names:
        raise ProblemError(UnreadableFile(path, "it has no list of names"))
    return names


def _names_of_json(text: str) -> list[str]:
    try:
        content = cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return []
    if isinstance(content, dict):
        table_ = cast("dict[str, object]", content)
        numbered = table_.get(NAMES_OF_CONFIG, table_)
        if not isinstance(numbered, dict):
            return []
        by_number = cast("dict[str, object]", numbered)
        content = [by_number.get(str(number)) for number in range(len(by_number))]
    names = cast("list[object]", content) if isinstance(content, list) else []
    return [str(name) for name in names] if all(isinstance(each, str) for each in names) else []


# --- files ---------------------------------------------------------------------------------------


def check_output(path: Path | None, names: Sequence[str]) -> None:
    """Refuse a file that could not hold the outputs, before they are computed."""
    if path is None or path.suffix == ".safetensors":
        return
    if len(names) != 1:
        kind = path.suffix
        text = f"a {kind} file holds one tensor, and there are {', '.join(names)}: use .safetensors"
        raise typer.BadParameter(text, param_hint="--output")


def write_outputs(
    path: Path,
    outputs: Mapping[str, Array],
    others: Mapping[str, Array] = MappingProxyType({}),
) -> None:
    """Write all outputs at once or not at all; raises `ProblemError`.

    A file of several tensors also has the `others` that were asked for. A picture is of floats in
    0 ... 1, of which others are cut off.
    """
    if path.suffix == ".safetensors":
        write_tensors(path, {**outputs, **others}, {HOLDS: OUTPUTS})
        return
    (values,) = outputs.values()
    if path.suffix == SUFFIX:
        if not is_pictures(values):
            text = f"a picture is floats [n, 1, h, w] or [n, 3, h, w], not {_type(values)}"
            raise typer.BadParameter(text, param_hint="--output")
        write_pictures(path, values)
        return
    with replacing(path) as partial, partial.open("wb") as file:
        np.save(file, values, allow_pickle=False)
