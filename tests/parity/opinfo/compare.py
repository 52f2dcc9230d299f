"""A sample of PyTorch in the language: values and gradients of both."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch

from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_dsl.ir.interpreter import Precision, Results, evaluate, storage_type
from meganeura_dsl.ir.ops.primitive.gather_scatter import OutsideError
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.egraph.optimize import optimize
from tests.beside import differentiated, weighted
from tests.parity.opinfo.saying import NotSaidError, Row, Said

RunGraph = Callable[[Graph, Mapping[str, Array]], Mapping[str, Array]]
SINGLE = 1e-4
"""Of the largest number of a tensor, beside 32 times the error of the reference in f32."""
ROUNDINGS = 32


@dataclass(frozen=True)
class Outcome:
    """The outcome of a sample."""

    kind: str
    """`agrees`, `not said`, `refused`, `wrong`, or for mistakes `told`, `accepted`."""
    reason: str = ""
    text: str = ""


def elaborated(said: Said) -> Graph:
    """The graph of a sample. Raises `ProblemError`."""
    sink = Sink()
    source = Source("sample.mgn", said.source())
    module = Linker(loader_beside(Path("sample.mgn")), sink).link(source)
    if sink.has_errors:
        raise RefusedError(sink.reports[0].code, sink.reports[0].headline)
    try:
        return elaborate_model(Program(module), training=said.training).graph
    except ProblemError as error:
        report = error.problem.report()
        raise RefusedError(report.code, report.headline) from None


class RefusedError(Exception):
    """A program was refused, with this code."""

    def __init__(self, code: str, headline: str) -> None:
        super().__init__(f"{code}: {headline}")
        self.code = code
        self.headline = headline


def outcome(row: Row, sample: Any, devices: Mapping[str, RunGraph] = {}) -> Outcome:  # noqa: ANN401 - of PyTorch's class; read only
    """Compare a sample with PyTorch."""
    try:
        said = row.say(sample)
        text = said.source()
    except NotSaidError as error:
        return Outcome("not said", str(error))
    has_none = any(0 in each.shape for each in (*said.fed.values(), *said.weights.values()))
    try:
        graph = elaborated(said)
    except RefusedError as error:
        if has_none or (error.code == "E0305" and _is_empty(_called(row, sample))):
            return Outcome("refused", "a size of 0")
        if error.code in row.refused:
            return Outcome("refused", row.refused[error.code])
        return Outcome("wrong", f"refused: {error}", text)
    right, feeds, plain = _theirs(row, sample, said, graph)
    try:
        wide = evaluate(plain, _typed(plain, feeds, Precision.DOUBLE), Precision.DOUBLE)
    except OutsideError:
        return Outcome("refused", "an index of the data that counts from the end")
    found = _by_name(wide)
    for name, expected in right.items():
        fault = _apart(found[name], expected, _close(row, expected))
        if fault:
            return Outcome("wrong", f"{name}: {fault}", text)
    if devices:
        fault = _on_devices(row, plain, feeds, right, devices)
        if fault:
            return Outcome("wrong", fault, text)
    return Outcome("agrees", text=text)


def _on_devices(
    row: Row,
    plain: Graph,
    feeds: Mapping[str, Array],
    right: Mapping[str, Array],
    devices: Mapping[str, RunGraph],
) -> str:
    """The first fault of the graph as it stands and optimized, or nothing."""
    with np.errstate(all="ignore"):
        rounded = _by_name(evaluate(plain, _typed(plain, feeds, Precision.SINGLE)))
    for form, made in (("", plain), (" optimized", optimize(plain, mode="train").graph)):
        wide = evaluate(made, _typed(made, feeds, Precision.DOUBLE), Precision.DOUBLE)
        for name, each in _by_name(wide).items():
            fault = _apart(each, right[name], _close(row, right[name])) if name in right else ""
            if fault:
                return f"cpu{form}, {name}: {fault}"
        fed = _typed(made, feeds, Precision.SINGLE)
        for device, run in devices.items():
            ran = {name.removeprefix("next."): each for name, each in run(made, fed).items()}
            for name, expected in right.items():
                fault = _far(ran[name], rounded[name], expected)
                if fault:
                    return f"{device}{form}, {name}: {fault}"
    return ""


def _far(found: Array, rounded: Array, expected: Array) -> str:
    """The fault of a result in single precision; overflows are the reference's in it."""
    with np.errstate(all="ignore"):
        own = _distance(rounded, expected)
    is_finite = np.isfinite(np.asarray(rounded, np.float64))
    if not np.array_equal(found[~is_finite], rounded[~is_finite], equal_nan=True):
        return f"{found[~is_finite][:4]} is not {rounded[~is_finite][:4]}"
    largest = np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)
    limit = SINGLE * float(largest) + ROUNDINGS * (0 if np.isnan(own) else own) + 1e-6
    apart = _distance(found[is_finite], np.asarray(expected)[is_finite])
    return "" if apart <= limit else f"off by {apart:.2g}, allowed {limit:.2g}"


def told(row: Row, mistake: Any) -> Outcome:  # noqa: ANN401 - of PyTorch's class
    """Returns the outcome here of a program that PyTorch refuses."""
    try:
        said = row.say(mistake.sample_input)
        text = said.source()
    except NotSaidError as error:
        return Outcome("not said", str(error))
    except (AttributeError, IndexError, TypeError, ValueError):
        # The row reads ranks, sizes and numbers of arguments that a mistake need not have.
        return Outcome("not said", "arguments of another form")
    given = (*said.fed.values(), *said.weights.values())
    if len({each.dtype for each in given if each.is_floating_point()}) > 1:
        return Outcome("not said", "operands of two types of floats")
    message = str(mistake.error_regex)
    try:
        graph = elaborated(said)
        feeds = {**_arrays(said.fed), **_arrays(said.weights)}
        evaluate(graph, _typed(graph, feeds, Precision.DOUBLE), Precision.DOUBLE)
    except RefusedError:
        return Outcome("told")
    except OutsideError:
        return Outcome("told", "where it runs")
    for part, reason in row.accepted.items():
        if part in message if part else not message:
            return Outcome("accepted", reason)
    return Outcome("wrong", f"accepted, where PyTorch says {message!r}", text)


def _theirs(
    row: Row,
    sample: Any,  # noqa: ANN401 - of PyTorch's class
    said: Said,
    graph: Graph,
) -> tuple[dict[str, Array], dict[str, Array], Graph]:
    """PyTorch's results and gradients, what is fed, and the graph that gives the same."""
    result = said.call() if said.call else _called(row, sample)
    picked = (
        row.pick(result) if row.pick else (result,) if isinstance(result, torch.Tensor) else result
    )
    right: dict[str, Array] = {}
    names = list(graph.outputs)
    if len(names) != len(picked):
        raise AssertionError(f"{row}: {len(names)} results, not {len(picked)}")
    for name, each in zip(names, picked, strict=True):
        right[name] = each.detach().numpy()
    for name, each in said.updates.items():
        right[name] = each.detach().numpy()
    feeds = {**_arrays(said.fed), **_arrays(said.weights)}
    leaves = {**said.fed, **said.weights}
    moved = {name: each for name, each in leaves.items() if each.requires_grad}
    floats = [each for each in picked if each.is_floating_point() and each.requires_grad]
    if not (row.slopes and moved and floats):
        return right, feeds, graph
    loss = torch.zeros((), dtype=torch.float64)
    plain = differentiated(weighted(graph))
    number = 0
    for name, each in zip(names, picked, strict=True):
        if not graph.outputs[name].type.dtype.is_float:
            continue
        generator = np.random.default_rng(crc32(name.encode()))
        weight = generator.uniform(0.5, 1.5, tuple(each.shape))
        feeds[f"coefficient{number}"] = np.asarray(weight)
        number += 1
        loss = loss + (each * torch.tensor(weight)).sum()
    slopes = torch.autograd.grad(loss, list(moved.values()), allow_unused=True)
    for (name, leaf), slope in zip(moved.items(), slopes, strict=True):
        if f"d {name}" in plain.outputs:
            right[f"d {name}"] = (
                (torch.zeros_like(leaf) if slope is None else slope).detach().numpy()
            )
    return right, feeds, plain


def _by_name(results: Results) -> dict[str, Array]:
    """Outputs and updates; a graph with a loss gives updates as outputs `next.*`."""
    found = {**results.outputs, **results.updates}
    return {name.removeprefix("next."): each for name, each in found.items()}


def _is_empty(result: Any) -> bool:  # noqa: ANN401 - whatever PyTorch gives
    results = (result,) if isinstance(result, torch.Tensor) else tuple(result)
    return any(each.numel() == 0 for each in results)


def _called(row: Row, sample: Any) -> Any:  # noqa: ANN401 - whatever PyTorch gives
    from tests.parity.opinfo.samples import infos  # noqa: PLC0415

    return infos()[row.theirs].op(sample.input, *sample.args, **sample.kwargs)


def _arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, Array]:
    return {name: np.array(each.detach().numpy()) for name, each in tensors.items()}


def _typed(graph: Graph, feeds: Mapping[str, Array], precision: Precision) -> dict[str, Array]:
    leaves = {value.op.name: value for value in graph.values if isinstance(value.op, Leaf)}
    fed: dict[str, Array] = {}
    for name, value in leaves.items():
        array = feeds.get(name)
        if array is None:
            shape = concrete_shape(value.type.shape)
            array = np.zeros(shape)
        if value.type.dtype.is_float and precision is Precision.DOUBLE:
            fed[name] = np.asarray(array, np.float64)
        else:
            fed[name] = np.asarray(array).astype(storage_type(value.type.dtype))
    return fed


def _close(row: Row, expected: Array) -> float:
    return max(row.close, 1e-6) if expected.dtype == np.float32 else row.close


def _apart(found: Array, expected: Array, close: float) -> str:
    if found.shape != expected.shape:
        return f"the shape is {found.shape}, not {expected.shape}"
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if np.allclose(a, b, rtol=close, atol=close, equal_nan=True):
        return ""
    return f"off by {_distance(a, b):.3g}: {a.ravel()[:4]} is not {b.ravel()[:4]}"


def _distance(found: Array, expected: Array) -> float:
    a, b = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    both = np.isfinite(a) & np.isfinite(b)
    if np.any(~both & ~((a == b) | (np.isnan(a) & np.isnan(b)))):
        return float("nan")
    return float(np.max(np.abs(a[both] - b[both]), initial=0.0))
