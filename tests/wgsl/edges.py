"""Numerical edges of what kernels call, as the conformance suite of WGSL has them (gpuweb/cts).

The suite gives each builtin function the bit patterns of all exponents, numbers below the least
normal one, and its own edges; two operands are all pairs of a few. It accepts what the accuracy
table of the WGSL specification (section 15.7.4) allows: so many units in the last place (ULP), or
an absolute error. What is below 1.2e-38 may be flushed to zero on the way in and out; where 0 gives
an infinity, anything is allowed of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.ir.graph import Array, Op
from meganeura_dsl.ir.ops.primitive import elementwise as ops
from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.device.device import Device
from tests.runtime.running import graph_of, run

LEAST, LARGEST = 2.0**-126, float(np.finfo(np.float32).max)
Error = Callable[[Array, Array], Array]
"""The absolute error that is allowed, from the first operand and the exact result."""


def sweep(normal: int = 200, small: int = 20) -> Array:
    """Bit patterns spread over all normal numbers and those below, of both signs, and zeros."""
    bits = np.concatenate(
        (
            np.linspace(0x0080_0000, 0x7F7F_FFFF, normal),
            np.linspace(0x0000_0001, 0x007F_FFFF, small),
            [0],
        )
    ).astype(np.uint32)
    positive = bits.view(np.float32)
    return np.concatenate((positive, -positive))


SPARSE = np.array(
    (
        *(-LARGEST, -10, -1, -0.125, -LEAST, -LEAST / 2, -1e-45, -0.0),
        *(0, 1e-45, LEAST / 2, LEAST, 0.125, 1, 10, LARGEST),
    ),
    np.float32,
)
"""Operands of which all pairs are taken."""
PAIRS = tuple(each.ravel() for each in np.meshgrid(SPARSE, SPARSE))
HALVES = np.arange(-8, 8.5, 0.5).astype(np.float32)
NEAR_HALVES = np.nextafter(HALVES, np.float32(9)), np.nextafter(HALVES, np.float32(-9))
TURN = np.linspace(-np.pi, np.pi, 400).astype(np.float32)
BOUNDS = np.array(
    [*(2.0**31, 2.0**31 - 128, 2.0**32, 2.0**32 - 256, 2.0**24, 1e30, 0.99, 1.01, np.inf)],
    np.float32,
)


def ulps(count: float) -> Error:
    """So many units in the last place of the result."""
    return lambda _, exact: count * np.spacing(np.abs(exact).astype(np.float32)).astype(float)


def absolute(error: float) -> Error:
    """An absolute error."""
    return lambda _, exact: np.full(exact.shape, error)


def _exp(x: Array, exact: Array) -> Array:
    return ulps(1)(x, exact) * (3 + 2 * np.abs(x))


def _log(x: Array, exact: Array) -> Array:
    near = (x >= 0.5) & (x <= 2)
    return np.where(near, 2.0**-21, ulps(3)(x, exact))


@dataclass(frozen=True)
class Edge:
    """An op, what it is fed, the exact function, and what it may be off by."""

    op: Op
    calls: str
    """The function that its kernel calls; empty for operators."""
    fed: tuple[Array, ...]
    exact: Callable[..., Array]
    error: Error

    def __str__(self) -> str:
        return type(self.op).__name__


def _one(op: Op, calls: str, exact: Callable[[Array], Array], error: Error, *more: Array) -> Edge:
    return Edge(op, calls, (np.concatenate((sweep(), *more)),), exact, error)


def _two(op: Op, calls: str, exact: Callable[[Array, Array], Array], error: Error) -> Edge:
    return Edge(op, calls, PAIRS, exact, error)


def _quotient(x: Array, y: Array) -> Array:
    """The quotient by divisors of which WGSL promises something, and NaN by others."""
    is_promised = (np.abs(y) >= LEAST) & (np.abs(y) <= 2.0**126)
    return np.where(is_promised, x / np.where(is_promised, y, 1), np.nan)


def _saturated(low: int, high: int) -> Callable[[Array], Array]:
    return lambda x: np.clip(np.trunc(x), low, high)


EDGES = (
    _one(ops.Exp(), "exponential", np.exp, _exp, np.array([88, 88.7, -87, -89], np.float32)),
    _one(ops.Log(), "logarithm", np.log, _log, np.linspace(0.5, 2, 60).astype(np.float32)),
    _one(ops.Sqrt(), "sqrt", np.sqrt, ulps(5)),
    _one(ops.Sin(), "sine", np.sin, absolute(2.0**-11), TURN),
    _one(ops.Cos(), "cosine", np.cos, absolute(2.0**-11), TURN),
    _one(ops.Tanh(), "hyperbolic_tangent", np.tanh, absolute(1e-5)),
    _one(ops.Abs(), "abs", np.abs, ulps(0)),
    _one(ops.Neg(), "", np.negative, ulps(0)),
    _one(ops.Floor(), "floor", np.floor, ulps(0), HALVES, *NEAR_HALVES),
    _one(ops.Round(), "round", np.round, ulps(0), HALVES, *NEAR_HALVES),
    _one(ops.Cast(DType.I32), "to_i32", _saturated(-(2**31), 2**31 - 1), ulps(0), BOUNDS, -BOUNDS),
    _one(ops.Cast(DType.U32), "to_u32", _saturated(0, 2**32 - 1), ulps(0), BOUNDS, -BOUNDS),
    _two(ops.Add(), "", np.add, ulps(0.5)),
    _two(ops.Sub(), "", np.subtract, ulps(0.5)),
    _two(ops.Mul(), "", np.multiply, ulps(0.5)),
    _two(ops.Div(), "", _quotient, ulps(2.5)),
    _two(ops.Maximum(), "larger", np.maximum, ulps(0)),
    _two(ops.Minimum(), "smaller", np.minimum, ulps(0)),
    _two(ops.Compare("lt"), "", np.less, ulps(0)),
    _two(ops.Compare("eq"), "", np.equal, ulps(0)),
)

INSIDE: Mapping[str, str] = {
    **dict.fromkeys(("max", "min"), "`larger` and `smaller`"),
    **dict.fromkeys(("exp", "log"), "`exponential` and `logarithm`"),
    **dict.fromkeys(("select", "i32", "u32"), "`to_i32` and `to_u32`"),
    **dict.fromkeys(("sign", "bitcast"), "`hyperbolic_tangent`"),
}
"""Builtin functions that are called inside of functions with a row."""
NOTHING_COMPUTED = frozenset({"subgroupShuffle", "workgroupBarrier", "storageBarrier"})


def edge_faults(edge: Edge, device: Device) -> list[str]:
    """The faults of an op on an adapter."""
    graph, fed = graph_of(edge.op, *edge.fed)
    return faults(edge, run(graph, fed, device).outputs["y"])


def faults(edge: Edge, found: Array) -> list[str]:
    """The operands at which a result is off by more than is allowed."""
    wide = [each.astype(np.float64) for each in edge.fed]
    with np.errstate(all="ignore"):
        exact = np.asarray(edge.exact(*wide), np.float64)
        flushed = [np.where(np.abs(each) < LEAST, 0 * each, each) for each in wide]
        at_zero = np.asarray(edge.exact(*flushed), np.float64)
        mine = found.astype(np.float64)
        is_right = np.isnan(exact) | (~np.isfinite(at_zero) & np.isfinite(exact))
        for other in (at_zero, exact):
            allowed = edge.error(wide[0], other)
            is_right |= np.abs(mine - other) <= allowed
            is_right |= (np.abs(other) < LEAST) & (np.abs(mine) < LEAST)
            is_right |= (np.abs(other) > LARGEST) & (np.abs(mine) >= LARGEST)
            is_right |= mine == other
    places = np.flatnonzero(~is_right)
    return [
        f"{edge} of {', '.join(str(each[at]) for each in edge.fed)}: {found[at]}, not {exact[at]}"
        for at in places
    ]
