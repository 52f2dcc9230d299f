"""Graphs of different sizes, and a program that learns from them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int32]

PROGRAM = """\
block Gin(d)(x: [v, c], source: i32[e], target: i32[e]) -> [v, d]
    where 0 <= source, source < v, 0 <= target, target < v:
  sent = scatter_add(target, gather(x, source), v)
  return (x + sent) |> up: linear(d) |> relu |> down: linear(d)

train fit(
    x: [each v of batch, 5],
    source: i32[each e of batch],
    target: i32[each e of batch],
    label: i32[batch]
) where 0 <= source, source < v, 0 <= target, target < v:
  h = x |> first: Gin(8)(source, target) |> relu |> second: Gin(8)(source, target) |> relu
  graph = example_of(v)
  nodes = scatter_add(graph, ones([v, 8]), batch)
  logits = scatter_add(graph, h, batch) / nodes |> out: linear(2)
  minimize cross_entropy(logits, label)
  metric accuracy = mean(argmax(logits, 1) == label)
  metric width = mean(abs(h))
  metric last = f32(max(offsets(e)))
  run:
    data      = "graphs.npz"
    batch     = 8
    epochs    = 2
    optimizer = adam(lr=1e-2)
"""


@dataclass(frozen=True)
class Graphs:
    """Graphs as a file has them: all rows, and how many each graph has."""

    x: NDArray[np.float32]
    source: Whole
    target: Whole
    label: Whole
    v: Whole
    e: Whole

    def save(self, path: Path, **others: NDArray[np.generic]) -> None:
        """Write the tensors, or others in their place."""
        np.savez(path, **{**vars(self), **others})

    def one(self, number: int) -> tuple[NDArray[np.float32], Whole, Whole]:
        """The nodes and edges of a graph, which count within it."""
        v, e = (int(each[:number].sum()) for each in (self.v, self.e))
        edges = slice(e, e + int(self.e[number]))
        nodes = self.x[v : v + int(self.v[number])]
        return nodes, self.source[edges], self.target[edges]


def graphs(count: int) -> Graphs:
    """Graphs of 3 to 8 nodes and 0 to 9 edges."""
    random = np.random.default_rng(0)
    v, e = random.integers(3, 9, count), random.integers(0, 10, count)
    ends = [random.integers(0, nodes, (2, edges)) for nodes, edges in zip(v, e, strict=True)]
    source, target = np.concatenate(ends, axis=1).astype(np.int32)
    x = random.normal(size=(v.sum(), 5)).astype(np.float32)
    label = random.integers(0, 2, count).astype(np.int32)
    return Graphs(x, source, target, label, v.astype(np.int32), e.astype(np.int32))


GRAPHS = graphs(26)
