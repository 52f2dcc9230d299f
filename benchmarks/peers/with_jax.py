"""JAX, written by hand: one jitted step that gives its memory to the next."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from benchmarks.peers.case import LEARNING_RATE, LOSSES, MOMENTUM, Material
from benchmarks.peers.contender import RESIDENT, Absent, Precision, Running
from benchmarks.peers.jax_models import NETWORKS, Scope, fused_repvgg
from benchmarks.peers.jax_tools import kernels, mebibytes
from benchmarks.peers.models import Kind
from meganeura_dsl.ir.graph import Array as HostArray

State = dict[str, Array]
Network = Callable[[State, Array], tuple[Array, State]]
"""From weights and an input to outputs and running statistics."""
STATISTICS = ("running_mean", "running_var")
FIXED = (*STATISTICS, "embed_positions.weight")
"""The ends of names of what no gradient changes."""
MATMUL: Mapping[str, str] = {"f32": "highest", "tf32": "tensorfloat32", "bf16": "default"}


@dataclass(frozen=True)
class WithJax:
    """Compiled ahead. In `bf16` a step rounds its master weights of float32 where it begins."""

    platform: str
    precision: Precision

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Compile a case."""
        try:
            device = jax.devices(self.platform)[0]
        except RuntimeError as error:
            raise Absent(f"JAX has no {self.platform}") from error
        with jax.default_device(device), jax.default_matmul_precision(MATMUL[self.precision]):
            step, held, compiled = self._training(one) if one.case.trains else self._inference(one)
            count = LOSSES if one.case.trains else 1
            found = [np.asarray(step(), np.float32) for _ in range(count)]
            yield Running(
                np.stack(found) if one.case.trains else found[0],
                {RESIDENT: step},
                lambda: jax.block_until_ready(held),
                {"MiB": lambda: mebibytes(compiled)},
                kernels,
            )

    @property
    def _dtype(self) -> jnp.dtype[Any]:
        return jnp.dtype(jnp.bfloat16 if self.precision == "bf16" else jnp.float32)

    def _network(self, one: Material) -> Network:
        """The model in the precision."""
        if one.case.model.block not in NETWORKS:
            raise Absent("it is not written by hand")
        function, arguments = NETWORKS[one.case.model.block], one.case.model.arguments

        def network(weights: State, x: Array) -> tuple[Array, State]:
            scope = Scope(rounded(weights, self._dtype), one.case.trains)
            x = x.astype(self._dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
            y = function(scope, x, **arguments)
            return y, scope.running

        return network

    def _inference(self, one: Material) -> tuple[Callable[[], Array], list[Any], Any]:
        weights = one.weights
        if one.case.model.block == "RepVGG":
            weights = fused_repvgg(weights, one.case.model.arguments["depths"])
        # Weights that do not change are rounded once.
        placed = rounded(jax.device_put(_floats(weights)), self._dtype)
        x, _ = _inputs(one)
        network = self._network(one)
        function = jax.jit(lambda weights, x: network(weights, x)[0])
        compiled = function.lower(placed, x).compile()
        held: list[Any] = [None]

        def step() -> Array:
            held[0] = compiled(placed, x)
            return held[0]

        return step, held, compiled

    def _training(self, one: Material) -> tuple[Callable[[], Array], list[Any], Any]:
        values = _floats(one.weights)
        trained = {name: array for name, array in values.items() if not name.endswith(FIXED)}
        fixed = jax.device_put({name: values[name] for name in values if name not in trained})
        velocity = jax.device_put({name: np.zeros_like(array) for name, array in trained.items()})
        x, y = _inputs(one)
        state = (jax.device_put(trained), fixed, velocity)
        function = jax.jit(_step_of(self._network(one), one.case.model.kind), donate_argnums=0)
        compiled = function.lower(state, x, y).compile()
        held: list[Any] = [state, None]

        def step() -> Array:
            held[:] = compiled(held[0], x, y)
            return held[1]

        return step, held, compiled

    def __str__(self) -> str:
        return f"JAX {jax.__version__} on {jax.devices(self.platform)[0].device_kind}"


def rounded(weights: Mapping[str, Array], dtype: jnp.dtype[Any]) -> State:
    """Weights in the type that products are of; those of norms and statistics stay float32."""
    return {
        name: array if _is_of_norm(name, weights) else array.astype(dtype)
        for name, array in weights.items()
    }


def _is_of_norm(name: str, weights: Mapping[str, Array]) -> bool:
    """True if a weight is a scale or shift, which has one axis and belongs to no product."""
    owner = name.rpartition(".")[0]
    weight = weights.get(f"{owner}.weight")
    return name.endswith(STATISTICS) or (weight is not None and weight.ndim == 1)


def _floats(weights: Mapping[str, HostArray]) -> dict[str, HostArray]:
    """Kernels of convolutions as JAX has them: [h, w, in, out]."""
    return {
        name: np.moveaxis(array, (0, 1), (-1, -2)) if array.ndim > 2 and _is_kernel(name) else array
        for name, array in weights.items()
        if array.dtype == np.float32
    }


def _is_kernel(name: str) -> bool:
    return name.endswith(".weight")


def _inputs(one: Material) -> tuple[Array, Array | None]:
    """Returns the inputs, with their channels last, and the expected outputs."""
    x, *others = one.inputs.values()
    match one.case.model.kind:
        case "images" | "sounds":
            placed = jax.device_put(np.ascontiguousarray(np.moveaxis(x, 1, -1)))
            return placed, jax.device_put(others[0]) if others else None
        case "tokens" if one.case.trains:
            return jax.device_put(x[:, :-1].copy()), jax.device_put(x[:, 1:].copy())
        case "tokens":
            return jax.device_put(x), None


def _step_of(network: Network, kind: Kind) -> Callable[..., Any]:
    """Gradient descent with momentum, and the running statistics."""

    def loss_of(trained: State, fixed: State, x: Array, y: Array) -> tuple[Array, State]:
        found, running = network({**trained, **fixed}, x)
        found = found.astype(jnp.float32)
        if kind == "sounds":
            return jnp.mean(jnp.square(found - y)), running
        chosen = jnp.take_along_axis(found, y[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(found, -1) - chosen), running

    def step(state: tuple[State, State, State], x: Array, y: Array):  # noqa: ANN202
        trained, fixed, velocity = state
        (loss, running), gradients = jax.value_and_grad(loss_of, has_aux=True)(trained, fixed, x, y)
        velocity = {name: MOMENTUM * velocity[name] + gradients[name] for name in trained}
        trained = {name: trained[name] - LEARNING_RATE * velocity[name] for name in trained}
        return (trained, {**fixed, **running}, velocity), loss

    return step
