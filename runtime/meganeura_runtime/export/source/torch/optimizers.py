"""The optimizers as those of PyTorch, or as classes where PyTorch has none."""

from collections.abc import Callable, Mapping

from meganeura_dsl.transforms.optimizers.adafactor import Adafactor
from meganeura_dsl.transforms.optimizers.adagrad import Adagrad
from meganeura_dsl.transforms.optimizers.adam import Adam, AdamW, Lamb
from meganeura_dsl.transforms.optimizers.lion import Lion
from meganeura_dsl.transforms.optimizers.muon import Muon
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.rmsprop import RmsProp
from meganeura_dsl.transforms.optimizers.sgd import Sgd
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.text import call

Arguments = dict[str, object]

NAMES: Mapping[type[Optimizer], str] = {
    Sgd: "torch.optim.SGD",
    Adam: "torch.optim.Adam",
    AdamW: "torch.optim.AdamW",
    RmsProp: "torch.optim.RMSprop",
    Adagrad: "torch.optim.Adagrad",
    Adafactor: "torch.optim.Adafactor",
    Lion: "Lion",
    Lamb: "Lamb",
    Muon: "Muon",
}
"""The class of each optimizer."""


def constructed(rule: Optimizer, parameters: str) -> str:
    """The text that makes the optimizer of some parameters."""
    given = {"lr": rule.lr, **rule.changed}
    is_limited = given.pop("decay", "all") == "matrices"
    joined = _JOINED.get(type(rule))
    given = given if joined is None else joined(rule, given)
    of = f"decaying_matrices({parameters})" if is_limited else parameters
    texts = {name: literal(value) for name, value in given.items() if not isinstance(value, str)}
    texts |= {name: value for name, value in given.items() if isinstance(value, str)}
    return str(call(NAMES[type(rule)], of, **{n: str(texts[n]) for n in given}))


def limits_decay(rule: Optimizer) -> bool:
    """Returns True for an optimizer whose weight decay is for matrices alone."""
    return rule.changed.get("decay") == "matrices"


def _betas(rule: Optimizer, given: Arguments) -> Arguments:
    """`betas=(beta1, beta2)`, where one of them is no default."""
    assert isinstance(rule, Adam)
    is_default = not {"beta1", "beta2"} & given.keys()
    rest = {name: value for name, value in given.items() if name not in ("beta1", "beta2")}
    if is_default:
        return rest
    return {"lr": rest.pop("lr"), "betas": f"({rule.beta1!r}, {rule.beta2!r})", **rest}


def _eps(rule: Optimizer, given: Arguments) -> Arguments:
    """`eps=(eps1, eps2)`: the first is not that of the element type, as it is in PyTorch."""
    assert isinstance(rule, Adafactor)
    rest = {name: value for name, value in given.items() if name not in ("eps1", "eps2")}
    return {"lr": rest.pop("lr"), "eps": f"({rule.eps1!r}, {rule.eps2!r})", **rest}


def _muon(rule: Optimizer, given: Arguments) -> Arguments:
    """Arguments whose value is a text are texts."""
    del rule
    return {n: f'"{value}"' if isinstance(value, str) else value for n, value in given.items()}


_JOINED: Mapping[type[Optimizer], Callable[[Optimizer, Arguments], Arguments]] = {
    Adam: _betas,
    AdamW: _betas,
    Adafactor: _eps,
    Muon: _muon,
}
"""The arguments as PyTorch has them; those that are texts are code."""

HELPERS: Mapping[str, str] = {
    "decaying_matrices": '''\
def decaying_matrices(parameters):
    """Groups of parameters: of those with fewer than two axes none decays."""
    matrices, others = [], []
    for each in parameters:
        (matrices if each.ndim > 1 else others).append(each)
    return [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
''',
    "by_pattern": '''\
def by_pattern(model, patterns):
    """The trained parameters, by the last pattern that their names match."""
    found = {pattern: [] for pattern in patterns}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            *_, last = (pattern for pattern in patterns if fnmatchcase(name, pattern))
            found[last].append(parameter)
    return found
''',
    "Lion": '''\
class Lion(torch.optim.Optimizer):
    """Steps of the sign of a moving mean of gradients (Chen et al., 2023)."""

    def __init__(self, params, lr, beta1=0.9, beta2=0.99, weight_decay=0.0):
        super().__init__(
            params, {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                mean = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                direction = mean.lerp(p.grad, 1 - group["beta1"]).sign()
                mean.lerp_(p.grad, 1 - group["beta2"])
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(direction, alpha=group["lr"])
''',
    "Lamb": '''\
class Lamb(torch.optim.Optimizer):
    """Adam whose steps are as long as the parameter is (You et al., 2020)."""

    def __init__(self, params, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0):
        super().__init__(params, {
            "lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay
        })

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                mean = state.setdefault("exp_avg", torch.zeros_like(p))
                square = state.setdefault("exp_avg_sq", torch.zeros_like(p))
                mean.lerp_(p.grad, 1 - group["beta1"])
                square.lerp_(p.grad * p.grad, 1 - group["beta2"])
                corrected = mean / (1 - group["beta1"] ** state["step"])
                root = (square / (1 - group["beta2"] ** state["step"])).sqrt() + group["eps"]
                direction = corrected / root + group["weight_decay"] * p
                length, step = p.norm(), direction.norm()
                trust = torch.where((length > 0) & (step > 0), length / step, 1.0)
                p.sub_(group["lr"] * trust * direction)
''',
    "Muon": '''\
class Muon(torch.optim.Optimizer):
    """Steps of matrices with singular values near 1 (Jordan et al., 2024), in full precision."""

    def __init__(
        self, params, lr, momentum=0.95, nesterov=True, weight_decay=0.1, eps=1e-7, ns_steps=5,
        adjust_lr_fn="original",
    ):
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay,
            "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                ahead = p.grad.lerp(buffer, group["momentum"]) if group["nesterov"] else buffer
                x = ahead.flatten(1)
                rows, columns = x.shape
                x = x / x.norm().clamp(min=group["eps"])
                for _ in range(group["ns_steps"]):
                    gram = x.T @ x if rows > columns else x @ x.T
                    mixed = -4.7750 * gram + 2.0315 * gram @ gram
                    x = 3.4445 * x + (x @ mixed if rows > columns else mixed @ x)
                longest = 0.2 * max(rows, columns) ** 0.5
                is_original = group["adjust_lr_fn"] == "original"
                factor = max(1.0, rows / columns) ** 0.5 if is_original else longest
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(factor * x.view_as(p), alpha=group["lr"])
''',
}
"""Optimizers that PyTorch has not, and functions of parameters, as text."""
