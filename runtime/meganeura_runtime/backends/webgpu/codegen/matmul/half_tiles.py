"""Tiles of factors in f16 in the workgroup's memory, as matrix units read them."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import (
    SharedMemoryTile,
    Steps,
)
from meganeura_runtime.backends.webgpu.codegen.matmul.subgroup_matrices import Square
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Expression, Index
from meganeura_runtime.backends.webgpu.codegen.wgsl.emitter import HalfRun, WgslEmitter

TILES = "tiles"
"""The workgroup's memory in words, four by four."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The lines of a tile in the workgroup's memory: along the terms, or across them."""

    array: str
    first: int
    """The entry of the array at which the tile begins."""
    lines: int
    length: int
    """Elements of a line, with the unused ones."""
    together: int
    """Elements of one entry of the array: 8 in four words, or 1."""
    along_terms: bool

    @property
    def end(self) -> int:
        """The entry after the last one."""
        return self.first + self.lines * self.length // self.together


class HalfTiles:
    """Tiles of factors, by the names of their operands.

    Neighbours that come together lie eight by eight in `tiles`, words that the adapter can copy
    sixteen bytes at a time; other tiles have an array of halves each. What memory holds in f16 is
    never anything else.
    """

    def __init__(self) -> None:
        self._layouts: dict[str, Layout] = {}
        self._widths: dict[str, int] = {}
        """Neighbours that a lane fetches at once, by tile."""
        self._runs: dict[str, int] = {}
        """Elements of each register in f16, by tile; those of f32 hold one and are rounded."""

    @property
    def entries(self) -> int:
        """Entries of `tiles` that hold tiles."""
        return max((one.end for one in self._layouts.values() if one.array == TILES), default=0)

    def arrays(self) -> list[str]:
        """Declarations of the tiles of single halves."""
        return [
            f"var<workgroup> {one.array}: array<f16, {one.end}>;"
            for one in self._layouts.values()
            if one.array != TILES
        ]

    def add(self, side: SharedMemoryTile, terms: int) -> None:
        """Find out along which axis a tile lies, and where lanes put neighbours."""
        name, size, run = side.side.name, side.side.size, side.width
        self._widths[name] = run
        lines, length = (size, terms) if side.along_terms else (terms, size)
        array, first, together = (name, 0, 1) if run == 1 else (TILES, self.entries, 8)
        length += side.side.gap
        self._layouts[name] = Layout(array, first, lines, length, together, side.along_terms)

    def fetched(
        self, emitter: WgslEmitter, side: SharedMemoryTile, steps: Steps, step: Index
    ) -> Sequence[str]:
        """Read what a lane fetches in a step: halves as memory holds them, where it always does."""
        name, elements = side.side.name, side.fetch(step)
        if name not in self._runs:
            every = [side.fetch(one) for one in steps.written]
            widths = (width for width in (8, 4, 1) if width <= self._widths[name])
            fits = (w for w in widths if all(_half_runs(emitter, one, w) for one in every))
            self._runs[name] = next(fits, 0)
        runs = _half_runs(emitter, elements, self._runs[name]) if self._runs[name] else None
        if runs is None:
            return [emitter.value(one) for one in elements]
        return [emitter.halves(run) for run in runs]

    def fill(self, emitter: WgslEmitter, name: str, slots: Sequence[str]) -> None:
        """Put what a lane has fetched, `name0`, `name1` ..., into its slots.

        What is no half is rounded to one: infinite from 65,520 on, 0 below 3e-8.
        """
        layout, width, run = self._layouts[name], self._widths[name], self._runs[name]
        for at in range(0, len(slots), width):
            if width == 1:
                half = f"{name}{at}" if run else f"f16({name}{at})"
                emitter.line(f"{layout.array}[{slots[at]}] = {half};")
                continue
            entry = f"{layout.array}[({slots[at]}) / 8u + {layout.first}u]"
            words = _words(name, at, width, run)
            if width == 8:
                emitter.line(f"{entry} = {words[0] if run == 8 else _vec4(words)};")
                continue
            for number, word in enumerate(words):
                emitter.line(f"{entry}[({slots[at]}) % 8u / 2u + {number}u] = {word};")

    def square(
        self, name: str, tile: str, side: str, start: str, term: str, *, swapped: bool = False
    ) -> tuple[Square, str]:
        """A square of a tile as the factor on a side, and the entry of its array it begins at.

        It has the rows or columns from `start` on; `swapped`, what the tile calls terms are the
        rows or columns, and the other way round.
        """
        layout = self._layouts[tile]
        along_terms = layout.along_terms is not swapped
        line, along = (start, term) if along_terms else (term, start)
        by_columns = along_terms is not (side == "left")
        square = Square(name, side, layout.array, layout.length, layout.together, by_columns)
        entry = f"(({line}) * {layout.length}u + {along}) / {layout.together}u + {layout.first}u"
        return square, entry


def _words(name: str, at: int, width: int, run: int) -> Sequence[str]:
    """Returns so many halves as words, from the `at`-th on; all of them if registers hold eight."""
    if run == 8:
        return [f"{name}{at // 8}"]
    return [_pair(name, at + v, run) for v in range(0, width, 2)]


def _vec4(words: Sequence[str]) -> str:
    return f"vec4<u32>({', '.join(words)})"


def _pair(name: str, at: int, run: int) -> str:
    """Returns two halves as a word, where registers hold four or one."""
    if run == 4:
        return f"pack2x16float(vec2<f32>({name}{at // 4}.{'xyzw'[at % 4 :][:2]}))"
    return f"pack2x16float(vec2<f32>(vec2({name}{at}, {name}{at + 1})))"


def _half_runs(
    emitter: WgslEmitter, elements: Sequence[Expression], width: int
) -> Sequence[HalfRun] | None:
    """Returns runs of so many elements as memory holds them in f16; None if it does not."""
    runs = [emitter.half_run(elements[at : at + width]) for at in range(0, len(elements), width)]
    found = [run for run in runs if run is not None]
    return found if len(found) == len(runs) else None
