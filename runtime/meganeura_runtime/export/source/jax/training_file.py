"""A training as one file of JAX: its loss, its optimizer and its loop."""

from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.source.jax.jax_file import NESTED, model_function
from meganeura_runtime.export.source.jax.optimizers import NAMES, rule_functions, rule_text
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.source_file import ModelSource
from meganeura_runtime.export.source.text import python_name, words_of
from meganeura_runtime.export.source.training import loop_text
from meganeura_runtime.export.source.training.schedules import factor_of
from meganeura_runtime.export.source.training.training import Training
from meganeura_runtime.export.source.unit import Unit

TAKEN = NAMES | frozenset(
    (
        "Fraction", "RULES", "flat", "fnmatchcase", "gradients", "loss_of", "moved", "np",
        "order_of_epoch", "partial", "rate", "read", "rule_of", "save_file", "train",
    )
)  # fmt: skip
"""Names that a file uses for its loop."""
DTYPES = {DType.F32: "np.float32", DType.F16: "np.float16", DType.BOOL: "np.bool_"}
"""The types of inputs; others are `int32`."""
_FLAT = '''\
def flat(params):
    """{"a": {"b": x}} as {"a.b": x}: the inverse of `nested`."""
    found = {}
    for name, value in params.items():
        if isinstance(value, dict):
            found |= {f"{name}.{below}": each for below, each in flat(value).items()}
        else:
            found[name] = value
    return found'''
_RULE_OF = '''\
def rule_of(name):
    """The rule by which a weight moves, None if none does: that of the last pattern it matches."""
    *_, last = (pattern for pattern in RULES if fnmatchcase(name, pattern))
    return RULES[last]'''


def training_file(body: str, root: Unit, source: ModelSource, training: Training) -> str:
    """The file: `body` has the functions of the loss."""
    words = frozenset(rule.word for rule in training.rules.values() if rule is not None)
    parts = [
        NESTED,
        _FLAT,
        body,
        model_function(root, source),
        *rule_functions(words),
        _rules(training),
        _RULE_OF,
        loop_text.order_function(training),
        loop_text.rate_function(training.settings.schedule),
        _loss(root, source, training),
        _moved(training),
        _train(root, training),
        _main(training),
    ]
    whole = "\n\n\n".join(each for each in parts if each)
    return _head(whole) + whole


def _head(whole: str) -> str:
    words = words_of(whole)
    head = "import math\n" if "math" in words else ""
    head += "import sys\nfrom fnmatch import fnmatchcase\n"
    head += "from fractions import Fraction\n" if "Fraction" in words else ""
    head += "from functools import partial\n\nimport jax\nimport jax.numpy as jnp\n"
    head += "import numpy as np\nfrom safetensors.flax import load_file, save_file\n"
    return head + "from safetensors.numpy import load_file as read\n\n\n"


def _rules(training: Training) -> str:
    """The table of rules by pattern; what no gradient moves has none."""
    lines = ["RULES = {"]
    for pattern, rule in training.rules.items():
        lines += laid_out(f'"{pattern}": {None if rule is None else rule_text(rule)},', 4)
    lines += [f'    "{pattern}": None,' for pattern in training.unmoved]
    return "\n".join(
        [*lines, "}", '"""The rules by the patterns of names; the last one counts."""']
    )


def _inputs(training: Training, source: ModelSource) -> str:
    return ", ".join(python_name(name, source.reserved) for name in training.inputs)


def _loss(root: Unit, source: ModelSource, training: Training) -> str:
    """The loss as a function of what is trained, and its gradients."""
    inputs = _inputs(training, source)
    flags = ["training=True"] if root.training else []
    flags += ["keys=random_keys(key)"] if root.draws else []
    key = ["key"] if root.draws else []
    given = ", ".join(["params", inputs, *flags])
    several = len(training.measured) > 1
    result = "loss, *metrics" if several else "loss"
    head = f"def loss_of({', '.join(['trained', 'others', *key, inputs])}):"
    lines = laid_out(head, 0)
    lines += [
        '    """The loss; the metrics and the weights, states replaced by their next values."""'
    ]
    lines += ["    params = nested({**trained, **others})"]
    lines += laid_out(f"{result} = {source.model}({given})", 4)
    lines += [f"    return loss, ({'metrics' if several else '[]'}, flat(params))", "", ""]
    lines += ["gradients = jax.jit(jax.value_and_grad(loss_of, has_aux=True))"]
    return "\n".join(lines)


def _moved(training: Training) -> str:
    """The function of an update: clipping, and the rule of each weight."""
    settings = training.settings
    statements = [
        '"""The weights and the moments after update t = 1, 2, ..., `scale` times the rates."""'
    ]
    if settings.clip_value is not None:
        b = settings.clip_value
        statements.append(f"slopes = {{name: g.clip(-{b!r}, {b!r}) for name, g in slopes.items()}}")
    if settings.clip_norm is not None:
        statements += [
            "norm = jnp.sqrt(sum((g * g).sum() for g in slopes.values()))",
            f"factor = jnp.minimum(1.0, {settings.clip_norm!r} / (norm + 1e-6))",
            "slopes = {name: factor * g for name, g in slopes.items()}",
        ]
    statements += [
        "found = {",
        "    name: rule_of(name)(p, slopes[name], moments[name], t, scale)",
        "    for name, p in trained.items()",
        "}",
        "weights = {name: p for name, (p, _) in found.items()}",
        "return weights, {name: moments for name, (_, moments) in found.items()}",
    ]
    head = ["@jax.jit", "def moved(trained, slopes, moments, t, scale):"]
    return "\n".join([*head, *loop_text.indented(statements, 4)])


def _train(root: Unit, training: Training) -> str:
    """The function that trains: an iterator of what each step measured, and of the weights."""
    statements = [
        '"""Moves weights by the examples in `data`; gives what each step measured, and them."""',
        "trained = {name: p for name, p in weights.items() if rule_of(name) is not None}",
        "others = {name: p for name, p in weights.items() if name not in trained}",
        "moments = {  # zeros, of the shapes that each rule has",
        "    name: jax.tree.map(jnp.zeros_like, rule_of(name)(p, p, {}, 1.0, 1.0)[1])",
        "    for name, p in trained.items()",
        "}",
        *loop_text.counted(training),
        "for step in range(steps):",
        *(f"    {each}" for each in _step(root, training)),
    ]
    return "\n".join(["def train(weights, data):", *loop_text.indented(statements, 4)])


def _step(root: Unit, training: Training) -> list[str]:
    """The statements of a step: the loss, its gradients, and the update."""
    settings, k = training.settings, training.settings.accumulate
    key = [f"jax.random.fold_in(jax.random.key({settings.seed}), step)"] if root.draws else []
    taken = [loop_text.taken(training, name) for name in training.inputs]
    given = ", ".join(["trained", "others", *key, *taken])
    several = len(training.measured) > 1
    statements = [
        *loop_text.chosen(training),
        f"(loss, ({'metrics' if several else '_'}, found)), slopes = gradients({given})",
        "others = {name: found[name] for name in others}",
    ]
    factor = factor_of(settings.schedule)
    count = f"step // {k}" if k > 1 else "step"
    scale = "1.0"
    if factor is not None:
        scale = f"rate({count}, {loop_text.second_number(training, factor)})"
    update = f"trained, moments = moved(trained, slopes, moments, {count} + 1.0, {scale})"
    if k > 1:
        statements += [
            f"total = jax.tree.map(jnp.add, total, slopes) if step % {k} else slopes",
            f"if (step + 1) % {k} == 0:",
            f"    slopes = jax.tree.map(lambda each: each / {k}, total)",
            f"    {update}",
        ]
    else:
        statements.append(update)
    metrics = ", *map(float, metrics)" if several else ""
    return [*statements, f"yield [float(loss){metrics}], {{**trained, **others}}"]


def _main(training: Training) -> str:
    """The `main` of the file: it reads the data, trains, and writes the weights."""
    types = {name: DTYPES.get(each.dtype, "np.int32") for name, each in training.inputs.items()}
    statements = [
        *loop_text.usage(training, first_weights=False),
        "if len(sys.argv) != 3:",
        "    sys.exit(main.__doc__)",
        "stored, weights = read(sys.argv[1]), load_file(sys.argv[2])",
        *loop_text.data_read(training, {name: f".astype({each})" for name, each in types.items()}),
        "for step, (measured, weights) in enumerate(train(weights, data)):",
        *(f"    {each}" for each in loop_text.printed(training)),
        f'save_file(weights, "{training.name}.safetensors")',
    ]
    return "\n".join(["def main():", *loop_text.indented(statements, 4)])
