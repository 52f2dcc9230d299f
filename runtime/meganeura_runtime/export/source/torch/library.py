"""The layers of the library that are modules or functions of PyTorch, with equal meaning."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.elaborate.values import ElabValue, is_tensor
from meganeura_dsl.ir.initializers import (
    Full,
    Initializer,
    KaimingUniform,
    Normal,
    Ones,
    Uniform,
    Zeros,
)
from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.configuration import config
from meganeura_runtime.export.source.library_use import Functions, Use
from meganeura_runtime.export.source.text import Code, call, method
from meganeura_runtime.export.source.torch.sizes import size_text
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.trace import Event


@dataclass(frozen=True)
class Layer:
    """A module of PyTorch: its width in the input, and what its arguments are called there."""

    name: str
    widths: tuple[tuple[str, int], ...]
    """The input and the axis of each width that it is given, before its arguments."""
    arguments: tuple[tuple[str, str, bool], ...]
    """Ours, theirs, and whether it stands by place."""
    ranked: int = 0
    """The rank of the input that its name speaks of 0 dimensions for, if it does."""


_CONV = (
    ("c", "", True), ("k", "", True), ("stride", "stride", False), ("pad", "padding", False),
    ("dilation", "dilation", False), ("groups", "groups", False), ("bias", "bias", False),
)  # fmt: skip
_TURNED = (*_CONV[:4], ("output_pad", "output_padding", False), *_CONV[4:])
TORCH: Mapping[str, Layer] = {
    "linear": Layer("Linear", (("x", -1),), (("out", "", True), ("bias", "bias", False))),
    **{f"conv{n}d": Layer(f"Conv{n}d", (("x", 1),), _CONV) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": Layer(f"ConvTranspose{n}d", (("x", 1),), _TURNED) for n in (1, 2)},
    "batch_norm": Layer(
        "BatchNorm", (("x", 1),), (("eps", "eps", False), ("momentum", "momentum", False)), 2
    ),
    "layer_norm": Layer("LayerNorm", (("x", -1),), (("eps", "eps", False),)),
    "rms_norm": Layer("RMSNorm", (("x", -1),), (("eps", "eps", False),)),
    "group_norm": Layer("GroupNorm", (("x", 1),), (("groups", "", True), ("eps", "eps", False))),
    "embedding": Layer(
        "Embedding",
        (),
        (("vocabulary", "", True), ("d", "", True), ("padding", "padding_idx", False)),
    ),
}
_DEFAULTS = {"padding": -1}
"""Arguments that are left out where they have this value, as PyTorch's default means it."""
_OTHER_DEFAULTS = {"rms_norm": {"eps": 1e-6}}
"""Arguments whose default is another one in PyTorch."""


def is_torch(events: Sequence[Event]) -> bool:
    """Returns True for a layer of the library that is a module of PyTorch."""
    first = events[0].child
    return first.frame.module.is_library and first.block.name.text in TORCH and first.owns


def layer_for(
    writer: TorchWriter,
    node: ast.Call,
    events: Sequence[Event],
    nodes: Mapping[str, ast.Expression],
) -> Code | None:
    """The text that makes a module of PyTorch; None if the layer is none."""
    if not is_torch(events):
        return None
    block = events[0].child.block.name.text
    layer = TORCH[block]
    values = [each.child.signature for each in events]
    name = layer.name
    if layer.ranked:
        value = values[0]["x"]
        assert is_tensor(value)
        name = f"{name}{max(value.type.rank - layer.ranked, 1)}d"
    widths: list[str] = []
    for item, axis in layer.widths:
        wanted: list[tuple[Event, ElabValue]] = []
        for event, signature in zip(events, values, strict=True):
            value = signature[item]
            assert is_tensor(value)
            wanted.append((event, value.type.shape[axis]))
        first = values[0][item]
        assert is_tensor(first)
        source = (nodes[item], axis % first.type.rank) if item in nodes else None
        widths.append(str(size_text(writer, node, wanted, source)))
    by_place: list[str] = []
    by_name: list[str] = []
    for ours, theirs, is_place in layer.arguments:
        default = _DEFAULTS.get(ours)
        if default is not None and all(each[ours] == default for each in values):
            continue
        text = config(writer, node, events, ours, "init")
        other = _OTHER_DEFAULTS.get(block, {}).get(ours)
        if text is None and other is not None:
            text = Code(repr(other))
        if text is None:
            continue
        if is_place:
            by_place.append(str(text))
        else:
            by_name.append(f"{theirs}={text}")
    if block == "group_norm":
        arguments = [*by_place, *widths, *by_name]
    else:
        arguments = [*widths, *by_place, *by_name]
    return Code(f"nn.{name}({', '.join(arguments)})")


_OWN: dict[tuple[str, str], type[Initializer]] = {
    ("Linear", "weight"): KaimingUniform, ("BatchNorm", "weight"): Ones,
    ("BatchNorm", "bias"): Zeros, ("BatchNorm", "running_mean"): Zeros,
    ("BatchNorm", "running_var"): Ones, ("BatchNorm", "num_batches_tracked"): Zeros,
    ("LayerNorm", "weight"): Ones, ("LayerNorm", "bias"): Zeros, ("RMSNorm", "weight"): Ones,
    ("GroupNorm", "weight"): Ones, ("GroupNorm", "bias"): Zeros,
    **{(f"Conv{n}d", "weight"): KaimingUniform for n in (1, 2, 3)},
    **{(f"ConvTranspose{n}d", "weight"): KaimingUniform for n in (1, 2)},
}  # fmt: skip
"""Initial values in PyTorch's modules. Biases of linear maps are uniform there too."""


def initial_text(layer: str, parameter: str, initializer: Initializer) -> str | None:
    """A statement that gives `@` another first value than the module does; None if it has it."""
    if _OWN.get((layer, parameter)) is type(initializer):
        return None
    if parameter == "bias" and isinstance(initializer, Uniform):
        return None
    match initializer:
        case Zeros():
            return "nn.init.zeros_(@)"
        case Ones():
            return "nn.init.ones_(@)"
        case Full(value):
            return f"nn.init.constant_(@, {value!r})"
        case Normal(std):
            return (
                None if std == 1.0 and layer == "Embedding" else f"nn.init.normal_(@, std={std!r})"
            )
        case Uniform(bound):
            return f"nn.init.uniform_(@, -{bound!r}, {bound!r})"
        case _:
            return None


def _plain(function: str) -> Callable[[Use], Code]:
    return lambda use: call(function, use.tensor("x"))


def _softmax(use: Use) -> Code:
    name = use.events[0].child.block.name.text
    return method(use.tensor("x"), name, use.config("axis", "-1"))


def _pool(kind: str) -> Callable[[Use], Code | None]:
    def apply(use: Use) -> Code | None:
        rank = use.rank() - 2
        if rank not in (1, 2, 3):
            return None
        parts = [use.config("k", "")]
        if config(use.writer, use.node, use.events, "stride", "forward") is not None:
            stride = use.config("stride", "")
            if any(
                each.child.signature["stride"] != each.child.signature["k"] for each in use.events
            ):
                parts.append(stride)
        pad = use.config("pad", "0")
        named = {} if pad.text == "0" else {"padding": pad}
        return call(f"F.{kind}_pool{rank}d", use.tensor("x"), *parts, **named)

    return apply


def _upsample(use: Use) -> Code | None:
    if use.rank() not in (3, 4, 5):
        return None
    return call("F.interpolate", use.tensor("x"), scale_factor=use.config("scale", ""))


def _dropout(name: str) -> Callable[[Use], Code | None]:
    def apply(use: Use) -> Code | None:
        if name == "dropout2d" and use.rank() != 4:
            return None
        training = "self.training" if use.writer.is_class else "training"
        use.writer.unit.training = True
        return call(f"F.{name}", use.tensor("x"), use.config("p", "0.5"), training)

    return apply


def _attention(use: Use) -> Code | None:
    """Scaled dot products, unless data hides or shifts what PyTorch's function cannot."""
    if use.is_given("offset") or use.always("window") != 0:
        return None
    causal = use.always("causal")
    if causal is None or use.is_given("bias"):
        return None
    named: dict[str, Code | str] = {}
    if use.is_given("mask"):
        if causal:
            return None
        named["attn_mask"] = use.tensor("mask")
    if causal:
        named["is_causal"] = "True"
    shared = [
        (each.child.signature["shared"], each.child.signature["heads"]) for each in use.events
    ]
    if any(a != b for a, b in shared):
        named["enable_gqa"] = "True"
    tensors = (use.tensor(each) for each in ("q", "k", "v"))
    return call("F.scaled_dot_product_attention", *tensors, **named)


def _cross_entropy(use: Use) -> Code | None:
    """The cross-entropy of classes; that of distributions is written out."""
    labels = [each.child.signature["labels"] for each in use.events]
    if not all(is_tensor(each) and each.type.dtype.is_integer for each in labels):
        return None
    rank = use.rank("logits")
    if rank < 2:
        return None
    logits, numbers = use.tensor("logits"), use.tensor("labels")
    if rank > 2:
        logits, numbers = method(logits, "flatten", "0", "-2"), method(numbers, "flatten")
    smoothing = use.config("label_smoothing", "0.0")
    named = {} if smoothing.text == "0.0" else {"label_smoothing": smoothing}
    return call("F.cross_entropy", logits, numbers, **named)


def _compared(function: str, first: str) -> Callable[[Use], Code]:
    return lambda use: call(function, use.tensor(first), use.tensor("target"))


FUNCTIONS: Functions = {
    "cross_entropy": _cross_entropy,
    "mse": _compared("F.mse_loss", "prediction"),
    "bce": _compared("F.binary_cross_entropy_with_logits", "logits"),
    "relu": _plain("F.relu"),
    "relu6": _plain("F.relu6"),
    "sigmoid": _plain("torch.sigmoid"),
    "silu": _plain("F.silu"),
    "gelu": _plain("F.gelu"),
    "gelu_tanh": lambda use: call("F.gelu", use.tensor("x"), approximate='"tanh"'),
    "hard_sigmoid": _plain("F.hardsigmoid"),
    "hard_swish": _plain("F.hardswish"),
    "softplus": _plain("F.softplus"),
    "log_sigmoid": _plain("F.logsigmoid"),
    "mish": _plain("F.mish"),
    "glu": _plain("F.glu"),
    "leaky_relu": lambda use: call("F.leaky_relu", use.tensor("x"), use.config("slope", "0.01")),
    "elu": lambda use: call("F.elu", use.tensor("x"), use.config("alpha", "1.0")),
    "softmax": _softmax,
    "log_softmax": _softmax,
    "logsumexp": _softmax,
    "max_pool": _pool("max"),
    "avg_pool": _pool("avg"),
    "upsample": _upsample,
    "dropout": _dropout("dropout"),
    "dropout2d": _dropout("dropout2d"),
    "attention": _attention,
}
