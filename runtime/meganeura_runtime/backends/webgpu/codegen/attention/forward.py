"""FlashAttention, forward: attention in one kernel, which never stores its scores.

A workgroup takes some queries and walks over the keys, block by block. It compares them, corrects
what it has summed so far by how much the largest scores grew, publishes the weights of the block to
all its lanes, and adds up the values (T. Dao et al., "FlashAttention", 2022; the running maximum is
that of M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
"""

from math import log

import numpy as np

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.kernel_template import LETTERS
from meganeura_runtime.backends.webgpu.codegen.attention.mainloop import Mainloop, Product
from meganeura_runtime.backends.webgpu.codegen.attention.scores import LOW, Heads, Mask
from meganeura_runtime.backends.webgpu.codegen.attention.templates import template_of
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Element,
    Kernel,
    Memory,
    Work,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import OutputCoordinate
from meganeura_runtime.backends.webgpu.codegen.matmul.output_tile import together
from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import GAP
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Affine, Index, ravel
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import float_literal
from meganeura_runtime.backends.webgpu.config.limits import Target
from meganeura_runtime.backends.webgpu.ops.attention import FlashAttention

LEAST = float_literal(float(np.finfo(np.float32).min))
"""The maximum of no scores."""


def forward_kernel(
    work: Work, memory: Memory, target: Target, heads: Heads, tile: AttentionTile
) -> Kernel:
    """Walk over the keys once, then store the weighted means of values, and the logarithms."""
    return _Forward(work, memory, target, heads, tile).kernel()


class _Forward:
    """The kernel while it is being written.

    Of each row a lane knows the largest score so far, `m`, and the sum of the weights of the
    columns it has seen itself, `l`; each four rows are one vector.
    """

    def __init__(
        self, work: Work, memory: Memory, target: Target, heads: Heads, tile: AttentionTile
    ) -> None:
        op = work.anchors[0].op
        self._parts = op.parts if isinstance(op, FlashAttention) else 1
        self._heads = heads
        self._tile = tile
        batch = (self._parts, *heads.batch)
        sizes = heads.queries, heads.keys
        self._frame = frame = template_of(work, memory, target, tile, batch, sizes)
        self._part, *self._head = frame.batch
        self._outer = tuple(frame.batch) if self._parts > 1 else tuple(self._head)
        self._visible = Mask(heads.whole, tile, heads.keys)
        self._means = tile.sums(heads.value_width)

    def kernel(self) -> Kernel:
        """The finished kernel."""
        frame, heads, head = self._frame, self._heads, tuple(self._head)
        queries = heads.query(frame.reader, head)
        at_key = heads.shared(head)
        keys, values = heads.key(frame.reader, at_key), heads.value(frame.reader, at_key)
        scores = frame.compare("s", queries, keys, heads.width)
        frame.mix("c", values, heads.value_width, kept=False)
        walk = frame.loop()
        results = [*frame.results(0, self._of_means), *frame.results(1, self._of_rows)]
        frame.bind(walk.reads(), results)
        frame.zero("c", self._means)
        for vec4 in frame.vec4s:
            frame.emitter.line(f"var m{vec4} = vec4<f32>({LEAST});")
            frame.emitter.line(f"var l{vec4} = vec4<f32>();")
        self._walk(walk, scores)
        self._divide()
        for result in results:
            write_result(frame.emitter, frame.memory, result)
        words = self._tile.across * (self._tile.rows + GAP)
        return frame.kernel(f"var<workgroup> row_values: array<f32, {words}>;")

    def _walk(self, walk: Mainloop, scores: Product) -> None:
        emitter, frame = self._frame.emitter, self._frame
        start, stop = self._visible.span()
        if self._parts > 1:
            each = -(-frame.block.size // self._parts)
            part = emitter.index(self._part * each)
            start, stop = f"max({start}, {part})", f"min({stop}, {part} + {each}u)"
        emitter.line(f"let start = {start};")
        emitter.line(f"let stop = {stop};")
        walk.start()
        walk.begin("start")
        with emitter.span(frame.block, "start", "stop"):
            frame.zero("s", scores.tile)
            walk.multiply(0)
            for i, j in frame.each(scores.tile):
                emitter.line(f"s{i}_{j} *= {self._heads.factor};")
            self._visible.hide(emitter, f"{LOW:.8e}f")
            self._weigh()
            frame.mixed(walk, 1)

    def _weigh(self) -> None:
        """Turn scores into weights, and correct what there is for a larger maximum."""
        frame, emitter = self._frame, self._frame.emitter
        each = range(self._tile.columns_each // 4)
        for i in range(self._tile.rows_each):
            emitter.line(f"let t{i} = {_folded('max', [f's{i}_{j}' for j in each])};")
        for vec4 in frame.vec4s:
            four = ", ".join(
                _folded("max", [f"t{i}.{letter}" for letter in "xyzw"])
                for i in range(4 * vec4, 4 * vec4 + 4)
            )
            emitter.line(f"let o{vec4} = vec4<f32>({four});")
        for vec4, found in enumerate(self._shared_by_lanes("o")):
            emitter.line(f"let top{vec4} = max(m{vec4}, {_folded('max', found)});")
            emitter.line(f"let f{vec4} = exp2(m{vec4} - top{vec4});")
            emitter.line(f"m{vec4} = top{vec4};")
        for i, j in frame.each(self._tile.scores):
            emitter.line(f"s{i}_{j} = exp2(s{i}_{j} - vec4<f32>({frame.of_row('m', i)}));")
        self._visible.hide(emitter, "0.0f")
        for i in range(self._tile.rows_each):
            emitter.line(f"let u{i} = {' + '.join(f's{i}_{j}' for j in each)};")
        for vec4 in frame.vec4s:
            four = ", ".join(
                " + ".join(f"u{i}.{letter}" for letter in "xyzw")
                for i in range(4 * vec4, 4 * vec4 + 4)
            )
            emitter.line(f"l{vec4} = l{vec4} * f{vec4} + vec4<f32>({four});")
        for i, j in frame.each(self._means):
            emitter.line(f"c{i}_{j} *= {frame.of_row('f', i)};")

    def _shared_by_lanes(self, name: str) -> list[list[str]]:
        """Returns the values shared by all lanes of the same rows, for every four rows."""
        frame, emitter, tile = self._frame, self._frame.emitter, self._tile
        pitch = tile.rows + GAP
        for vec4 in frame.vec4s:
            for v, letter in enumerate("xyzw"):
                position = f"across / 4u * {pitch}u + down + {4 * vec4 * tile.down + v}u"
                emitter.line(f"row_values[{position}] = {name}{vec4}.{letter};")
        emitter.line("workgroupBarrier();")
        found: list[list[str]] = []
        for vec4 in frame.vec4s:
            texts: list[str] = []
            for lane in range(tile.across):
                start = lane * pitch + 4 * vec4 * tile.down
                words = ", ".join(f"row_values[down + {start + v}u]" for v in range(4))
                texts.append(f"vec4<f32>({words})")
            found.append(texts)
        return found

    def _divide(self) -> None:
        """Divides by the sum of all weights, and stores its logarithm, `r`.

        A sum of 0 is that of no keys, or of scores that are all -inf: the mean is then NaN, but for
        a part among others, which must not count.
        """
        frame, emitter = self._frame, self._frame.emitter
        for vec4, found in enumerate(self._shared_by_lanes("l")):
            emitter.line(f"let w{vec4} = {' + '.join(found)};")
            share, none = f"vec4<f32>(1.0f) / w{vec4}", "vec4<f32>()"
            if self._parts > 1:
                share = f"select({share}, {none}, w{vec4} == {none})"
            emitter.line(f"let d{vec4} = {share};")
            emitter.line(f"let r{vec4} = (m{vec4} + log2(w{vec4})) * {log(2):.9f}f;")
        for i, j in frame.each(self._means):
            emitter.line(f"c{i}_{j} *= {frame.of_row('d', i)};")

    def _of_means(self, means: Value) -> list[list[Element]]:
        frame = self._frame

        def coordinate(row: Index, column: Index) -> OutputCoordinate:
            return OutputCoordinate((*self._outer, *row, *column))

        lane_results = frame.lane_results(
            (self._heads.value_width,), self._means, Affine(0), coordinate
        )
        return lane_results.elements(means, frame.exists)

    def _of_rows(self, rows: Value) -> list[list[Element]]:
        """The logarithms, which the first lanes of each row store."""
        frame, shape = self._frame, concrete_shape(rows.type.shape)
        exists = (*frame.exists, "across == 0u")
        found: list[list[Element]] = []
        for vec4 in frame.vec4s:
            four = [
                Element(
                    ravel((*self._outer, *row), shape),
                    {rows.id: f"r{vec4}.{letter}"},
                    exists,
                    (guard,),
                )
                for letter, (guard, row) in zip(LETTERS, frame.row_vec4(vec4), strict=True)
            ]
            found += together(four)
        return found


def _folded(function: str, texts: list[str]) -> str:
    """A function of two, of many."""
    first, *others = texts
    return f"{function}({first}, {_folded(function, others)})" if others else first
