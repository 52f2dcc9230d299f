"""A GGUF file as a program, which is proved before it and its weights are written."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.quantization import Quantization
from meganeura_runtime.backends.memory_estimate import available_bytes
from meganeura_runtime.importing.gguf.gguf_file import GgufFile, GgufTensor, read_gguf
from meganeura_runtime.importing.gguf.llama import Llama, llama_of
from meganeura_runtime.importing.onnx.importing import Imported
from meganeura_runtime.importing.onnx.names import identifier
from meganeura_runtime.importing.refused_program import refused
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.tensors.quantized_tensors import write_quantized

F32 = 4
"""Bytes of a number in the weights of a program."""


@dataclass(frozen=True)
class Read:
    """The values of a parameter, and its levels if they stay packed."""

    values: Array
    levels: Quantization | None
    has_blocks: bool
    """True if the file has them as whole numbers and scales."""


def import_gguf(path: Path, program: Path, sizes: Mapping[str, int] | None = None) -> Imported:
    """Read a model of the Llama family and write it as a program, with its weights beside it.

    Raises `ProblemError` for a file that is damaged, for what the program cannot say, by name, and
    for weights that take more memory than there is; nothing is written then.
    """
    if program.suffix != ".mgn":
        raise ValueError(f"a program is called something.mgn, not {program.name}")
    file = read_gguf(path)
    if sizes:
        raise file.fault(f"it leaves no size open that could be `{min(sizes)}`")
    llama, found = read_model(file)
    source = Source(str(program), _text(file, llama, program))
    order = _proved(file, source, program, found)
    levels = {name: each.levels for name, each in found.items() if each.levels is not None}
    weights = program.with_suffix(".safetensors")
    values = {name: found[name].values for name in order}
    write_quantized(weights, values, levels, {"format": "pt"})
    write_text(program, source.text)
    return Imported(
        program, weights, float("nan"), {}, trained=order, packed=[*levels],
        unpacked=[each for each in order if each not in levels and found[each].has_blocks],
    )  # fmt: skip


def read_model(file: GgufFile) -> tuple[Llama, dict[str, Read]]:
    """The model of a file, and the values of each parameter; raises `ProblemError`."""
    llama = llama_of(file)
    _require_memory(file)
    values = {
        parameter: _values(file, file.tensors[name], llama.permuted_heads(name))
        for name, parameter in llama.names().items()
    }
    return llama, values


def _text(file: GgufFile, llama: Llama, program: Path) -> str:
    origin = " ".join(file.path.name.split())
    return llama.text(origin, identifier(program.stem.lower(), "model_of_gguf"))


def _require_memory(file: GgufFile) -> None:
    need = F32 * sum(prod(each.shape) for each in file.tensors.values())
    available = available_bytes()
    if available is not None and need > available:
        said = f"its weights take {need >> 20:,} MiB as f32, of which {available >> 20:,} are free"
        raise file.fault(said)


def _proved(file: GgufFile, source: Source, program: Path, values: Mapping[str, Read]) -> list[str]:
    """The parameters of a program, which is proved and has the values."""
    found = pipeline.check(source, pipeline.loader_beside(program))
    if not found.fine:
        said, line = refused(found)
        raise file.fault(f"its program is not proved: {said}{f', in `{line}`' if line else ''}")
    parameters = pipeline.elaborate_model(found.program).parameters
    shapes = {each.name: each.type.shape for each in parameters}
    assert shapes == {name: each.values.shape for name, each in values.items()}
    return [*shapes]


def _values(file: GgufFile, tensor: GgufTensor, heads: int) -> Read:
    """The numbers of a tensor, those of `heads` in the order in which halves are turned."""
    kind, rows = tensor.kind, tensor.shape[0]
    values, given = kind.unpack(file.blocks(tensor))
    if given is not None:
        with np.errstate(invalid="ignore"):
            values = values.reshape(*given.shape, -1) * given[..., None]
        given = given.reshape(rows, -1) if len(tensor.shape) > 1 else None
    values = values.reshape(tensor.shape)
    if not np.isfinite(values).all():
        raise file.fault(f"`{tensor.name}` holds what is no finite number")
    if heads:
        order = np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)
        values, given = values[order], None if given is None else given[order]
    if given is None:
        return Read(values, None, kind.numbers > 1)
    group = values.shape[-1] // given.shape[1]
    levels = Quantization(kind.bits, group, np.ascontiguousarray(given))
    return Read(values, levels, has_blocks=True)
