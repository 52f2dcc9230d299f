"""A model of a program, and what `meganeura export --to jax` writes of it, side by side."""

import runpy
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import load_file

from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.graph import Array, Leaf
from meganeura_dsl.ir.interpreter import Interpreter, Precision, evaluate
from meganeura_dsl.ir.ops import RandomBits
from meganeura_dsl.pipeline import Program, elaborate_model
from meganeura_runtime.export.reference_run import random_inputs
from meganeura_runtime.export.source.write import written
from meganeura_runtime.io.weights import write_weights
from tests.beside import Differences, assert_near, differentiated, largest, weighted

OUTPUT, GRADIENT = 1e-6, 1e-5
"""Of the largest element of a tensor, in double precision."""


WIDE = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.bool_}
"""The types of numbers in double precision, by kind."""
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Options of XLA: a step runs once, so that compiling it is what takes time."""


def source_names(
    program: Program, name: str, config: Mapping[str, StaticValue]
) -> dict[str, Callable[..., Any]]:
    """The functions of the source of a model, executed. Raises `ProblemError`."""
    text = written(program.module, program.module.models[name], config, {}, "jax")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(text)
        return runpy.run_path(str(path))


def assert_agrees(
    program: Program,
    sizes: Mapping[str, int],
    name: str = "net",
    config: Mapping[str, StaticValue] = {},
) -> Differences:
    """Outputs, gradients and states agree in evaluation and, unless it draws, in training."""
    names = source_names(program, name, config)
    plain = elaborate_model(program, name, config=config, sizes=sizes)
    values = {each.name: _random(each) for each in plain.parameters}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.safetensors"
        write_weights(path, plain.parameters, values, {})
        stored = load_file(path)
    found: list[Differences] = []
    with jax.enable_x64(new_val=True):
        for training in (False, True):
            elaboration = elaborate_model(
                program, name, config=config, sizes=sizes, training=training
            )
            if not any(isinstance(each.op, RandomBits) for each in elaboration.graph.values):
                found.append(_assert_agree(names, name, elaboration, stored, training=training))
    return largest(found)


def _random(parameter: ParameterInfo) -> Array:
    """Random weights, every one of them of consequence."""
    generator = np.random.default_rng(sum(parameter.name.encode()))
    shape = tuple(size for size in parameter.type.shape if isinstance(size, int))
    name = parameter.name
    if parameter.type.dtype.is_integer:
        return np.full(shape, 3, np.int32)
    if name.endswith("running_var"):
        return generator.uniform(0.5, 1.5, shape).astype(np.float32)
    center, spread = (0.0, 0.2) if len(shape) > 1 else (float(name.endswith("weight")), 0.1)
    return generator.normal(center, spread, shape).astype(np.float32)


def _assert_agree(
    names: Mapping[str, Callable[..., Any]],
    name: str,
    elaboration: Elaboration,
    stored: Mapping[str, Array],
    *,
    training: bool,
) -> Differences:
    """One random linear function of all outputs, and its gradients, on both sides."""
    summed = weighted(elaboration.graph)
    ours = Interpreter(differentiated(summed), Precision.DOUBLE)
    fed = {**{n: _of_32_bits(each) for n, each in stored.items()}, **random_inputs(summed, 1)}
    found = ours.run({n: each for n, each in fed.items() if n in ours.leaves}).outputs
    leaves = {each.op.name for each in elaboration.graph.values if isinstance(each.op, Leaf)}
    outputs = evaluate(elaboration.graph, {n: fed[n] for n in leaves}, Precision.DOUBLE)

    doubled = {n: jax.device_put(each.astype(WIDE[each.dtype.kind])) for n, each in fed.items()}
    moved = {n: each for n, each in doubled.items() if f"d {n}" in found}
    given = [each for each in elaboration.inputs if each in fed]
    accepted = names[name].__kwdefaults__ or {}
    flags = {"training": True} if training and "training" in accepted else {}

    def computed(moved: Mapping[str, Any]) -> tuple[Any, tuple[Any, Any]]:
        values = {**doubled, **moved}
        params = names["nested"]({n: values[n] for n in stored})
        results = names[name](params, *(values[each] for each in given), **flags)
        results = results if isinstance(results, tuple) else (results,)
        floats = [each for each in results if each.dtype.kind == "f"]
        terms = [(each * doubled[f"coefficient{at}"]).sum() for at, each in enumerate(floats)]
        return sum(terms[1:], terms[0]), (results, params)

    step = jax.jit(jax.value_and_grad(computed, has_aux=True), compiler_options=QUICK)
    (_, (results, params)), slopes = step(moved)
    theirs = dict(zip(outputs.outputs, results, strict=True))
    away = assert_near(_numbers(outputs.outputs), _numbers(theirs), OUTPUT)
    assert {f"d {n}" for n in slopes} == {n for n in found if n.startswith("d ")}
    slope = assert_near(
        {n: found[f"d {n}"] for n in slopes},
        {n: np.asarray(each) for n, each in slopes.items()},
        GRADIENT,
    )
    if outputs.updates:
        states = {n: np.asarray(_at(params, n)) for n in outputs.updates}
        away = max(away, assert_near(outputs.updates, states, OUTPUT))
    return Differences(away, slope)


def _numbers(values: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(each, np.float64) for name, each in values.items()}


def _of_32_bits(values: Array) -> Array:
    return values.astype(np.int32) if values.dtype == np.int64 else values


def _at(params: Any, name: str) -> Any:  # noqa: ANN401 - dictionaries of dictionaries
    found = params
    for part in name.split("."):
        found = found[part]
    return found
