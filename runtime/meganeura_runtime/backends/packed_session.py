"""A session that keeps weights as numbers of a few bits on its device."""

from collections.abc import Mapping

from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.transforms.pack_parameters import SCALES, WORDS, pack_parameters, packed_leaf
from meganeura_runtime.backends.base import OpenSession, Outputs, Session, Uploaded
from meganeura_runtime.backends.session_proxy import SessionProxy


def open_packed(open_session: OpenSession, packed: Mapping[str, Quantization]) -> OpenSession:
    """Opens sessions that keep these parameters packed; their users write and read f32.

    What is written is rounded to the levels of its quantization, which changes nothing where it
    was quantized so before.
    """
    if not packed:
        return open_session

    def opened(graph: Graph) -> Session:
        return PackedSession(graph, open_session(pack_parameters(graph, packed)), packed)

    return opened


class PackedSession(SessionProxy):
    """The parameters of a graph, some of which the inner session keeps as words and scales."""

    def __init__(self, graph: Graph, inner: Session, packed: Mapping[str, Quantization]) -> None:
        super().__init__(graph, inner)
        leaves = (packed_leaf(value, graph, packed) for value in graph.values)
        self._packed = {leaf.name: packed[leaf.name] for leaf in leaves if leaf is not None}

    def _put(self, name: str, array: Array) -> None:
        if name not in self._packed:
            self._inner.write(name, array)
            return
        words, scales = self._packed[name].quantize(array)
        self._inner.write(name + WORDS, words)
        self._inner.write(name + SCALES, scales)

    def _get(self, name: str) -> Array:
        if name not in self._packed:
            return self._inner.read(name)
        words, scales = (self._inner.read(name + part) for part in (WORDS, SCALES))
        shape = concrete_shape(self._persistent[name].shape)
        return self._packed[name].dequantize(words, scales, shape)

    def follow(self, feeds: Mapping[str, Array], links: Mapping[str, str]) -> Outputs:
        """Run a step some of whose inputs are outputs of the last one."""
        self.require_values()
        self._last = self._inner.follow(feeds, links)
        return self._last

    def _run(self, feeds: Mapping[str, Array] | Uploaded) -> Outputs:
        return self._inner.step(feeds)
