"""The program of an ONNX model, with as much structure as is proved."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_runtime.importing.onnx.import_problems import NotProved
from meganeura_runtime.importing.onnx.onnx_file import OnnxFile
from meganeura_runtime.importing.onnx.program_text import ProgramText, names_of
from meganeura_runtime.importing.onnx.size_text import UnnamedSizeError
from meganeura_runtime.importing.onnx.structure import folded_loops, straight
from meganeura_runtime.importing.onnx.translation import Translation
from meganeura_runtime.importing.refused_program import refused


@dataclass(frozen=True)
class Proved:
    """A program that is proved."""

    source: Source
    program: pipeline.Program
    parameters: tuple[ParameterInfo, ...]


def prove(file: OnnxFile, translation: Translation, path: Path) -> Proved:
    """The first of the forms of a program that is proved, the shortest first.

    Raises `ProblemError` with what is wrong with the plainest.
    """
    loader = pipeline.loader_beside(path)
    found: pipeline.CheckResult | None = None
    for text in _forms(file, translation, path):
        source = Source(str(path), text)
        found = pipeline.check(source, loader)
        if found.fine:
            parameters = pipeline.elaborate_model(found.program).parameters
            _require_values(file, translation, parameters)
            return Proved(source, found.program, parameters)
    assert found is not None
    raise ProblemError(NotProved(file.shown, *refused(found)))


def _require_values(
    file: OnnxFile, translation: Translation, parameters: tuple[ParameterInfo, ...]
) -> None:
    """Raise `ProblemError` for a parameter of another type than its values in the file."""
    for each in parameters:
        found = translation.build.stored[each.name].type
        if found != each.type:
            said = f"`{each.name}` is {each.type} in the program and {found} in the file"
            raise ProblemError(NotProved(file.shown, said, ""))


def _forms(file: OnnxFile, translation: Translation, path: Path) -> Iterator[str]:
    """The program with loops, with loops whose blocks state facts, and as one straight block."""
    plain = straight(translation.build.statements, [each.id for _, each in translation.outputs])
    loops = folded_loops(plain, [value for _, _, value in translation.inputs])
    origin = f"From {file.shown.name.splitlines()[0]}."
    names = names_of(path)
    if loops is not plain:
        for with_facts in (False, True):
            try:
                yield ProgramText(translation, loops, names, origin, with_facts).text()
            except UnnamedSizeError:
                break
    yield ProgramText(translation, plain, names, origin).text()
