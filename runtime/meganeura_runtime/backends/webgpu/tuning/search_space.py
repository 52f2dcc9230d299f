"""The contractions of a step, each alone, and the ways there are to compute one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from meganeura_dsl.ir.graph import Builder, Graph, Value
from meganeura_dsl.ir.ops import Input
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.analysis.materialize import (
    is_contraction,
    materialized_values,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import Contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.contraction_kernel import named_contraction
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matmul import subgroup_tile_of
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import (
    SPEEDS,
    tile_of,
    workgroup_count,
)
from meganeura_runtime.backends.webgpu.config.kernel_config import KernelConfig, Tile
from meganeura_runtime.backends.webgpu.config.limits import Style, Target
from meganeura_runtime.backends.webgpu.config.tuned_configs import is_possible
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial
from meganeura_runtime.backends.webgpu.passes.pipeline import run_passes
from meganeura_runtime.backends.webgpu.passes.split_k import split_k, split_k_of_tiles
from meganeura_runtime.backends.webgpu.schedule.kernel_names import op_name

SIDES = (32, 64, 128)
USUAL_TERMS = 16
"""Terms that a tile holds at once in the first iteration; others are tried of the best."""
TERMS = (8, 16, 32)
EACH = ((4, 4), (8, 4), (4, 8), (8, 8))
LANES = range(64, 257)
"""Invocations of a workgroup that have been of any use."""
MOST_WASTE = 1.6
"""The part of a tile that may lie beyond the result, relative to the best-fitting tile."""
ROWS = (4, 8, 16, 32)
"""Rows that a subgroup of a software adapter may share out."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A contraction that occurs in a step, so often, and the same alone on what is in memory."""

    title: str
    location: str
    count: int
    graph: Graph
    whole: Contraction


def subjects(graph: Graph, target: Target) -> list[Subject]:
    """All different contractions of a graph, in the order in which they first occur."""
    lowered = run_passes(graph, target)
    stored = materialized_values(lowered, target)
    found: dict[str, Subject] = {}
    for value in lowered.values:
        if not is_contraction(value):
            continue
        op = value.op.whole if isinstance(value.op, SplitKPartial) else value.op
        whole = named_contraction(op, *value.operands)
        known = found.get(whole.name)
        if known is not None:
            found[whole.name] = replace(known, count=known.count + 1)
            continue
        alone = _alone(value, stored)
        title = op_name(alone.outputs["y"])
        found[whole.name] = Subject(title, str(value.origin), 1, alone, whole)
    return list(found.values())


def _alone(value: Value, stored: Iterable[int]) -> Graph:
    """A contraction as a graph: what its kernel reads from memory are the inputs."""
    in_memory, build = frozenset(stored), Builder()
    built: dict[int, Value] = {}

    def copy(each: Value) -> Value:
        if each.id not in built:
            if each.id in in_memory:
                leaf = Input(f"x{len(built)}", each.type.dtype, concrete_shape(each.type.shape))
                built[each.id] = build.add(leaf)
            else:
                built[each.id] = build.reapply(each, *map(copy, each.operands))
        return built[each.id]

    op = value.op.whole if isinstance(value.op, SplitKPartial) else value.op
    return build.graph({"y": build.add(op, *map(copy, value.operands))})


# --- ways ----------------------------------------------------------------------------------------


def planned(whole: Contraction, target: Target) -> KernelConfig:
    """Returns the planner's choice without tuning."""
    shuffle = subgroup_tile_of(whole, target)
    rows = None if shuffle is None else shuffle.rows
    return KernelConfig(split_k(whole, target), tile_of(whole, target), rows)


def first_configs(whole: Contraction, target: Target) -> list[KernelConfig]:
    """The planner's way first, then all others in as many parts as the planner would take."""
    default = planned(whole, target)
    others = _on_gpu(whole, target) if target.style is Style.GPU else _on_cpu(default, target)
    return list(dict.fromkeys([default, *others]))


def nearby_configs(
    best: KernelConfig, default: KernelConfig, whole: Contraction, style: Style
) -> list[KernelConfig]:
    """The same with fewer and with more terms at once, and in fewer and in more parts.

    The kernels of a CPU get no longer than the planner's.
    """
    split_k = {1, best.split_k // 2, best.split_k * 3 // 2, best.split_k * 2, best.split_k * 3}
    least = default.split_k if style is Style.SOFTWARE_VULKAN else 1
    most = min(max(whole.terms), whole.count // 16)
    fitting = sorted(each for each in split_k if least <= each <= most)
    return [
        *(replace(best, split_k=each) for each in fitting if each != best.split_k),
        *(replace(best, tile=tile) for tile in _of_other_terms(best.tile)),
    ]


def _of_other_terms(tile: Tile | None) -> list[Tile]:
    """A tile that holds fewer or more of the factors at once."""
    if tile is None:
        return []
    others = (replace(tile, terms=terms) for terms in TERMS if terms != tile.terms)
    return [other for other in others if other.is_even]


def _on_gpu(whole: Contraction, target: Target) -> Iterator[KernelConfig]:
    fitting = [tile for tile in tiles() if is_possible(KernelConfig(1, tile), target.limits)]
    sizes = {tile: workgroup_count(tile, whole) * tile.rows * tile.columns for tile in fitting}
    least = min(sizes.values(), default=0)
    for tile in fitting:
        if sizes[tile] <= MOST_WASTE * least:
            yield KernelConfig(split_k_of_tiles(whole, tile, target), tile)
    if prod(whole.rows) * prod(whole.columns) * whole.count < SMALL:
        yield replace(planned(whole, target), tile=None)


SMALL = 1 << 24
"""Products of a contraction that single lanes may be quicker with."""


def _on_cpu(default: KernelConfig, target: Target) -> Iterator[KernelConfig]:
    yield replace(default, rows=None)
    if target.limits.lanes:
        yield from (replace(default, rows=rows) for rows in ROWS)


def tiles() -> list[Tile]:
    """The planner's own, then every other whose lanes all have as much to do."""
    sizes = product(SIDES, SIDES, EACH)
    others = (Tile(rows, columns, USUAL_TERMS, *each) for rows, columns, each in sizes)
    even = [tile for tile in others if tile.is_even and tile.lanes in LANES]
    return list(dict.fromkeys([*SPEEDS, *even]))
