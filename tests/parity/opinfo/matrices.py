"""Functions of whole matrices, and Fourier transforms."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch

from tests.parity.opinfo.samples import infos
from tests.parity.opinfo.saying import (
    NotSaidError,
    Row,
    Said,
    given,
    number,
    permuted,
    whole,
)

REAL, COMPLEX = torch.float64, torch.complex128
SQUARE = {"E0308": "a matrix that is not square"}
PLAIN = {
    "E0301": "an axis of size 1 is not stretched",
    "E0320": "`@` takes a matrix on its right, and does not stretch leading axes",
}


def _triangle(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
        of = given(sample, "diagonal")
        of.demand("diagonal", (0,), "another diagonal")
        return _linalg(f"{name}(x)", name, x=of.x)

    return say


def _diagonal(sample: Any) -> Said:  # noqa: ANN401
    offset = sample.kwargs.get("offset", 0)
    of = given(sample, "offset dim1 dim2")
    if offset:
        raise NotSaidError("another diagonal")
    rank = of.x.dim()
    ends = [whole(of.get("dim1", -2 + rank)), whole(of.get("dim2", -1 + rank))]
    if any(not -rank <= each < rank for each in ends):
        raise NotSaidError("an axis that is not there")
    ends = [each % rank for each in ends]
    order = [each for each in range(rank) if each not in ends] + ends
    if len(order) != rank:
        raise NotSaidError("places that are no order of axes")
    return _linalg(f"diagonal({permuted('x', order)})", "diagonal", x=of.x)


def _eye(sample: Any) -> Said:  # noqa: ANN401
    columns = sample.args[0] if sample.args else sample.input
    if columns != sample.input:
        raise NotSaidError("a matrix that is not square")
    return _linalg(f"eye({number(sample.input)})", "eye")


def _of_one(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        return _linalg(f"{name}(x)", name, x=given(sample).x)

    return say


def _cholesky(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "upper")
    if of.get("upper", False):
        return _linalg("transposed(cholesky(x))", "cholesky, transposed", x=of.x)
    return _linalg("cholesky(x)", "cholesky", x=of.x)


def _solve(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "B left")
    of.demand("left", (True,), "an unknown on the left")
    x, y = of.x, of["B"]
    if y.dim() == 1 or (y.dim() == x.dim() - 1 and y.shape == x.shape[:-1]):
        return _linalg("sum(solve(x, insert_axis(y, -1, 1)), -1)", "solve", x=x, y=y)
    return _linalg("solve(x, y)", "solve", x=x, y=y)


def _solve_triangular(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "B upper left unitriangular")
    if of.get("unitriangular", False):
        raise NotSaidError("a diagonal of ones that is not read")
    left = of.get("left", True)
    if of["upper"] == left:
        raise NotSaidError("an upper matrix on the left, or a lower one on the right")
    # The lower matrix of a system from the right is the transposed of an upper one.
    text = "solve_lower(x, y)" if left else "transposed(solve_lower(transposed(x), transposed(y)))"
    return _linalg(text, "solve_lower, transposed", x=of.x, y=of["B"])


def _linalg(text: str, names: str, **fed: torch.Tensor) -> Said:
    return Said(text, fed, imports=f"from linalg import {names}\n")


def _transformed(name: str) -> Callable[[Any], Said]:
    """A transform along one axis, of a complex tensor as its two parts, or of a real one."""

    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "n dim norm")
        x = of.x
        rank = x.dim()
        if rank == 0:
            raise NotSaidError("a scalar has no axis, not even axis 0")
        dim = whole(of.get("dim", -1)) % rank
        own = x.shape[dim]
        n = of.get("n", None)
        n = whole(n) if n is not None else 2 * (own - 1) if name == "irfft" else own
        fed, call = _parts(name, sample)
        order = [*range(rank)]
        order[dim], order[-1] = order[-1], order[dim]
        bins = n // 2 + 1 if name == "irfft" else n
        cut = f"[{', '.join([':'] * (rank - 1) + [f':{bins}'])}]" if bins < own else ""
        lines = [f"{each}_ = {permuted(each, order)}{cut}" for each in fed]
        if bins > own:
            lines = [
                f"{each}_ = pad({permuted(each, order)}, -1, after={bins - own})" for each in fed
            ]
        size = f"({n})" if name == "irfft" else "()"
        results = ("u",) if name == "irfft" else ("u", "v")
        operands = ", ".join(f"{each}_" for each in fed)
        lines.append(f"{', '.join(results)} = {name}{size}({operands})")
        scale = _scale(of.get("norm", None), n, is_inverse=name.startswith("i"))
        lines.append("return " + ", ".join(f"{permuted(u, order)} * {scale!r}" for u in results))
        text = "".join(f"\n  {line}" for line in lines)
        return Said(text, fed, imports=f"from spectra import {name}\n", call=call)

    return say


def _scale(norm: str | None, n: int, *, is_inverse: bool) -> float:
    """PyTorch's result by a norm, in units of that of no norm."""
    forward = {None: 1.0, "backward": 1.0, "ortho": 1 / sqrt(n), "forward": 1 / n}
    inverse = {None: 1.0, "backward": 1.0, "ortho": sqrt(n), "forward": float(n)}
    return (inverse if is_inverse else forward)[norm]


def _parts(name: str, sample: Any) -> tuple[dict[str, torch.Tensor], Callable[[], torch.Tensor]]:  # noqa: ANN401
    """The operands, and PyTorch's function of them."""
    function = infos()[f"fft.{name}"].op
    if name == "rfft":
        x = sample.input
        return {"x": x}, lambda: function(x, *sample.args, **sample.kwargs)
    parts = torch.view_as_real(sample.input.detach().to(COMPLEX))
    x, y = (each.clone().requires_grad_() for each in parts.unbind(-1))
    return {"x": x, "y": y}, lambda: function(torch.complex(x, y), *sample.args, **sample.kwargs)


def _real_and_imaginary(result: torch.Tensor) -> Sequence[torch.Tensor]:
    return (result.real, result.imag)


def _second(result: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    return (result[1],)


ROWS = (
    Row("eye", "eye", _eye, refused={"E0220": "a size of 0"}),
    Row("lower", "tril", _triangle("lower")),
    Row("upper", "triu", _triangle("upper")),
    Row("diagonal", "diagonal", _diagonal, refused=SQUARE),
    Row("diagonal", "linalg.diagonal", _diagonal, refused=SQUARE),
    Row("transposed", "mT", _of_one("transposed")),
    Row("cholesky", "linalg.cholesky", _cholesky),
    Row("inverse", "linalg.inv", _of_one("inverse")),
    Row("solve", "linalg.solve", _solve, refused=PLAIN),
    Row("solve_lower", "linalg.solve_triangular", _solve_triangular, refused=PLAIN),
    Row("log_abs_det", "linalg.slogdet", _of_one("log_abs_det"), pick=_second),
    Row("fft", "fft.fft", _transformed("fft"), pick=_real_and_imaginary, dtypes=(COMPLEX,)),
    Row("ifft", "fft.ifft", _transformed("ifft"), pick=_real_and_imaginary, dtypes=(COMPLEX,)),
    Row("rfft", "fft.rfft", _transformed("rfft"), pick=_real_and_imaginary),
    Row("irfft", "fft.irfft", _transformed("irfft"), dtypes=(COMPLEX,)),
)
