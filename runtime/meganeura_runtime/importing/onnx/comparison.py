"""Comparison of a program's results with those of ONNX Runtime for the file."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import prod

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, example_sizes
from meganeura_dsl.symbolic.conditions import Compare, holds
from meganeura_dsl.symbolic.size import dim, evaluate
from meganeura_runtime.export.onnx.comparison import Levels
from meganeura_runtime.export.onnx.differences import (
    ALLOWED,
    ROUNDED,
    allowed,
    distance,
    first_line,
    rounding,
    untold,
)
from meganeura_runtime.export.reference_run import exact_run, random_inputs, reference_run
from meganeura_runtime.importing.onnx.code import Scanned, Statement
from meganeura_runtime.importing.onnx.import_problems import ImportDiffers
from meganeura_runtime.importing.onnx.onnx_file import NUMBERS, OnnxFile
from meganeura_runtime.importing.onnx.onnx_process import ONNX_PROCESS, OnnxFailedError
from meganeura_runtime.importing.onnx.proved import Proved
from meganeura_runtime.importing.onnx.translation import Translation

SUMS = frozenset({
    "ConvInteger", "DynamicQuantizeLSTM", "MatMulInteger", "QLinearConv", "QLinearMatMul",
})  # fmt: skip
"""Ops that sum products of levels."""
LARGEST_VALUE = 1 << 28
"""Elements of a value that is computed to compare."""
MOST_NUMBERS = 1 << 34
"""Elements of all values, those of each iteration of a loop included."""
MOST_STEPS = 1 << 20
"""Statements that are run, those of each iteration of a loop included."""
MOST_ARITHMETIC = 1 << 40
"""Additions and multiplications."""
ALLOWED_ROUNDED = 2e-2
"""The largest difference of an output of f16, or of a model that rounds to levels of a few bits.

In units of the largest element or of 1. A level is 8e-3 of 127 of them.
"""


@dataclass(frozen=True)
class Comparison:
    """The difference of a program from its file, on random inputs."""

    difference: float
    """The largest difference of an output, NaN if no output can be compared."""
    sizes: Mapping[str, int]
    untold: Mapping[str, str]
    """The outputs that tell nothing, and what they are: one number everywhere, or NaN."""


def compared(file: OnnxFile, translation: Translation, proved: Proved) -> Comparison:
    """The largest difference of an output on random inputs.

    Where an output is one number or NaN, other inputs are tried, and so where a model of levels
    magnifies roundings until they are most of a result. Raises `ProblemError` if the difference is
    too large, or where the program cannot be run on them.
    """
    stored = {name: each.values for name, each in translation.build.stored.items()}
    sizes, graph, inputs, found = _at_some_sizes(file, translation, proved, stored)
    runs: list[Mapping[str, Array]] = []
    largest, magnified = 0.0, None
    for change in CHANGES:
        if change is not None:
            inputs = _changed(inputs, *change)
            found = reference_run(graph, stored, inputs)
        try:
            difference = _difference(file, translation, graph, stored, inputs, found)
        except _MagnifiedError as error:
            magnified = magnified or error.problem
            continue
        runs.append(found)
        largest = max(largest, difference)
        if not untold(runs):
            break
    if magnified is not None and not runs:
        raise ProblemError(magnified)
    silent = untold(runs)
    names = dict(zip(found, (name for name, _ in translation.outputs), strict=True))
    said = {names[own]: text for own, text in silent.items()}
    return Comparison(float("nan") if len(said) == len(found) else largest, sizes, said)


CHANGES = (None, (0.5, 0.0), (0.01, 0.0), (10.0, 0.0), (10.0, -5.0))
"""Factors of the last random floats, and what is added; the last are as logarithms of spectra."""


class _MagnifiedError(Exception):
    """An output differs, and as much from the one in double precision, on some inputs."""

    def __init__(self, problem: ImportDiffers) -> None:
        super().__init__()
        self.problem = problem


def _changed(inputs: Mapping[str, Array], factor: float, shift: float) -> dict[str, Array]:
    """Other inputs: floats of another size and one sign; what is whole comes in another order."""
    return {
        name: np.abs(each * each.dtype.type(factor)) + each.dtype.type(shift)
        if each.dtype.kind == "f"
        else each[::-1].copy()
        if each.ndim and name != COUNTER
        else each
        for name, each in inputs.items()
    }


def _difference(
    file: OnnxFile, translation: Translation, graph: Graph, stored: Mapping[str, Array],
    inputs: Mapping[str, Array], found: Mapping[str, Array],
) -> float:  # fmt: skip
    fed = {own: inputs[own if own in inputs else f"_{own}"] for _, own, _ in translation.inputs}
    if translation.draws:  # also what no output needs, which the program has not
        fed[COUNTER] = inputs.get(COUNTER, np.zeros(2, np.uint32))
    wanted = _by_runtime(file, translation, fed)
    exact = cache(partial(exact_run, graph, stored, inputs))
    is_of_levels = bool(translation.build.floats) or translation.build.rounds
    largest = 0.0
    results = zip(translation.outputs, found.items(), wanted, strict=True)
    for (name, value), (own, given), expected in results:
        if given.shape != expected.shape:
            shapes = f"{list(given.shape)}, not {list(expected.shape)}"
            raise ProblemError(ImportDiffers(file.shown, f"`{name}` has the shape {shapes}"))
        difference = distance(given, expected)
        is_rounded = value.dtype is DType.F16 or is_of_levels
        least = ALLOWED_ROUNDED if is_rounded else ALLOWED
        most = allowed(difference, own, found, exact, least)
        if not difference <= most:
            reason = f"`{name}` differs by {difference:.3g}, and {most:.3g} is allowed"
            problem = ImportDiffers(file.shown, reason)
            if is_of_levels and rounding(own, found, exact) > ROUNDED:
                raise _MagnifiedError(problem)
            raise ProblemError(problem)
        largest = max(largest, difference)
    return largest


def _at_some_sizes(
    file: OnnxFile, translation: Translation, proved: Proved, stored: Mapping[str, Array]
) -> tuple[Mapping[str, int], Graph, Mapping[str, Array], Mapping[str, Array]]:
    """Sizes at which the program can be run, its graph there, random inputs and the outputs."""
    refused: ProblemError | None = None
    for sizes in _tried_sizes(translation):
        try:
            graph = pipeline.elaborate_model(proved.program, sizes=sizes).graph
            _require_bounded(file, translation, sizes, graph)
            return sizes, graph, *_by_reference(file, graph, stored, len(sizes))
        except ProblemError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def _by_reference(
    file: OnnxFile, graph: Graph, stored: Mapping[str, Array], seed: int
) -> tuple[dict[str, Array], Mapping[str, Array]]:
    """Random inputs, and the outputs; where indices of 0 and 1 are too many, all of them are 0."""
    reason = ""
    for rows in (2, 1):
        try:
            inputs = random_inputs(graph, seed, rows)
            return inputs, reference_run(graph, stored, inputs)
        except MemoryError:
            reason = "there is too little memory to run it"
            break
        except OutsideError as error:
            reason = first_line(error)
        except ProblemError as error:  # of an index that is checked
            reason = error.problem.report().headline
    raise ProblemError(ImportDiffers(file.shown, f"it was not compared: {reason}"))


def _require_bounded(
    file: OnnxFile, translation: Translation, sizes: Mapping[str, int], graph: Graph
) -> None:
    """Raise `ProblemError` for values that are too large to try it.

    ONNX Runtime computes those too that no output needs, which the program has not.
    """
    work = _work(translation.build.statements, sizes)
    shapes = (
        [size for size in value.type.shape if isinstance(size, int)] for value in graph.values
    )
    arithmetic = sum(
        value.op.flops([each.type for each in value.operands], value.type)
        for value in graph.values
        if value.operands and not value.index
    )
    for found, most, what in (
        (max(map(prod, shapes), default=0), LARGEST_VALUE, "computes {:,} numbers at once"),
        (work.largest, LARGEST_VALUE, "computes {:,} numbers at once"),
        (work.steps, MOST_STEPS, "takes {:,} steps with all iterations of its loops"),
        (work.numbers, MOST_NUMBERS, "computes {:,} numbers with all iterations of its loops"),
        (arithmetic, MOST_ARITHMETIC, "takes {:,} additions and multiplications"),
    ):
        if found > most:
            reason = f"it was not compared: it {what.format(found)}, at most {most:,} are tried"
            raise ProblemError(ImportDiffers(file.shown, reason))


@dataclass(frozen=True)
class _Work:
    """The work of running statements once."""

    steps: int = 0
    """Statements, as often as they are run."""
    numbers: int = 0
    """Elements of all results."""
    largest: int = 0
    """Elements of the largest result."""


def _work(statements: Iterable[Statement], sizes: Mapping[str, int]) -> _Work:
    """The work of statements, of which a loop is done as often as it has iterations."""
    steps = numbers = largest = 0
    for each in statements:
        counts = [prod(evaluate(size, sizes) for size in one.shape) for one in each.results]
        steps, numbers, largest = steps + 1, numbers + sum(counts), max(largest, *counts)
        if isinstance(each.code, Scanned):
            iterations, inner = evaluate(each.code.iterations, sizes), _work(each.code.body, sizes)
            steps += iterations * (1 + inner.steps)
            numbers += iterations * inner.numbers
            largest = max(largest, inner.largest)
    return _Work(steps, numbers, largest)


def _tried_sizes(translation: Translation) -> Iterator[Mapping[str, int]]:
    """Sizes, the largest first: a table of positions may have fewer rows than any file says."""
    sizes = _sizes(translation)
    yield sizes
    while max(sizes.values(), default=1) > 1:
        sizes = {name: max(1, size // 2) for name, size in sizes.items()}
        if all(holds(each, sizes) for each in translation.build.stated):
            yield sizes


def _sizes(translation: Translation) -> dict[str, int]:
    """Sizes that satisfy all that the program states of them."""
    facts = translation.build.facts
    sizes = example_sizes(value.type for _, _, value in translation.inputs)
    for tried in (sizes, {name: max(2, size) for name, size in sizes.items()}):
        if all(holds(each, tried) for each in translation.build.stated):
            return tried
    for name in sizes:
        found = facts.example(Compare(">=", dim(name), 1)) or {}
        sizes |= {each: int(found[each]) for each in found if each in sizes}
    return sizes


def _levels(file: OnnxFile, translation: Translation) -> Levels:
    """The levels of the model; ops of the graph alone are looked for."""
    if any(each.op_type in SUMS for each in file.model.graph.node):
        return Levels.SUMS
    return Levels.PAIRS if translation.build.floats else Levels.NONE


def _by_runtime(file: OnnxFile, translation: Translation, fed: Mapping[str, Array]) -> list[Array]:
    types = {each.name: NUMBERS[each.type.tensor_type.elem_type] for each in file.model.graph.input}
    feeds = {name: fed[own].astype(types[name]) for name, own, _ in translation.inputs}
    if translation.draws:
        feeds[COUNTER] = fed[COUNTER]
    feeds |= {name: value.array.astype(types[name]) for name, value in translation.given.items()}
    names = [name for name, _ in translation.outputs]
    try:
        return ONNX_PROCESS.run(file.path, feeds, names, _levels(file, translation))
    except OnnxFailedError as error:
        reason = f"ONNX Runtime refuses it: {error}"
        raise ProblemError(ImportDiffers(file.shown, reason)) from None
