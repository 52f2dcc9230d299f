"""Plans, and what they take of memory, from the disk cache where they were made before."""

import json
from dataclasses import asdict, dataclass
from typing import Any, cast

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.support.disk_cache import user_cache
from meganeura_dsl.support.phases import phase
from meganeura_runtime.backends.cache_keys import compiler, key_of
from meganeura_runtime.backends.memory_roles import MemoryRole, StepMemory
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits
from meganeura_runtime.backends.webgpu.config.tuned_configs import UNTUNED, TunedConfigs
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.plan import Plan, PlanError


def cached_plan(
    graph: Graph,
    device: Device,
    choices: TunedConfigs = UNTUNED,
    limits: DeviceLimits | None = None,
) -> Plan:
    """The plan of a graph on a device, by default within its own limits.

    Raises `LimitError` as `plan_graph` does.
    """
    limits = limits or device.limits
    cache = user_cache()
    key = "" if cache is None else plan_of(graph, device, choices, limits).key
    content = None if cache is None else cache.find(key)
    found = None if content is None else _plan(content)
    if found is not None:
        return found

    from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph

    with phase("plan"):
        plan = plan_graph(graph, limits, device.style, choices)
    if cache is not None:
        cache.store(key, plan.as_json())
    return plan


def cached_memory(
    graph: Graph,
    device: Device,
    choices: TunedConfigs = UNTUNED,
    limits: DeviceLimits | None = None,
) -> StepMemory:
    """Returns the memory of a graph's plan by role. Raises `LimitError` as `plan_memory` does."""
    limits = limits or device.limits
    cache = user_cache()
    key = "" if cache is None else key_of("memory", asdict(plan_of(graph, device, choices, limits)))
    content = None if cache is None else cache.find(key)
    found = None if content is None else _memory(content)
    if found is not None:
        return found

    from meganeura_runtime.backends.webgpu.schedule.compile import plan_memory

    memory = plan_memory(graph, limits, device.style, choices)
    if cache is not None:
        stored = {"held": memory.held, "roles": memory.roles}
        cache.store(key, json.dumps(stored).encode())
    return memory


def _memory(content: bytes) -> StepMemory | None:
    """Returns the memory in a cache entry; `None` if it has another form."""
    try:
        stored = cast("dict[str, Any]", json.loads(content))
        roles = cast("dict[str, int]", stored["roles"])
        return StepMemory({MemoryRole(each): roles[each] for each in roles}, stored["held"])
    except (KeyError, TypeError, ValueError):
        return None


def _plan(content: bytes) -> Plan | None:
    try:
        return Plan.from_json(content)
    except PlanError:
        return None


@dataclass(frozen=True)
class PlanKey:
    """The key of a plan."""

    graph: str
    adapter: str
    driver: str
    limits: str
    style: str
    choices: str
    compiler: str

    @property
    def key(self) -> str:
        """The name of the entry."""
        return key_of("plan", asdict(self))


def plan_of(
    graph: Graph, device: Device, choices: TunedConfigs, limits: DeviceLimits | None = None
) -> PlanKey:
    """Returns the key of the plan of a graph."""
    return PlanKey(
        format_graph(graph),
        device.info.name,
        f"{device.info.backend}, {device.info.driver}",
        repr(limits or device.limits),
        device.style.value,
        repr((choices.name, sorted(choices.configs.items()), choices.fusing_of(graph))),
        compiler(),
    )
