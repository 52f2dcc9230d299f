"""Collectives of a compiled step, from the text of its HLO."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

_INSTRUCTION = re.compile(
    r" = (?P<type>\(.*?\)|[^\s(]\S*) "
    r"(?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?P<start>-start)?\("
)
_SHAPE = re.compile(r"(?P<dtype>[a-z]+(?P<bits>\d+)?)\[(?P<sizes>[\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """All collectives of one kind in a step."""

    count: int
    bytes: int
    """Of their results, for a reduce-scatter of its operands: the whole that is shared."""

    def traffic(self, kind: str, devices: int) -> float:
        """The bytes that each device sends, by the ring algorithms of NCCL."""
        return self.bytes * (devices - 1) / devices * (2 if kind == "all-reduce" else 1)


def collectives(hlo: str, devices: int) -> Mapping[str, Collective]:
    """The collectives of a program, by kind."""
    counts: defaultdict[str, int] = defaultdict(int)
    sizes: defaultdict[str, int] = defaultdict(int)
    for found in _INSTRUCTION.finditer(hlo):
        kind = found["kind"]
        parts = [_bytes(each) for each in _SHAPE.finditer(found["type"])]
        if found["start"] and found["type"].startswith("("):
            parts = parts[len(parts) // 2 :]  # a start gives its operands and its results
        counts[kind] += 1
        sizes[kind] += sum(parts) * (devices if kind == "reduce-scatter" else 1)
    return {kind: Collective(counts[kind], sizes[kind]) for kind in sorted(counts)}


def _bytes(shape: re.Match[str]) -> int:
    bits = int(shape["bits"] or 8)  # a `pred` takes a byte
    return prod(int(size) for size in shape["sizes"].split(",") if size) * bits // 8
