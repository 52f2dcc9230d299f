"""A model written as an ONNX file, after it was compared with the model itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from typing import Protocol

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops import Constant, Parameter, Scan
from meganeura_dsl.ir.types import example_sizes
from meganeura_dsl.symbolic.assumptions import Proved, Refuted
from meganeura_dsl.symbolic.conditions import Compare, show_condition
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.export.cache_problems import require_no_caches
from meganeura_runtime.export.onnx.examples import Example
from meganeura_runtime.export.onnx.onnx_problems import NoOnnxForm
from meganeura_runtime.export.onnx.options import OnnxOptions
from meganeura_runtime.export.onnx.patterns import kept_shares
from meganeura_runtime.export.reference_run import exact_run, random_inputs, reference_run
from meganeura_runtime.support.optional_imports import load


class Elaborate(Protocol):
    """Elaborates a model."""

    def __call__(self, sizes: Mapping[str, int], *, training: bool = False) -> Elaboration:
        """The graph for some sizes, in evaluation or in training; the others stay symbols."""
        ...


@dataclass(frozen=True)
class Exported:
    """The result of an export: the file that was written, and how it was compared."""

    nodes: int
    difference: float
    """The largest difference of an output, in units of its largest element or of 1."""
    sizes: tuple[Mapping[str, int], ...]
    """The open sizes that were compared."""


def export_onnx(
    name: str,
    elaborate: Elaborate,
    values: Mapping[str, Array],
    path: Path,
    options: OnnxOptions,
) -> Exported:
    """Write a model with these parameters and states as ONNX.

    Raises `ProblemError` for what ONNX cannot say, and if ONNX Runtime does not give what the model
    gives on random inputs; nothing is written then. Also where the extra `onnx` is not installed.
    """
    for module in ("onnx", "onnxruntime"):
        load(module, "onnx", "write ONNX files")
    from meganeura_runtime.export.onnx.model import onnx_model
    from meganeura_runtime.export.onnx.write import write

    symbolic = elaborate({})
    require_no_caches(symbolic.graph, "ONNX")
    _require_iterations(symbolic)
    _require_numbers(symbolic)
    model = onnx_model(name, symbolic.graph, values, options, _kept(elaborate, symbolic.graph))
    examples = [_example(graph, values, sizes) for sizes, graph in _graphs(elaborate, symbolic)]
    difference = write(model, path, examples)
    return Exported(len(model.graph.node), difference, tuple(each.sizes for each in examples))


def _require_iterations(symbolic: Elaboration) -> None:
    """Refuse a scan that has no iteration for some sizes: a process of ONNX Runtime ends there."""
    for value in symbolic.graph.values:
        if not isinstance(value.op, Scan):
            continue
        some = Compare(">=", value.op.iterations, 1)
        verdict = symbolic.facts.decide(some)
        if isinstance(verdict, Proved):
            continue
        sizes = verdict.example if isinstance(verdict, Refuted) else {}
        example = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        reason = f"there is no iteration{f' where {example}' if example else ''}"
        cure = f"nothing was written: state `{show_condition(some)}`, or give the sizes: --set ..."
        problem = NoOnnxForm("scan", reason, value.origin.span, value.origin.path, cure)
        raise ProblemError(problem)


def _require_numbers(symbolic: Elaboration) -> None:
    """Refuse a real number that follows from an open size, such as `6.25 / s`: it is not known."""
    for value in symbolic.graph.values:
        op = value.op
        if isinstance(op, Constant) and isinstance(op.value, float) and isnan(op.value):
            reason = "it follows from a size that is open"
            cure = "nothing was written: compute it from tensors, or give the sizes: --set ..."
            origin = value.origin
            raise ProblemError(NoOnnxForm("number", reason, origin.span, origin.path, cure))


def _graphs(
    elaborate: Elaborate, symbolic: Elaboration
) -> Sequence[tuple[Mapping[str, int], Graph]]:
    """Returns the model at some sizes and at twice those, or at one size if it takes no two.

    Raises `ProblemError` if none is.
    """
    alone, refused = None, None
    for sizes in _tried_sizes(symbolic):
        if not sizes:
            return [(sizes, symbolic.graph)]
        doubled = {name: 2 * size for name, size in sizes.items()}
        try:
            first = sizes, elaborate(sizes).graph
            alone = alone or first
            return [first, (doubled, elaborate(doubled).graph)]
        except ProblemError as error:
            refused = refused or error
    if alone is None:
        assert refused is not None
        raise refused
    return [alone]


def _tried_sizes(symbolic: Elaboration) -> Iterator[Mapping[str, int]]:
    """Sizes of examples, the largest first, then the smallest that the model's `where` allows."""
    usual = sizes = example_sizes(symbolic.inputs.values())
    yield usual
    while max(sizes.values(), default=1) > 1:
        sizes = {name: max(1, size // 2) for name, size in sizes.items()}
        yield sizes
    for name in usual:
        found = symbolic.facts.example(Compare(">=", dim(name), 1)) or {}
        yield usual | {each: size for each, size in found.items() if each in usual}


def _kept(elaborate: Elaborate, graph: Graph) -> Mapping[str, float]:
    """Returns the share of each running statistic that a training step keeps."""
    leaves = (value.op for value in graph.values)
    if not any(isinstance(each, Parameter) and each.kind == "state" for each in leaves):
        return {}
    try:
        return kept_shares(elaborate({}, training=True).graph)
    except ProblemError:  # a model that cannot be trained has no momentum to say
        return {}


def _example(graph: Graph, values: Mapping[str, Array], sizes: Mapping[str, int]) -> Example:
    inputs = random_inputs(graph, len(sizes))
    outputs = reference_run(graph, values, inputs)
    return Example(sizes, inputs, outputs, partial(exact_run, graph, values, inputs))
