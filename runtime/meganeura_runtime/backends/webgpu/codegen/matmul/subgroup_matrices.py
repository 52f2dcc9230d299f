"""Matrices of a subgroup in WGSL: squares that its lanes hold together.

Chromium's experimental operations are as in its documentation (dawn, docs/dawn/features,
subgroup_matrix.md); WebGPU's own and naga's will be other dialects.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from meganeura_runtime.backends.webgpu.config.limits import MatrixDialect, MatrixUnits


@dataclass(frozen=True, slots=True)
class Square:
    """A square that is loaded: its name, and how its array lies."""

    name: str
    side: str
    """`left` or `right`."""
    array: str
    length: int
    """Elements from one row to the next, or from one column to the next."""
    together: int
    """Elements of one entry of the array: 8 in four words, or 1."""
    by_columns: bool
    """True if the elements of a column lie side by side, not those of a row."""

    def element(self, row: str, column: str) -> str:
        """Returns the f16 at a row and a column, where `name` is the first entry's number."""
        line, along = (column, row) if self.by_columns else (row, column)
        at = f"{line} * {self.length}u + {along}"
        if self.together == 1:
            return f"{self.array}[{self.name} + {at}]"
        word = f"{self.array}[{self.name} + ({at}) / 8u][({at}) % 8u / 2u]"
        return f"unpack2x16float({word})[({at}) % 2u]"


class Matrices(ABC):
    """Statements about squares of f16, and squares of sums in f32 in row-major order."""

    def __init__(self, units: MatrixUnits) -> None:
        self._side, self._lanes = units.side, units.lanes

    @abstractmethod
    def begin(self) -> Sequence[str]:
        """Returns the first lines; after them `subgroup` numbers the subgroups."""

    @abstractmethod
    def zeros(self, name: str) -> str:
        """Declare a square of sums of 0."""

    @abstractmethod
    def load(self, square: Square, at: str) -> str:
        """Take a square of a factor from an entry of its array on."""

    @abstractmethod
    def multiply(self, sums: str, left: Square, right: Square) -> Sequence[str]:
        """Add the product of two squares."""

    @abstractmethod
    def store(self, array: str, at: str, sums: str, row: int) -> Sequence[str]:
        """Store a square of sums from a word on in an array of four each; `row` is a row's length.

        Both are multiples of four.
        """


class ChromiumMatrices(Matrices):
    """Matrices multiplied by the matrix units of the adapter."""

    def begin(self) -> Sequence[str]:
        """Returns nothing: `subgroup` is a builtin value of the kernel."""
        return ()

    def zeros(self, name: str) -> str:
        """Declare a matrix; in a loop it would keep its sums without a value to begin with."""
        return f"var {name} = subgroup_matrix_result<f32, {self._side}, {self._side}>();"

    def load(self, square: Square, at: str) -> str:
        """Load a matrix."""
        kind = f"subgroup_matrix_{square.side}<f16, {self._side}, {self._side}>"
        order = "col_major" if square.by_columns else "row_major"
        load = f"subgroupMatrixLoad<{kind}, {order}>"
        entries = square.length // square.together
        return f"let {square.name} = {load}(&{square.array}, {at}, {entries}u);"

    def multiply(self, sums: str, left: Square, right: Square) -> Sequence[str]:
        """Multiply and accumulate."""
        return [f"{sums} = subgroupMatrixMultiplyAccumulate({left.name}, {right.name}, {sums});"]

    def store(self, array: str, at: str, sums: str, row: int) -> Sequence[str]:
        """Store a matrix."""
        entry = f"({at}) / 4u"
        return [f"subgroupMatrixStore<row_major>(&{array}, {entry}, {sums}, {row // 4}u);"]


class PlainMatrices(Matrices):
    """Matrices multiplied by loops.

    A lane holds every `lanes`-th element of each square of sums.
    """

    def begin(self) -> Sequence[str]:
        """Number the subgroups, and the lanes of one."""
        return [
            f"let subgroup = lane / {self._lanes}u;",
            f"let member = lane % {self._lanes}u;",
        ]

    def zeros(self, name: str) -> str:
        """Declare the lane's elements."""
        return f"var {name} = array<f32, {self._each}>();"

    def load(self, square: Square, at: str) -> str:
        """Remember where the square is, which nobody writes to before it is multiplied."""
        return f"let {square.name} = {at};"

    def multiply(self, sums: str, left: Square, right: Square) -> Sequence[str]:
        """Sum the products of the lane's elements."""
        x, y = left.element("r", "k"), right.element("k", "c")
        return [
            f"for (var e = 0u; e < {self._each}u; e++) {{",
            *self._place,
            f"    for (var k = 0u; k < {self._side}u; k++) {{",
            f"        {sums}[e] += f32({x}) * f32({y});",
            "    }",
            "}",
        ]

    def store(self, array: str, at: str, sums: str, row: int) -> Sequence[str]:
        """Write the lane's elements."""
        return [
            f"for (var e = 0u; e < {self._each}u; e++) {{",
            *self._place,
            f"    {array}[({at} + r * {row}u + c) / 4u][c % 4u] = bitcast<u32>({sums}[e]);",
            "}",
        ]

    @property
    def _each(self) -> int:
        return self._side * self._side // self._lanes

    @property
    def _place(self) -> Sequence[str]:
        number = f"member + e * {self._lanes}u"
        return [
            f"    let r = ({number}) / {self._side}u;",
            f"    let c = ({number}) % {self._side}u;",
        ]


_DIALECTS = {MatrixDialect.CHROMIUM: ChromiumMatrices, MatrixDialect.PLAIN: PlainMatrices}


def matrices_of(units: MatrixUnits) -> Matrices:
    """Returns the operations of an adapter's units."""
    return _DIALECTS[units.dialect](units)
