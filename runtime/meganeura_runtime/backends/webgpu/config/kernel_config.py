"""Configs of contractions, as data: chosen by a planner, or found best by a tuner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Tile:
    """The tile of one workgroup, its parts of the factors, and the part of each lane."""

    rows: int
    columns: int
    terms: int
    rows_each: int
    columns_each: int

    @property
    def lanes(self) -> int:
        """Invocations of a workgroup."""
        return (self.rows // self.rows_each) * (self.columns // self.columns_each)

    @property
    def bytes(self) -> int:
        """Workgroup memory, the gaps that keep lanes apart included."""
        return 4 * self.terms * (self.rows + self.columns + 8)

    @property
    def is_even(self) -> bool:
        """True if every lane loads as many vec4 of each factor, and computes whole vec4."""
        sides = (self.rows * self.terms, self.columns * self.terms)
        whole = self.rows_each % 4 == self.columns_each % 4 == 0
        return whole and self.lanes > 0 and not any(side % (4 * self.lanes) for side in sides)

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.terms} by {self.rows_each}x{self.columns_each}"


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """The parts in which a contraction is summed, and its tiles or shuffled rows, if any."""

    split_k: int = 1
    tile: Tile | None = None
    rows: int | None = None
    """Rows of a workgroup whose lanes exchange what they loaded."""

    def __str__(self) -> str:
        by = "single lanes"
        if self.tile is not None:
            by = f"tiles of {self.tile}"
        elif self.rows is not None:
            by = f"{self.rows} shuffled rows"
        return by if self.split_k == 1 else f"{by}, {self.split_k} parts"


@dataclass(frozen=True, slots=True)
class FusionConfig:
    """The readiness of values to share kernels, relative to the planner's estimate."""

    epilogue: int = 60
    """Operations that may follow a sum of products in its kernel, which repeats them a lot."""
    launch: float = 1.0
    """The cost of one more kernel, as a multiple of the planner's assumption."""
    fuse_attention: bool | None = None
    """True if attention is one kernel wherever it fits, or never if it need not; or as it pays."""
    quick: bool = False
    """True if the kernels of products that are over soon are such as compile soon."""

    @property
    def is_sensible(self) -> bool:
        """True if kernels stay within what compilers cope with."""
        return 0 <= self.epilogue <= 400 and 0 < self.launch < 1000

    def __str__(self) -> str:
        attention = {None: "", True: ", attention in one", False: ", attention spelled out"}
        fused = attention[self.fuse_attention]
        quick = ", quick kernels" if self.quick else ""
        return f"epilogues of {self.epilogue}, launches x {self.launch:g}{fused}{quick}"


DEFAULT_FUSION = FusionConfig()
"""The fusion that the planner chooses."""

KernelConfigs: TypeAlias = Mapping[str, KernelConfig]
"""The configs that were found for contractions, by their names."""
