"""The modules of PyTorch that nodes and weights are of, which its exporter writes beside them.

Its optimizer transposes the weights of `Linear` beforehand, under its own names, and keeps one
of several initializers that are equal: those of layers that are not trained yet.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from onnx import GraphProto, NodeProto

from meganeura_runtime.importing.onnx.node import Known, Value

SCOPES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
FOLDED = "pkg.onnxscript.optimizer.folded_from"
LONGEST = 1 << 16
"""Characters of an entry that is read."""
LINEAR = "aten.linear.default"


def listed(text: str) -> list[str]:
    """The names in an entry of metadata; none where it is no list of them."""
    try:
        found: object = ast.literal_eval(text) if len(text) <= LONGEST else []
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [str(each) for each in found] if isinstance(found, list) else []  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - of any type


def module_of(node: NodeProto) -> str:
    """The path of the module that a node is of, or empty."""
    return next(
        (
            names[-2] if len(names := listed(entry.value)) > 1 else ""
            for entry in node.metadata_props
            if entry.key == SCOPES
        ),
        "",
    )


def folded_from(graph: GraphProto) -> dict[str, list[str]]:
    """The initializers that the optimizer computed, and what of."""
    return {
        value.name: listed(entry.value)
        for value in graph.value_info
        for entry in value.metadata_props
        if entry.key == FOLDED
    }


@dataclass(frozen=True)
class Modules:
    """Gives weights the names that they have in the module."""

    sources: Mapping[str, list[str]]
    """The names from which each initializer was computed."""
    known: Mapping[str, Value | None]
    """The initializers."""
    constants: frozenset[str]
    """The initializers that are not trained."""

    def named(self, node: NodeProto, value: Value | None) -> Value | None:
        """An operand of a node with the name of its module, if that is another."""
        if not isinstance(value, Known) or not value.name or value.name in self.constants:
            return value
        return self._turned(node, value) or self._apart(node, value) or value

    def _turned(self, node: NodeProto, value: Known) -> Known | None:
        """The weight of a `Linear`, which is the transpose of what the node multiplies with."""
        sources = self.sources.get(value.name, [])
        classes = [listed(each.value) for each in node.metadata_props if each.key == CLASSES]
        is_linear = node.op_type == "MatMul" and bool(classes) and classes[0][-1:] == [LINEAR]
        if len(sources) != 1 or not is_linear or value.rank != 2:
            return None
        (name,) = sources
        first = self.known.get(name)
        if isinstance(first, Known) and not np.array_equal(first.array.T, value.array):
            return None
        return replace(value, name=name, is_turned=not value.is_turned)

    def _apart(self, node: NodeProto, value: Known) -> Known | None:
        """One of several weights that are equal as they are not trained: the module's own.

        A weight of a module within this one is what `forward` names, and stays that.
        """
        above, _, last = value.name.rpartition(".")
        module = module_of(node)
        name = f"{module}.{last}"
        if not above or not module or name in self.known or f"{above}.".startswith(f"{module}."):
            return None
        is_initial = value.array.size > 0 and bool((value.array == value.array.flat[0]).all())
        is_layer = last in ("weight", "bias")
        return replace(value, name=name) if is_initial and is_layer else None
