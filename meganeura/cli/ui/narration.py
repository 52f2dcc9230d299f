"""The messages that a run prints."""

from collections.abc import Mapping, Sequence

from meganeura_dsl.diagnostics.characters import safe
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.ir.outputs import Statistic
from meganeura_runtime.train.events import (
    DeviceUsage,
    EpochEnded,
    Evaluated,
    Logged,
    LossScaled,
    NotFinite,
    Sampled,
    Started,
    StoppedEarly,
    Warmup,
)

LEAST_SHARE = 0.005
"""A smaller share of the time is not mentioned."""
NAMED = 4
"""Parameters named in a line."""


def announcement(event: Started) -> str:
    """Returns the line about a training that begins."""
    held = f", {event.held_out:,} held out" if event.held_out else ", none held out"
    return (
        f"training {event.name}: {count(event.parameters, 'param')}, "
        f"{count(event.weights, 'weight')}, {count(event.examples, 'example')}{held}"
        f"{empty_files(event.empty_files)}{remainder(event)}{grouped(event)}{untouched(event.untouched)}"
        f"{warmed_up(event.warmups)}"
    )


def grouped(event: Started) -> str:
    """A line for each optimizer of several, with what it moves."""
    return "".join(
        f"\n  {each.setting}: {count(each.parameters, 'param')}, {count(each.weights, 'weight')}"
        for each in event.groups
    )


def empty_files(files: int) -> str:
    """A line about files that have no example; nothing where there are none."""
    if not files:
        return ""
    verb = "is" if files == 1 else "are"
    return f"\n  {count(files, 'file')} {verb} shorter than one example, and left out"


def remainder(event: Started) -> str:
    """A line about the examples that do not fill a batch; nothing where there are none."""
    if not (event.left_out or event.last_batch):
        return ""
    steps = count(event.steps_per_epoch, "step")
    shape = f"{count(event.examples, 'example')}, batches of {event.batch:,}: {steps} an epoch"
    if event.last_batch:
        return f"\n  {shape}, the last of them on {count(event.last_batch, 'example')}"
    verb = "is" if event.left_out == 1 else "are"
    left = f"{count(event.left_out, 'example')} {verb} left out of each epoch"
    return f"\n  {shape}, {left}; drop_last=false trains on {'it' if verb == 'is' else 'them'}"


def untouched(names: Sequence[str]) -> str:
    """A line that names what stays as it is, a few of many; nothing where all parameters move."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"\n  no gradient reaches {', '.join(names[:NAMED])}{more}; left as they are"


def warmed_up(warmups: Sequence[Warmup]) -> str:
    """Returns a line for each warmup that is longer than the run."""
    return "".join(
        f"\n  the run ends within its warmup: `{each.setting}` and {count(each.updates, 'update')};"
        f" the learning rate reaches {100 * each.share:.3g} % of `lr`"
        for each in warmups
    )


def measured(event: Logged | Evaluated) -> str:
    """`loss 0.4321  accuracy 0.906`, without the statistics of what the program shows."""
    return "  ".join(
        f"{name} {value:.4g}"
        for name, value in numbers(event.loss, event.metrics).items()
        if not isinstance(name, Statistic)
    )


def shown(event: Logged) -> list[str]:
    """A line for each value that the program shows: `  h  mean 0.1  deviation 1  from -3 to 3`."""
    values: dict[str, dict[str, float]] = {}
    for name, value in event.metrics.items():
        if isinstance(name, Statistic):
            values.setdefault(name.value, {})[name.kind] = value
    width = max(map(len, values), default=0)
    return [f"  {name:<{width}}  {_numbers_of(each)}" for name, each in values.items()]


def _numbers_of(statistics: Mapping[str, float]) -> str:
    share = statistics["not finite"]
    odd = f"  {share:.2%} NOT FINITE" if share > 0 else ""
    if share >= 1:
        return odd.strip()
    mean, deviation, low, high = (
        f"{statistics[kind]:.4g}" for kind in ("mean", "deviation", "from", "to")
    )
    return f"mean {mean}  deviation {deviation}  from {low} to {high}{odd}"


def numbers(loss: float, metrics: Mapping[str, float]) -> dict[str, float]:
    """The loss first, then the metrics in their order."""
    return {"loss": loss, **metrics}


def epoch_ended(event: EpochEnded) -> str:
    """The line of an epoch: `epoch 3: mean loss 0.4321 over 22 steps in 0:07`."""
    steps = count(event.steps, "step")
    lasted = clock(event.seconds)
    return f"epoch {event.epoch + 1}: mean loss {event.loss:.4g} over {steps} in {lasted}"


def held_out(event: Evaluated) -> str:
    """The line of an evaluation."""
    best = "  (best so far)" if event.best else ""
    rate = (
        f"\n  learning rate {event.learning_rate:.4g} from here on" if event.learning_rate else ""
    )
    missing = ", ".join(event.without_value)
    none = (
        f"\n  {missing}: no value, as nothing is chosen; nothing follows from it" if missing else ""
    )
    place = f"step {event.step:,}" if event.is_within_epoch else f"epoch {event.epoch + 1}"
    return f"held out after {place}: {measured(event)}{best}{rate}{none}"


def sampled(event: Sampled) -> str:
    """The lines of a sample: the prompt and what follows it, below where it was written."""
    lines = (event.prompt + event.text).split("\n")
    text = "\n".join(f"  {safe(line)}" for line in lines)
    return f"sample after step {event.step:,}:\n{text}"


def not_finite(event: NotFinite) -> str:
    """The line of a step whose loss or gradients are not finite."""
    what = "the update is left out" if event.is_skipped else "the run goes on"
    return f"step {event.step:,}: the loss is {event.loss:.4g}, or a gradient not finite; {what}"


def loss_scaled(event: LossScaled) -> str:
    """The line of a step whose gradients overflow at a scale of the loss."""
    return (
        f"step {event.step:,}: gradients overflow at a loss scale of {event.before:,.0f}; "
        f"the update is left out, and the scale is {event.after:,.0f} now"
    )


def stopped_early(event: StoppedEarly) -> str:
    """The line of a run that ends since nothing got better."""
    value = "" if event.best is None else f" than {event.best:.4g}"
    tries = count(event.evaluations, "evaluation")
    return f"stopped early: {event.metric} was not better{value} in {tries}"


def speed(event: Logged) -> str:
    """`25 steps/s, 800 examples/s`."""
    return f"{_rate(event.steps_per_second)} steps/s, {_rate(event.examples_per_second)} examples/s"


def _rate(value: float) -> str:
    """A number of three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def used(usage: DeviceUsage | None) -> str:
    """Returns the utilization of the devices; empty if it was not measured."""
    if usage is None:
        return ""
    reasons = [
        f"{_share(share)} {reason}"
        for share, reason in (
            (usage.inputs, "waiting for inputs"),
            (usage.between, "between steps"),
        )
        if share >= LEAST_SHARE
    ]
    why = f" (idle: {', '.join(reasons)})" if reasons else ""
    return f"devices busy for {_share(usage.busy)} of the time of the steps{why}"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


def clock(seconds: float) -> str:
    """`0:07`, `12:34`, `1:02:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
