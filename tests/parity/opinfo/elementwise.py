"""Functions and operators of single elements."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from tests.parity.opinfo.saying import NotSaidError, Row, Said, given, number, tensors

REAL, INTEGER, BOOL = torch.float64, torch.int32, torch.bool
STRETCHED: Mapping[str, str] = {
    "E0301": "an axis of size 1 is not stretched",
    "E0320": "an axis of size 1 is not stretched",
}
NUMBERS = (REAL, INTEGER)
MIXED = {**STRETCHED, "E0307": "element types are not mixed"}
A_NUMBER = {"": "a number may stand for a tensor"}


def _one(text: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
        of = given(sample, "inplace")
        of.demand("inplace", (False,), "in place")
        return Said(text, {"x": of.x})

    return say


def _two(text: str, *, scalars: bool = True) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
        of = given(sample, "other alpha")
        if of.get("alpha", 1) != 1 and isinstance(of["alpha"], complex):
            raise NotSaidError("complex numbers")
        written, fed = tensors(sample.input, of["other"])
        if not scalars and len(fed) < 2:
            raise NotSaidError("an operand that is a number")
        scale = "" if of.get("alpha", 1) == 1 else f" * {number(of['alpha'])}"
        left, right = written
        return Said(text.format(x=left, y=right, scale=scale), fed)

    return say


def _leaky_relu(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "negative_slope inplace")
    of.demand("inplace", (False,), "in place")
    return Said(f"leaky_relu({number(of.get('negative_slope', 0.01))})(x)", {"x": of.x})


def _elu(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "alpha inplace")
    of.demand("inplace", (False,), "in place")
    return Said(f"elu({number(of.get('alpha', 1.0))})(x)", {"x": of.x})


def _gelu(form: str, name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "approximate")
        if of.get("approximate", "none") != form:
            raise NotSaidError("the other form of gelu, which another row has")
        return Said(f"{name}(x)", {"x": of.x})

    return say


def _softplus(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "beta threshold")
    beta, threshold = number(of.get("beta", 1)), number(of.get("threshold", 20))
    # PyTorch's is x itself from a threshold on.
    text = f"where(x * {beta} > {threshold}, x, softplus(x * {beta}) / {beta})"
    return Said(text, {"x": of.x})


def _div(rounding: str | None) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "other rounding_mode")
        if of["rounding_mode"] != rounding:
            raise NotSaidError("rounding towards 0")
        written, fed = tensors(sample.input, of["other"])
        left, right = written
        if not any(each.is_floating_point() for each in fed.values()):
            return Said(
                f"f32({left}) / f32({right})" if rounding is None else f"{left} // {right}", fed
            )
        text = f"{left} / {right}"
        return Said(text if rounding is None else f"floor({text})", fed)

    return say


def _power(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "exponent")
    written, fed = tensors(sample.input, of["exponent"])
    return Said(" ** ".join(written), fed)


def _remainder(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "other")
    (left, right), fed = tensors(sample.input, of["other"])
    if not any(each.is_floating_point() for each in fed.values()):
        return Said(f"{left} % {right}", fed)
    return Said(f"{left} - {right} * floor({left} / {right})", fed)


def _clamp(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "min max")
    written, fed = ["x"], {"x": of.x}
    for name, bound in (("y", of["min"]), ("z", of["max"])):
        if isinstance(bound, torch.Tensor):
            written, fed = [*written, name], {**fed, name: bound}
        else:
            written = [*written, "" if bound is None else number(bound)]
    text = "x"
    text = f"maximum({text}, {written[1]})" if written[1] else text
    text = f"minimum({text}, {written[2]})" if written[2] else text
    if text == "x":
        raise NotSaidError("no bound")
    return Said(text, fed)


def _where(sample: Any) -> Said:  # noqa: ANN401
    # The condition is the first argument of the sample, the first choice its input.
    of = given(sample, "condition other")
    written, fed = tensors(of["condition"], sample.input, of["other"])
    return Said(f"where({', '.join(written)})", fed)


def _cast(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "memory_format")
        return Said(f"{name}(x)", {"x": of.x})

    return say


WHOLE_POWERS = {
    **STRETCHED,
    "E0307": "whole numbers have no power",
}
ROWS = (
    *(Row(name, name, _one(f"{name}(x)")) for name in ("exp", "expm1", "log", "log1p", "sqrt")),
    *(Row(name, name, _one(f"{name}(x)")) for name in ("sin", "cos", "tanh", "erf", "floor")),
    Row("round", "round", _one("round(x)")),
    *(Row(name, name, _one(f"{name}(x)"), dtypes=NUMBERS) for name in ("abs", "sign")),
    Row("logistic", "sigmoid", _one("logistic(x)")),
    Row("sigmoid", "sigmoid", _one("sigmoid(x)")),
    Row("relu", "nn.functional.relu", _one("relu(x)")),
    Row("relu6", "nn.functional.relu6", _one("relu6(x)")),
    Row("leaky_relu", "nn.functional.leaky_relu", _leaky_relu),
    Row("elu", "nn.functional.elu", _elu),
    Row("log_sigmoid", "nn.functional.logsigmoid", _one("log_sigmoid(x)")),
    Row("silu", "nn.functional.silu", _one("silu(x)")),
    Row("gelu", "nn.functional.gelu", _gelu("none", "gelu")),
    Row("gelu_tanh", "nn.functional.gelu", _gelu("tanh", "gelu_tanh")),
    # PyTorch rounds 1 / 6 to single precision.
    Row("hard_sigmoid", "nn.functional.hardsigmoid", _one("hard_sigmoid(x)"), close=1e-7),
    Row("hard_swish", "nn.functional.hardswish", _one("hard_swish(x)")),
    Row("softplus", "nn.functional.softplus", _softplus),
    Row("mish", "nn.functional.mish", _one("mish(x)")),
    Row(
        "maximum",
        "maximum",
        _two("maximum({x}, {y})"),
        dtypes=NUMBERS,
        refused=STRETCHED,
        accepted=A_NUMBER,
    ),
    Row(
        "minimum",
        "minimum",
        _two("minimum({x}, {y})"),
        dtypes=NUMBERS,
        refused=STRETCHED,
        accepted=A_NUMBER,
    ),
    Row(
        "max of two", "max/binary", _two("maximum({x}, {y})"), refused=STRETCHED, accepted=A_NUMBER
    ),
    Row(
        "min of two", "min/binary", _two("minimum({x}, {y})"), refused=STRETCHED, accepted=A_NUMBER
    ),
    Row("maximum and minimum", "clamp", _clamp, dtypes=NUMBERS, refused=MIXED),
    Row("where", "where", _where, dtypes=NUMBERS, refused=STRETCHED),
    Row("-x", "neg", _one("-x"), dtypes=NUMBERS),
    Row("+", "add", _two("{x} + {y}{scale}"), dtypes=NUMBERS, refused=STRETCHED),
    Row("-", "sub", _two("{x} - {y}{scale}"), dtypes=NUMBERS, refused=STRETCHED),
    Row(
        "-", "rsub", _two("{y} - {x}{scale}"), dtypes=NUMBERS, refused=STRETCHED, accepted=A_NUMBER
    ),
    Row("*", "mul", _two("{x} * {y}"), dtypes=NUMBERS, refused=STRETCHED),
    Row("/", "div/no_rounding_mode", _div(None), dtypes=NUMBERS, refused=STRETCHED),
    Row("/", "true_divide", _two("{x} / {y}"), refused=STRETCHED),
    Row("/", "reciprocal", _one("1 / x")),
    Row(
        "floor of /",
        "div/floor_rounding",
        _div("floor"),
        dtypes=NUMBERS,
        refused={**STRETCHED, "E0307": "whole numbers are divided by a size"},
    ),
    Row(
        "%",
        "remainder",
        _remainder,
        dtypes=NUMBERS,
        refused={**STRETCHED, "E0307": "whole numbers are divided by a size"},
    ),
    Row("**", "pow", _power, dtypes=NUMBERS, refused=WHOLE_POWERS),
    Row("**", "square", _one("x ** 2"), dtypes=NUMBERS, refused=WHOLE_POWERS),
    Row("**", "rsqrt", _one("x ** -0.5")),
    *(
        Row(
            sign,
            name,
            _two(f"{{x}} {sign} {{y}}"),
            dtypes=NUMBERS,
            refused=STRETCHED,
            accepted=A_NUMBER,
        )
        for sign, name in (
            ("==", "eq"),
            ("!=", "ne"),
            ("<", "lt"),
            ("<=", "le"),
            (">", "gt"),
            (">=", "ge"),
        )
    ),
    Row("and", "logical_and", _two("{x} and {y}"), dtypes=(BOOL,), refused=STRETCHED),
    Row("or", "logical_or", _two("{x} or {y}"), dtypes=(BOOL,), refused=STRETCHED),
    Row(
        "!= of bools",
        "logical_xor",
        _two("{x} != {y}"),
        dtypes=(BOOL,),
        refused=STRETCHED,
        accepted=A_NUMBER,
    ),
    Row("not", "logical_not", _one("not x"), dtypes=(BOOL,)),
    # The reference in double precision rounds nothing; half floats have 11 bits.
    Row("f16", "half", _cast("f16"), close=2.0**-11),
    Row("f32", "float", _cast("f32"), dtypes=(INTEGER, BOOL)),
    Row("i32", "int", _cast("i32"), dtypes=(REAL, BOOL)),
    Row("bool", "bool", _cast("bool"), dtypes=NUMBERS),
)
