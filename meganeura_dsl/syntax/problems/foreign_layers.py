"""Layers of PyTorch and Keras as they are written here, with the arguments that they are given."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.syntax.problems.block_text import block_before

_ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid", "softmax", "elu", "relu6", "softplus")
_SAME_ACTIVATIONS = {"swish": "silu"}
_FLAGS = {"True": "true", "False": "false", "true": "true", "false": "false"}


@dataclass(frozen=True)
class _Layer:
    """A layer elsewhere: its arguments in their order, and what is made of them here."""

    arguments: tuple[str, ...]
    label: str
    written: Callable[[Mapping[str, str]], str | None]
    """Writes the call in this language from its arguments; None if it has no equivalent."""


def _linear(size: str) -> Callable[[Mapping[str, str]], str | None]:
    def written(given: Mapping[str, str]) -> str | None:
        if size not in given:
            return None
        return _call("linear", [given[size]], _bias(given))

    return written


def _embedding(rows: str, width: str) -> Callable[[Mapping[str, str]], str | None]:
    def written(given: Mapping[str, str]) -> str | None:
        if rows not in given or width not in given:
            return None
        return _call("embedding", [given[rows], given[width]], [])

    return written


def _convolution(layer: str) -> Callable[[Mapping[str, str]], str | None]:
    """The convolutions of Keras, whose padding is a word."""

    def written(given: Mapping[str, str]) -> str | None:
        window, stride = _one(given.get("kernel_size", "")), _one(given.get("strides", "1"))
        padding = given.get("padding", "valid").strip("\"'").lower()
        if not window or not stride or "filters" not in given:
            return None
        named = [] if stride == "1" else [f"stride={stride}"]
        if padding == "same" and stride == "1" and window.isdecimal() and int(window) % 2:
            named += [f"pad={int(window) // 2}"] if window != "1" else []
        elif padding != "valid":
            return None
        return _call(layer, [given["filters"], window], [*named, *_bias(given)])

    return written


_CONVOLVED = ("filters", "kernel_size", "strides", "padding")
_LAYERS = {
    "Dense": _Layer(("units", "activation", "use_bias"), "fc", _linear("units")),
    "Linear": _Layer(("in_features", "out_features", "bias"), "fc", _linear("out_features")),
    "LazyLinear": _Layer(("out_features", "bias"), "fc", _linear("out_features")),
    "Embedding": _Layer(
        ("num_embeddings", "embedding_dim"), "embed", _embedding("num_embeddings", "embedding_dim")
    ),
    "Conv1D": _Layer(_CONVOLVED, "conv", _convolution("conv1d")),
    "Conv2D": _Layer(_CONVOLVED, "conv", _convolution("conv2d")),
}
_RENAMED = {
    "input_dim": "num_embeddings", "output_dim": "embedding_dim", "use_bias": "bias",
    "features": "units",
}  # fmt: skip
"""Names of one argument in several systems."""


def layer_cure(
    name: str, arguments: Sequence[str], applied: Sequence[str], before: str
) -> Help | None:
    """A layer of another system with its arguments, as it is here; None if it has no such form.

    `applied` is what the layer is called with, and `before` the text of the file up to it.
    """
    layer = _LAYERS.get(name)
    if layer is None or not arguments or len(applied) > 1:
        return None
    given = dict[str, str]()
    for place, each in enumerate(arguments):
        key, is_named, value = each.partition("=")
        if is_named and re.fullmatch(r"\s*\w+\s*", key):
            given[_RENAMED.get(key.strip(), key.strip())] = value.strip()
        elif place < len(layer.arguments):
            argument = layer.arguments[place]
            given[_RENAMED.get(argument, argument)] = each
        else:
            return None
    activation = given.pop("activation", "").strip("\"'")
    activation = _SAME_ACTIVATIONS.get(activation, activation)
    known = {_RENAMED.get(each, each) for each in layer.arguments} | {"bias"}
    if activation not in (*_ACTIVATIONS, "", "None", "linear") or not given.keys() <= known:
        return None
    code = layer.written(given)
    if code is None:
        return None
    value = applied[0] if applied else "x"
    then = f" |> {activation}" if activation in _ACTIVATIONS else ""
    return Help("here it is", f"{value} |> {free_label(layer.label, before)}: {code}{then}")


def _call(name: str, given: Sequence[str], named: Sequence[str]) -> str:
    return f"{name}({', '.join([*given, *named])})"


def _bias(given: Mapping[str, str]) -> list[str]:
    return ["bias=false"] if _FLAGS.get(given.get("bias", "")) == "false" else []


def _one(sizes: str) -> str:
    """The size of a window that is the same along all axes; empty if it is not one."""
    each = {part.strip() for part in sizes.strip("()[] ").split(",") if part.strip()}
    return each.pop() if len(each) == 1 else ""


def free_label(label: str, before: str) -> str:
    """Returns the label, or with a number, so that no layer of the block up to here has it."""
    block = block_before(before)
    names = [label, *(f"{label}{number}" for number in range(2, 100))]
    return next(each for each in names if not re.search(rf"\b{each}:", block))
