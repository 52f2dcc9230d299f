"""The layers of the standard library against PyTorch's: outputs, and gradients of all they read.

The upstream gradient is random, so that one that is dropped, summed or taken for 1 is seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Value, continued
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Input, Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.autodiff import differentiate
from tests.parity.references.sequences import rotated

pytestmark = pytest.mark.parity

Tensor = torch.Tensor


@dataclass(frozen=True)
class Layer:
    """An expression over the inputs `x`, `y` and `z`, and the same in PyTorch.

    The function takes the inputs, then the parameters in the order of their declaration.
    """

    name: str
    expression: str
    function: Callable[..., Tensor]
    types: str = "x: [3, 5]"
    scale: float = 1.0
    shift: float = 0.0
    fed: Mapping[str, Array] = field(default_factory=dict[str, Array])
    relative: float = 1e-9

    def __str__(self) -> str:
        return self.name


def elaborated(layer: Layer, *, training: bool = True) -> Elaboration:
    """The expression as a model."""
    recurrent = "from recurrent import gru, lstm\n"
    text = f"{recurrent}block Net()({layer.types}) = {layer.expression}\nmodel net = Net()\n"
    sink = Sink()
    module = Linker(loader_beside(Path("layer.mgn")), sink).link(Source("layer.mgn", text))
    assert not sink.has_errors, sink.reports
    return elaborate_model(Program(module), training=training)


def values_for(layer: Layer, elaboration: Elaboration) -> dict[str, Array]:
    """Random values of all leaves; i32 below 5, and the running variance positive."""
    generator = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for value in elaboration.graph.values:
        op = value.op
        if isinstance(op, Input | Parameter):
            shape = tuple(size for size in op.shape if isinstance(size, int))
            real = generator.normal(size=shape)
            if op.dtype is DType.I32:
                found[op.name] = np.asarray(generator.integers(0, 5, shape), np.int32)
            elif isinstance(op, Parameter):
                found[op.name] = 0.5 + np.abs(real)
            else:
                found[op.name] = layer.shift + layer.scale * real
    return {**found, **layer.fed}


def learnable(graph: Graph) -> dict[str, Value]:
    """The float inputs and the parameters that are trained: what has gradients."""
    found: dict[str, Value] = {}
    for value in graph.values:
        match value.op:
            case Input(name, dtype) if dtype.is_float:
                found[name] = value
            case Parameter(name, kind="param"):
                found[name] = value
            case _:
                pass
    return found


def ours(
    elaboration: Elaboration, values: Mapping[str, Array], upstream: Array
) -> tuple[Array, dict[str, Array]]:
    """The output, and the gradient of everything that has one."""
    build, graph = continued(elaboration.graph)
    out, leaves = graph.outputs["output"], learnable(graph)
    seed = build.add(Input("upstream", out.type.dtype, out.type.shape))
    gradients = differentiate(build, out, tuple(leaves.values()), seed)
    results = {"output": out, **dict(zip(leaves, gradients, strict=True))}
    interpreter = Interpreter(build.graph(results), Precision.DOUBLE)
    fed = {name: array for name, array in values.items() if name in interpreter.leaves}
    found = dict(interpreter.run({**fed, "upstream": upstream}).outputs)
    return found.pop("output"), found


def theirs(
    layer: Layer, elaboration: Elaboration, values: Mapping[str, Array], upstream: Array
) -> tuple[Array, dict[str, Array]]:
    """The same of PyTorch."""
    tensors = {name: torch.tensor(array) for name, array in values.items()}
    leaves = {name: tensors[name].requires_grad_() for name in learnable(elaboration.graph)}
    parameters = [info.name for info in elaboration.parameters if info.kind == "param"]
    out = layer.function(*(tensors[name] for name in (*elaboration.inputs, *parameters)))
    gradients = torch.autograd.grad(out, list(leaves.values()), torch.tensor(upstream))
    found = {name: each.numpy() for name, each in zip(leaves, gradients, strict=True)}
    return out.detach().numpy(), found


LAYERS = [
    Layer("relu", "x |> relu", F.relu),
    Layer("relu6", "x |> relu6", F.relu6, scale=6),
    Layer("leaky_relu", "x |> leaky_relu", F.leaky_relu),
    Layer("leaky_relu-0.2", "x |> leaky_relu(0.2)", partial(F.leaky_relu, negative_slope=0.2)),
    Layer("elu", "x |> elu(0.7)", partial(F.elu, alpha=0.7), scale=300),
    Layer("sigmoid", "x |> sigmoid", torch.sigmoid, scale=30),
    Layer("silu", "x |> silu", F.silu, scale=30),
    Layer("gelu", "x |> gelu", F.gelu, scale=2),
    Layer("gelu_tanh", "x |> gelu_tanh", partial(F.gelu, approximate="tanh"), scale=2),
    # Torch's own slopes are multiplied with 1/6 in single precision.
    Layer("hard_sigmoid", "x |> hard_sigmoid", lambda x: F.relu6(x + 3) / 6, scale=4),
    Layer("hard_swish", "x |> hard_swish", lambda x: x * F.relu6(x + 3) / 6, scale=4),
    Layer("mish", "x |> mish", F.mish, scale=10),
    Layer("glu", "x |> glu", F.glu, "x: [2, 3, 6]"),
    Layer("softplus", "x |> softplus", lambda x: torch.logaddexp(x, torch.zeros(())), scale=30),
    Layer("softmax", "x |> softmax", partial(torch.softmax, dim=-1), scale=30),
    Layer("softmax-axis-0", "x |> softmax(axis=0)", partial(torch.softmax, dim=0)),
    Layer("log_softmax", "x |> log_softmax", partial(torch.log_softmax, dim=-1), scale=300),
    Layer("log_softmax-axis-0", "x |> log_softmax(axis=0)", partial(torch.log_softmax, dim=0)),
    Layer("linear", "x |> fc: linear(4)", F.linear),
    Layer("linear-of-a-row", "x |> fc: linear(4)", F.linear, "x: [5]"),
    Layer("linear-without-bias", "x |> fc: linear(4, bias=false)", F.linear, "x: [2, 3, 5]"),
    Layer(
        "conv1d",
        "x |> c: conv1d(4, 3, 2, pad=2, dilation=2)",
        lambda x, w, b: F.conv1d(x, w, b, 2, 2, 2),
        "x: [2, 3, 9]",
    ),
    Layer(
        "conv2d-grouped",
        "x |> c: conv2d(4, 3, 2, pad=1, groups=2)",
        lambda x, w, b: F.conv2d(x, w, b, 2, 1, 1, 2),
        "x: [2, 6, 7, 8]",
    ),
    Layer(
        "conv2d-depthwise",
        "x |> c: conv2d(3, 3, pad=1, groups=3, bias=false)",
        lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 3),
        "x: [2, 3, 5, 41]",
    ),
    Layer(
        "conv3d",
        "x |> c: conv3d(4, 3, 2, pad=1, groups=2)",
        lambda x, w, b: F.conv3d(x, w, b, 2, 1, 1, 2),
        "x: [2, 4, 5, 6, 3]",
    ),
    Layer(
        "conv_transpose1d",
        "x |> c: conv_transpose1d(4, 3, 2, pad=1, output_pad=1)",
        lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1),
        "x: [2, 3, 5]",
    ),
    Layer(
        "conv_transpose2d",
        "x |> c: conv_transpose2d(6, 4, 3, 1, 2, groups=2, dilation=2)",
        lambda x, w, b: F.conv_transpose2d(x, w, b, 3, 1, 2, 2, 2),
        "x: [2, 4, 3, 5]",
    ),
    Layer(
        "conv_transpose2d-without-bias",
        "x |> c: conv_transpose2d(2, 2, 2, bias=false)",
        lambda x, w: F.conv_transpose2d(x, w, None, 2),
        "x: [2, 3, 3, 4]",
    ),
    Layer(
        "max_pool",
        "x |> max_pool(3, 2, pad=1)",
        lambda x: F.max_pool2d(x, 3, 2, 1),
        "x: [2, 3, 7, 8]",
        shift=-5,
    ),
    Layer("avg_pool", "x |> avg_pool(2)", lambda x: F.avg_pool2d(x, 2), "x: [2, 3, 7, 8]"),
    Layer(
        "upsample",
        "x |> upsample(3)",
        lambda x: F.interpolate(x, scale_factor=3.0, mode="nearest"),
        "x: [2, 3, 2, 4]",
    ),
    *(
        Layer(
            f"resize-{mode}-{height}x{width}",
            f'x |> resize({height}, {width}, mode="{mode}")',
            lambda x, mode=mode, size=(height, width): F.interpolate(x, size, mode=mode),
            "x: [2, 3, 7, 4]",
        )
        for mode in ("bilinear", "nearest")
        for height, width in ((3, 9), (14, 4), (1, 3))
    ),
    *(
        Layer(
            f"batch_norm-{len(shape)}d",
            "x |> bn: batch_norm(eps=0.1)",
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True, eps=0.1),
            f"x: {shape}",
            shift=3,
        )
        for shape in ([6, 3], [4, 3, 5], [2, 3, 5, 4])
    ),
    Layer(
        "ghost_batch_norm",
        "x |> bn: ghost_batch_norm(2, eps=0.1)",
        lambda x, w, b: torch.cat(
            [F.batch_norm(part, None, None, w, b, training=True, eps=0.1) for part in x.chunk(2)]
        ),
        "x: [6, 3, 5, 4]",
        shift=3,
    ),
    *(
        Layer(
            f"layer_norm-{rows}-rows",
            "x |> ln: layer_norm(eps=0.1)",
            lambda x, w, b: F.layer_norm(x, (41,), w, b, 0.1),
            f"x: [{rows}, 41]",
            shift=3,
        )
        for rows in (1, 2, 3, 7)
    ),
    Layer(
        "rms_norm",
        "x |> norm: rms_norm(eps=0.1)",
        lambda x, w: F.rms_norm(x, (5,), w, 0.1),
        "x: [2, 3, 5]",
    ),
    Layer(
        "group_norm",
        "x |> gn: group_norm(2, eps=0.1)",
        lambda x, w, b: F.group_norm(x, 2, w, b, 0.1),
        "x: [2, 6, 3, 5]",
        shift=3,
    ),
    Layer(
        "instance_norm",
        "x |> instance_norm(0.1)",
        partial(F.instance_norm, eps=0.1),
        "x: [2, 3, 5, 4]",
        shift=3,
    ),
    Layer(
        "embedding-of-padding",
        "x |> e: embedding(5, 4, 2)",
        lambda x, w: F.embedding(x, w, 2),
        "x: i32[6, 7]",
    ),
    Layer("embedding", "x |> e: embedding(5, 4)", F.embedding, "x: i32[3, 4]"),
    Layer("rope", "x |> rope(50.0)", partial(rotated, theta=50.0), "x: [2, 3, 7, 6]"),
]

ATTENTION = "x: [2, 4, {s}, {d}], y: [2, {kv}, {t}, {d}], z: [2, {kv}, {t}, {e}]"


def attended(x: Tensor, y: Tensor, z: Tensor, *, causal: bool = False, window: int = 0) -> Tensor:
    """Attention whose keys and values are shared by several heads, with an explicit mask."""
    back = torch.arange(x.shape[2])[:, None] - torch.arange(y.shape[2])[None, :]
    seen = (back >= 0) if causal else torch.ones_like(back, dtype=torch.bool)
    if window:
        seen &= back < window
    return F.scaled_dot_product_attention(x, y, z, attn_mask=seen, enable_gqa=True)


LAYERS += [
    Layer(
        "attention",
        "attention(x, y, z)",
        attended,
        ATTENTION.format(s=3, t=5, d=6, e=7, kv=4),
    ),
    Layer(
        "attention-wide-heads",
        "attention(x, y, z)",
        attended,
        ATTENTION.format(s=3, t=3, d=128, e=128, kv=4),
    ),
    Layer(
        "attention-causal",
        "attention(x, y, z, causal=true)",
        partial(attended, causal=True),
        ATTENTION.format(s=5, t=5, d=4, e=4, kv=4),
    ),
    Layer(
        "attention-shared-keys",
        "attention(x, y, z, causal=true)",
        partial(attended, causal=True),
        ATTENTION.format(s=5, t=5, d=4, e=4, kv=2),
    ),
    Layer(
        "attention-sliding",
        "attention(x, y, z, causal=true, window=2)",
        partial(attended, causal=True, window=2),
        ATTENTION.format(s=6, t=6, d=4, e=4, kv=1),
    ),
]


def chosen(
    x: Tensor, y: Tensor, z: Tensor, mask: Tensor, bias: Tensor, *, offset: int | None = None
) -> Tensor:
    """Attention with a bias, among the keys that a mask lets through and that are not ahead."""
    if offset is not None:
        back = torch.arange(x.shape[2])[:, None] - torch.arange(y.shape[2])[None, :]
        mask = mask & (back + offset >= 0)
    hidden = torch.where(mask, bias, -1e30)
    return F.scaled_dot_product_attention(x, y, z, attn_mask=hidden)


CHOSEN = ", m: bool[2, 4, 3, 5], b: [2, 4, 3, 5]"
LAYERS += [
    Layer(
        "attention-masked",
        "attention(x, y, z, mask=m, bias=b)",
        chosen,
        ATTENTION.format(s=3, t=5, d=6, e=7, kv=4) + CHOSEN,
        fed={"m": np.arange(120).reshape(2, 4, 3, 5) % 3 > 0},
    ),
    Layer(
        "attention-offset",
        "x |> attention(causal=true)(y, z, m, bias=b, offset=2)",
        partial(chosen, offset=2),
        ATTENTION.format(s=3, t=5, d=6, e=7, kv=4) + CHOSEN,
        fed={"m": np.arange(120).reshape(2, 4, 3, 5) % 4 != 1},
    ),
]

LABELS = {"y": np.array([4, 0, 2], np.int32)}
LAYERS += [
    Layer(
        "cross_entropy",
        "cross_entropy(x, y)",
        lambda x, y: F.cross_entropy(x, y.long()),
        "x: [3, 5], y: i32[3]",
        scale=100,
        fed=LABELS,
    ),
    Layer(
        "cross_entropy-smoothed",
        "cross_entropy(label_smoothing=0.1)(x, y)",
        lambda x, y: F.cross_entropy(x, y.long(), label_smoothing=0.1),
        "x: [3, 5], y: i32[3]",
        fed=LABELS,
    ),
    Layer(
        "cross_entropy-smoothed-shares",
        "cross_entropy(label_smoothing=0.3)(x, softmax(y))",
        lambda x, y: F.cross_entropy(x, torch.softmax(y, -1), label_smoothing=0.3),
        "x: [3, 5], y: [3, 5]",
    ),
    Layer(
        "cross_entropy-of-any-sum",
        "cross_entropy(x, y)",
        lambda x, y: -(y * torch.log_softmax(x, -1)).sum(-1).mean(),
        "x: [3, 5], y: [3, 5]",
    ),
    Layer(
        "masked_cross_entropy",
        "masked_cross_entropy(x, y)",
        lambda x, y: F.cross_entropy(x, y.long()),
        "x: [3, 5], y: i32[3]",
        fed={"y": np.array([4, -100, 2], np.int32)},
    ),
    Layer("mse", "mse(x, y)", F.mse_loss, "x: [3, 5], y: [3, 5]"),
    Layer(
        "smooth_l1",
        "smooth_l1(0.7)(x, y)",
        partial(F.smooth_l1_loss, beta=0.7),
        "x: [3, 5], y: [3, 5]",
    ),
    Layer(
        "smooth_l1-of-no-width",
        "smooth_l1(0.0)(x, y)",
        partial(F.smooth_l1_loss, beta=0.0),
        "x: [3, 5], y: [3, 5]",
    ),
    Layer("l1", "l1(x, y)", F.l1_loss, "x: [3, 5], y: [3, 5]"),
    Layer(
        "bce",
        "bce(x, y)",
        F.binary_cross_entropy_with_logits,
        "x: [3, 5], y: [3, 5]",
        scale=200,
        fed={"y": np.linspace(0, 1, 15).reshape(3, 5)},
    ),
]


def recurrent(x: Tensor, *weights: Tensor, kind: str, backwards: bool = False) -> Tensor:
    """`torch.nn.LSTM` or `torch.nn.GRU`, batch first, with these weights of its layers."""
    layers = len(weights) // 4
    start = torch.zeros((layers, x.shape[0], weights[1].shape[1]), dtype=x.dtype)
    x = x.flip(1) if backwards else x
    how = True, layers, 0.0, False, False, True  # biases, evaluation, batch first
    if kind == "lstm":
        out = torch.lstm(x, (start, start), weights, *how)[0]
    else:
        out = torch.gru(x, start, weights, *how)[0]
    return out.flip(1) if backwards else out


LAYERS += [
    Layer(
        f"{kind}{'-backwards' if backwards else ''}",
        f"x |> r: {kind}(4{', backwards=true' if backwards else ''})",
        partial(recurrent, kind=kind, backwards=backwards),
        "x: [3, 7, 5]",
        relative=0,
    )
    for kind in ("lstm", "gru")
    for backwards in (False, True)
]
LAYERS += [
    Layer(
        f"{kind}-of-3",
        f"x |> r: {kind}(4, layers=3)",
        partial(recurrent, kind=kind),
        "x: [3, 7, 5]",
        relative=0,
    )
    for kind in ("lstm", "gru")
]


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_layer_has_the_names_of_pytorch(kind: str, layers: int) -> None:
    name = kind if layers == 1 else f"{kind}-of-{layers}"
    layer = next(each for each in LAYERS if each.name == name)
    module = (torch.nn.LSTM if kind == "lstm" else torch.nn.GRU)(5, 4, layers, batch_first=True)
    theirs_ = {f"r.{name}": tuple(each.shape) for name, each in module.named_parameters()}
    ours_ = {info.name: info.type.shape for info in elaborated(layer).parameters}
    assert list(ours_.items()) == list(theirs_.items())


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_layer_is_pytorch_s(layer: Layer) -> None:
    elaboration = elaborated(layer)
    values = values_for(layer, elaboration)
    shape = concrete_shape(elaboration.graph.outputs["output"].type.shape)
    upstream = np.random.default_rng(1).normal(size=shape)
    expected, slopes = theirs(layer, elaboration, values, upstream)
    found, gradients = ours(elaboration, values, upstream)
    np.testing.assert_allclose(
        found, expected, rtol=layer.relative, atol=1e-11 if layer.relative else 1e-12
    )
    assert gradients.keys() == slopes.keys()
    for name, slope in slopes.items():
        np.testing.assert_allclose(
            gradients[name], slope, rtol=layer.relative, atol=1e-11, err_msg=name
        )


def test_batch_norm_keeps_running_statistics() -> None:
    layer = Layer("bn", "x |> bn: batch_norm(momentum=0.3)", F.batch_norm, "x: [3, 2, 2]")
    training, inference = elaborated(layer), elaborated(layer, training=False)
    values = values_for(layer, training)
    module = torch.nn.BatchNorm1d(2, momentum=0.3).double()
    state = {name: torch.tensor(values[f"bn.{name}"]) for name in module.state_dict()}
    module.load_state_dict(state)
    module(torch.tensor(values["x"]))
    updates = Interpreter(training.graph, Precision.DOUBLE).run(values).updates
    for name, state in module.named_buffers():
        np.testing.assert_allclose(updates[f"bn.{name}"], state.numpy(), rtol=1e-9)
    expected = module.eval()(torch.tensor(values["x"])).detach().numpy()
    interpreter = Interpreter(inference.graph, Precision.DOUBLE)
    fed = {name: {**values, **updates}[name] for name in interpreter.leaves}
    np.testing.assert_allclose(interpreter.run(fed).outputs["output"], expected, rtol=1e-9)


def test_ghost_batch_norm_keeps_the_mean_of_replicas_statistics() -> None:
    layer = Layer("bn", "x |> bn: ghost_batch_norm(3, momentum=0.3)", F.batch_norm, "x: [6, 2, 2]")
    elaboration = elaborated(layer)
    values = values_for(layer, elaboration)
    replicas = [torch.nn.BatchNorm1d(2, momentum=0.3).double() for _ in range(3)]
    for module, part in zip(replicas, torch.tensor(values["x"]).chunk(3), strict=True):
        module.load_state_dict(
            {name: torch.tensor(values[f"bn.{name}"]) for name in module.state_dict()}
        )
        module(part)
    updates = Interpreter(elaboration.graph, Precision.DOUBLE).run(values).updates
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        states = torch.stack([module.get_buffer(name).double() for module in replicas])
        np.testing.assert_allclose(updates[f"bn.{name}"], states.mean(0).numpy(), rtol=1e-9)


def test_a_variance_beside_a_large_mean_keeps_its_digits() -> None:
    layer = Layer(
        "gn", "x |> gn: group_norm(2)", F.group_norm, "x: [2, 4, 3, 3]", shift=1e4
    )  # fmt: skip
    elaboration = elaborated(layer)
    values = {
        name: array.astype(np.float32) for name, array in values_for(layer, elaboration).items()
    }
    found = Interpreter(elaboration.graph).run(values).outputs["output"]
    exact = Interpreter(elaboration.graph, Precision.DOUBLE).run(values).outputs["output"]
    assert np.abs(found - exact).max() < 0.01


def _bce(x: Tensor) -> Tensor:
    target = torch.tensor([0.0, 0, 1, 0.25, 1, 0, 0, 1, 1, 0], dtype=x.dtype)
    return F.binary_cross_entropy_with_logits(x, target)


KINKS = np.array([0, -0.0, 3, -3, 6, -6, 1, -1, 0.7, 5.5])
AT_KINKS: Mapping[str, tuple[str, Callable[..., Tensor]]] = {
    "relu": ("x |> relu", F.relu),
    "relu6": ("x |> relu6", F.relu6),
    "leaky_relu": ("x |> leaky_relu", F.leaky_relu),
    "elu": ("x |> elu(0.7)", partial(F.elu, alpha=0.7)),
    "hard_sigmoid": ("x |> hard_sigmoid", F.hardsigmoid),
    "hard_swish": ("x |> hard_swish", F.hardswish),
    "softplus": ("x |> softplus", F.softplus),
    "mish": ("x |> mish", F.mish),
    "bce": ("bce(x, constant([0.0, 0, 1, 0.25, 1, 0, 0, 1, 1, 0]))", _bce),
}


@pytest.mark.parametrize("name", AT_KINKS)
def test_a_slope_at_a_kink_is_pytorch_s(name: str) -> None:
    """The parts of `softplus`, `bce` and `elu` have kinks at 0, where the functions are smooth."""
    expression, function = AT_KINKS[name]
    # Torch multiplies slopes of the hard functions with 1/6 in single precision.
    layer = Layer(name, expression, function, "x: [10]", fed={"x": KINKS}, relative=1e-7)
    test_a_layer_is_pytorch_s(layer)
