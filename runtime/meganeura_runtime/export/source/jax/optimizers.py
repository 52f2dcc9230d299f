"""The optimizers as functions of JAX: the next value of a parameter, and what it is moved by."""

from collections.abc import Mapping

from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_runtime.export.source.literals import literal
from meganeura_runtime.export.source.text import call


def rule_text(rule: Optimizer) -> str:
    """The function of a parameter that moves as the optimizer says."""
    given = {"lr": rule.lr, **rule.changed}
    return str(call("partial", rule.word, **{n: str(literal(v)) for n, v in given.items()}))


_DECAYED = '''\
def decay_of(p, weight_decay, decay):
    """The weight decay of a parameter: 0 for those of fewer than two axes, if `matrices` decay."""
    return 0.0 if decay == "matrices" and p.ndim < 2 else weight_decay'''
_MOMENTS = '''\
def next_moments(g, moments, beta1, beta2):
    """The next moving means of the gradient and of its square."""
    mean = moments.get("exp_avg", jnp.zeros_like(g))
    square = moments.get("exp_avg_sq", jnp.zeros_like(g))
    return mean + (1 - beta1) * (g - mean), beta2 * square + (1 - beta2) * g * g'''
_ADAM_STEP = '''\
def adam_step(p, g, moments, t, rate, beta1, beta2, eps, amsgrad):
    """A step of Adam without weight decay."""
    mean, square = next_moments(g, moments, beta1, beta2)
    found = {"exp_avg": mean, "exp_avg_sq": square}
    if amsgrad:
        square = jnp.maximum(moments.get("max_exp_avg_sq", jnp.zeros_like(p)), square)
        found["max_exp_avg_sq"] = square
    root = jnp.sqrt(square) / jnp.sqrt(1 - beta2**t) + eps
    return p - rate / (1 - beta1**t) * mean / root, found'''
_RULES: Mapping[str, str] = {
    "sgd": '''\
def sgd(
    p, g, moments, t, scale, lr, momentum=0.0, nesterov=False, weight_decay=0.0, decay="all"
):
    """Stochastic gradient descent."""
    g = g + decay_of(p, weight_decay, decay) * p
    if not momentum:
        return p - lr * scale * g, {}
    buffer = momentum * moments.get("momentum", jnp.zeros_like(p)) + g
    direction = g + momentum * buffer if nesterov else buffer
    return p - lr * scale * direction, {"momentum": buffer}''',
    "adam": '''\
def adam(
    p, g, moments, t, scale, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, decay="all",
    amsgrad=False,
):
    """Adam (Kingma and Ba, 2015); weight decay is part of the gradient."""
    g = g + decay_of(p, weight_decay, decay) * p
    return adam_step(p, g, moments, t, lr * scale, beta1, beta2, eps, amsgrad)''',
    "adamw": '''\
def adamw(
    p, g, moments, t, scale, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01, decay="all",
    amsgrad=False,
):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019)."""
    p = (1 - lr * scale * decay_of(p, weight_decay, decay)) * p
    return adam_step(p, g, moments, t, lr * scale, beta1, beta2, eps, amsgrad)''',
    "rmsprop": '''\
def rmsprop(
    p, g, moments, t, scale, lr, alpha=0.99, eps=1e-8, momentum=0.0, centered=False,
    weight_decay=0.0, decay="all",
):
    """RMSprop (Tieleman and Hinton, 2012)."""
    g = g + decay_of(p, weight_decay, decay) * p
    square = alpha * moments.get("square_avg", jnp.zeros_like(p)) + (1 - alpha) * g * g
    found, variance = {"square_avg": square}, square
    if centered:
        mean = moments.get("grad_avg", jnp.zeros_like(p))
        found["grad_avg"] = mean = mean + (1 - alpha) * (g - mean)
        variance = jnp.maximum(square - mean * mean, 0.0)
    direction = g / (jnp.sqrt(variance) + eps)
    if momentum:
        direction = momentum * moments.get("momentum", jnp.zeros_like(p)) + direction
        found["momentum"] = direction
    return p - lr * scale * direction, found''',
    "adagrad": '''\
def adagrad(
    p, g, moments, t, scale, lr, lr_decay=0.0, initial_accumulator_value=0.0, eps=1e-10,
    weight_decay=0.0, decay="all",
):
    """Adagrad (Duchi et al., 2011)."""
    g = g + decay_of(p, weight_decay, decay) * p
    total = moments.get("sum", jnp.zeros_like(p)) + g * g
    root = jnp.sqrt(initial_accumulator_value + total) + eps
    return p - lr * scale / (1 + lr_decay * (t - 1)) * g / root, {"sum": total}''',
    "lion": '''\
def lion(p, g, moments, t, scale, lr, beta1=0.9, beta2=0.99, weight_decay=0.0, decay="all"):
    """Lion (Chen et al., 2023): steps of the sign of a moving mean of gradients."""
    mean = moments.get("exp_avg", jnp.zeros_like(p))
    direction = jnp.sign(mean + (1 - beta1) * (g - mean))
    p = (1 - lr * scale * decay_of(p, weight_decay, decay)) * p
    return p - lr * scale * direction, {"exp_avg": mean + (1 - beta2) * (g - mean)}''',
    "lamb": '''\
def lamb(
    p, g, moments, t, scale, lr, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0, decay="all"
):
    """Adam whose steps are as long as the parameter is (You et al., 2020)."""
    mean, square = next_moments(g, moments, beta1, beta2)
    root = jnp.sqrt(square / (1 - beta2**t)) + eps
    direction = mean / (1 - beta1**t) / root + decay_of(p, weight_decay, decay) * p
    length, step = jnp.sqrt((p * p).sum()), jnp.sqrt((direction * direction).sum())
    trust = jnp.where((length > 0) & (step > 0), length / step, 1.0)
    return p - lr * scale * trust * direction, {"exp_avg": mean, "exp_avg_sq": square}''',
    "adafactor": '''\
def adafactor(
    p, g, moments, t, scale, lr, beta2_decay=-0.8, eps1=2.0**-23, eps2=1e-3, d=1.0,
    weight_decay=0.0, decay="all",
):
    """Adafactor (Shazeer and Stern, 2018): mean squares of rows and of columns."""
    found = {"variance": g * g}
    if p.ndim > 1:
        found = {"row_var": (g * g).mean(-1), "col_var": (g * g).mean(-2)}
    for name, fresh in found.items():
        old = moments.get(name, jnp.zeros_like(fresh))
        found[name] = old + t**beta2_decay * (fresh - old)
    if p.ndim > 1:
        rows, columns = found["row_var"], found["col_var"]
        shares = rows / jnp.maximum(rows.mean(-1, keepdims=True), eps1)
        variance = shares[..., :, None] * columns[..., None, :]
    else:
        variance = found["variance"]
    direction = g / jnp.sqrt(jnp.maximum(variance, eps1**2))
    length = jnp.maximum(eps2, jnp.sqrt((p * p).mean())) * jnp.minimum(lr * scale, t**-0.5)
    length = length / jnp.maximum(1.0, jnp.sqrt((direction * direction).mean()) / d)
    p = (1 - lr * scale * decay_of(p, weight_decay, decay)) * p
    return p - length * direction, found''',
    "muon": '''\
def muon(
    p, g, moments, t, scale, lr, momentum=0.95, nesterov=True, weight_decay=0.1, eps=1e-7,
    ns_steps=5, adjust_lr_fn="original",
):
    """Steps of matrices with singular values near 1 (Jordan et al., 2024)."""
    buffer = moments.get("momentum_buffer", jnp.zeros_like(p))
    buffer = buffer + (1 - momentum) * (g - buffer)
    x = (g + momentum * (buffer - g) if nesterov else buffer).reshape(len(p), -1)
    rows, columns = x.shape
    x = x / jnp.maximum(jnp.sqrt((x * x).sum()), eps)
    for _ in range(ns_steps):
        gram = x.T @ x if rows > columns else x @ x.T
        mixed = -4.7750 * gram + 2.0315 * gram @ gram
        x = 3.4445 * x + (x @ mixed if rows > columns else mixed @ x)
    is_original = adjust_lr_fn == "original"
    factor = max(1.0, rows / columns) ** 0.5 if is_original else 0.2 * max(rows, columns) ** 0.5
    p = (1 - lr * scale * weight_decay) * p
    return p - lr * scale * factor * x.reshape(p.shape), {"momentum_buffer": buffer}''',
}
NAMES = frozenset(("adam_step", "decay_of", "next_moments", *_RULES))
"""The names of all of these functions."""


def rule_functions(words: frozenset[str]) -> list[str]:
    """The functions of optimizers, behind those that they apply."""
    rules = [text for word, text in _RULES.items() if word in words]
    parts = [_DECAYED] if any("decay_of(" in each for each in rules) else []
    parts += [_MOMENTS] if {"adam", "adamw", "lamb"} & words else []
    parts += [_ADAM_STEP] if {"adam", "adamw"} & words else []
    return [*parts, *rules]
