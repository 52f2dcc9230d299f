"""Distribution of an attention over workgroups: sizes as data."""

from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_runtime.backends.webgpu.codegen.matmul.shared_memory_tile import GAP
from meganeura_runtime.backends.webgpu.codegen.matmul.tile_sizes import MATRIX_GAP, SUMS_GAP, Tile
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import Affine


@dataclass(frozen=True, slots=True)
class AttentionTile:
    """The rows of a workgroup, the columns it compares them with at once, and each lane's part.

    Rows are queries, and columns keys; or the other way round for the gradients of the keys.
    """

    rows: int
    columns: int
    terms: int
    rows_each: int
    columns_each: int
    published: int
    """Columns whose weights the lanes exchange at once."""

    @property
    def down(self) -> int:
        """Lanes along the rows."""
        return self.rows // self.rows_each

    @property
    def across(self) -> int:
        """Lanes along the columns."""
        return self.columns // self.columns_each

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return self.down * self.across

    @property
    def scores(self) -> Tile:
        """The tile of the scores."""
        return Tile(self.rows, self.columns, self.terms, self.rows_each, self.columns_each)

    def sums(self, width: int) -> Tile:
        """The tile of what is summed for each row: as many vec4 of columns for each lane."""
        each = -(-width // (4 * self.across)) * 4
        return Tile(self.rows, each * self.across, self.terms, self.rows_each, each)

    def words(self, *widths: int) -> int:
        """Workgroup memory, in words, that is enough for sums so wide."""
        staged = self.terms * (max(self.columns, *(self.sums(one).columns for one in widths)) + GAP)
        return staged + (max(self.terms, self.published) + self.across) * (self.rows + GAP)

    def matrix_bytes(self, side: int, rows: Sequence[int], columns: Sequence[int]) -> int:
        """Workgroup memory for matrix units with squares of a `side`, in bytes, that is enough.

        `rows` and `columns` are the widths of the factors that have a tile of each.
        """
        whole = [-(-width // side) * side for width in (*rows, *columns)]
        lines = [*(self.rows for _ in rows), *(self.columns for _ in columns)]
        factors = sum(n * (width + MATRIX_GAP) for n, width in zip(lines, whole, strict=True))
        widest = max(self.columns, *(self.sums(width).columns for width in (*rows, *columns)))
        region = self.rows * (widest + SUMS_GAP)
        return 2 * factors + 4 * (region + self.across * (self.rows + GAP))

    def column(self, number: Affine) -> Affine:
        """The column of a block whose weights are published as a term of that number."""
        each = self.published // self.across
        portion, term = number // self.published, number % self.published
        at = portion * each + term % each
        return at // 4 * (4 * self.across) + term // each * 4 + at % 4
