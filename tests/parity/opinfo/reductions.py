"""Sums, largest elements, orders and running results along axes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.parity.opinfo.saying import (
    NotSaidError,
    Row,
    Said,
    flat,
    given,
    kept,
    number,
    permuted,
    whole,
    wholes,
)

REAL, INTEGER, BOOL = torch.float64, torch.int32, torch.bool
NUMBERS = (REAL, INTEGER)
NO_AXIS = {"E0302": "a scalar has no axis, not even axis 0"}
TWICE = {"E0202": "an axis is named twice"}


def _reduced(text: str, x: torch.Tensor, dim: object, keepdim: object) -> str:
    """The reduction `text` of `{x}` over `{axes}`."""
    rank = x.dim()
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return kept(text.format(x="x", axes=""), range(rank) if keepdim else ())
    axes = wholes(dim)
    made = text.format(x="x", axes="".join(f", {each}" for each in axes))
    if keepdim and rank:
        made = kept(made, [each % rank for each in axes])
    return made


def _over(text: str, names: str = "dim keepdim dtype") -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
        of = given(sample, names)
        if "dtype" in names and of["dtype"] is not None and of["dtype"] != of.x.dtype:
            raise NotSaidError("a result of another element type")
        return Said(_reduced(text, of.x, of["dim"], of.get("keepdim", False)), {"x": of.x})

    return say


def _variance(sample: Any) -> Said:  # noqa: ANN401
    # `x.var(True)` gives `unbiased` where `dim` stands otherwise.
    if sample.args and isinstance(sample.args[0], bool):
        of = given(sample, "unbiased")
    else:
        of = given(sample, "dim unbiased keepdim correction")
    dim = of.get("dim") if "dim" in of.names else None
    correction = of.get("correction", None) if "correction" in of.names else None
    if correction is None:
        correction = 1 if of.get("unbiased", True) in (None, True) else 0
    axes = range(of.x.dim()) if dim is None or dim in ((), []) else wholes(dim)
    count = 1
    for axis in axes:
        count *= of.x.shape[axis] if of.x.dim() else 1
    if count - correction <= 0:
        raise NotSaidError("a division by 0")
    keep = of.get("keepdim", False) if "keepdim" in of.names else False
    text = _reduced("variance({x}{axes})", of.x, dim, keep)
    return Said(f"{text} * {number(count / (count - correction))}", {"x": of.x})


def _extreme(name: str) -> Callable[[Any], Said]:
    """The largest element and its place."""

    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "dim keepdim")
        place = "argmax(-x{axes})" if name == "min" else "argmax({x}{axes})"
        dim, keep = whole(of["dim"]), of.get("keepdim", False)
        left = _reduced(f"{name}({{x}}{{axes}})", of.x, dim, keep)
        right = _reduced(place, of.x, dim, keep)
        return Said(f"\n  return {left}, {right}", {"x": of.x})

    return say


def _place(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "dim keepdim")
        rank = of.x.dim()
        if of["dim"] is None:
            text = f"{name}({flat('x', rank)}, 0)"
            return Said(kept(text, range(rank) if of["keepdim"] else ()), {"x": of.x})
        return Said(_reduced(f"{name}({{x}}{{axes}})", of.x, of["dim"], of["keepdim"]), {"x": of.x})

    return say


def _order(name: str, names: str, picks: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, names)
        axis = number(of.get("dim", -1))
        down = ", descending=true" if of.get("descending", False) else ""
        return Said(f"{name}(x, {axis}{down}){picks}", {"x": of.x})

    return say


def _top(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "k dim largest sorted")
    of.demand("largest", (True,), "the smallest elements")
    axis = number(of.get("dim", -1))
    return Said(f"top_k(x, {number(of['k'])}, {axis})", {"x": of.x})


def _along(form: str) -> Callable[[Any], Said]:
    """Says a function of one axis, whose place in the form is `{}`."""

    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "dim dtype")
        if of["dtype"] is not None and of["dtype"] != of.x.dtype:
            raise NotSaidError("a result of another element type")
        return Said(form.format(number(whole(of["dim"]))), {"x": of.x})

    return say


def _logsumexp(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim keepdim")
    axes = wholes(of["dim"])
    if len(axes) != 1:
        raise NotSaidError("more or less than one axis")
    text = f"logsumexp(axis={axes[0]})(x)"
    return Said(
        kept(text, [axes[0] % of.x.dim()] if of["keepdim"] and of.x.dim() else ()), {"x": of.x}
    )


def _glu(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim")
    dim = whole(of.get("dim", -1))
    rank = of.x.dim()
    if rank == 0 or dim % rank == rank - 1:
        return Said("glu(x)", {"x": of.x})
    order = [*range(rank)]
    order[dim], order[-1] = order[-1], order[dim]
    return Said(permuted(f"glu({permuted('x', order)})", order), {"x": of.x})


def _first(result: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return (result[0],)


ROWS = (
    Row("sum", "sum", _over("sum({x}{axes})"), dtypes=NUMBERS, refused={**NO_AXIS, **TWICE}),
    Row(
        "mean",
        "mean",
        _over("mean({x}{axes})"),
        refused={**NO_AXIS, **TWICE},
        accepted={"could not infer output dtype": "the mean of whole numbers is a float"},
    ),
    Row("max", "amax", _over("max({x}{axes})"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("min", "amin", _over("min({x}{axes})"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("max", "max/reduction_no_dim", _over("max({x}{axes})"), dtypes=NUMBERS),
    Row("min", "min/reduction_no_dim", _over("min({x}{axes})"), dtypes=NUMBERS),
    Row("max, argmax", "max/reduction_with_dim", _extreme("max"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("min, argmax", "min/reduction_with_dim", _extreme("min"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("argmax", "argmax", _place("argmax"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("argmin", "argmin", _place("argmin"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("variance", "var", _variance, refused=NO_AXIS),
    Row("variance", "var/unbiased", _variance, refused=NO_AXIS),
    Row("any", "any", _over("any({x}{axes})", "dim keepdim"), dtypes=(BOOL,), refused=NO_AXIS),
    Row("all", "all", _over("all({x}{axes})", "dim keepdim"), dtypes=(BOOL,), refused=NO_AXIS),
    Row(
        "sort", "sort", _order("sort", "dim descending stable", ""), dtypes=NUMBERS, refused=NO_AXIS
    ),
    Row(
        "argsort",
        "argsort",
        _order("argsort", "dim descending stable", ""),
        dtypes=NUMBERS,
        refused=NO_AXIS,
    ),
    Row("top_k", "topk", _top, refused=NO_AXIS),
    Row("cumsum", "cumsum", _along("cumsum(x, {})"), dtypes=NUMBERS, refused=NO_AXIS),
    Row("cumprod", "cumprod", _along("cumprod(x, {})"), refused=NO_AXIS),
    Row("cummax", "cummax", _along("cummax(x, {})"), pick=_first, dtypes=NUMBERS, refused=NO_AXIS),
    Row("cummin", "cummin", _along("cummin(x, {})"), pick=_first, dtypes=NUMBERS, refused=NO_AXIS),
    Row("softmax", "softmax", _along("softmax(axis={})(x)"), refused=NO_AXIS),
    Row("log_softmax", "log_softmax", _along("log_softmax(axis={})(x)"), refused=NO_AXIS),
    Row("logsumexp", "logsumexp", _logsumexp, refused=NO_AXIS),
    Row("glu", "nn.functional.glu", _glu),
)
