"""Random numbers of a file: the functions of our own domain, as what the language has them as.

The counter that they are drawn from is no input of a program, which has one where it draws. A
stream is made of the path of a block and the number of a draw there, and no program can say
another: draws of the model's own block are read in their order, those of its layers are refused.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.export.onnx.functions import BITS, DOMAIN, NORMAL, STREAMS, UNIFORM
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Code, Level, Tensor, bracketed
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.node import Node

CALLEES = {UNIFORM: "random_uniform", NORMAL: "random_normal"}
WORDS = 2
"""The number of words of a counter."""


@dataclass
class Draws:
    """The random numbers of a model so far."""

    count: int = 0
    """The streams they took."""

    def read(self, node: Node) -> list[Tensor]:
        """The numbers of a function; those of `RandomBits` are the counters of rounds."""
        build, counter = node.build, node.value(0)
        if not isinstance(counter, Tensor) or counter.type != TensorType(DType.U32, (WORDS,)):
            raise UnsupportedNodeError("its counter is no u32[2]")
        if counter.id not in build.counters:
            raise UnsupportedNodeError(f"its counter is not the input `{COUNTER}`")
        for name in STREAMS[node.op]:
            stream = zlib.crc32(f"#{self.count}".encode())
            if node.attribute(name, -1) != stream:
                raise UnsupportedNodeError("its stream is not the next of the model's own block")
            self.count += 1
        shape = node.sizes(1, "sizes")
        if node.op == BITS:
            return [_round_counters(build, shape)]
        pieces = (f"{CALLEES[node.op]}(", *bracketed(shape), ")")
        return [build.add(Code(pieces, Level.ATOM, is_named=True), DType.F32, shape)]


def _round_counters(build: Builder, shape: Sequence[Size]) -> Tensor:
    """The counters of the iterations of a loop, which no program names."""
    if len(shape) != 2 or shape[1] != WORDS:
        raise UnsupportedNodeError("words are read that are no counters of rounds")
    built = build.fresh(DType.U32, shape)
    build.counters.add(built.id)
    return built


def is_draw(domain: str, op: str) -> bool:
    """True if a node draws random numbers."""
    return domain == DOMAIN and op in STREAMS


def require_unread(build: Builder, results: Sequence[Tensor]) -> None:
    """Raise `UnsupportedNodeError` where something else than a draw reads a counter."""
    read = {each for one in build.statements for each in one.operands}
    if build.counters & (read | {each.id for each in results}):
        raise UnsupportedNodeError("a counter of random numbers is read by something else")
