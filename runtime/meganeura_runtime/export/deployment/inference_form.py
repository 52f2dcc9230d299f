"""The inference form of a trained model, compared with the model before it is used."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import with_checks
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.pack_parameters import pack_parameters, packed_values
from meganeura_runtime.backends.inference_session import Derivation
from meganeura_runtime.export.cache_problems import require_no_caches
from meganeura_runtime.export.deployment.deployment_problems import DeployedDiffers
from meganeura_runtime.export.deployment.parameter_names import deployed_names
from meganeura_runtime.export.reference_run import random_inputs, reference_run
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.stored_tensor import BITS
from meganeura_runtime.io.weights import initial_values

ALLOWED = 1e-4
"""The largest difference of an output, in units of its largest element or of 1."""


@dataclass(frozen=True, eq=False)
class Deployment:
    """A graph for inference, its parameters, and its largest difference from the original model."""

    graph: Graph
    values: Mapping[str, Array]
    names: Mapping[str, str]
    """The names of the parameters of `graph` in a file."""
    difference: float

    def write(
        self, path: Path, parameters: Iterable[ParameterInfo], metadata: Mapping[str, str]
    ) -> None:
        """Save the parameters atomically; those of the program in their declared types."""
        stored = {each.name: BITS[each.stored] for each in parameters}
        tensors = {
            name: self.values[key].astype(stored.get(key, self.values[key].dtype))
            for key, name in self.names.items()
        }
        write_tensors(path, tensors, {"format": "pt", **metadata})


def deploy(
    graph: Graph,
    values: Mapping[str, Array],
    rewriting: RewriteOptions,
    seed: int = 0,
    levels: Mapping[str, Quantization] | None = None,
) -> Deployment:
    """The inference form of a model with these parameters and states, of which some stay packed.

    Raises `ProblemError` if it does not give what the model gives on random inputs.
    """
    require_no_caches(graph, "an inference form")
    graph = with_checks(graph)
    levels = levels or {}
    if not rewriting.enabled:
        kept = packed_values(values, levels)
        return Deployment(pack_parameters(graph, levels), kept, {name: name for name in kept}, 0.0)
    optimized = rewriting.optimize(graph, "infer")
    derived = Derivation(optimized.load)(values)
    everything = {**packed_values(values, levels), **derived}
    form = pack_parameters(optimized.graph, levels)
    values_used = {
        value.op.name: everything[value.op.name]
        for value in form.values
        if isinstance(value.op, Parameter)
    }
    difference = _difference(graph, values, form, values_used, random_inputs(graph, seed))
    return Deployment(form, values_used, deployed_names(form, optimized.load), difference)


def looks_untrained(parameters: Iterable[ParameterInfo], values: Mapping[str, Array]) -> bool:
    """True if there are running statistics, and all are what they start as."""
    states = [each for each in parameters if each.kind == "state"]
    first = initial_values(states, seed=0)
    return bool(states) and all(
        np.array_equal(values[name], array) for name, array in first.items()
    )


def _difference(
    graph: Graph,
    values: Mapping[str, Array],
    form: Graph,
    values_used: Mapping[str, Array],
    inputs: Mapping[str, Array],
) -> float:
    """The largest difference of any output; raises `ProblemError` beyond what is allowed."""
    expected = reference_run(graph, values, inputs)
    found = reference_run(form, values_used, inputs)
    largest = 0.0
    for name, array in expected.items():
        wanted, given = array.astype(np.float64), found[name].astype(np.float64)
        scale = max(1.0, float(np.abs(wanted).max()))
        with np.errstate(invalid="ignore"):  # what is not finite differs by NaN
            difference = float(np.abs(given - wanted).max()) / scale
        if not difference <= ALLOWED:
            raise ProblemError(DeployedDiffers(name, difference, ALLOWED))
        largest = max(largest, difference)
    return largest
