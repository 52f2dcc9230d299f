"""A program of `torch.export` read as a program, by way of ONNX, which PyTorch writes itself."""

import logging
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.importing.torch_translations import translations
from meganeura_runtime.support.optional_imports import load

OPSET = 20
TRACKED = "num_batches_tracked"
EXPORTER = "torch.onnx._internal.exporter"
"""The logger that says which converters of other packages are missing."""


def import_torch(
    exported: Any,  # noqa: ANN401 - a class of an extra
    program: Path,
    sizes: Mapping[str, int] | None = None,
) -> Imported:
    """Write what `torch.export.export` gave as a program, with its weights beside it.

    It is written as ONNX unoptimized, so that layers and names are those of the module, and read as
    `import_onnx` reads it. Raises what that raises, `ProblemError` also for an op that PyTorch has
    no ONNX for or where the extra `torch` is missing, and `TypeError` for anything but an exported
    program.
    """
    torch = load_torch()
    if not isinstance(exported, torch.export.ExportedProgram):
        raise TypeError(f"a program of torch.export is read, not {type(exported).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{program.stem}.onnx"
        stated = replace(write_onnx(torch, exported, path), origin=Path(path.name))
        return import_onnx(path, program, sizes, stated)


def load_torch() -> ModuleType:
    """PyTorch, with what its exporter needs; raises `ProblemError` where it is not installed."""
    load("onnxscript", "torch", "read programs of torch.export")
    return load("torch", "torch", "read programs of torch.export")


def write_onnx(torch: ModuleType, exported: Any, path: Path) -> Stated:  # noqa: ANN401 - a class of an extra
    """Write an exported program as ONNX, and return facts of it that the file does not hold.

    Raises `ProblemError` for an op that PyTorch has no ONNX for.
    """
    with _quiet():
        _write(torch, exported, path)
    return _stated(torch, exported)


def _stated(torch: ModuleType, exported: Any) -> Stated:  # noqa: ANN401 - a class of an extra
    """Returns the trained parameters, by the signature and `requires_grad`.

    Counters; names of sizes.
    """
    values: Mapping[str, Any] = exported.state_dict
    parameters: Sequence[str] = exported.graph_signature.parameters
    trained = frozenset(each for each in parameters if values[each].requires_grad)
    tracked = {name: int(value.item()) for name, value in values.items() if name.endswith(TRACKED)}
    return Stated(trained, tracked, _size_names(torch, exported))


def _size_names(torch: ModuleType, exported: Any) -> dict[str, str]:  # noqa: ANN401 - as above
    """Returns `torch.export.Dim`'s names of sizes, as far as the program still has them."""
    found: dict[str, str] = {}
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        mode = getattr(value, "fake_mode", None)
        if node.op != "placeholder" or not isinstance(value, torch.Tensor) or mode is None:
            continue
        called: Mapping[str, str] = getattr(mode.shape_env, "source_name_to_debug_name", {})
        sources: Mapping[Any, Sequence[Any]] = getattr(mode.shape_env, "var_to_sources", {})
        for symbol, places in sources.items():
            names = [called[name] for each in places if (name := _name_of(each)) in called]
            found.update({str(symbol): names[0]} if names else {})
    return found


def _name_of(source: Any) -> str:  # noqa: ANN401 - as above
    """The name of what a size is of, which is a method in some versions of PyTorch."""
    return str(source.name() if callable(source.name) else source.name)


def _write(torch: ModuleType, exported: object, path: Path) -> None:
    try:
        written = torch.onnx.export(
            exported, (), dynamo=True, opset_version=OPSET, optimize=False, verbose=False,
            custom_translation_table=translations(torch),
        )  # fmt: skip
        _drop_zero_biases(written.model)
        _widen_indices(written.model)
        _name_tied(written.model, exported)
        written.save(str(path), external_data=False)
    except torch.onnx.errors.OnnxExporterError as error:
        lines = [each.strip() for each in str(error.__cause__ or error).splitlines()]
        said = next((each for each in lines if each), type(error).__name__)
        reason = f"PyTorch does not write it: {said[:300]}"
        raise ProblemError(UnreadableOnnx(Path(path.name), reason)) from None


def _name_tied(model: Any, exported: Any) -> None:  # noqa: ANN401 - as above
    """Give an initializer that several names of the module mean the first of them."""
    first: dict[object, str] = {}
    for name, value in exported.state_dict.items():
        if value.numel() > 1:
            first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
    known = model.graph.initializers
    for name in list(known):
        value = exported.state_dict.get(name)
        if value is None or value.numel() < 2:
            continue
        called = first[value.data_ptr(), value.shape, value.stride()]
        if called not in known:
            known[name].name = called


def _drop_zero_biases(model: Any) -> None:  # noqa: ANN401 - as above
    """Take the bias from convolutions that have none, for which PyTorch writes an `Expand` of 0.

    Of some it has a second axis, with which it is no bias.
    """
    for node in model.graph:
        if node.op_type != "Conv" or len(node.inputs) < len(("x", "weight", "bias")):
            continue
        source = node.inputs[2]
        for op in ("Expand", "CastLike", "Constant"):
            made = None if source is None else source.producer()
            if made is None or made.op_type != op:
                break
            if op == "Constant" and not made.attributes["value"].as_tensor().numpy().any():
                node.replace_input_with(2, None)
            source = made.inputs[0] if made.inputs else None


def _widen_indices(model: Any) -> None:  # noqa: ANN401 - as above
    """Make 64-bit integers of the indices of places, of which PyTorch writes those of 32 bits."""
    ir = load("onnx_ir", "torch", "read programs of torch.export")
    for node in list(model.graph):
        if (
            node.op_type in ("GatherND", "ScatterND")
            and node.inputs[1].dtype is not ir.DataType.INT64
        ):
            cast = ir.node("Cast", [node.inputs[1]], {"to": ir.DataType.INT64})
            model.graph.insert_before(node, cast)
            node.replace_input_with(1, cast.outputs[0])


@contextmanager
def _quiet() -> Generator[None]:
    """Hides PyTorch's warnings about itself."""
    logger = logging.getLogger(EXPORTER)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
