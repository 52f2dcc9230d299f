"""`meganeura profile`: what each kernel of a step takes, beside what the device could do."""

import json
from typing import Annotated

import typer

from meganeura.cli.driver.stages import GraphMode
from meganeura.cli.driver.workload import MeasuredMode, Sizes, Target, subject
from meganeura.cli.options.device_options import Device, NotTuned, Precision
from meganeura.cli.options.model_options import DisabledRules, NoOptimizer, rewriting
from meganeura.cli.reports.profile_report import profile_data, profile_text
from meganeura.cli.ui.console import say
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.registry import choose_device


def profile(
    target: Target,
    *,
    mode: MeasuredMode = GraphMode.INFER,
    size: Sizes = None,
    device: Device = "auto",
    precision: Precision = ComputePrecision.F32,
    no_tuned: NotTuned = False,
    no_opt: NoOptimizer = False,
    disabled: DisabledRules = None,
    rows: Annotated[
        int, typer.Option(min=1, help="How many kernels are listed; the slowest come first.")
    ] = 25,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON, with all kernels.")] = False,
) -> None:
    """Time every kernel of a step: TFLOP/s, GB/s and its share of what the device could do.

    Sizes that are left open are small ones; weights and inputs are made up.
    """
    from meganeura_runtime.backends.device_failures import explained_failures

    rules = rewriting(no_opt=no_opt, disabled=disabled, device=device, precision=precision)
    found = subject(target, mode, size, rules, precision)
    with explained_failures():
        chosen = choose_device(device, tuned=not no_tuned, precision=found.precision)
        measured = chosen.profile(found.graph)
    if measured is None:
        text = f"steps cannot be profiled on {chosen.description}"
        raise typer.BadParameter(text, param_hint="--device")
    if as_data:
        say(json.dumps(profile_data(found, chosen.description, measured), indent=2))
        return
    say(profile_text(found, chosen.description, measured, rows))
