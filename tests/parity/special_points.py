"""PyTorch's values and gradients at the special points of all functions, in double precision.

`python -m tests.parity.special_points` writes them to `tests/special_points.json`.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - so it is known

from meganeura_dsl.ir.graph import Array
from tests.special_points import CASES, STORED, Case, upstream

Tensor = torch.Tensor


def _softplus(x: Tensor) -> Tensor:
    # `F.softplus` is x itself from 20 on.
    return torch.logaddexp(x, torch.zeros((), dtype=x.dtype))


def _power(x: Tensor, k: float) -> Tensor:
    return x**k


def _recurrence(a: Tensor, b: Tensor) -> Tensor:
    found = [b[:, 0]]
    for step in range(1, a.shape[1]):
        found.append(a[:, step] * found[-1] + b[:, step])
    return torch.stack(found, 1)


def _cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x, y.long())


def _masked(x: Tensor, y: Tensor) -> Tensor:
    losses = F.cross_entropy(x, y.long(), reduction="none")
    return losses.sum() / max(int((y != -100).sum()), 1)


def _lstm_step(z: Tensor, c: Tensor) -> Tensor:
    i, f, g, o = z.split(1, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c) + c


def _gru_step(a: Tensor, b: Tensor, h: Tensor) -> Tensor:
    (ar, az, am), (br, bz, bm) = a.split(1, 1), b.split(1, 1)
    z = torch.sigmoid(az + bz)
    return (1 - z) * torch.tanh(am + torch.sigmoid(ar + br) * bm) + z * h


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, *, ahead: bool = False) -> Tensor:
    """A query that sees no key gives 0."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    seen = torch.ones_like(scores, dtype=torch.bool)
    if ahead:
        seen = torch.tril(seen)
    if mask.dtype == torch.bool:
        seen = seen & mask
    else:
        scores = scores + mask
    some = seen.any(-1, keepdim=True)
    weights = torch.softmax(scores.masked_fill(~seen & some, -torch.inf), -1)
    return torch.where(some, weights, 0) @ v


def _group_norm(x: Tensor) -> Tensor:
    return F.group_norm(x, 1)


def _batch_norm(x: Tensor) -> Tensor:
    return F.batch_norm(x, torch.zeros(2).double(), torch.ones(2).double())


SAME = (
    *("abs", "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh", "erf", "floor"),
    *("round", "sign", "sigmoid", "maximum", "minimum"),
)
REFERENCES: Mapping[str, Callable[..., Tensor]] = {
    **{name: getattr(torch, name) for name in SAME},
    "stop_gradient": lambda x: x.detach() + 0 * torch.where(torch.isfinite(x), x, 0),
    "logistic": torch.sigmoid,
    "relu": F.relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "elu-0.5": partial(F.elu, alpha=0.5),
    "softplus": _softplus,
    "log_sigmoid": F.logsigmoid,
    # Torch multiplies slopes of the hard functions with 1/6 in single precision.
    "hard_sigmoid": lambda x: F.relu6(x + 3) / 6,
    "hard_swish": lambda x: x * F.relu6(x + 3) / 6,
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "Neg": torch.neg,
    **{f"power-{k}": partial(_power, k=k) for k in (0, 2, 3, -1, 0.5, -0.5)},
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "Div": torch.div,
    "where": lambda x, y: torch.where(x <= y, x, y),
    "Compare-==": lambda x, y: (x == y).double(),
    "Compare-!=": lambda x, y: (x != y).double(),
    "Compare-<": lambda x, y: (x < y).double(),
    "Compare-<=": lambda x, y: (x <= y).double(),
    "Compare->": lambda x, y: (x > y).double(),
    "Compare->=": lambda x, y: (x >= y).double(),
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "max": lambda x: x.amax(1),
    "min": lambda x: x.amin(1),
    "variance": lambda x: x.var(1, correction=0),
    "any": lambda x: (x > 0).any(1).double(),
    "all": lambda x: (x > 0).all(1).double(),
    "argmax": lambda x: x.argmax(1).double(),
    "argmin": lambda x: x.argmin(1).double(),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: x.cummax(1).values,
    "cummin": lambda x: x.cummin(1).values,
    "linear_recurrence": _recurrence,
    "sort": lambda x: torch.sort(x, dim=1, stable=True).values,
    "top_k": lambda x: torch.sort(x, dim=1, descending=True, stable=True).values[:, :2],
    "argsort": lambda x: torch.argsort(x, dim=1, stable=True).double(),
    "softmax": partial(torch.softmax, dim=-1),
    "log_softmax": partial(torch.log_softmax, dim=-1),
    "logsumexp": partial(torch.logsumexp, dim=-1),
    "logsumexp-first": partial(torch.logsumexp, dim=0),
    "glu": F.glu,
    "cross_entropy": _cross_entropy,
    "class_cross_entropy": _cross_entropy,
    "soft_cross_entropy": F.cross_entropy,
    "masked_cross_entropy": _masked,
    "mse": F.mse_loss,
    "l1": F.l1_loss,
    "smooth_l1": F.smooth_l1_loss,
    "smooth_l1-0": partial(F.smooth_l1_loss, beta=0.0),
    "bce": F.binary_cross_entropy_with_logits,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "rms_norm": lambda x: F.rms_norm(x, (4,), eps=1e-6),
    "instance_norm": F.instance_norm,
    "group_norm": _group_norm,
    "batch_norm": _batch_norm,
    "ghost_batch_norm": _batch_norm,
    "max_pool": lambda x: F.max_pool2d(x, 2),
    "avg_pool": lambda x: F.avg_pool2d(x, 2),
    "attention": _attention,
    "attention-mask and ahead": partial(_attention, ahead=True),
    "attention-bias and ahead": partial(_attention, ahead=True),
    "lstm_step": _lstm_step,
    "gru_step": _gru_step,
}
"""The function of PyTorch that each case is, of the same inputs."""


def right(case: Case) -> dict[str, Array]:
    """The value, and the gradient of each input of floats."""
    fed = {name: torch.tensor(_wide(array)) for name, array in case.fed.items()}
    leaves = {name: each for name, each in fed.items() if each.is_floating_point() and case.slopes}
    for each in leaves.values():
        each.requires_grad_()
    out = (REFERENCES.get(case.name) or REFERENCES[case.covers])(*fed.values())
    found = {"output": out.detach().numpy()}
    if leaves:
        seed = torch.tensor(upstream(out.shape).astype(np.float64))
        given = torch.autograd.grad(out, list(leaves.values()), seed, allow_unused=True)
        for (name, leaf), each in zip(leaves.items(), given, strict=True):
            found[f"d{name}"] = (torch.zeros_like(leaf) if each is None else each).numpy()
    return found


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def written() -> str:
    """The file: a line for each result of each case, rounded to twelve digits."""
    lines = [
        f"  {json.dumps(case.name)}: {{\n"
        + ",\n".join(f'    "{name}": {_listed(array)}' for name, array in right(case).items())
        + "\n  }"
        for case in CASES
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(array: Array) -> str:
    return json.dumps([float(f"{float(number):.12g}") for number in array.ravel()])


if __name__ == "__main__":
    STORED.write_text(written())
