"""The models of the comparison as plain functions of JAX, on weights named as in a checkpoint.

As users write them: images are [n, h, w, c] and kernels [h, w, in, out], statistics and norms are
of float32, everything else is computed in the type of the weights and the input. A model gives its
output, and the running statistics of its batch norms after a step of training. Of the arguments of
our blocks each takes those that do not follow from the weights.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import numpy as np
from jax import Array, lax
from jax import numpy as jnp

from meganeura_dsl.ir.graph import Array as HostArray

Weights = Mapping[str, Array]


@dataclass
class Scope:
    """The weights of a model, and what its batch norms leave."""

    weights: Weights
    trains: bool
    running: dict[str, Array] = field(default_factory=dict[str, Array])

    def __contains__(self, name: str) -> bool:
        return name in self.weights

    def __getitem__(self, name: str) -> Array:
        return self.weights[name]

    def conv(self, x: Array, name: str, stride: int = 1, padding: int = 0) -> Array:
        """A convolution of [n, ..., c], depthwise where the kernel says so."""
        kernel = self[f"{name}.weight"]
        layout = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NWC", "WIO", "NWC")
        axes = x.ndim - 2
        y = lax.conv_general_dilated(
            x,
            kernel,
            (stride,) * axes,
            [(padding, padding)] * axes,
            dimension_numbers=layout,
            feature_group_count=x.shape[-1] // kernel.shape[-2],
        )
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y

    def linear(self, x: Array, name: str) -> Array:
        """A linear map by weights [out, in]."""
        y = x @ self[f"{name}.weight"].T
        return y + self[f"{name}.bias"] if f"{name}.bias" in self else y

    def batch_norm(self, x: Array, name: str) -> Array:
        """S. Ioffe and C. Szegedy, 2015; statistics from one reading, as Flax computes them."""
        mean, variance = self[f"{name}.running_mean"], self[f"{name}.running_var"]
        if self.trains:
            count = x.size // x.shape[-1]
            axes = tuple(range(x.ndim - 1))
            wide = x.astype(jnp.float32)
            batch = wide.mean(axes)
            spread = jnp.maximum(jnp.square(wide).mean(axes) - jnp.square(batch), 0.0)
            unbiased = spread * (count / (count - 1))
            self.running[f"{name}.running_mean"] = 0.9 * mean + 0.1 * batch
            self.running[f"{name}.running_var"] = 0.9 * variance + 0.1 * unbiased
            mean, variance = batch, spread
        scale = self[f"{name}.weight"] * lax.rsqrt(variance + 1e-5)
        shift = self[f"{name}.bias"] - mean * scale
        return (x * scale + shift).astype(x.dtype)

    def layer_norm(self, x: Array, name: str, epsilon: float = 1e-5) -> Array:
        """J. Ba et al., 2016, in float32."""
        wide = x.astype(jnp.float32)
        mean = wide.mean(-1, keepdims=True)
        y = (wide - mean) * lax.rsqrt(wide.var(-1, keepdims=True) + epsilon)
        return (y * self[f"{name}.weight"] + self[f"{name}.bias"]).astype(x.dtype)


def attention(q: Array, k: Array, v: Array, heads: int, *, causal: bool = False) -> Array:
    """The mean of values by head; all are [n, s, d]. cuDNN's kernel where it has one."""
    n, s, d = q.shape
    split = [each.reshape(n, s, heads, d // heads) for each in (q, k, v)]
    on_gpu = jax.default_backend() == "gpu"
    # Its backward pass takes even numbers of positions only.
    by_cudnn = on_gpu and q.dtype == jnp.bfloat16 and s % 2 == 0
    y = jax.nn.dot_product_attention(
        *split, is_causal=causal, implementation="cudnn" if by_cudnn else None
    )
    return y.reshape(n, s, d)


def resnet(
    scope: Scope, x: Array, *, depths: Sequence[int], expansion: int = 1, **_: object
) -> Array:
    """K. He et al. 2015."""
    x = jax.nn.relu(scope.batch_norm(scope.conv(x, "conv1", 2, 3), "bn1"))
    x = lax.reduce_window(
        x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0))
    )
    for stage, depth in enumerate(depths, 1):
        for number in range(depth):
            stride = 2 if stage > 1 and number == 0 else 1
            x = _residual(scope, x, f"layer{stage}.{number}", stride, expansion)
    return scope.linear(x.mean((1, 2)), "fc")


def _residual(scope: Scope, x: Array, name: str, stride: int, expansion: int) -> Array:
    # Kernel and stride of each convolution.
    convs = [(3, stride), (3, 1)] if expansion == 1 else [(1, 1), (3, stride), (1, 1)]
    y = x
    for number, (kernel, step) in enumerate(convs, 1):
        y = scope.conv(y, f"{name}.conv{number}", step, kernel // 2)
        y = scope.batch_norm(y, f"{name}.bn{number}")
        y = jax.nn.relu(y) if number < len(convs) else y
    if f"{name}.downsample.0.weight" in scope:
        x = scope.batch_norm(scope.conv(x, f"{name}.downsample.0", stride), f"{name}.downsample.1")
    return jax.nn.relu(x + y)


def repvgg_layers(depths: Sequence[int]) -> Mapping[str, int]:
    """The stride of every layer."""
    names = [f"stages.{s}.{i}" for s, depth in enumerate(depths) for i in range(depth)]
    return {name: 2 if name == "stem" or name.endswith(".0") else 1 for name in ("stem", *names)}


def repvgg(scope: Scope, x: Array, *, depths: Sequence[int], **_: object) -> Array:
    """X. Ding et al. 2021, with three branches to train and with one convolution to infer."""
    for layer, stride in repvgg_layers(depths).items():
        if not scope.trains:
            x = jax.nn.relu(scope.conv(x, layer, stride, 1))
            continue
        wide, narrow = f"{layer}.conv_kxk", f"{layer}.conv_1x1"
        y = scope.batch_norm(scope.conv(x, f"{wide}.conv", stride, 1), f"{wide}.bn")
        y += scope.batch_norm(scope.conv(x, f"{narrow}.conv", stride), f"{narrow}.bn")
        if f"{layer}.identity.weight" in scope:
            y += scope.batch_norm(x, f"{layer}.identity")
        x = jax.nn.relu(y)
    return scope.linear(x.mean((1, 2)), "head.fc")


def fused_repvgg(
    weights: Mapping[str, HostArray], depths: Sequence[int]
) -> Mapping[str, HostArray]:
    """One convolution for the branches of each layer, as they are in evaluation."""
    fused = {name: array for name, array in weights.items() if name.startswith("head.")}
    for layer in repvgg_layers(depths):
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


def whisper(scope: Scope, x: Array, *, heads: int, layers: int, **_: object) -> Array:
    """The encoder of A. Radford et al. 2022."""
    root = "model.encoder"
    x = jax.nn.gelu(scope.conv(x, f"{root}.conv1", 1, 1), approximate=False)
    x = jax.nn.gelu(scope.conv(x, f"{root}.conv2", 2, 1), approximate=False)
    x = x + scope[f"{root}.embed_positions.weight"][: x.shape[1]].astype(x.dtype)
    for layer in (f"{root}.layers.{number}" for number in range(layers)):
        y = scope.layer_norm(x, f"{layer}.self_attn_layer_norm")
        q, k, v = (scope.linear(y, f"{layer}.self_attn.{part}_proj") for part in "qkv")
        x += scope.linear(attention(q, k, v, heads), f"{layer}.self_attn.out_proj")
        y = scope.linear(scope.layer_norm(x, f"{layer}.final_layer_norm"), f"{layer}.fc1")
        x += scope.linear(jax.nn.gelu(y, approximate=False), f"{layer}.fc2")
    return scope.layer_norm(x, f"{root}.layer_norm")


def gpt2(scope: Scope, ids: Array, *, layers: int, heads: int, **_: object) -> Array:
    """A. Radford et al. 2019; its linear maps have weights [in, out]."""

    def fc(x: Array, name: str) -> Array:
        return x @ scope[f"{name}.weight"] + scope[f"{name}.bias"]

    table = scope["transformer.wte.weight"]
    x = table[ids] + scope["transformer.wpe.weight"][: ids.shape[1]]
    for layer in (f"transformer.h.{number}" for number in range(layers)):
        qkv = fc(scope.layer_norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn")
        y = attention(*jnp.split(qkv, 3, -1), heads, causal=True)
        x += fc(y, f"{layer}.attn.c_proj")
        y = fc(scope.layer_norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc")
        x += fc(jax.nn.gelu(y, approximate=True), f"{layer}.mlp.c_proj")
    return scope.layer_norm(x, "transformer.ln_f") @ table.T


def vit(
    scope: Scope, x: Array, *, d: int, layers: int, heads: int, patch: int = 16, **_: object
) -> Array:
    """A. Dosovitskiy et al. 2021."""
    n = len(x)
    x = scope.conv(x, "patch_embed.proj", patch).reshape(n, -1, d)
    first = jnp.broadcast_to(scope["cls_token"], (n, 1, d))
    x = jnp.concatenate((first, x), 1) + scope["pos_embed"]
    for layer in (f"blocks.{number}" for number in range(layers)):
        qkv = scope.linear(scope.layer_norm(x, f"{layer}.norm1", 1e-6), f"{layer}.attn.qkv")
        y = attention(*jnp.split(qkv, 3, -1), heads)
        x += scope.linear(y, f"{layer}.attn.proj")
        y = scope.linear(scope.layer_norm(x, f"{layer}.norm2", 1e-6), f"{layer}.mlp.fc1")
        x += scope.linear(jax.nn.gelu(y, approximate=False), f"{layer}.mlp.fc2")
    return scope.linear(scope.layer_norm(x, "norm", 1e-6)[:, 0], "head")


def convnext(
    scope: Scope, x: Array, *, stages: Sequence[Sequence[int]], patch: int = 4, **_: object
) -> Array:
    """Z. Liu et al. 2022; no layer is left out by chance."""
    x = scope.conv(x, "features.0.0", patch)
    x = scope.layer_norm(x, "features.0.1", 1e-6)
    for stage, (_, depth) in enumerate(stages):
        if stage:
            x = scope.layer_norm(x, f"features.{2 * stage}.0", 1e-6)
            x = scope.conv(x, f"features.{2 * stage}.1", 2)
        for layer in (f"features.{2 * stage + 1}.{number}" for number in range(depth)):
            y = scope.conv(x, f"{layer}.block.0", 1, 3)
            y = scope.linear(scope.layer_norm(y, f"{layer}.block.2", 1e-6), f"{layer}.block.3")
            y = scope.linear(jax.nn.gelu(y, approximate=False), f"{layer}.block.5")
            x += scope[f"{layer}.layer_scale"].reshape(-1) * y
    return scope.linear(scope.layer_norm(x.mean((1, 2)), "classifier.0", 1e-6), "classifier.2")


NETWORKS: Mapping[str, Callable[..., Array]] = {
    "ResNet": resnet,
    "RepVGG": repvgg,
    "WhisperEncoder": whisper,
    "Gpt2": gpt2,
    "ViT": vit,
    "ConvNext": convnext,
}
"""By the name of our block."""
