"""`meganeura tune`: the fastest way to compute each contraction of a step, found and kept."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.driver.stages import GraphMode
from meganeura.cli.driver.workload import MeasuredMode, Sizes, Target, subject
from meganeura.cli.options.model_options import DisabledRules, NoOptimizer, rewriting
from meganeura.cli.reports.profile_report import locations, seconds
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count

if TYPE_CHECKING:
    from meganeura_runtime.backends.webgpu.tuning.autotuner import Outcome, Tuning


def tune(
    target: Target,
    *,
    mode: MeasuredMode = GraphMode.INFER,
    size: Sizes = None,
    device: Annotated[
        str, typer.Option(help="auto, wgpu, or wgpu:N as `meganeura devices` counts.")
    ] = "auto",
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Try many ways to compute each product and convolution of a step, and keep the best.

    `train`, `run` and `profile` use what is kept for an adapter. Sizes that are left open are small
    ones: tune with the sizes you run.
    """
    from meganeura_runtime.backends.device_failures import explained_failures
    from meganeura_runtime.backends.registry import choose_device
    from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
    from meganeura_runtime.backends.webgpu.tuning.autotuner import tune as search
    from meganeura_runtime.backends.webgpu.tuning_cache import known_configs, store_configs

    rules = rewriting(no_opt=no_opt, disabled=disabled, device=device)
    found = subject(target, mode, size, rules)
    with explained_failures():
        chosen = choose_device(device, tuned=False)
        if not isinstance(chosen, OpenAdapter):
            text = f"there is nothing to tune on {chosen.description}"
            raise typer.BadParameter(text, param_hint="--device")
        if not as_data:
            say(f"{found}; on {chosen.description}")
        info = chosen.device.info
        tuning = search(chosen.device, found.graph, _quiet if as_data else _show)
    known = known_configs(info)
    saved = store_configs(info, tuning.found(known)) if tuning.gains else None
    if as_data:
        say(json.dumps(_data(tuning, saved), indent=2))
        return
    say(_summary(tuning, saved))


def _quiet(_: "Outcome") -> None:
    """Say nothing."""


def _show(one: "Outcome") -> None:
    """A line for each contraction: its time before and after, and what was changed."""
    times = f"{one.subject.count} x {seconds(one.before)}"
    configs = str(one.planned)
    if one.gains:
        times = f"{times} -> {seconds(one.after)}"
        configs = f"{configs} -> {one.best}"
    left = f", {count(len(one.refused), 'way')} left out" if one.refused else ""
    say(
        f"  {one.subject.title}  {locations([one.subject.location])}\n"
        f"    {times}  {configs}  ({one.tried} tried{left})"
    )


def _summary(tuning: "Tuning", saved: "Path | None") -> str:
    from meganeura_runtime.backends.webgpu.config.kernel_config import DEFAULT_FUSION

    changed = sum(one.gains for one in tuning.outcomes)
    configs = count(len(tuning.outcomes), "contraction")
    step = f"step: {seconds(tuning.before)} before, {seconds(tuning.after)} with what was found"
    fused = f"; {tuning.fusing} gain" if tuning.fusing != DEFAULT_FUSION else ""
    head = f"{changed} of {configs} gain{fused}; {step}"
    if not tuning.gains:
        return f"{head}\nthe step gains nothing, so nothing is kept"
    return f"{head}\nkept: {saved}" if saved else f"{head}\nnot kept: MEGANEURA_CACHE is off"


def _data(tuning: "Tuning", saved: "Path | None") -> dict[str, object]:
    return {
        "before": tuning.before,
        "after": tuning.after,
        "fusing": asdict(tuning.fusing),
        "kept": None if saved is None else str(saved),
        "contractions": [
            {
                "title": one.subject.title,
                "name": one.subject.whole.name,
                "location": one.subject.location,
                "count": one.subject.count,
                "planned": asdict(one.planned),
                "best": asdict(one.best),
                "before": one.before,
                "after": one.after,
                "tried": one.tried,
                "refused": list(one.refused),
            }
            for one in tuning.outcomes
        ],
    }
