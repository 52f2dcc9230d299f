"""FlashAttention, backward: gradients of attention, whose weights are recomputed, not stored.

For dq a workgroup takes some queries and walks over the keys, for dk and dv it takes some keys and
walks over the queries. `AttentionGradient` has the formulas; a weight needs no maximum here, as the
normalizer of its row is known.
"""

from meganeura_dsl.ir.graph import Value
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.webgpu.codegen.attention.attention_tile import AttentionTile
from meganeura_runtime.backends.webgpu.codegen.attention.mainloop import Mainloop
from meganeura_runtime.backends.webgpu.codegen.attention.scores import UNIT, Heads, Mask, plain
from meganeura_runtime.backends.webgpu.codegen.attention.templates import template_of
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import (
    Kernel,
    Memory,
    Result,
    Work,
    write_result,
)
from meganeura_runtime.backends.webgpu.codegen.lowering.contraction import OutputCoordinate
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import Tile
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    Affine,
    Axis,
    BoundsCheck,
    Index,
    variable,
)
from meganeura_runtime.backends.webgpu.config.limits import Target


def to_queries_kernel(
    work: Work, memory: Memory, target: Target, heads: Heads, tile: AttentionTile
) -> Kernel:
    """Walk over the keys once, and store dq."""
    *_, dy, rows, level = work.anchors[0].operands
    frame = template_of(work, memory, target, tile, heads.batch, (heads.queries, heads.keys))
    emitter, reader, head = frame.emitter, frame.reader, tuple(frame.batch)
    at_key = heads.shared(head)
    queries, slopes = heads.query(reader, head), plain(reader, dy, head)
    keys = heads.key(reader, at_key)
    frame.compare("s", queries, keys, heads.width)
    frame.compare("d", slopes, heads.value(reader, at_key), heads.value_width)
    sums = frame.mix("c", keys, heads.width, kept=True)
    walk = frame.loop()

    def coordinate(row: Index, column: Index) -> OutputCoordinate:
        return OutputCoordinate((*head, *row, *column))

    lane_results = frame.lane_results((heads.width,), sums.tile, Affine(0), coordinate)
    results = frame.results(0, lambda dq: lane_results.elements(dq, frame.exists))
    frame.bind(walk.reads(), results)
    frame.zero("c", sums.tile)
    for vec4 in frame.vec4s:
        at = [index for _, index in frame.row_vec4(vec4)]
        for name, known in (("r", rows), ("e", level)):
            found = frame.vector([reader.at(known, (*head, *one)) for one in at])
            emitter.line(f"let {name}{vec4} = {found}{_in_powers(name)};")
    visible = Mask(heads.whole, tile, heads.keys)
    start, stop = visible.span()
    emitter.line(f"let start = {start};")
    walk.start()
    walk.begin("start")
    with emitter.span(frame.block, "start", stop):
        frame.zero("s", tile.scores)
        frame.zero("d", tile.scores)
        walk.multiply(0)
        walk.multiply(1)
        for i, j in frame.each(tile.scores):
            of_row = frame.of_row("r", i)
            emitter.line(f"s{i}_{j} = exp2(s{i}_{j} * {heads.factor} - vec4<f32>({of_row}));")
        visible.hide(emitter, "0.0f")
        for i, j in frame.each(tile.scores):
            emitter.line(f"s{i}_{j} *= d{i}_{j} - vec4<f32>({frame.of_row('e', i)});")
        frame.mixed(walk, 2)
    walk.finish()
    for i, j in frame.each(sums.tile):
        emitter.line(f"c{i}_{j} *= {heads.whole.scale!r}f;")
    for result in results:
        write_result(emitter, memory, result)
    return frame.kernel()


def to_keys_kernel(
    work: Work, memory: Memory, target: Target, heads: Heads, tile: AttentionTile
) -> Kernel:
    """Walk over the queries once, and store dk and dv."""
    return _ToKeys(work, memory, target, heads, tile).kernel()


class _ToKeys:
    """The kernel for dk and dv, while it is being written."""

    def __init__(
        self, work: Work, memory: Memory, target: Target, heads: Heads, tile: AttentionTile
    ) -> None:
        *_, self._dy, self._rows, self._level = work.anchors[0].operands
        self._heads = heads
        self._tile = tile
        batch = concrete_shape(heads.k.type.shape)[:-2]
        self._frame = template_of(work, memory, target, tile, batch, (heads.keys, heads.queries))
        self._visible = Mask(heads.whole, tile, heads.queries, turned=True)
        *outer, inner = self._frame.batch
        self._which = Axis("which", heads.whole.shared)
        which = variable(self._which) if heads.whole.shared > 1 else Affine(0)
        self._head = (*outer, inner * heads.whole.shared + which)

    def kernel(self) -> Kernel:
        """The finished kernel."""
        frame, heads, at_key = self._frame, self._heads, tuple(self._frame.batch)
        emitter, reader, head = frame.emitter, frame.reader, self._head
        keys, values = heads.key(reader, at_key), heads.value(reader, at_key)
        slopes = plain(reader, self._dy, head)
        queries = heads.query(reader, head)
        frame.compare("s", keys, queries, heads.width)
        to_values = frame.mix("c", slopes, heads.value_width, kept=True)
        frame.compare("d", values, slopes, heads.value_width)
        to_keys = frame.mix("b", queries, heads.width, kept=True)
        walk = frame.loop()
        results = [
            *self._results(0, "b", to_keys.tile, heads.width),
            *self._results(1, "c", to_values.tile, heads.value_width),
        ]
        frame.bind(walk.reads(), results)
        frame.zero("b", to_keys.tile)
        frame.zero("c", to_values.tile)
        walk.start()
        if heads.whole.shared > 1:
            with emitter.loop(self._which):
                self._walk(walk)
        else:
            self._walk(walk)
        walk.finish()
        for i, j in frame.each(to_keys.tile):
            emitter.line(f"b{i}_{j} *= {heads.whole.scale!r}f;")
        for result in results:
            write_result(emitter, frame.memory, result)
        return frame.kernel()

    def _walk(self, walk: Mainloop) -> None:
        frame, tile, emitter = self._frame, self._tile, self._frame.emitter
        start, stop = self._visible.span()
        emitter.line(f"let start = {start};")
        walk.begin("start")
        with emitter.span(frame.block, "start", stop):
            frame.zero("s", tile.scores)
            walk.multiply(0)
            self._know("r", self._rows)
            for i, j in frame.each(tile.scores):
                emitter.line(f"s{i}_{j} = exp2(s{i}_{j} * {self._heads.factor} - r{j});")
            self._visible.hide(emitter, "0.0f")
            frame.mixed(walk, 1)
            frame.zero("d", tile.scores)
            walk.multiply(2)
            self._know("e", self._level)
            for i, j in frame.each(tile.scores):
                emitter.line(f"s{i}_{j} *= d{i}_{j} - e{j};")
            frame.mixed(walk, 3)

    def _know(self, name: str, known: Value) -> None:
        """Declares a known value for the queries of the lane's columns."""
        frame = self._frame
        for vec4 in range(self._tile.columns_each // 4):
            guards: list[BoundsCheck] = frame.column_vec4(vec4)
            found = frame.vector(
                [frame.reader.at(known, (*self._head, guard.index)) for guard in guards]
            )
            frame.emitter.line(f"let {name}{vec4} = {found}{_in_powers(name)};")

    def _results(self, index: int, sums: str, tile: Tile, width: int) -> list[Result]:
        frame, head = self._frame, tuple(self._frame.batch)

        def coordinate(row: Index, column: Index) -> OutputCoordinate:
            return OutputCoordinate((*head, *row, *column))

        lane_results = frame.lane_results((width,), tile, Affine(0), coordinate, sums)
        return frame.results(index, lambda built: lane_results.elements(built, frame.exists))


def _in_powers(name: str) -> str:
    """Normalizers are logarithms, and counted as scores are; slopes are not."""
    return f" * {UNIT:.9f}f" if name == "r" else ""
