"""Optimized graphs and plans, taken from the cache where they were made before.

What makes them is loaded where they were not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from meganeura_dsl.ir.graph import Graph, Origin
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.text import GraphTextError, format_graph, parse_graph
from meganeura_dsl.support.disk_cache import user_cache
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.cache_keys import inference_of, step_of

EMPTY = Graph((), {})
InferenceMode = Literal["infer", "train"]


@dataclass(frozen=True, eq=False)
class Rewritten:
    """An optimized graph, and how the parameters it adds are derived."""

    graph: Graph
    load: Graph


@dataclass(frozen=True)
class GraphEntry:
    """A graph, as data. The origin of each value is the number of a value in the graph before."""

    text: str
    origins: tuple[int | None, ...]


@dataclass(frozen=True)
class RewrittenEntry:
    """The cached rewrites of a graph: of the step, and of what it is loaded with."""

    graph: GraphEntry
    load: GraphEntry


_ADAPTER: TypeAdapter[RewrittenEntry] = TypeAdapter(RewrittenEntry)


def cached_inference(
    graph: Graph, rewriting: RewriteOptions, mode: InferenceMode = "infer"
) -> Rewritten:
    """The inference form of a graph; raises `ProblemError` as `RewriteOptions.optimize` does.

    In the mode `train` no parameter is added, so that the forms for several sizes keep the same.
    """
    cache = user_cache()
    key = "" if cache is None else inference_of(graph, rewriting, mode).key
    content = None if cache is None else cache.find(key)
    found = None if content is None else rewritten(content, graph)
    if found is not None:
        return found
    optimized = rewriting.optimize(graph, mode)
    if cache is not None:
        cache.store(key, _content(optimized.graph, optimized.load, graph))
    return Rewritten(optimized.graph, optimized.load)


def cached_training_step(
    forward: Graph, settings: TrainingSettings, rewriting: RewriteOptions
) -> Graph:
    """The optimized training step of a graph; raises `ProblemError` as the optimizer does.

    That of a plugin is not cached, because its code may change without a sign.
    """
    cache = user_cache() if rewriting.enabled and not settings.has_plugins else None
    key = "" if cache is None else step_of(forward, settings, rewriting).key
    content = None if cache is None else cache.find(key)
    found = None if content is None else rewritten(content, forward)
    if found is not None:
        return found.graph
    step = optimized_training_step(forward, settings, rewriting).graph
    if cache is not None:
        cache.store(key, _content(step, EMPTY, forward))
    return step


def _content(graph: Graph, load: Graph, before: Graph) -> bytes:
    numbers = {value.origin: number for number, value in enumerate(before.values)}
    return _ADAPTER.dump_json(RewrittenEntry(_entry(graph, numbers), _entry(load, numbers)))


def _entry(graph: Graph, numbers: Mapping[Origin, int]) -> GraphEntry:
    return GraphEntry(format_graph(graph), tuple(numbers.get(v.origin) for v in graph.values))


def rewritten(content: bytes, before: Graph) -> Rewritten | None:
    """Returns the content of a cache entry for a graph; `None` if it cannot be decoded."""
    try:
        entry = _ADAPTER.validate_json(content)
        return Rewritten(_graph(entry.graph, before), _graph(entry.load, before))
    except (ValidationError, GraphTextError, IndexError):
        return None


def _graph(entry: GraphEntry, before: Graph) -> Graph:
    origins: Sequence[Origin] = [
        Origin() if number is None else before.values[number].origin for number in entry.origins
    ]
    return parse_graph(entry.text, (*OPS, *FUSED_OPS), origins)
