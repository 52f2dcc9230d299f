"""The devices that a sample runs on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from meganeura_dsl.ir.graph import Array, Graph, Leaf
from meganeura_runtime.backends.registry import choose_device
from tests.parity.opinfo.compare import RunGraph


@contextmanager
def opened(names: Sequence[str]) -> Iterator[Mapping[str, RunGraph]]:
    """Yields the function that runs a graph on each of these devices."""
    yield {name: _runner(name) for name in names}


def _runner(name: str) -> RunGraph:
    device = choose_device(name)

    def run(graph: Graph, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        persistent = {
            each.op.name
            for each in graph.values
            if isinstance(each.op, Leaf) and each.op.is_persistent
        }
        with device.open(graph) as session:
            session.load({name: each for name, each in feeds.items() if name in persistent})
            return session.step(
                {name: each for name, each in feeds.items() if name not in persistent}
            )

    return run
