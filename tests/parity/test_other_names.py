"""Answers to names of PyTorch, NumPy and Keras compute the same as these.

Each form is run beside the call that stands behind it in the message, with the defaults of that
function, on numbers of several kinds. What differs for some of them is said in the message.
"""

import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.diagnostics.other_names import other_names
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision, storage_type
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import Program, elaborate_model, loader_beside
from tests.effort import effort
from tests.folded import each_of
from tests.parity.references import keras

pytestmark = pytest.mark.parity

SIZES = {"n": 4, "c": 3, "d": 12, "k": 2, "heads": 2, "s": 5, "e": 4, "h": 6, "u": 8}
INPUTS = {
    "x": "[n, d]", "y": "[n, d]", "v": "[n, 8 * k]", "z": "[n, c, d]", "one": "[n, 1, d]",
    "w": "[n, d, k]", "m": "[d, k]", "edges": "[k]", "row": "[d]", "column": "[n]",
    "q": "[n, heads, s, e]", "image": "[n, 3, h, u]", "mask": "bool[n, d]", "ids": "i32[n]",
    "order": "i32[n, d]",
}  # fmt: skip
DRAWN = {
    "random_normal([n, d])": (0, 1),
    "random_uniform([n, d])": (0.5, 12**-0.5),
    "random_normal(shape(x))": (0, 1),
    "random_uniform(shape(x))": (0.5, 12**-0.5),
    "i32(floor(10 * random_uniform([n, d])))": (4.5, 8.25**0.5),
    "f32(random_uniform([n, d]) < 0.3)": (0.3, 0.21**0.5),
    "argsort(random_uniform([n]))": (99.5, 3333.25**0.5),
}
"""The mean and the deviation of what is drawn."""
CALLS: dict[str, list[str]] = {}
for _answer in other_names().values():
    for _form in _answer.forms:
        CALLS.setdefault(_form.code, []).append(_form.call)
APART: Mapping[str, tuple[tuple[str, ...], str]] = {
    "mean(where(y == 0, 0, y * (log(y) - x)))": (("infinite",), "infinity times 0"),
    "sum(where(y == 0, 0, y * (log(y) - x))) / n": (("infinite",), "infinity times 0"),
    "best, places = top_k(x, 3)": (
        ("ties", "masked", "large", "small", "infinite"),
        "which of equals is first is not defined in PyTorch",
    ),
    "sum(i32(insert_axis(x, 2, k) > edges), 2)": (("infinite",), "edges that are NaN do not rise"),
    "rising, _places = sort(x, 1)\nrising[:, (d - 1) // 2]": (
        ("infinite",), "the median of a row with NaN is NaN in PyTorch",
    ),
    "image |> resize(8, 8)": (("infinite",), "PyTorch adds 0 times a pixel that is not used"),
    "i32(x)": (("masked", "infinite"), "no integer is so large"),
    "sqrt(variance(x, 1) * d / (d - 1))": (("masked",), "a square overflows"),
    "image |> gn: group_norm(3)": (("masked",), "a square overflows"),
    "sign(x) * log(abs(x) + sqrt(x ** 2 + 1))": (("masked",), "a square overflows"),
    "log(x + sqrt(x ** 2 - 1))": (("masked", "large"), "below 1 it is -inf, not NaN"),
    "x - y * floor(x / y)": (("infinite",), "a quotient that is infinite"),
    "floor(x / y)": (("infinite",), "a quotient that is infinite"),
    "sum(x * y, 1) / (maximum(sqrt(sum(x ** 2, 1)), 1e-8) * maximum(sqrt(sum(y ** 2, 1)), 1e-8))": (
        ("masked",), "a square overflows",
    ),
    "x ** y": (("infinite",), "an infinite exponent of 1 or of a negative number is NaN"),
    "sqrt(x ** 2 + y ** 2)": (("masked", "infinite"), "a square overflows, and NaN stays NaN"),
    "maximum(x, y) + softplus(-abs(x - y))": (("infinite",), "inf - inf is NaN"),
    "largest = max(x, 1)\nlargest + log(sum(exp(x - insert_axis(largest, 1, d)), 1))": (
        ("infinite",), "inf - inf is NaN",
    ),
}  # fmt: skip
"""Kinds of numbers for which a form and a call differ, and why."""


class Numpy:
    """NumPy, given tensors of PyTorch."""

    def __getattr__(self, name: str) -> object:
        found = getattr(np, name)
        return _of_arrays(found) if callable(found) else found


class Modules:
    """Layers of another system; the weights of those that are made are kept."""

    def __init__(self, of: object, made: list[object], dtype: torch.dtype) -> None:
        self._of = of
        self._dtype = dtype
        self._made = made

    def __getattr__(self, name: str) -> Callable[..., object]:
        def make(*arguments: object, **options: object) -> object:
            layer = getattr(self._of, name)(*arguments, **options)
            self._made.append(layer)
            if isinstance(layer, torch.nn.Module):
                return layer.to(self._dtype).eval()
            return _of_arrays(layer)

        return make


def _of_arrays(function: Callable[..., object]) -> Callable[..., object]:
    def called(*arguments: object, **options: object) -> object:
        return function(*map(_array, arguments), **options)

    return called


def _array(value: object) -> object:
    if isinstance(value, torch.Tensor):
        return value.numpy()
    return type(value)(map(_array, value)) if isinstance(value, list | tuple) else value


@cache
def values(kind: str, precision: Precision) -> dict[str, Array]:
    """Inputs of a kind of numbers."""
    generator = np.random.default_rng(zlib.crc32(kind.encode()))
    found: dict[str, Array] = {}
    for name, written in INPUTS.items():
        dtype, _, shape = written.partition("[")
        sizes = tuple(eval(shape[:-1] + ",", dict(SIZES)))  # noqa: S307 - our own text
        if dtype == "bool":
            found[name] = generator.random(sizes) < 0.5
        elif dtype == "i32":
            found[name] = generator.integers(0, SIZES["d"], sizes).astype(np.int32)
        else:
            kept = np.float64 if precision is Precision.DOUBLE else np.float32
            found[name] = KINDS[kind](generator, sizes).astype(kept)
    return found


def _mixed(*numbers: float) -> Callable[[np.random.Generator, tuple[int, ...]], Array]:
    def draw(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
        chosen = generator.choice(np.array(numbers), shape)
        return np.where(generator.random(shape) < 0.5, chosen, generator.normal(size=shape))

    return draw


KINDS: Mapping[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda generator, shape: generator.normal(size=shape),
    "ties": lambda generator, shape: generator.integers(-2, 3, shape).astype(float),
    "shares": lambda generator, shape: generator.uniform(size=shape),
    "masked": _mixed(-1e30, 0.0),
    "large": _mixed(1e4, -1e4, 1e8, -1e8),
    "small": _mixed(1e-8, -1e-8, 0.0),
    "infinite": _mixed(np.inf, -np.inf, np.nan),
}


def declared(number: int, code: str) -> str:
    """The form as a block."""
    *body, last = [line for line in code.split("\n") if not line.startswith("from ")]
    names = [line.partition(" = ")[0] for line in (*body, last) if " = " in line.partition("(")[0]]
    if " = " in last.partition("(")[0]:
        body, last = [*body, last], ", ".join(names)
    inputs = ", ".join(f"{name}: {kind}" for name, kind in INPUTS.items())
    lines = (*body, f"return {last}")
    return "\n  ".join((f"block Net{number}({', '.join(SIZES)})({inputs}):", *lines))


@cache
def program() -> Program:
    """All forms, each as the block of a model."""
    tops = {line: None for code in CALLS for line in code.split("\n") if line.startswith("from ")}
    sizes = ", ".join(f"{name}={size}" for name, size in SIZES.items())
    models = [f"model net{number} = Net{number}({sizes})" for number, _ in enumerate(CALLS)]
    text = "\n".join((*tops, *(declared(*each) for each in enumerate(CALLS)), *models, ""))
    sink = Sink()
    module = Linker(loader_beside(Path("forms.mgn")), sink).link(Source("forms.mgn", text))
    assert not sink.has_errors, sink.reports
    return Program(module)


def elaborated(code: str, sizes: Mapping[str, int] = SIZES) -> Elaboration:
    """The form as a model."""
    return elaborate_model(program(), f"net{list(CALLS).index(code)}", config=sizes)


def theirs(call: str, fed: Mapping[str, Array]) -> tuple[list[Array], list[Array]]:
    """The results of a call, and the weights of the layers that it makes."""
    made: list[object] = []
    tensors = {name: torch.tensor(each) for name, each in fed.items()}
    wide = {name: each.long() for name, each in tensors.items() if each.dtype is torch.int32}
    dtype = tensors["x"].dtype
    scope = {
        **SIZES, **tensors, **wide, "torch": torch, "F": F, "np": Numpy(),
        "nn": Modules(torch.nn, made, dtype),
        "keras": SimpleNamespace(
            layers=Modules(keras.layers, made, dtype), losses=Modules(keras.losses, made, dtype)
        ),
    }  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(dtype)
    try:
        with torch.no_grad():
            result = eval(call, scope)  # noqa: S307 - our own text
    finally:
        torch.set_default_dtype(torch.float32)
    results = result if isinstance(result, tuple | list) else [result]
    weights: list[Array] = []
    if made and isinstance(made[-1], torch.nn.Module):
        weights = [each.numpy() for each in made[-1].state_dict().values()]
    elif made and isinstance(made[-1], keras.Drawn):
        weights = list(made[-1].weights)
    return [np.asarray(each) for each in results], weights


def ours(
    elaboration: Elaboration, fed: Mapping[str, Array], weights: list[Array], precision: Precision
) -> list[Array]:
    """The results of a form with these weights."""
    interpreter = Interpreter(elaboration.graph, precision)
    names = [info.name for info in elaboration.parameters]
    given = dict(zip(names, weights, strict=True))
    feeds = {
        name: np.asarray(each, storage_type(interpreter.leaves[name].type.dtype, precision))
        for name, each in {**fed, **given}.items()
        if name in interpreter.leaves
    }
    return list(interpreter.run(feeds).outputs.values())


@each_of("code", [code for code in CALLS if code not in DRAWN])
@pytest.mark.filterwarnings("ignore")
def test_a_form_is_each_call_beside_it(code: str) -> None:
    elaboration = elaborated(code)
    left_out = APART.get(code, ((), ""))[0]
    turn = list(CALLS).index(code) % 3
    for kind in effort(["normal", *list(KINDS)[1 + turn :: 3]], [*KINDS]):
        if kind in left_out:
            continue
        is_single = kind in ("masked", "large") or code == "f16(x)"
        precision = Precision.SINGLE if is_single else Precision.DOUBLE
        close = 1e-9 if precision is Precision.DOUBLE else 1e-5
        fed = values(kind, precision)
        for call in CALLS[code]:
            expected, weights = theirs(call, fed)
            found = ours(elaboration, fed, weights, precision)
            assert len(found) == len(expected)
            for mine, reference in zip(found, expected, strict=True):
                finite = np.abs(reference[np.isfinite(reference)], dtype=np.float64)
                bound = close * max(1.0, finite.max(initial=0))
                np.testing.assert_allclose(
                    mine, reference, rtol=0, atol=bound, equal_nan=True, err_msg=f"{call}, {kind}"
                )


@pytest.mark.parametrize("code", DRAWN)
def test_what_is_drawn_is_distributed_as_theirs(code: str) -> None:
    mean, deviation = DRAWN[code]
    sizes = {**SIZES, "n": 200, "d": 200}
    interpreter = Interpreter(elaborated(code, sizes).graph, Precision.SINGLE)
    fed = {
        name: np.zeros(concrete_shape(leaf.type.shape), storage_type(leaf.type.dtype))
        for name, leaf in interpreter.leaves.items()
    }
    (mine,) = interpreter.run(fed).outputs.values()
    torch.manual_seed(0)
    scope = {"torch": torch, "np": np, "x": torch.zeros(200, 200), **sizes}
    for found in (mine, *(np.asarray(eval(call, scope)) for call in CALLS[code])):  # noqa: S307
        assert found.shape in ((200, 200), (200,))
        assert abs(found.mean() - mean) < 0.05 * deviation
        assert abs(found.std() - deviation) < 0.05 * deviation


def test_what_differs_is_said() -> None:
    for name, answer in other_names().items():
        if any(form.code in APART for form in answer.forms):
            assert answer.words, name
