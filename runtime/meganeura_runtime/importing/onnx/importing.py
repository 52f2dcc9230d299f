"""An ONNX file read as a program, which is proved and compared before it is written."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.support.optional_imports import load


@dataclass(frozen=True)
class Imported:
    """The result of importing a file."""

    program: Path
    """The program, with one model."""
    weights: Path
    """Its weights: a safetensors file beside it."""
    difference: float
    """The largest difference of an output, in units of its largest element or of 1.

    NaN if no output was more than one number, or NaN and infinities, on all inputs that were tried.
    """
    sizes: Mapping[str, int]
    """The open sizes at which it was compared."""
    nodes: int = 0
    """The nodes of the ONNX graph, those of branches and loops included; 0 of another file."""
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    """The initializer of each parameter that is called otherwise."""
    trained: Sequence[str] = ()
    """The parameters that training moves."""
    constants: Sequence[str] = ()
    """The parameters that it leaves as they are; states are in neither."""
    outputs: int = 0
    packed: Sequence[str] = ()
    """The parameters that are written as whole numbers of a few bits."""
    unpacked: Sequence[str] = ()
    """The parameters that are whole numbers of a few bits in the file, and floats here."""
    untold: Mapping[str, str] = field(default_factory=dict[str, str])
    """The outputs that could not be compared, and what they are on all inputs that were tried."""


def import_onnx(
    path: Path,
    program: Path,
    sizes: Mapping[str, int] | None = None,
    stated: Stated | None = None,
) -> Imported:
    """Read an ONNX model and write it as a program, with its weights beside it.

    `sizes` gives numbers for symbolic sizes, by their names in the file, and for inputs of one
    whole number, which then are inputs no more; the others stay open. `stated` is what the program
    that the file was written from says of it.
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
    from meganeura_runtime.importing.onnx.given_sizes import translated
    from meganeura_runtime.importing.onnx.graph_inputs import open_names
    from meganeura_runtime.importing.onnx.onnx_file import read_onnx
    from meganeura_runtime.importing.onnx.proved import prove
    from meganeura_runtime.importing.onnx.trained import name_sizes
    from meganeura_runtime.io.tensors.quantized_tensors import write_quantized
    from meganeura_runtime.io.weights import stored_values

    file = read_onnx(path)
    if stated is not None:
        name_sizes(file.model.graph, stated)
        file = replace(file, origin=stated.origin)
    unknown = set(sizes or {}) - open_names(file.model.graph.input)
    if unknown:
        reason = f"no size that is open, and no input of one number, is called `{min(unknown)}`"
        raise ProblemError(UnreadableOnnx(file.shown, reason))
    translation = translated(file, sizes or {}, stated)
    proved = prove(file, translation, program)
    values = {each: stored.values for each, stored in translation.build.stored.items()}
    comparison = compared(file, translation, proved)
    renamed = {
        name: stored.origin
        for name, stored in translation.build.stored.items()
        if stored.origin not in ("", name)
    }
    weights = program.with_suffix(".safetensors")
    metadata = {"onnx": json.dumps(renamed, sort_keys=True)} if renamed else {}
    stored = {each.name: translation.build.stored[each.name] for each in proved.parameters}
    forms = {
        name: each.levels.packed(each.values.shape)
        for name, each in stored.items()
        if each.levels is not None and each.type.rank > 1
    }
    levels = {name: how for name, how in forms.items() if how is not None}
    write_quantized(weights, stored_values(proved.parameters, values), levels, metadata)
    write_text(program, proved.source.text)
    return Imported(
        program, weights, comparison.difference, comparison.sizes, file.nodes, renamed,
        [name for name, each in stored.items() if each.is_trained],
        [name for name, each in stored.items() if not each.is_trained and each.kind != "state"],
        len(translation.outputs), [*levels], [name for name, how in forms.items() if how is None],
        comparison.untold,
    )  # fmt: skip
