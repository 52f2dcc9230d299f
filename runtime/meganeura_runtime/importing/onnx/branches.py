"""An `If` that data decides: both branches are computed, and `where` selects."""

from collections.abc import Sequence

from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node, Value


def selected(
    node: Node,
    condition: Tensor,
    then_results: Sequence[Value | None],
    else_results: Sequence[Value | None],
) -> Sequence[Value | None]:
    """The results of an `If`, of those of both branches, by a scalar condition.

    Raises `UnsupportedNodeError` where their types differ.
    """
    build = node.build
    found: list[Value | None] = []
    for pair in zip(then_results, else_results, strict=True):
        then, otherwise = (
            each if isinstance(each, Tensor) else node.written(each)
            for each in pair
            if each is not None
        )
        if then.dtype is not otherwise.dtype or not build.same_shape(then.shape, otherwise.shape):
            types = f"{then.type} and {otherwise.type}"
            raise UnsupportedNodeError(f"data decides whether it gives {types}")
        found.append(build.where(condition, then, otherwise))
    return found
