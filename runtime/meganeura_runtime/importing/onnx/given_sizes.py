"""The sizes of a file that have to be given, if it cannot be translated with all of them open."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.onnx.graph_inputs import open_names
from meganeura_runtime.importing.onnx.import_problems import NoForm
from meganeura_runtime.importing.onnx.onnx_file import OnnxFile
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.importing.onnx.translation import WORK, Translation, translate

NUMBERS = (64, 224, 16)
"""The sizes that are tried, one for all of them."""
MOST_TRIED = 8
"""Open names of a file that are tried each by itself."""
PART = 20
"""The fraction, as a divisor, of a translation's work that each of these takes."""


def translated(file: OnnxFile, sizes: Mapping[str, int], stated: Stated | None) -> Translation:
    """The statements of a model; raises `ProblemError`, with the sizes that would help."""
    try:
        return translate(file, sizes, stated)
    except ProblemError as error:
        if not isinstance(error.problem, NoForm):
            raise
        names = sorted(open_names(file.model.graph.input) - {*sizes})
        helping = _helping(file, sizes, stated, names)
        raise ProblemError(replace(error.problem, sizes=tuple(helping))) from None


def _helping(
    file: OnnxFile, sizes: Mapping[str, int], stated: Stated | None, names: Sequence[str]
) -> Sequence[str]:
    """The fewest names that are found to help: one, or all but those that are not needed."""

    def is_enough(given: Sequence[str], number: int) -> bool:
        try:
            translate(file, {**sizes, **dict.fromkeys(given, number)}, stated, WORK // PART)
        except ProblemError:
            return False
        return True

    number = next((each for each in NUMBERS if names and is_enough(names, each)), None)
    if number is None or len(names) > MOST_TRIED:
        return () if number is None else names
    for each in names:
        if is_enough([each], number):
            return [each]
    kept = list(names)
    for each in names:
        fewer = [name for name in kept if name != each]
        kept = fewer if is_enough(fewer, number) else kept
    return kept
