"""The nodes of a graph by what they give and read, for ops that are found over several nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from onnx import AttributeProto, GraphProto, NodeProto

from meganeura_runtime.importing.onnx.onnx_file import DEEPEST


@dataclass(frozen=True)
class GraphLinks:
    """The nodes of a graph, and the makers of what it reads of the graphs around it."""

    makers: Mapping[str, NodeProto] = field(default_factory=dict[str, NodeProto])
    """The node that gives each value."""
    readers: Mapping[str, list[NodeProto]] = field(default_factory=dict[str, list[NodeProto]])
    """The nodes of this graph that read each value."""

    def inside(self, graph: GraphProto) -> "GraphLinks":
        """The links of a graph within this one."""
        makers, readers = dict(self.makers), dict[str, list[NodeProto]]()
        for node in graph.node:
            makers.update((name, node) for name in node.output if name)
            for name in node.input:
                readers.setdefault(name, []).append(node)
        return GraphLinks(makers, readers)

    def addition(self, name: str) -> NodeProto | None:
        """The addition that alone reads a value in this graph, if it is one."""
        readers = self.readers.get(name, [])
        return readers[0] if len(readers) == 1 and readers[0].op_type == "Add" else None


def names_read(graph: GraphProto, depth: int = 0) -> Iterator[str]:
    """Yields the names that nodes read and graphs of nodes give, once for each time."""
    for node in graph.node:
        yield from node.input
        for each in node.attribute if depth < DEEPEST else ():
            if each.type == AttributeProto.GRAPH:
                yield from names_read(each.g, depth + 1)
                yield from (output.name for output in each.g.output)
