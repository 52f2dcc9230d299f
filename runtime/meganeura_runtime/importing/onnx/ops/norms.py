"""Normalizations."""

from collections.abc import Mapping, Sequence

import numpy as np

from meganeura_dsl.ir.types import DType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Known, Node, Part, Value
from meganeura_runtime.importing.onnx.number_text import number_text
from meganeura_runtime.importing.onnx.ops.elementwise import Entry


def _float(node: Node, name: str, default: float) -> float:
    return float(np.float32(node.attribute(name, default)))


def _epsilon(node: Node, usual: float) -> tuple[tuple[str], ...]:
    """The argument `eps`, if it is not the layer's default."""
    return _eps(node.attribute("epsilon", 1e-5), usual)


def _eps(number: float, usual: float) -> tuple[tuple[str], ...]:
    eps = float(str(np.float32(number)))
    return () if eps == usual else ((f"eps={number_text(eps)}",),)


def layer_of_norm(
    node: Node, callee: str, x: Tensor, eps: float, parts: Sequence[Known]
) -> Tensor | None:
    """`rms_norm` or `layer_norm` with a weight, and a bias for the latter."""
    if x.rank < 2 or x.dtype is not DType.F32 or not 0 <= eps < 1:
        return None
    kept = {name: Part(each) for name, each in zip(("weight", "bias"), parts, strict=False)}
    usual = {"rms_norm": 1e-6, "layer_norm": 1e-5}[callee]
    return node.layer(callee, x, _eps(eps, usual), kept, "norm")


def _batch_norm(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    if node.attribute("training_mode", 0) or node.wants(1):
        raise UnsupportedNodeError("it is in training mode")
    layer = _batch_norm_layer(node, x)
    if layer is not None:
        return [layer]
    scale, bias, mean, variance = (build.along(node.tensor(i), 1, x.shape) for i in range(1, 5))
    centered = build.binary("-", x, mean)
    spread = build.elementwise("sqrt", build.binary("+", variance, _float(node, "epsilon", 1e-5)))
    return [build.binary("+", build.binary("*", build.binary("/", centered, spread), scale), bias)]


def _batch_norm_layer(node: Node, x: Tensor) -> Tensor | None:
    """`batch_norm`, if its operands are initializers, or a weight and a bias that are constant."""
    channels = node.value(1).shape
    parts: dict[str, Part] = {}
    for index, name in enumerate(("weight", "bias", "running_mean", "running_var"), 1):
        known, is_state = node.value(index), index > 2
        if not isinstance(known, Known) or known.dtype is not DType.F32 or known.rank != 1:
            return None
        if known.shape != channels or not (node.is_own(known) or not (known.name or is_state)):
            return None
        parts[name] = Part(known, "state" if is_state else "param")
    if x.dtype is not DType.F32:
        return None
    node.build.need("==", x.shape[1], channels[0], "it has other channels")
    parts["num_batches_tracked"] = Part(node.steps_of(parts["running_mean"].known), "state")
    return node.layer("batch_norm", x, [*_epsilon(node, 1e-5), *_momentum(node)], parts, "norm")


def _momentum(node: Node) -> tuple[tuple[str], ...]:
    """The argument `momentum`: ONNX says how much of the old statistics stays.

    It is the shortest number whose rest is what the file says in single precision.
    """
    stays = np.float32(node.attribute("momentum", 0.9))
    if not 0 <= stays <= 1:
        raise UnsupportedNodeError(f"its momentum is {stays}, and not from 0 to 1")
    exact = 1 - float(stays)
    tried = (float(f"{exact:.{digits}g}") for digits in range(1, 18))
    momentum = next((each for each in tried if np.float32(1 - each) == stays), exact)
    return () if momentum == 0.1 else ((f"momentum={number_text(momentum)}",),)


def _is_scale(node: Node, known: Value | None, size: Size) -> bool:
    """True if an operand is the weight or the bias of a layer over so many channels."""
    return (
        isinstance(known, Known)
        and node.is_own(known)
        and known.dtype is node.tensor(0).dtype is DType.F32
        and known.shape == (size,)
    )


def _layer_norm(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    axis = node.axis(-1)
    if node.attribute("stash_type", 1) != 1:
        raise UnsupportedNodeError("it computes in another element type")
    weight, bias = node.value(1), node.value(2) if node.has(2) else None
    is_layer = (
        axis == x.rank - 1 and not node.wants(1) and x.rank > 1
        and _is_scale(node, weight, x.shape[-1]) and _is_scale(node, bias, x.shape[-1])
    )  # fmt: skip
    if is_layer and isinstance(weight, Known) and isinstance(bias, Known):
        parts = {"weight": Part(weight), "bias": Part(bias)}
        layer = node.layer("layer_norm", x, _epsilon(node, 1e-5), parts, "norm")
        if layer is not None:
            return [layer]
    axes = range(axis, x.rank)
    mean = build.reduce("mean", x, axes, keep=True)
    centered = build.binary("-", x, mean)
    variance = build.reduce("mean", build.power(centered, 2), axes, keep=True)
    spread = build.elementwise("sqrt", build.binary("+", variance, _float(node, "epsilon", 1e-5)))
    y = build.binary("*", build.binary("/", centered, spread), node.tensor(1))
    if bias is not None:
        y = build.binary("+", y, node.tensor(2))
    return [y, mean, build.binary("/", 1.0, spread) if node.wants(2) else None]


def _rms_norm(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    axis = node.axis(-1)
    weight = node.value(1)
    is_layer = axis == x.rank - 1 and x.rank > 1 and _is_scale(node, weight, x.shape[-1])
    if is_layer and isinstance(weight, Known):
        layer = node.layer("rms_norm", x, _epsilon(node, 1e-6), {"weight": Part(weight)}, "norm")
        if layer is not None:
            return [layer]
    axes = range(axis, x.rank)
    size = build.reduce("mean", build.power(x, 2), axes, keep=True)
    spread = build.elementwise("sqrt", build.binary("+", size, _float(node, "epsilon", 1e-5)))
    return [build.binary("*", build.binary("/", x, spread), node.tensor(1))]


def _instance_norm(node: Node) -> list[Value | None]:
    build, x = node.build, node.tensor(0)
    y = _normalized(node, x, range(2, x.rank))
    scale, bias = (build.along(node.tensor(index), 1, x.shape) for index in (1, 2))
    return [build.binary("+", build.binary("*", y, scale), bias)]


def _normalized(node: Node, x: Tensor, axes: Sequence[int]) -> Tensor:
    build = node.build
    centered = build.binary("-", x, build.reduce("mean", x, axes, keep=True))
    variance = build.reduce("mean", build.power(centered, 2), axes, keep=True)
    spread = build.elementwise("sqrt", build.binary("+", variance, _float(node, "epsilon", 1e-5)))
    return build.binary("/", centered, spread)


def _group_norm(node: Node) -> list[Value | None]:
    build, x, groups = node.build, node.tensor(0), node.attribute("num_groups", 1)
    channels = x.shape[1]
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        raise UnsupportedNodeError("its groups are uneven")
    weight, bias = node.value(1), node.value(2)
    is_layer = _is_scale(node, weight, channels) and _is_scale(node, bias, channels)
    if is_layer and isinstance(weight, Known) and isinstance(bias, Known):
        parts = {"weight": Part(weight), "bias": Part(bias)}
        config = [(str(groups),), *_epsilon(node, 1e-5)]
        layer = node.layer("group_norm", x, config, parts, "norm")
        if layer is not None:
            return [layer]
    split = build.reshape(x, (x.shape[0], groups, channels // groups, *x.shape[2:]))
    y = _normalized(node, split, range(2, split.rank))
    vectors = [node.tensor(1), node.tensor(2)]
    if node.opset < 21:
        spread = [build.along(each, 1, y.shape) for each in vectors]
        y = build.binary("+", build.binary("*", y, spread[0]), spread[1])
        return [build.reshape(y, x.shape)]
    y = build.reshape(y, x.shape)
    spread = [build.along(each, 1, x.shape) for each in vectors]
    return [build.binary("+", build.binary("*", y, spread[0]), spread[1])]


def _local_response(node: Node) -> list[Value | None]:
    build, x, size = node.build, node.tensor(0), node.attribute("size", 1)
    if not 1 <= size <= 64:
        raise UnsupportedNodeError("its window is too long")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    squares = build.pad(build.power(x, 2), 1, before, after)
    total = build.between(squares, 1, 0, x.shape[1])
    for start in range(1, size):
        total = build.binary("+", total, build.between(squares, 1, start, start + x.shape[1]))
    alpha, beta, bias = (
        _float(node, *each) for each in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0))
    )
    base = build.binary("+", build.binary("*", total, float(np.float32(alpha / size))), bias)
    power = build.elementwise("exp", build.binary("*", build.elementwise("log", base), -beta))
    return [build.binary("*", x, power)]


OPS: Mapping[str, Entry] = {
    "BatchNormalization": _batch_norm, "LayerNormalization": _layer_norm,
    "RMSNormalization": _rms_norm, "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm, "LRN": _local_response,
}  # fmt: skip
"""The translation of each op."""
