"""The program in the making: statements of pieces of text, values and sizes.

Text is written last, when it is known which values have names, which sizes, and what is a block.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import assert_never

from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.size import Dim, Size


class Level(IntEnum):
    """The precedence of an expression, the weakest first."""

    PIPE = 0
    OR = 1
    AND = 2
    NOT = 3
    COMPARE = 4
    SUM = 5
    PRODUCT = 6
    SIGN = 7
    POWER = 8
    ATOM = 9


Words = tuple[str | int, ...]
"""The path of a parameter: names, and indices in brackets."""


@dataclass(frozen=True)
class Ref:
    """A value, where an expression of at least this level stands."""

    value: int
    level: Level = Level.PIPE


@dataclass(frozen=True)
class Count:
    """A size, where an expression of at least this level stands."""

    size: Dim
    level: Level = Level.PIPE


@dataclass(frozen=True)
class LabelPath:
    """The path of a parameter or a label."""

    words: Words


Piece = str | Ref | Count | LabelPath


@dataclass(frozen=True)
class Code:
    """An expression."""

    pieces: tuple[Piece, ...]
    level: Level
    is_named: bool = False
    """True if it has its own line, since its place among others matters."""


@dataclass(frozen=True)
class Applied:
    """A function or a layer applied to a tensor, written as a call or behind a pipe."""

    source: int
    callee: str
    config: tuple[Piece, ...] = ()
    tensors: tuple[Piece, ...] = ()
    label: Words | None = None
    is_block: bool = False

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Everything it says, in order."""
        label = () if self.label is None else (LabelPath(self.label),)
        return (Ref(self.source), *label, self.callee, *self.config, *self.tensors)


@dataclass(frozen=True)
class Declared:
    """A parameter that the program declares on its own line."""

    words: Words
    kind: str


@dataclass(frozen=True)
class Tensor:
    """A value of the program."""

    id: int
    type: TensorType

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.type.dtype

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.shape)


@dataclass(frozen=True)
class Limits:
    """The whole numbers of a small type of ONNX: the lowest and the highest."""

    name: str
    low: int
    high: int


@dataclass(frozen=True)
class Rounding:
    """A value that is quantized: by one scale and one zero point, to levels between limits."""

    source: Tensor
    scale: float
    zero: float
    limits: Limits


@dataclass(frozen=True)
class Collected:
    """A result of a loop's iteration, and the axis along which all iterations are joined."""

    value: int
    axis: int


@dataclass(frozen=True)
class Scanned:
    """A loop; its values are what it carries, behind the last iteration, then what it collects."""

    iterations: Size
    is_backward: bool
    iteration: Tensor
    """The index of the iteration's slice of the collected and sliced tensors."""
    starts: tuple[int, ...]
    carries: tuple[Tensor, ...]
    body: "tuple[Statement, ...]"
    following: tuple[int, ...]
    """The value of each carry in the next iteration."""
    collected: tuple[Collected, ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The values from outside that it reads, and the labels in it; equal to no other's."""
        own = {self.iteration.id, *(each.id for each in self.carries)}
        own |= {result.id for each in self.body for result in each.results}
        inner = [piece for each in self.body for piece in each.pieces]
        inner += [Ref(each) for each in self.following]
        inner += [Ref(each.value) for each in self.collected]
        kept = [
            piece
            for piece in inner
            if isinstance(piece, LabelPath) or (isinstance(piece, Ref) and piece.value not in own)
        ]
        return (str(self.iteration.id), *map(Ref, self.starts), *kept)


Expression = Code | Applied | Declared | Scanned


@dataclass(frozen=True)
class Statement:
    """Values and what they are."""

    results: tuple[Tensor, ...]
    code: Expression
    needs: tuple[Compare, ...] = ()
    """Conditions on sizes."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Everything it says."""
        return pieces_of(self.code)

    @property
    def operands(self) -> Iterator[int]:
        """The values it reads, as often as it does."""
        return (each.value for each in self.pieces if isinstance(each, Ref))


def pieces_of(code: Expression) -> tuple[Piece, ...]:
    """Everything an expression says, in order."""
    return (LabelPath(code.words), code.kind) if isinstance(code, Declared) else code.pieces


def with_operands(code: Expression, others: Mapping[int, int]) -> Expression:
    """An expression that reads other values in the place of some."""

    def pieces(of: tuple[Piece, ...]) -> tuple[Piece, ...]:
        return tuple(
            replace(each, value=others.get(each.value, each.value))
            if isinstance(each, Ref)
            else each
            for each in of
        )

    match code:
        case Code():
            return replace(code, pieces=pieces(code.pieces))
        case Applied():
            source = others.get(code.source, code.source)
            config, tensors = pieces(code.config), pieces(code.tensors)
            return replace(code, source=source, config=config, tensors=tensors)
        case Declared():
            return code
        case Scanned():
            return replace(
                code,
                starts=tuple(others.get(each, each) for each in code.starts),
                body=tuple(
                    replace(each, code=with_operands(each.code, others)) for each in code.body
                ),
                following=tuple(others.get(each, each) for each in code.following),
                collected=tuple(
                    replace(each, value=others.get(each.value, each.value))
                    for each in code.collected
                ),
            )
        case _:
            assert_never(code)


def size_piece(size: Size, level: Level = Level.PIPE) -> Piece:
    """A size as a piece of text."""
    return Count(size, level) if isinstance(size, Dim) else str(size)


def listed(parts: Sequence[tuple[Piece, ...]]) -> tuple[Piece, ...]:
    """Parts with commas between them."""
    pieces: list[Piece] = []
    for part in parts:
        pieces.extend((", ", *part) if pieces else part)
    return tuple(pieces)


def bracketed(sizes: Sequence[Size]) -> tuple[Piece, ...]:
    """A list of sizes."""
    return ("[", *listed([(size_piece(each),) for each in sizes]), "]")
