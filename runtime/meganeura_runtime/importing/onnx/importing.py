"""An ONNX file read as a program, which is proved and compared before it is written."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.support.optional_imports import load


@dataclass(frozen=True)
class Imported:
    """What an ONNX file became."""

    program: Path
    """The program, with one model."""
    weights: Path
    """Its weights: a safetensors file beside it."""
    difference: float
    """The largest difference of an output, in units of its largest element or of 1."""
    sizes: Mapping[str, int]
    """The open sizes at which it was compared."""
    nodes: int
    """The nodes of the ONNX graph."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The initializer of each parameter that is called otherwise."""


def import_onnx(path: Path, program: Path, sizes: Mapping[str, int] | None = None) -> Imported:
    """Read an ONNX model and write it as a program, with its weights beside it.

    `sizes` gives numbers for symbolic sizes, by their names in the file, and for inputs of one
    whole number, which then are inputs no more; the others stay open.
    Raises `ProblemError` for files that cannot be read, for nodes without a form in the language,
    for what is not proved, and where ONNX Runtime gives something else; nothing is written then.
    Also where the extra `onnx` is not installed, and `ValueError` for a name that ends otherwise
    than in `.mgn`.
    """
    if program.suffix != ".mgn":
        raise ValueError(f"a program is called something.mgn, not {program.name}")
    for module in ("onnx", "onnxruntime"):
        load(module, "onnx", "read ONNX files")
    from meganeura_runtime.importing.onnx.comparison import compared
    from meganeura_runtime.importing.onnx.onnx_file import read_onnx
    from meganeura_runtime.importing.onnx.proved import prove
    from meganeura_runtime.importing.onnx.translation import open_names, translate
    from meganeura_runtime.io.weights import write_weights

    file = read_onnx(path)
    unknown = set(sizes or {}) - open_names(file.model.graph.input)
    if unknown:
        reason = f"no size that is open, and no input of one number, is called `{min(unknown)}`"
        raise ProblemError(UnreadableOnnx(path, reason))
    translation = translate(file, sizes or {})
    proved = prove(file, translation, program)
    values = {each: stored.values for each, stored in translation.build.stored.items()}
    difference, at = compared(file, translation, proved)
    renamed = {
        name: stored.origin
        for name, stored in translation.build.stored.items()
        if stored.origin not in ("", name)
    }
    weights = program.with_suffix(".safetensors")
    metadata = {"onnx": json.dumps(renamed, sort_keys=True)} if renamed else {}
    write_weights(weights, proved.parameters, values, metadata)
    write_text(program, proved.source.text)
    return Imported(program, weights, difference, at, len(file.model.graph.node), renamed)
