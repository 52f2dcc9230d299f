"""Whether a training step fits a GPU, said before one is needed."""

from meganeura.cli.ui.console import count
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import BeyondLimits
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.device.device import open_device
from meganeura_runtime.backends.webgpu.plan import Plan, Role
from meganeura_runtime.backends.webgpu.schedule.compile import excesses, plan_graph
from meganeura_runtime.train.job import settings_of, step_of

WEBGPU_DEFAULT = "webgpu-default"
"""The limits every implementation of WebGPU promises."""


def fits(program: Program, train: str, limits: str) -> tuple[list[Report], str]:
    """Every value that is beyond the limits, and a line about the step."""
    allowed = DeviceLimits(half_floats=True) if limits == WEBGPU_DEFAULT else _limits_of(limits)
    settings = settings_of(program, train)
    found = _excesses(program, train, settings, allowed)
    if not found:
        with explained_failures():
            plan = plan_graph(step_of(program, train, settings).optimized.graph, allowed)
        return [], f"`{train}` fits {limits}: {_needs(plan)}"
    reports = [
        BeyondLimits(
            error.value.origin.span, error.value.origin.path, error.limit, str(error)
        ).report()
        for error in found
    ]
    return reports, _smaller(program, train, settings, allowed)


def _limits_of(device: str) -> DeviceLimits:
    with explained_failures():
        opened = open_device("wgpu" if device == "adapter" else device)
    try:
        return opened.limits
    finally:
        opened.close()


def _excesses(
    program: Program, train: str, settings: RunSettings, allowed: DeviceLimits
) -> list[LimitError]:
    return excesses(step_of(program, train, settings).optimized.graph, allowed)


def _needs(plan: Plan) -> str:
    """What a step takes, and which kernels are spread because one row of workgroups is too few."""
    memory = sum(buffer.bytes for buffer in plan.buffers) / 1e6
    largest = max(dispatch_slot.bytes for one in plan.dispatches for dispatch_slot in one.slots)
    spread = sum(one.workgroups[1] > 1 for one in plan.dispatches)
    buffers = sum(buffer.role is Role.TEMPORARIES for buffer in plan.buffers)
    facts = [f"{memory:,.1f} MB", f"largest binding {largest / 1e6:,.1f} MB"]
    facts.append(f"temporaries in {count(buffers, 'buffer')}")
    if spread:
        facts.append(f"{count(spread, 'dispatch')} spread over two dimensions")
    return ", ".join(facts)


def _smaller(program: Program, train: str, settings: RunSettings, allowed: DeviceLimits) -> str:
    """The largest size that would do, of those got by halving the first that is free."""
    names = [name for name in pipeline.free_sizes(program, train) if name in settings.sizes]
    for name in names[:1]:
        size = settings.sizes[name] // 2
        while size >= 1:
            tried = settings.model_copy(update={"sizes": {**settings.sizes, name: size}})
            if not _excesses(program, train, tried, allowed):
                return f"`{train}` would fit with {name} = {size}"
            size //= 2
    return f"`{train}` does not fit, however small its batch"
