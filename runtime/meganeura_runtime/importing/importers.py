"""Importers of other packages: files of a suffix that become programs.

An importer reads a file; what it gives is checked here as an ONNX model is. The program is proved,
the weights have to fit it, and the examples of the importer are computed and compared.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import isabstract
from pathlib import Path
from re import compile as pattern
from typing import ClassVar, cast

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.plugins.plugin_groups import PluginGroup, blamed, plugin_behind
from meganeura_dsl.plugins.plugin_problems import PluginError, UnfitPluginError
from meganeura_runtime.export.onnx.differences import ALLOWED, distance
from meganeura_runtime.export.reference_run import reference_run
from meganeura_runtime.importing.gguf.importing import import_gguf
from meganeura_runtime.importing.onnx.import_problems import UnreadableOnnx
from meganeura_runtime.importing.onnx.importing import Imported, import_onnx
from meganeura_runtime.importing.refused_program import refused
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.files.atomic_write import write_text
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.stored_tensor import NUMPY
from meganeura_runtime.io.weights import write_weights

ONNX, GGUF = "onnx", "gguf"


@dataclass(frozen=True, eq=False)
class ExampleRun:
    """Inputs of a model and the outputs it gives, all by their names in the program."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class ReadModel:
    """A file as an importer read it."""

    program: str
    """The text of a program with one model."""
    weights: Mapping[str, Array]
    """The values of its parameters, by their names."""
    examples: Sequence[ExampleRun] = ()
    """Outputs that the program which wrote the file computes; without any nothing is compared."""


class Importer(ABC):
    """Reads files of one suffix."""

    suffix: ClassVar[str]
    """The end of their names without the dot, in lower case; so is its entry point called."""

    @abstractmethod
    def read(self, path: Path, sizes: Mapping[str, int]) -> ReadModel:
        """Returns what a file is as a program.

        `sizes` are those that `--set` gives. Raises `ValueError` for a file that it cannot read,
        and for a size that the model does not have.
        """


def _checked(name: str, loaded: object) -> Importer:
    if not isinstance(loaded, type) or not issubclass(loaded, Importer):
        raise UnfitPluginError("is no class that derives from `Importer`")
    if getattr(loaded, "suffix", None) != name:
        raise UnfitPluginError(f"has another `suffix` than its entry point, which is `{name}`")
    if isabstract(loaded):
        raise UnfitPluginError("has no `read`")
    return loaded()


PLUGINS = PluginGroup("importer", "importers", (ONNX, GGUF), _checked, pattern(r"[a-z0-9_]+"))
"""The importers of other packages, by suffix."""


def import_model(path: Path, program: Path, sizes: Mapping[str, int] | None = None) -> Imported:
    """Read a model and write it as a program, with its weights beside it.

    The importer is that of the suffix; without one the file is read as ONNX. Raises what
    `import_onnx` and `import_gguf` raise, and `PluginError` for an importer that cannot be used and
    for what it returns, if that is not proved, has other weights than its program or gives other
    outputs.
    """
    suffix = path.suffix.removeprefix(".").lower()
    if suffix == GGUF:
        return import_gguf(path, program, sizes)
    importer = None if suffix == ONNX else PLUGINS.find(suffix)
    if importer is None:
        return _as_onnx(path, program, sizes, suffix)
    if program.suffix != ".mgn":
        raise ValueError(f"a program is called something.mgn, not {program.name}")
    if not path.exists():
        raise ProblemError(NoSuchFile(path))
    with blamed(importer, f"when it read `{path.name}`", passing=ValueError):
        try:
            model = _require_model(importer.read(path, sizes or {}))
        except ValueError as error:
            raise ProblemError(UnreadableFile(path, str(error))) from error
        except OSError as error:
            if str(error.filename) != str(path):
                raise
            raise ProblemError(UnreadableFile(path, error.strerror or str(error))) from error
    return _Import(importer, path, program, model).written()


def _as_onnx(path: Path, program: Path, sizes: Mapping[str, int] | None, suffix: str) -> Imported:
    """Returns a file read as ONNX; of another suffix the message names those that are read."""
    try:
        return import_onnx(path, program, sizes)
    except ProblemError as error:
        problem = error.problem
        if suffix == ONNX or not isinstance(problem, UnreadableOnnx):
            raise
        known = ", ".join(f".{each}" for each in (ONNX, GGUF, *PLUGINS.names()))
        reason = f"{problem.reason}; the suffixes that are read are {known}"
        raise ProblemError(UnreadableOnnx(path, reason)) from None


def _require_model(model: object) -> ReadModel:
    """Returns what an importer gave; raises `TypeError` if that is no model."""
    if not isinstance(model, ReadModel):
        raise TypeError(f"`read` returned {type(model).__name__}, not ReadModel")
    if not isinstance(cast("object", model.program), str):
        raise TypeError(f"the program is of type {type(model.program).__name__}, not a text")
    arrays: list[tuple[str, object]] = [*model.weights.items()]
    for each in model.examples:
        if not each.outputs:
            raise TypeError("an example has no outputs")
        arrays += [*each.inputs.items(), *each.outputs.items()]
    for name, array in arrays:
        if not isinstance(array, np.ndarray):
            raise TypeError(f"`{name}` is of type {type(array).__name__}, not a NumPy array")
        dtype = cast("Array", array).dtype
        if not np.can_cast(dtype, np.float64, "same_kind"):
            raise TypeError(f"`{name}` is an array of {dtype}, which are no numbers")
    return model


@dataclass(frozen=True, eq=False)
class _Import:
    """A model that an importer read, on its way to a program."""

    importer: Importer
    path: Path
    """The file it is from."""
    target: Path
    """The program that is written."""
    model: ReadModel

    def written(self) -> Imported:
        """Returns the program after it was proved, compared and written; raises `PluginError`."""
        program = self._proved()
        if len(program.models) != 1:
            raise self._failure(f"has {len(program.models)} models, not one")
        parameters = pipeline.elaborate_model(program).parameters
        values = {each.name: self._value(each) for each in parameters}
        unknown = set(self.model.weights) - set(values)
        if unknown:
            raise self._failure(f"has no parameter `{min(unknown)}`, of which it gave values")
        differences, sizes = self._compared(program, values)
        weights = self.target.with_suffix(".safetensors")
        write_weights(weights, parameters, values, {})
        write_text(self.target, program.source.text)
        trained = [each.name for each in parameters if each.kind == "param"]
        constants = [each.name for each in parameters if each.kind == "frozen"]
        return Imported(
            self.target,
            weights,
            max(differences, default=float("nan")),
            sizes,
            trained=trained,
            constants=constants,
            outputs=len(differences),
        )

    def _failure(self, reason: str) -> PluginError:
        plugin = plugin_behind(self.importer)
        assert plugin is not None
        return plugin.failure(f"the program that it made of `{self.path.name}` {reason}")

    def _proved(self) -> pipeline.Program:
        source = Source(str(self.target), self.model.program)
        found = pipeline.check(source, pipeline.loader_beside(self.target))
        if not found.fine:
            said, line = refused(found)
            raise self._failure(f"is not proved: {said}{f', in `{line}`' if line else ''}")
        return found.program

    def _value(self, parameter: ParameterInfo) -> Array:
        """Returns the value of a parameter in its type."""
        name, wanted = parameter.name, parameter.type
        value = self.model.weights.get(name)
        if value is None:
            raise self._failure(f"has the parameter `{name}`, of which it gave no values")
        dtype = NUMPY[wanted.dtype]
        if value.shape != wanted.shape or not np.can_cast(value.dtype, dtype, "same_kind"):
            given = f"{value.dtype}{list(value.shape)}"
            raise self._failure(f"has `{name}` as {wanted}, of which it gave {given}")
        with np.errstate(over="ignore"):
            found = value.astype(dtype)
        is_float = dtype.kind == "f"
        fits = np.isfinite(found) == np.isfinite(value) if is_float else found == value
        if not fits.all():
            raise self._failure(f"has `{name}` as {wanted}, in which its values do not fit")
        return found

    def _compared(
        self, program: pipeline.Program, values: Mapping[str, Array]
    ) -> tuple[list[float], Mapping[str, int]]:
        """Returns how far each output of each example is away, and the sizes of the last."""
        differences: list[float] = []
        sizes: Mapping[str, int] = {}
        declared = pipeline.elaborate_model(program).inputs
        for example in self.model.examples:
            shapes = {name: each.shape for name, each in example.inputs.items()}
            try:
                sizes = bind_sizes(declared, shapes)
                graph = pipeline.elaborate_model(program, sizes=sizes).graph
                found = reference_run(graph, values, example.inputs)
            except ProblemError as error:
                raise self._failure(f"does not take its example: {error.summary}") from None
            except FeedError as error:
                raise self._failure(f"does not take its example: {error}") from None
            for name, wanted in example.outputs.items():
                given = found.get(name)
                if given is None or given.shape != wanted.shape:
                    shape = "no such output" if given is None else f"the shape {list(given.shape)}"
                    raise self._failure(f"has {shape} for `{name}` of its example")
                differences.append(difference := distance(given, wanted))
                if not difference <= ALLOWED:
                    reason = f"differs by {difference:.3g} from its example in `{name}`"
                    raise self._failure(f"{reason}, and {ALLOWED:g} is allowed")
        return differences, sizes
