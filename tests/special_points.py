"""Every function of the language and the library at its special points: value and gradient.

Special are 0 on both sides, kinks, where a function saturates, what overflows, ties, infinities and
NaN. A function of one element gets them all at once; one of a row gets rows of them. What is right
stands in `special_points.json`, which PyTorch computes in double precision:
`python -m tests.parity.special_points` writes it anew.

A function that is in neither `CASES` nor `ELSEWHERE` fails
`tests/dsl/test_special_points.py::test_every_function_has_special_points` by its name.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array, Graph, Leaf, continued
from meganeura_dsl.ir.interpreter import storage_type
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from meganeura_dsl.transforms.autodiff import differentiate

STORED = Path(__file__).with_suffix(".json")
NAN, INF = float("nan"), float("inf")
ROUNDING = 4e-6
"""The relative tolerance of a result in single precision."""
SMALLEST = 1.2e-38
"""Numbers below may be flushed to zero."""


def _floats(*numbers: object) -> Array:
    return np.array(numbers, np.float32)


def _both(*numbers: float) -> tuple[float, ...]:
    return tuple(signed for number in numbers for signed in (number, -number))


EVERYWHERE = _floats(
    *_both(0.0, 1, 0.5, 0.3, 2.5, 3, 6, 5.5, 1e-3, 1e-8, 1e-20, 12, 17, 20, 30),
    *_both(80, 87, 90, 104, 1e4, 1e19, 1e30, INF),
    NAN,
)
"""Points of functions of one number."""
FEW = _floats(*_both(0.0, 1, 0.3, 2.5, 1e-20, 20, 1e19, INF), NAN)
PAIRS = tuple(each.ravel() for each in np.meshgrid(FEW, FEW))
"""All pairs of some, ties among them."""
ROWS = _floats(
    [0, 0, 0, 0],
    [1, 2, 2, -1],
    [20, 20, -20, 0],
    [100, -100, 0, 0],
    [-1000, -1000, -1001, -1000],
    [1e30, -1e30, 0, 1e30],
    [3e38, 3e38, 3e38, 3e38],
    [0, -INF, 1, -INF],
    [1, 2, NAN, 3],
)
"""Rows with ties, with an element that outweighs the others, and with infinities."""
UNTIED = _floats([1, 0, -1, 2], [-INF, 3, 2, INF], [1e30, -1e30, 0, 1e31])
HARD_ROWS = _floats([-INF, -INF, -INF, -INF], [INF, 0, 1, 2], [INF, INF, -INF, 0])


@dataclass(frozen=True, eq=False)
class Case:
    """An expression of the language over inputs, at points.

    Its name is that of the function, and behind a dash what is special about it.
    """

    name: str
    expression: str
    fed: Mapping[str, Array]
    absolute: float = SMALLEST
    """By how much a result in single precision may be off where it is small."""
    slopes: bool = True
    """True if gradients are compared too."""
    slope: float = 0.0
    """By how much a gradient may be off more, as PyTorch's own is rounded."""
    imports: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def covers(self) -> str:
        """The function that the case is about."""
        return self.name.partition("-")[0]


def _of_one(*names: str, absolute: float = SMALLEST) -> list[Case]:
    return [Case(name, f"{name}(x)", {"x": EVERYWHERE}, absolute) for name in names]


def _of_two(name: str, expression: str) -> Case:
    return Case(name, expression, {"x": PAIRS[0], "y": PAIRS[1]})


ONE = {"x": _floats([0], [-1000], [1e30])}
LABELS = np.array([0, 1, 2, 0, 3, 0, 1, 2, 3], np.int32)
STEADY = _floats([1, 1, 1, 1], [0, 0, 0, 0], [-1e4, 1e4, 1e4, 1e4], [1e-8, 0, 0, 0], [1, 2, NAN, 3])
"""Rows for norms: of no variance, of a large and of a small one."""
GATES = _floats([0, 0, 0, 0], [30, -30, 30, 30], [-100, 100, -100, -100], [100, 100, 100, 100])
LSTM = "from recurrent import lstm_step"
GRU = "from recurrent import gru_step"
PLANE = STEADY[:, None, :] * _floats(1, 0.5)[None, :, None]
CUT = _floats([[[0, -0.0, 0, 1], [1, 1, 2, 2], [-INF, -1, NAN, 0], [-INF, -INF, 1, 1]]])
SEEN = np.array([[[[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 1, 1]]]], np.bool_)
"""The keys that each query sees; one sees none."""
AHEAD = np.array([[[[0, 1, 1], [0, 1, 0], [1, 0, 1]]]], np.bool_)
"""The same of a query that sees only what is ahead."""
SCORES = _floats([[[0, 0, 0], [-1e9, 1, 0], [-1e9, 0, -INF], [-INF, 0, 1]]])
HEADS = {
    "x": _floats([[[0.3, -1], [2, 0.5], [1, 1], [-2, 0.25]]]),
    "y": _floats([[[1, 0.5], [-0.3, 2], [0.7, -1.5]]]),
    "z": _floats([[[1, 2], [-1, 0.5], [3, -2]]]),
}
THREE = HEADS["x"][:, :, :3]
LOW = _floats([[[0, 1, 0], [-1e9, 0, 5], [-INF, 0, -3e38]]])

CASES: Sequence[Case] = (
    *_of_one("abs", "exp", "log", "log1p", "sqrt", "sin", "cos", "erf", "floor", "round"),
    *_of_one("sign", "stop_gradient", "relu", "relu6", "leaky_relu", "elu"),
    *_of_one("softplus", "log_sigmoid", "hard_sigmoid", "hard_swish"),
    Case("tanh", "tanh(x)", {"x": EVERYWHERE}, slope=5e-7),
    Case("expm1", "expm1(x)", {"x": EVERYWHERE}, slope=1e-15),
    *(Case(name, f"{name}(x)", {"x": EVERYWHERE}, slope=1e-15) for name in ("sigmoid", "logistic")),
    # Products with what is flushed to zero.
    *_of_one("silu", "mish", absolute=1e-36),
    Case("gelu", "gelu(x)", {"x": EVERYWHERE}, 4e-7),
    # XLA's tanh is off by 3 units of the last digit of 1, which |x| / 2 multiplies.
    # Its slope is not a number from 1e19 on in single precision, where x^2 overflows.
    Case(
        "gelu_tanh", "gelu_tanh(x)", {"x": EVERYWHERE[np.abs(EVERYWHERE) != 1e30]}, 2e-6, slope=1e-5
    ),
    Case("elu-0.5", "elu(alpha=0.5)(x)", {"x": EVERYWHERE}),
    Case("Neg", "-x", {"x": EVERYWHERE}),
    *(Case(f"power-{k}", f"x ** {k}", {"x": EVERYWHERE}) for k in (0, 2, 3, -1, 0.5)),
    # PyTorch has other signs at -0 for the value than for the slope.
    Case("power--0.5", "x ** -0.5", {"x": EVERYWHERE[~np.signbit(EVERYWHERE)]}),
    _of_two("Add", "x + y"),
    _of_two("Sub", "x - y"),
    _of_two("Mul", "x * y"),
    _of_two("Div", "x / y"),
    _of_two("maximum", "maximum(x, y)"),
    _of_two("minimum", "minimum(x, y)"),
    _of_two("where", "where(x <= y, x, y)"),
    *(
        Case(f"Compare-{sign}", f"f32(x {sign} y)", {"x": PAIRS[0], "y": PAIRS[1]}, slopes=False)
        for sign in ("==", "!=", "<", "<=", ">", ">=")
    ),
    # of rows
    *(Case(name, f"{name}(x, 1)", {"x": ROWS[[*range(6), 7, 8]]}) for name in ("sum", "mean")),
    *(Case(name, f"{name}(x, 1)", {"x": ROWS[:8]}) for name in ("max", "min")),
    *(Case(f"{name}-nan", f"{name}(x, 1)", {"x": ROWS}, slopes=False) for name in ("max", "min")),
    *(Case(f"{name}-one", f"{name}(x, 1)", ONE) for name in ("sum", "mean", "max", "min")),
    Case("variance", "variance(x, 1)", {"x": STEADY}, 1e-6),
    Case("any", "f32(any(x > 0, 1))", {"x": ROWS}, slopes=False),
    Case("all", "f32(all(x > 0, 1))", {"x": ROWS}, slopes=False),
    Case("argmax", "f32(argmax(x, 1))", {"x": ROWS}, slopes=False),
    Case("argmin", "f32(argmin(x, 1))", {"x": ROWS}, slopes=False),
    *(Case(name, f"{name}(x, 1)", {"x": ROWS[:5]}) for name in ("cumsum", "cumprod")),
    # Of equals the first takes the gradient here, and the last in PyTorch.
    *(Case(name, f"{name}(x, 1)", {"x": UNTIED}) for name in ("cummax", "cummin")),
    *(
        Case(f"{name}-ties", f"{name}(x, 1)", {"x": ROWS}, slopes=False)
        for name in ("cummax", "cummin")
    ),
    Case("linear_recurrence", "linear_recurrence(x, y, 1)", {"x": ROWS[:3], "y": ROWS[1:4]}),
    Case("sort", "\n  s, _i = sort(x, 1)\n  return s", {"x": ROWS[[1, 2, 4, 7]]}),
    Case("top_k", "\n  s, _i = top_k(x, 2)\n  return s", {"x": ROWS[[1, 2, 4, 7]]}),
    Case("argsort", "f32(argsort(x, 1))", {"x": ROWS[[1, 2, 4, 7]]}, slopes=False),
    Case("softmax", "softmax(x)", {"x": ROWS}, 1e-7),
    Case("softmax-none", "softmax(x)", {"x": HARD_ROWS}, 1e-7),
    Case("softmax-one", "softmax(x)", ONE),
    Case("log_softmax", "log_softmax(x)", {"x": ROWS}, 3e-7),
    Case("log_softmax-one", "log_softmax(x)", ONE),
    Case("logsumexp", "logsumexp(x)", {"x": ROWS[[0, 1, 2, 3, 4, 7, 8]]}, 3e-7),
    Case("logsumexp-none", "logsumexp(x)", {"x": HARD_ROWS}, 3e-7, slopes=False),
    Case("logsumexp-first", "logsumexp(axis=0)(x)", {"x": ROWS[:5]}, 3e-7),
    Case("logsumexp-one", "logsumexp(x)", ONE),
    Case("glu", "glu(x)", {"x": ROWS[:5]}),
    # losses
    Case("cross_entropy", "cross_entropy(x, y)", {"x": ROWS[:5], "y": LABELS[:5]}, 3e-7),
    Case("cross_entropy-one", "cross_entropy(x, y)", {"x": ONE["x"], "y": np.zeros(3, np.int32)}),
    Case(
        "class_cross_entropy", "class_cross_entropy(x, y)", {"x": ROWS[:5], "y": LABELS[:5]}, 3e-7
    ),
    Case(
        "soft_cross_entropy",
        "soft_cross_entropy(x, y)",
        {"x": ROWS[:5], "y": _floats(*([[0.25, 0, 0.75, 0]] * 5))},
        3e-7,
    ),
    Case(
        "masked_cross_entropy",
        "masked_cross_entropy(x, y)",
        {"x": ROWS[:3], "y": np.array([1, -100, 2], np.int32)},
        3e-7,
    ),
    Case(
        "masked_cross_entropy-none",
        "masked_cross_entropy(x, y)",
        {"x": ROWS[:3], "y": np.full(3, -100, np.int32)},
    ),
    Case("mse", "mse(x, y)", {"x": _floats(0, 1, -2, 1e4), "y": _floats(0, -1, -2, 0)}),
    Case("l1", "l1(x, y)", {"x": _floats(0, 1, -2, 1e4), "y": _floats(0, -1, -2, 0)}),
    Case(
        "smooth_l1", "smooth_l1(x, y)", {"x": _floats(0, 1, -1, 3, 2), "y": _floats(0, 0, 0, 0, 2)}
    ),
    Case("smooth_l1-0", "smooth_l1(0.0)(x, y)", {"x": _floats(0, 1, -1), "y": _floats(0, 0, 1)}),
    *(
        Case(f"bce-{name}", "bce(x, y)", {"x": _floats(*x), "y": _floats(*y)}, 1e-15)
        for name, x, y in (
            ("zero", (0, -0.0, 0, 0, 0), (0, 0, 1, 0.25, 1)),
            ("right", (20, -20, 80, -80), (1, 0, 1, 0)),
            ("wrong", (20, -20, 100, -100, 1e30, -1e30), (0, 1, 0, 1, 0, 1)),
            ("between", (17, -17, 3, -3), (0.5, 0.25, 0.9, 0.1)),
            ("infinite", (INF, 0), (0, 1)),
            ("nan", (NAN, 0), (0, 1)),
        )
    ),
    # layers
    *(
        Case(name, f"x |> n: {name}", {"x": STEADY[:4]}, 1e-4)
        for name in ("layer_norm", "rms_norm")
    ),
    Case("instance_norm", "instance_norm(x)", {"x": PLANE[:4]}, 1e-4),
    Case("group_norm", "x |> n: group_norm(1)", {"x": PLANE[:4]}, 1e-4),
    Case("batch_norm", "x |> n: batch_norm", {"x": PLANE}, 1e-6),
    Case("ghost_batch_norm", "x |> n: ghost_batch_norm(1)", {"x": PLANE}, 1e-6),
    Case("max_pool", "max_pool(2)(x)", {"x": CUT}),
    Case("avg_pool", "avg_pool(2)(x)", {"x": CUT}),
    *(
        Case(f"attention-{name}", f"attention{call}", {**HEADS, **fed}, 1e-6)
        for name, call, fed in (
            ("mask", "(x, y, z, mask=m)", {"m": SEEN}),
            ("mask and ahead", "(causal=true)(x, y, z, mask=m)", {"x": THREE, "m": AHEAD}),
            ("bias", "(x, y, z, bias=b)", {"b": SCORES}),
            ("bias and ahead", "(causal=true)(x, y, z, bias=b)", {"x": THREE, "b": LOW}),
        )
    ),
    Case(
        "lstm_step",
        "\n  h, c = lstm_step(1)(x, y)\n  return h + c",
        {"x": GATES, "y": _floats([0], [1], [-1], [100])},
        1e-7,
        imports=LSTM,
    ),
    Case(
        "gru_step",
        "gru_step(1)(x, y, z)",
        {"x": GATES[:, :3], "y": GATES[:, 1:], "z": _floats([0], [1], [-1], [100])},
        1e-6,
        imports=GRU,
    ),
)


def _because(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


ELSEWHERE: Mapping[str, str] = {
    **_because(
        "rearrange expand insert_axis repeat concat pad reverse roll gather scatter_add "
        "scatter_max scatter_min one_hot upsample resize embedding",
        "moves elements: their values do not matter",
    ),
    **_because(
        "conv conv_transpose linear conv1d conv2d conv3d conv_transpose1d "
        "conv_transpose2d window_max lora",
        "sums of products, or a layer here is made of it",
    ),
    **_because(
        "grad weights",
        "the slopes of all cases are what it gives; second ones: tests/parity/test_grad.py",
    ),
    **_because(
        "fake_quantize fake_quantize_groups quantized_linear",
        "rounded numbers, compared to the bit: tests/stdlib_models/test_quantization.py",
    ),
    **_because(
        "f32 f16 i32 u32 bool Cast",
        "tests/runtime/backends/webgpu/codegen/test_special_values.py has it",
    ),
    **_because(
        "iota zeros ones full constant uniform normal kaiming_uniform sinusoids rank "
        "size shape is_integer len product int",
        "has no operand of floats",
    ),
    **_because(
        "random_uniform random_normal dropout dropout2d drop_path sample sample_nucleus "
        "sample_top random_flip random_shift random_erase random_box random_colour "
        "mixup cutmix spec_augment random_span",
        "draws at random: tests/stdlib_models/test_ranges.py",
    ),
    "confusion_matrix": "counts",
    "show": "is what it is given",
    "example_of": "is an input of whole numbers",
    "offsets": "is an input of whole numbers",
    "rope": "turns by angles of whole numbers",
    "lstm": "scans lstm_step",
    "gru": "scans gru_step",
}
"""Functions that have no special points of their own, and why."""


OPS_ELSEWHERE: Mapping[str, str] = {
    **_because(
        "Concat Reverse DynamicSlice DynamicUpdate",
        "moves elements: their values do not matter",
    ),
    **_because("FloorDivide Remainder RandomBits", "has no operand of floats"),
    **_because("ScatterAdd ConvWeightGradient", "sums of products or terms"),
    "ScatterExtreme": "chooses among elements as Maximum and Minimum do",
    "MaxPoolSelect": "moves the elements that MaxPool chose",
    "Scan": "its body is ops",
}
"""Primitive ops that no case reaches, nor its gradient, and why."""


def types_of(case: Case) -> str:
    """The inputs, as a block declares them."""
    names = {np.dtype(np.float32): "", np.dtype(np.int32): "i32", np.dtype(np.bool_): "bool"}
    return ", ".join(
        f"{name}: {names[array.dtype]}[{', '.join(map(str, array.shape))}]"
        for name, array in case.fed.items()
    )


def graph_of(case: Case) -> Graph:
    """The value, and the gradient of each input of floats where the value has some slope.

    What flows back is 1, 1.5 and 2 in turn, so that no row of it is all the same.
    """
    is_body = case.expression.startswith("\n")
    text = (
        f"{case.imports}\nblock Net()({types_of(case)}){':' if is_body else ' = '}"
        f"{case.expression}\nmodel net = Net()\n"
    )
    sink = Sink()
    module = Linker(loader_beside(Path("points.mgn")), sink).link(Source("points.mgn", text))
    assert not sink.has_errors, sink.reports
    build, graph = continued(elaborate_model(Program(module), training=False).graph)
    out = graph.outputs["output"]
    found = {"output": out}
    if case.slopes:
        leaves = {
            value.op.name: value
            for value in graph.values
            if isinstance(value.op, Input) and value.type.dtype.is_float
        }
        seed = build.add(Input("upstream", DType.F32, out.type.shape))
        gradients = differentiate(build, out, tuple(leaves.values()), seed)
        found |= {f"d{name}": each for name, each in zip(leaves, gradients, strict=True)}
    return build.graph(found)


def feeds_of(case: Case, graph: Graph) -> dict[str, Array]:
    """The points, and what flows back."""
    shape = concrete_shape(graph.outputs["output"].type.shape)
    fed = {**case.fed, "upstream": upstream(shape)}
    leaves = {value.op.name: value for value in graph.values if isinstance(value.op, Leaf)}
    for name, value in leaves.items():
        fill = 0 if name.endswith(("bias", "mean", "tracked")) else 1
        shape = concrete_shape(value.type.shape)
        fed.setdefault(name, np.full(shape, fill, storage_type(value.type.dtype)))
    return {name: array for name, array in fed.items() if name in leaves}


def upstream(shape: Sequence[int]) -> Array:
    """Returns the cotangent of a value of this shape."""
    count = int(np.prod(shape))
    return (1 + np.arange(count, dtype=np.float32) % 3 / 2).reshape(shape)


@cache
def stored() -> Mapping[str, Mapping[str, list[float]]]:
    """Returns the right numbers, of each case and each of its results."""
    return json.loads(STORED.read_text())


def assert_right(case: Case, found: Mapping[str, Array], relative: float = ROUNDING) -> None:
    """The results of a case are those that are stored, NaN and infinities at the same places."""
    expected = stored()[case.name]
    assert found.keys() == expected.keys(), case.name
    for name, array in found.items():
        right = np.array(expected[name], np.float64)
        if array.dtype == np.float32:
            with np.errstate(over="ignore"):
                right = right.astype(np.float32).astype(np.float64)
        np.testing.assert_allclose(
            array.astype(np.float64).ravel(),
            right,
            relative,
            max(case.absolute, case.slope if name != "output" else 0),
            err_msg=f"{name} of {case.expression} at {[*case.fed.values()]}",
        )
