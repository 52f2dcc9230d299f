"""The score of attention kernels: only this module knows scales, masks and heads."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import e, log2

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.fused.attention import Attention
from meganeura_dsl.ir.ops.fused.attention_scores import HIDDEN, width_of
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import Read
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import WgslEmitter
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import ElementReader

UNIT = log2(e)
"""Scores are counted in powers of two, whose exponential is the one that adapters have."""
LOW = HIDDEN * UNIT
"""A hidden score."""


@dataclass(frozen=True, slots=True)
class Heads:
    """The operands of an attention."""

    whole: Attention
    q: Value
    k: Value
    v: Value

    @property
    def batch(self) -> tuple[int, ...]:
        """All heads of queries."""
        return concrete_shape(self.q.type.shape)[:-2]

    @property
    def queries(self) -> int:
        """Queries of a head."""
        return concrete_shape(self.q.type.shape)[-2]

    @property
    def keys(self) -> int:
        """Keys of a head."""
        return concrete_shape(self.k.type.shape)[-2]

    @property
    def width(self) -> int:
        """The width of queries and keys."""
        return width_of(self.q.type)

    @property
    def value_width(self) -> int:
        """The width of values."""
        return width_of(self.v.type)

    def shared(self, head: Index) -> Index:
        """The head of keys and values that a head of queries reads."""
        return (*head[:-1], head[-1] // self.whole.shared)

    @property
    def factor(self) -> str:
        """The factor that makes a product of a query and a key a score in powers of two."""
        return f"{self.whole.scale * UNIT:.9g}f"

    def query(self, reading: ElementReader, head: Index) -> Read:
        """Queries of a head."""
        return plain(reading, self.q, head)

    def key(self, reading: ElementReader, head: Index) -> Read:
        """Keys of a head of keys."""
        return plain(reading, self.k, head)

    def value(self, reading: ElementReader, head: Index) -> Read:
        """Values of a head of keys."""
        return plain(reading, self.v, head)


def plain(reading: ElementReader, value: Value, head: Index) -> Read:
    """A tensor's rows of a head."""
    return lambda at, term: reading.at(value, (*head, *at, *term))


@dataclass(frozen=True, slots=True)
class Mask:
    """The columns that count for each row, where rows are queries or, if `turned`, keys.

    The kernel's `rows` and `block` number the tiles along both, its `s` are the lane's scores.
    """

    whole: Attention
    tile: AttentionTile
    columns: int
    turned: bool = False

    @property
    def blocks(self) -> int:
        """Blocks of columns."""
        return -(-self.columns // self.tile.columns)

    def span(self) -> tuple[str, str]:
        """Returns the range of blocks, end excluded, that the rows of a workgroup see."""
        tile, blocks, back = self.tile, self.blocks, self.whole.window - 1
        if not self.whole.causal:
            return "0u", f"{blocks}u"
        first, last = f"rows * {tile.rows}u", f"rows * {tile.rows}u + {tile.rows - 1}u"
        if self.turned:
            end = f"min({blocks}u, ({last} + {back}u) / {tile.columns}u + 1u)"
            return f"{first} / {tile.columns}u", end if self.whole.window else f"{blocks}u"
        stop = f"min({blocks}u, ({last}) / {tile.columns}u + 1u)"
        if not self.whole.window:
            return "0u", stop
        return f"(max({first}, {back}u) - {back}u) / {tile.columns}u", stop

    def hide(self, emitter: WgslEmitter, low: str) -> None:
        """Replace masked scores by `low`, in the blocks that have any."""
        where = self._where()
        if where is None:
            return
        tile = self.tile
        with emitter.block(f"if ({where})"):
            for j in range(tile.columns_each // 4):
                start = f"block * {tile.columns}u + across + {4 * j * tile.across}u"
                emitter.line(f"let at{j} = vec4<u32>({start}) + vec4<u32>(0u, 1u, 2u, 3u);")
            for i in range(tile.rows_each):
                position = 4 * (i // 4) * tile.down + i % 4
                emitter.line(f"let from{i} = vec4<u32>(rows * {tile.rows}u + down + {position}u);")
                for j in range(tile.columns_each // 4):
                    seen = " & ".join(self._seen(f"from{i}", f"at{j}"))
                    emitter.line(f"s{i}_{j} = select(vec4<f32>({low}), s{i}_{j}, {seen});")

    def _where(self) -> str | None:
        """The blocks in which something is hidden; None if there are none."""
        tile, ragged = self.tile, self.columns % self.tile.columns != 0
        last = f"block == {self.blocks - 1}u"
        if not self.whole.causal:
            return last if ragged else None
        if self.whole.window:
            return "true"
        row, column = f"rows * {tile.rows}u", f"block * {tile.columns}u"
        key, query = (row, column) if self.turned else (column, row)
        diagonal = f"{key} + {(tile.rows if self.turned else tile.columns) - 1}u > {query}"
        return f"{last} || {diagonal}" if ragged else diagonal

    def _seen(self, row: str, column: str) -> Iterator[str]:
        if self.columns % self.tile.columns:
            yield f"({column} < vec4<u32>({self.columns}u))"
        if self.whole.causal:
            query, key = (column, row) if self.turned else (row, column)
            yield f"({key} <= {query})"
            if self.whole.window:
                yield f"({query} - {key} < vec4<u32>({self.whole.window}u))"
