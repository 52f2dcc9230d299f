"""The parts of a training loop that are the same in all systems: data, order, numbers of steps."""

from collections.abc import Iterable, Mapping

from meganeura_dsl.transforms.optimizers.schedules import Schedule
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.training.schedules import Factor, factor_of
from meganeura_runtime.export.source.training.training import Training

_NO_EPOCH = "2**64 - 1"
"""The key, in place of an epoch, of the shuffle that chooses examples to hold out."""


def order_function(training: Training) -> str:
    """The function of the order of an epoch; nothing where examples stay in order."""
    settings = training.settings
    if not settings.shuffle and not isinstance(settings.validation, float):
        return ""
    return f'''\
def order_of_epoch(epoch, examples):
    """The numbers of all examples, sorted by words of Philox with the key (seed, epoch)."""
    key = np.array([{settings.seed}, epoch], dtype=np.uint64)
    return np.argsort(np.random.Philox(key=key).random_raw(examples), kind="stable")'''


def rate_function(schedule: Schedule) -> str:
    """The function of a schedule; nothing where the rate is constant."""
    found = factor_of(schedule)
    return "" if found is None else "\n".join(found.lines)


def counted(training: Training) -> list[str]:
    """Statements that bind `examples`, `batches` of an epoch and `steps` of the run.

    With a share held out, `kept` has the numbers of the others.
    """
    settings, batch = training.settings, training.input_spec.batch
    first = next(name for name in training.inputs if training.rows(name))
    rows = training.rows(first)
    lines = [f'examples = len(data["{first}"])' + (f" // {rows}" if rows > 1 else "")]
    if isinstance(settings.validation, float):
        lines += [
            f"held_out = order_of_epoch({_NO_EPOCH}, examples)",
            f"held_out = held_out[: round({settings.validation!r} * examples)]",
            "kept = np.setdiff1d(np.arange(examples), held_out)",
            "examples = len(kept)",
        ]
    whole = f"examples // {batch}" if settings.drop_last else f"-(-examples // {batch})"
    lines.append(f"batches = {whole}")
    per_epoch = settings.steps_per_epoch or "batches"
    lines.append(f"steps = {settings.steps or f'{settings.epochs} * {per_epoch}'}")
    return lines


def chosen(training: Training) -> list[str]:
    """Statements of step `step` that bind `chosen`, the numbers of its examples."""
    settings, batch = training.settings, training.input_spec.batch
    is_split = isinstance(settings.validation, float)
    lines = ["epoch, position = divmod(step, batches)"]
    if settings.shuffle:
        lines += ["if position == 0:", "    order = order_of_epoch(epoch, examples)"]
    else:
        lines[0] = "position = step % batches"
    part = f"{batch} * position : {batch} * (position + 1)"
    if settings.shuffle:
        found = f"order[{part}]"
        lines.append(f"chosen = kept[{found}]" if is_split else f"chosen = {found}")
    else:
        numbers = "kept" if is_split else "np.arange(examples)"
        lines.append(f"chosen = {numbers}[{part}]")
    return lines


def taken(training: Training, name: str) -> str:
    """The rows of an input for the examples in `chosen`."""
    rows, value = training.rows(name), f'data["{name}"]'
    if rows == 0:
        return value
    if rows == 1:
        return f"{value}[chosen]"
    return f"{value}[(chosen[:, None] * {rows} + np.arange({rows})).ravel()]"


def second_number(training: Training, factor: Factor) -> str:
    """The second argument of `rate`."""
    settings = training.settings
    k = settings.accumulate
    if factor.second == "updates":
        return f"max(1, steps // {k})" if k > 1 else "steps"
    per_epoch = str(settings.steps_per_epoch or "batches")
    return f"Fraction({per_epoch}, {k})" if k > 1 else per_epoch


def usage(training: Training, *, first_weights: bool) -> list[str]:
    """The docstring of `main`; `first_weights` says that it needs no file of them."""
    names = ", ".join(tensor_of(training, each) for each in training.inputs)
    weights = "[WEIGHTS]" if first_weights else "WEIGHTS"
    random = "Without WEIGHTS the first weights are random. " if first_weights else ""
    return [
        f'"""Train: python FILE DATA {weights}, both of them .safetensors.',
        "",
        f"DATA holds {names}: all examples along the first axis, or the same below `train.`.",
        f"{random}Writes {training.name}.safetensors.",
        '"""',
    ]


def tensor_of(training: Training, name: str) -> str:
    """The tensor of the data that feeds an input."""
    return training.input_spec.tensors.get(name, name)


def data_read(training: Training, converted: Mapping[str, str]) -> list[str]:
    """The statement that binds `data`, of `stored`; `converted` are the calls that convert it."""
    lines = ["data = {"]
    for name in training.inputs:
        tensor = tensor_of(training, name)
        found = f'stored["{tensor}"]'
        if training.rows(name):
            found = f'stored["train.{tensor}" if "train.{tensor}" in stored else "{tensor}"]'
        lines.append(f'    "{name}": {found}{converted[name]},')
    return [*lines, "}"]


def printed(training: Training) -> list[str]:
    """Statements that print what each logged step measured."""
    every = training.settings.log_every
    if not every:
        return ["pass"]
    inner = ", ".join(f'"{name}"' for name in training.measured)
    return [
        f"if step % {every} == 0:",
        f"    shown = zip([{inner}], measured, strict=True)",
        '    print(f"step {step}:", ", ".join(f"{name} {value:.6g}" for name, value in shown))',
    ]


def indented(statements: Iterable[str], indent: int) -> list[str]:
    """The lines of statements, each of which may begin with more blanks."""
    return [
        line if line.strip() else ""
        for each in statements
        for line in laid_out(each.lstrip(), indent + len(each) - len(each.lstrip()))
    ]
