"""Tests that a training step fits a GPU, which is said before one is needed."""

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.plain_table import count
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.backends.device_failures import explained_failures
from meganeura_runtime.backends.device_problems import BeyondLimits
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.schedule.compile import excesses
from meganeura_runtime.backends.webgpu.step_memory import StepMemory, limits_named, step_memory
from meganeura_runtime.train.spec.step_graphs import step_of
from meganeura_runtime.train.spec.train_spec import settings_of


def fits(program: Program, train: str, limits: str) -> tuple[list[Report], str]:
    """Every value that is beyond the limits, and a line about the step."""
    with explained_failures():
        allowed = limits_named(limits)
    settings = settings_of(program, train)
    found = _excesses(program, train, settings, allowed)
    if not found:
        with explained_failures():
            step = step_memory(step_of(program, train, settings).optimized.graph, allowed)
        return [], f"`{train}` fits {limits}: {_needs(step)}"
    reports = [
        BeyondLimits(
            error.value.origin.span, error.value.origin.path, error.limit, str(error)
        ).report()
        for error in found
    ]
    return reports, _smaller(program, train, settings, allowed)


def _excesses(
    program: Program, train: str, settings: RunSettings, allowed: DeviceLimits
) -> list[LimitError]:
    return excesses(step_of(program, train, settings).optimized.graph, allowed)


def _needs(step: StepMemory) -> str:
    """Returns the needs of a step, and the kernels that need several rows of workgroups."""
    facts = [
        f"{step.bytes / 1e6:,.1f} MB",
        f"largest binding {step.largest_binding / 1e6:,.1f} MB",
        f"temporaries in {count(step.temporaries, 'buffer')}",
    ]
    if step.spread:
        facts.append(f"{count(step.spread, 'dispatch')} spread over two dimensions")
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
