"""JAX, with the precision `highest`: single precision throughout."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from benchmarks.peers.case import LEARNING_RATE, LOSSES, MOMENTUM, Material
from benchmarks.peers.contender import Running
from benchmarks.peers.jax_models import NETWORKS, Network, fused_repvgg

State = dict[str, Array]
FIXED = ("running_mean", "running_var", "embed_positions.weight")
"""The ends of names of what no gradient changes."""


class WithJax:
    """A function that is compiled ahead; a training step gives its memory to the next."""

    name = "JAX"

    def columns(self, *, trains: bool) -> tuple[str, ...]:  # noqa: ARG002
        """What it is timed for."""
        return (self.name,)

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Compile a case."""
        with jax.default_matmul_precision("highest"):
            yield _training(one) if one.case.trains else _inference(one)

    def __str__(self) -> str:
        return f"JAX {jax.__version__} on {jax.devices()[0].device_kind}"


def _inference(one: Material) -> Running:
    network = NETWORKS[one.case.model.name]
    weights = fused_repvgg(one.weights) if network is NETWORKS["repvgg_a0"] else one.weights
    weights = jax.device_put(dict(weights))
    (x,) = jax.device_put(list(one.inputs.values()))
    function = jax.jit(lambda weights, x: network(weights, x, trains=False)[0])
    compiled = function.lower(weights, x).compile()
    last = [compiled(weights, x)]

    def step() -> None:
        last[0] = compiled(weights, x)

    return Running(
        np.asarray(last[0]),
        {"JAX": step},
        lambda: jax.block_until_ready(last),
        {"JAX: MiB": lambda: _mebibytes(compiled)},
    )


def _training(one: Material) -> Running:
    network = NETWORKS[one.case.model.name]
    values = {name: array for name, array in one.weights.items() if array.dtype == np.float32}
    trained = {name: array for name, array in values.items() if not name.endswith(FIXED)}
    fixed = jax.device_put({name: values[name] for name in values if name not in trained})
    velocity = jax.device_put({name: np.zeros_like(array) for name, array in trained.items()})
    x, target = jax.device_put(list(one.inputs.values()))
    state = (jax.device_put(trained), fixed, velocity)
    function = jax.jit(_step_of(network), donate_argnums=(0, 1, 2))
    compiled = function.lower(*state, x, target).compile()
    held: list[object] = [state, None]

    def step() -> Array:
        *changed, loss = compiled(*held[0], x, target)
        held[:] = [tuple(changed), loss]
        return loss

    losses = np.stack([np.asarray(step()) for _ in range(LOSSES)])
    return Running(
        losses,
        {"JAX": step},
        lambda: jax.block_until_ready(held),
        {"JAX: MiB": lambda: _mebibytes(compiled)},
    )


def _step_of(network: Network):  # noqa: ANN202  what `jax.jit` takes
    """Gradient descent with momentum, and the running statistics."""

    def loss_of(trained: State, fixed: State, x: Array, target: Array) -> tuple[Array, State]:
        y, running = network({**trained, **fixed}, x, trains=True)
        if y.shape == target.shape:
            return jnp.mean((y - target) ** 2), running
        chosen = jnp.take_along_axis(jax.nn.log_softmax(y), target[:, None], 1)
        return -chosen.mean(), running

    def step(trained: State, fixed: State, velocity: State, x: Array, target: Array):  # noqa: ANN202
        (loss, running), gradients = jax.value_and_grad(loss_of, has_aux=True)(
            trained, fixed, x, target
        )
        velocity = {name: MOMENTUM * velocity[name] + gradients[name] for name in trained}
        trained = {name: trained[name] - LEARNING_RATE * velocity[name] for name in trained}
        return trained, {**fixed, **running}, velocity, loss

    return step


def _mebibytes(compiled: jax.stages.Compiled) -> float:
    """What a step takes at its peak: what goes in, what comes out elsewhere, what lies between."""
    sizes = compiled.memory_analysis()
    parts: Mapping[str, int] = {
        "in": sizes.argument_size_in_bytes,
        "out": sizes.output_size_in_bytes - sizes.alias_size_in_bytes,
        "between": sizes.temp_size_in_bytes,
    }
    return sum(parts.values()) / 2**20
