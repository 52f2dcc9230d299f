"""A training as one file of PyTorch: its loss, its optimizer and its loop."""

from meganeura_dsl.ir.types import DType
from meganeura_runtime.export.source.source_file import ModelSource
from meganeura_runtime.export.source.text import words_of
from meganeura_runtime.export.source.torch.optimizers import (
    HELPERS,
    NAMES,
    constructed,
    limits_decay,
)
from meganeura_runtime.export.source.torch.torch_file import made_model
from meganeura_runtime.export.source.training import loop_text
from meganeura_runtime.export.source.training.schedules import factor_of
from meganeura_runtime.export.source.training.training import ALL, Training
from meganeura_runtime.export.source.unit import Unit

TAKEN = frozenset(
    ("Fraction", "fnmatchcase", "np", "order_of_epoch", "rate", "save_file", "train", *HELPERS)
)
"""Names that a file uses for its loop."""
DTYPES = {
    DType.F32: "torch.get_default_dtype()",
    DType.F16: "torch.float16",
    DType.BOOL: "torch.bool",
}
"""The types of inputs; whole numbers are indices, which are `int64` in PyTorch."""


def training_file(body: str, root: Unit, source: ModelSource, training: Training) -> str:
    """The file: `body` has the classes and functions of the loss."""
    settings = training.settings
    needed = [NAMES[type(rule)] for rule in training.rules.values() if rule is not None]
    needed += ["by_pattern"] if _is_divided(training) else []
    limited = any(rule is not None and limits_decay(rule) for rule in training.rules.values())
    needed += ["decaying_matrices"] if limited else []
    helpers = [text.rstrip() for name, text in HELPERS.items() if name in needed]
    functions = [
        loop_text.order_function(training),
        loop_text.rate_function(settings.schedule),
        _train(training),
        _main(source, training),
    ]
    made = made_model(root, source)
    whole = "\n\n\n".join([body, *made, *helpers, *(each for each in functions if each)])
    return _head(whole) + whole


def _head(whole: str) -> str:
    words = words_of(whole)
    head = "import math\n" if "math" in words else ""
    head += "import sys\n"
    head += "from fnmatch import fnmatchcase\n" if "fnmatchcase" in words else ""
    head += "from fractions import Fraction\n" if "Fraction" in words else ""
    head += "\nimport numpy as np\nimport torch\n"
    head += "import torch.nn.functional as F\n" if "F" in words else ""
    return head + "from safetensors.torch import load_file, save_file\nfrom torch import nn\n\n\n"


def _is_divided(training: Training) -> bool:
    """Returns True where several rules move weights, or some weights do not move."""
    return list(training.rules) != [ALL] or training.rules[ALL] is None


def _train(training: Training) -> str:
    """The function that trains: an iterator of what each step measured."""
    statements = [
        '"""Moves the weights by the examples in `data`; gives what each step measured."""',
        *_optimizers(training),
        *loop_text.counted(training),
        *_scheduler(training),
        "model.train()",
        "for step in range(steps):",
        *(f"    {each}" for each in [*loop_text.chosen(training), *_step(training)]),
    ]
    return "\n".join(["def train(model, data):", *loop_text.indented(statements, 4)])


def _optimizers(training: Training) -> list[str]:
    """Statements that bind `optimizers`, a list, or `optimizer` where there is one."""
    if not _is_divided(training):
        rule = training.rules[ALL]
        assert rule is not None
        return [f"optimizer = {constructed(rule, 'model.parameters()')}"]
    patterns = ", ".join(f'"{each}"' for each in training.rules)
    lines = [f"moved = by_pattern(model, [{patterns}])"]
    for pattern, rule in training.rules.items():
        if rule is None:
            lines += [
                f'for each in moved["{pattern}"]:',
                "    each.requires_grad_(False)",
            ]
    made = [
        constructed(rule, f'moved["{pattern}"]')
        for pattern, rule in training.rules.items()
        if rule is not None
    ]
    return [*lines, f"optimizers = [{', '.join(made)}]"]


def _all(training: Training, statement: str) -> list[str]:
    """A statement about `optimizer`, for each where there are several."""
    if not _is_divided(training):
        return [statement]
    return ["for optimizer in optimizers:", f"    {statement}"]


def _scheduler(training: Training) -> list[str]:
    found = factor_of(training.settings.schedule)
    if found is None:
        return []
    second = loop_text.second_number(training, found)
    made = "torch.optim.lr_scheduler.LambdaLR({}, lambda update: rate(update, {}))"
    if not _is_divided(training):
        return [f"scheduler = {made.format('optimizer', second)}"]
    return [f"schedulers = [{made.format('each', second)} for each in optimizers]"]


def _step(training: Training) -> list[str]:
    """The statements of a step: the loss, its gradients, and the update."""
    settings, k = training.settings, training.settings.accumulate
    given = ", ".join(loop_text.taken(training, name) for name in training.inputs)
    several = len(training.measured) > 1
    lines = [f"{'loss, *metrics' if several else 'loss'} = model({given})"]
    lines.append(f"(loss / {k}).backward()" if k > 1 else "loss.backward()")
    update: list[str] = []
    moved = "model.parameters()"
    if settings.clip_value is not None:
        update.append(f"nn.utils.clip_grad_value_({moved}, {settings.clip_value!r})")
    if settings.clip_norm is not None:
        update.append(f"nn.utils.clip_grad_norm_({moved}, {settings.clip_norm!r})")
    update += _all(training, "optimizer.step()")
    if factor_of(settings.schedule) is not None:
        is_one = not _is_divided(training)
        update += ["scheduler.step()"] if is_one else ["for each in schedulers:", "    each.step()"]
    update.append("model.zero_grad()")
    if k > 1:
        update = [f"if (step + 1) % {k} == 0:", *(f"    {each}" for each in update)]
    metrics = ", *(each.item() for each in metrics)" if several else ""
    return [*lines, *update, f"yield [loss.item(){metrics}]"]


def _main(source: ModelSource, training: Training) -> str:
    """The `main` of the file: it reads the data, trains, and writes the weights."""
    types = {name: DTYPES.get(each.dtype, "torch.int64") for name, each in training.inputs.items()}
    statements = [
        *loop_text.usage(training, first_weights=True),
        "if len(sys.argv) not in (2, 3):",
        "    sys.exit(main.__doc__)",
        "stored = load_file(sys.argv[1])",
        *loop_text.data_read(training, {name: f".to({each})" for name, each in types.items()}),
        f"model = {source.model}()",
        "if len(sys.argv) == 3:",
        "    model.load_state_dict(load_file(sys.argv[2]), strict=True)",
        "for step, measured in enumerate(train(model, data)):",
        *(f"    {each}" for each in loop_text.printed(training)),
        f'save_file(model.state_dict(), "{training.name}.safetensors")',
    ]
    return "\n".join(["def main():", *loop_text.indented(statements, 4)])
