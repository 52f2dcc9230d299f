"""The models of the comparison as plain functions of JAX, on weights named as in a checkpoint.

Each gives its output and the running statistics of its batch norms after a step of training.
"""

from collections.abc import Callable, Mapping

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp

from meganeura_dsl.ir.graph import Array as HostArray

Weights = Mapping[str, Array]
Outcome = tuple[Array, dict[str, Array]]
Network = Callable[..., Outcome]


def conv(x: Array, weight: Array, stride: int, padding: int) -> Array:
    """A convolution over as many axes as there are."""
    layout = ("NCHW", "OIHW", "NCHW") if x.ndim == 4 else ("NCH", "OIH", "NCH")
    axes = x.ndim - 2
    return lax.conv_general_dilated(
        x, weight, (stride,) * axes, [(padding, padding)] * axes, dimension_numbers=layout
    )


class Norms:
    """Batch norms, and the running statistics they leave."""

    def __init__(self, weights: Weights, *, trains: bool) -> None:
        self._weights = weights
        self._trains = trains
        self.running: dict[str, Array] = {}

    def __call__(self, x: Array, name: str) -> Array:
        """Normalize over batch and space (S. Ioffe and C. Szegedy, 2015)."""
        get = lambda part: self._weights[f"{name}.{part}"]  # noqa: E731
        mean, variance = get("running_mean"), get("running_var")
        if self._trains:
            count = x.size // x.shape[1]
            batch, spread = jnp.mean(x, (0, 2, 3)), jnp.var(x, (0, 2, 3))
            unbiased = spread * (count / (count - 1))
            self.running[f"{name}.running_mean"] = 0.9 * mean + 0.1 * batch
            self.running[f"{name}.running_var"] = 0.9 * variance + 0.1 * unbiased
            mean, variance = batch, spread
        scale = get("weight") * lax.rsqrt(variance + 1e-5)
        shift = get("bias") - mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


def resnet18(weights: Weights, x: Array, *, trains: bool) -> Outcome:
    """K. He et al. 2015."""
    norm = Norms(weights, trains=trains)
    x = jax.nn.relu(norm(conv(x, weights["conv1.weight"], 2, 3), "bn1"))
    x = lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
    )
    for stage in (1, 2, 3, 4):
        for number in (0, 1):
            layer = f"layer{stage}.{number}"
            stride = 2 if stage > 1 and number == 0 else 1
            y = norm(conv(x, weights[f"{layer}.conv1.weight"], stride, 1), f"{layer}.bn1")
            y = conv(jax.nn.relu(y), weights[f"{layer}.conv2.weight"], 1, 1)
            y = norm(y, f"{layer}.bn2")
            if f"{layer}.downsample.0.weight" in weights:
                x = conv(x, weights[f"{layer}.downsample.0.weight"], stride, 0)
                x = norm(x, f"{layer}.downsample.1")
            x = jax.nn.relu(x + y)
    return x.mean((2, 3)) @ weights["fc.weight"].T + weights["fc.bias"], norm.running


REPVGG = [
    "stem",
    *(f"stages.{s}.{i}" for s, depth in enumerate((2, 4, 14, 1)) for i in range(depth)),
]


def repvgg_layers() -> Mapping[str, int]:
    """The stride of every layer of RepVGG-A0 (X. Ding et al. 2021)."""
    return {name: 2 if name == "stem" or name.endswith(".0") else 1 for name in REPVGG}


def repvgg_a0(weights: Weights, x: Array, *, trains: bool) -> Outcome:
    """With its three branches to train, and with one convolution to infer."""
    norm = Norms(weights, trains=trains)
    for layer, stride in repvgg_layers().items():
        if not trains:
            y = conv(x, weights[f"{layer}.weight"], stride, 1)
            x = jax.nn.relu(y + weights[f"{layer}.bias"][:, None, None])
            continue
        wide, narrow = f"{layer}.conv_kxk", f"{layer}.conv_1x1"
        y = norm(conv(x, weights[f"{wide}.conv.weight"], stride, 1), f"{wide}.bn")
        y += norm(conv(x, weights[f"{narrow}.conv.weight"], stride, 0), f"{narrow}.bn")
        if f"{layer}.identity.weight" in weights:
            y += norm(x, f"{layer}.identity")
        x = jax.nn.relu(y)
    return x.mean((2, 3)) @ weights["head.fc.weight"].T + weights["head.fc.bias"], norm.running


def fused_repvgg(weights: Mapping[str, HostArray]) -> Mapping[str, HostArray]:
    """One convolution for the branches of each layer, as they are in evaluation."""
    fused = {name: array for name, array in weights.items() if name.startswith("head.")}
    for layer in repvgg_layers():
        channels = len(weights[f"{layer}.conv_kxk.bn.weight"])
        kernels = {
            f"{layer}.conv_kxk.bn": weights[f"{layer}.conv_kxk.conv.weight"],
            f"{layer}.conv_1x1.bn": _grown(weights[f"{layer}.conv_1x1.conv.weight"]),
        }
        if f"{layer}.identity.weight" in weights:
            same = np.eye(channels, dtype=np.float32)[:, :, None, None]
            kernels[f"{layer}.identity"] = _grown(same)
        weight, bias = 0.0, 0.0
        for norm, kernel in kernels.items():
            scale = weights[f"{norm}.weight"] / np.sqrt(weights[f"{norm}.running_var"] + 1e-5)
            weight = weight + kernel * scale[:, None, None, None]
            bias = bias + weights[f"{norm}.bias"] - weights[f"{norm}.running_mean"] * scale
        fused[f"{layer}.weight"], fused[f"{layer}.bias"] = np.asarray(weight), np.asarray(bias)
    return fused


def _grown(kernel: HostArray) -> HostArray:
    return np.pad(kernel, ((0, 0), (0, 0), (1, 1), (1, 1)))


def whisper_tiny(weights: Weights, x: Array, *, trains: bool) -> Outcome:  # noqa: ARG001
    """The encoder of Whisper tiny (A. Radford et al. 2022), which has no batch norm."""
    root = "model.encoder"
    get = lambda name: weights[f"{root}.{name}"]  # noqa: E731

    def linear(x: Array, name: str) -> Array:
        y = x @ get(f"{name}.weight").T
        return y + get(f"{name}.bias") if f"{root}.{name}.bias" in weights else y

    def layer_norm(x: Array, name: str) -> Array:
        mean = x.mean(-1, keepdims=True)
        y = (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return y * get(f"{name}.weight") + get(f"{name}.bias")

    def attention(x: Array, name: str) -> Array:
        heads = [
            linear(x, f"{name}.{part}_proj").reshape(*x.shape[:2], 6, 64)
            for part in ("q", "k", "v")
        ]
        y = jax.nn.dot_product_attention(*heads)
        return linear(y.reshape(x.shape), f"{name}.out_proj")

    for number, stride in (("conv1", 1), ("conv2", 2)):
        x = conv(x, get(f"{number}.weight"), stride, 1) + get(f"{number}.bias")[:, None]
        x = jax.nn.gelu(x, approximate=False)
    x = x.transpose(0, 2, 1) + get("embed_positions.weight")
    for layer in (f"layers.{number}" for number in range(4)):
        x += attention(layer_norm(x, f"{layer}.self_attn_layer_norm"), f"{layer}.self_attn")
        y = linear(layer_norm(x, f"{layer}.final_layer_norm"), f"{layer}.fc1")
        x += linear(jax.nn.gelu(y, approximate=False), f"{layer}.fc2")
    return layer_norm(x, "layer_norm"), {}


NETWORKS: Mapping[str, Network] = {
    "resnet18": resnet18,
    "repvgg_a0": repvgg_a0,
    "whisper_tiny": whisper_tiny,
}
