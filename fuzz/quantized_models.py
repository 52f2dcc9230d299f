"""Small models of ONNX with numbers of a few bits: in pairs of ops, in ops of levels, dynamic."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from fuzz.onnx_models import drawn, model, value
from meganeura_dsl.ir.graph import Array

OPSET = 21
"""The first that has levels of 4 bits, and blocks."""


def quantized_models() -> list[ModelProto]:
    """One of each kind."""
    return [paired(), blocked(), of_levels(), dynamic(), moved()]


def levels(*shape: int, seed: int = 0, bits: int = 8) -> Array:
    """Levels around 0 of so many bits."""
    half = 1 << (bits - 1)
    drawn_levels = np.random.default_rng(seed).integers(-half + 1, half, shape)
    return drawn_levels.astype(np.int8)


def pair(x: str, name: str, scale: str, zero: str) -> list[NodeProto]:
    """A value that is quantized and dequantized."""
    return [
        helper.make_node("QuantizeLinear", [x, scale, zero], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", scale, zero], [name]),
    ]


def paired() -> ModelProto:
    """A convolution with a scale for each channel, a pool and a product, between such pairs."""
    weights: dict[str, Array] = {
        "scale": np.array(0.05, np.float32), "zero": np.array(3, np.int8),
        "small": np.array(0.02, np.float32), "none": np.array(-128, np.int8),
        "conv.weight_quantized": levels(4, 3, 3, 3),
        "conv.scale": np.array([0.01, 0.02, 0.005, 0.01], np.float32),
        "conv.zero": np.zeros(4, np.int8),
        "conv.bias_quantized": np.array([3, -200, 7, 40], np.int32),
        "bias.scale": np.array([5e-4, 1e-3, 25e-5, 5e-4], np.float32),
        "fc.weight_quantized": levels(4, 36, seed=1), "fc.scale": np.array(0.03, np.float32),
        "fc.zero": np.array(0, np.int8),
    }  # fmt: skip
    nodes = [
        *pair("x", "a", "scale", "zero"),
        helper.make_node("DequantizeLinear", ["conv.weight_quantized", "conv.scale", "conv.zero"],
                         ["w"], axis=0),
        helper.make_node("DequantizeLinear", ["conv.bias_quantized", "bias.scale"], ["b"], axis=0),
        helper.make_node("Conv", ["a", "w", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        *pair("r", "d", "small", "none"),
        helper.make_node("MaxPool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("DequantizeLinear", ["fc.weight_quantized", "fc.scale", "fc.zero"], ["v"]),
        helper.make_node("Gemm", ["f", "v"], ["y"], transB=1),
    ]  # fmt: skip
    return model(nodes, [value("x", ["n", 3, 8, 8])], [value("y", ["n", 4])], weights)


def blocked() -> ModelProto:
    """A product with 4-bit weights, which have a scale for each block of a column."""
    weights: dict[str, Array] = {
        "scales": np.abs(drawn(2, 6)) / 8, "bytes": levels(8, 6, seed=2), "rows": drawn(8) + 2,
        "zeros": np.array([1] * 8, np.uint8),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["fc.weight", "scales"], ["w"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("DequantizeLinear", ["bytes", "rows"], ["v"], axis=0),
        helper.make_node("MatMul", ["x", "v"], ["k"]),
        helper.make_node("Add", ["m", "k"], ["y"]),
    ]
    made = model(nodes, [value("x", ["n", 8])], [value("y", ["n", 6])], weights, OPSET)
    numbers = levels(8, 6, bits=4).reshape(-1).tolist()
    made.graph.initializer.append(
        helper.make_tensor("fc.weight", TensorProto.INT4, [8, 6], numbers)
    )
    return made


def of_levels() -> ModelProto:
    """A convolution and a product of levels alone."""
    weights: dict[str, Array] = {
        "s": np.array(0.05, np.float32), "z": np.array(128, np.uint8),
        "w": levels(4, 2, 3, 3), "ws": np.array([0.01, 0.02, 0.03, 0.01], np.float32),
        "wz": np.zeros(4, np.int8), "b": np.array([1, -2, 30, 4], np.int32),
        "v": (levels(36, 5, seed=1).astype(np.int32) + 128).astype(np.uint8),
        "vs": np.array(0.02, np.float32), "vz": np.array(120, np.uint8),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "s", "z", "b"], ["c"]),
        helper.make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("QLinearMatMul", ["f", "s", "z", "v", "vs", "vz", "s", "z"], ["m"]),
        helper.make_node("DequantizeLinear", ["m", "s", "z"], ["y"]),
    ]
    outputs = [value("y", ["n", 5]), value("m", ["n", 5], TensorProto.UINT8)]
    return model(nodes, [value("x", ["n", 2, 8, 8])], outputs, weights)


def dynamic() -> ModelProto:
    """A convolution and a product of levels that follow from the numbers."""
    weights: dict[str, Array] = {
        "w": levels(4, 2, 3, 3), "wz": np.array(0, np.int8), "ws": np.array(0.01, np.float32),
        "v": levels(36, 5, seed=1), "vz": np.array([0, 1, 2, 3, 4], np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["c"], pads=[0, 0, 0, 0]),
        helper.make_node("Cast", ["c"], ["cf"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "ws"], ["t"]),
        helper.make_node("Mul", ["cf", "t"], ["d"]),
        helper.make_node("MaxPool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("DynamicQuantizeLinear", ["f"], ["g", "gs", "gz"]),
        helper.make_node("MatMulInteger", ["g", "v", "gz", "vz"], ["m"]),
        helper.make_node("Cast", ["m"], ["mf"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["mf", "gs"], ["y"]),
    ]
    return model(nodes, [value("x", [2, 2, 8, 8])], [value("y", [2, 5])], weights)


def moved() -> ModelProto:
    """Levels that are fed, moved, added with wrapping, compared and cast."""
    weights: dict[str, Array] = {
        "shape": np.array([0, -1]), "row": levels(12), "s": np.array(0.5, np.float32),
        "limit": np.array(9, np.int8),
    }  # fmt: skip
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["a"]),
        helper.make_node("Add", ["a", "row"], ["b"]),
        helper.make_node("Greater", ["b", "limit"], ["c"]),
        helper.make_node("Where", ["c", "b", "a"], ["d"]),
        helper.make_node("Cast", ["d"], ["e"], to=TensorProto.FLOAT),
        helper.make_node("DequantizeLinear", ["d", "s"], ["f"]),
        helper.make_node("Sub", ["f", "e"], ["y"]),
    ]
    return model(
        nodes, [value("x", ["n", 3, 4], TensorProto.INT8)], [value("y", ["n", 12])], weights
    )
