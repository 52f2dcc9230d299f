"""The statements of a program in the making, and the conditions on sizes that it states.

Shapes are computed as statements are added, over symbolic sizes. A condition on sizes is assumed
once and becomes a condition of the program; the checker proves all of it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.assumptions import Facts
from meganeura_dsl.symbolic.conditions import Compare, Operator
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.code import (
    Applied,
    Code,
    Expression,
    Limits,
    Piece,
    Ref,
    Rounding,
    Statement,
    Tensor,
    Words,
    listed,
)
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.levels import Levels
from meganeura_runtime.importing.onnx.moves import Move


@dataclass
class Stored:
    """A parameter of the program, and where its values come from."""

    words: Words
    kind: str
    type: TensorType
    values: Array
    origin: str
    """The initializer, or empty for what the importer made."""
    levels: Levels | None = None
    """The levels that the values are in the file, if they are."""
    is_constant: bool = False
    """True if the layer that declares it is frozen."""

    @property
    def is_trained(self) -> bool:
        """True if training moves it."""
        return self.kind == "param" and not self.is_constant


@dataclass(frozen=True)
class Kept:
    """The place of an initializer in the program."""

    words: Words
    type: TensorType
    is_turned: bool = False
    """True if it is kept transposed."""


@dataclass
class Statements:
    """The statements so far."""

    size_names: frozenset[str] = frozenset()
    """The names of sizes that the inputs have."""
    facts: Facts = field(default_factory=Facts)
    statements: list[Statement] = field(default_factory=list[Statement])
    stored: dict[str, Stored] = field(default_factory=dict[str, Stored])
    kept: dict[str, Kept] = field(default_factory=dict[str, Kept])
    """The initializers that are parameters already."""
    constants: dict[object, Tensor] = field(default_factory=dict[object, Tensor])
    """The constants without a name, by what they hold."""
    layers: dict[object, Words] = field(default_factory=dict[object, Words])
    """The labels of the layers: by what they are and the initializers they keep."""
    helpers: dict[str, str] = field(default_factory=dict[str, str])
    """Blocks that statements apply and the library lacks: their texts, by name."""
    moves: dict[int, tuple[Tensor, Move]] = field(default_factory=dict[int, tuple[Tensor, Move]])
    """The values that are rearranged, and of what."""
    counters: set[int] = field(default_factory=set[int])
    """The values that random numbers are drawn from, which no statement gives."""
    sizes: dict[int, Size] = field(default_factory=dict[int, Size])
    """The values that are sizes written as numbers of another type."""
    limits: dict[int, Limits] = field(default_factory=dict[int, Limits])
    """The values that have fewer than 32 bits in the file."""
    floats: dict[int, Tensor] = field(default_factory=dict[int, Tensor])
    """The f32 values that such values are made of."""
    rounds: bool = False
    """True if a block rounds to levels of a few bits."""
    quantized: dict[int, Rounding] = field(default_factory=dict[int, Rounding])
    """The floats of which some of these are levels."""
    dequantized: dict[str, object] = field(default_factory=dict[str, object])
    """The scales and zero points of initializers that stand for what they are dequantized to."""
    _count: int = 0
    _codes: dict[int, Expression] = field(default_factory=dict[int, Expression])
    stated: list[Compare] = field(default_factory=list[Compare])
    """The conditions on sizes that the program states."""
    _needs: list[Compare] = field(default_factory=list[Compare])

    def fresh(self, dtype: DType, shape: Sequence[Size]) -> Tensor:
        """A value that no statement has yet."""
        self._count += 1
        return Tensor(self._count, TensorType(dtype, tuple(shape)))

    def add(self, code: Expression, dtype: DType, shape: Sequence[Size]) -> Tensor:
        """The value of an expression."""
        return self.add_all(code, [(dtype, shape)])[0]

    def add_all(
        self, code: Expression, types: Sequence[tuple[DType, Sequence[Size]]]
    ) -> tuple[Tensor, ...]:
        """The values of an expression that has several."""
        results = tuple(self.fresh(*each) for each in types)
        for each in results:
            for size in each.shape:
                self.need(">=", size, 1, "an axis has no elements")
        self.statements.append(Statement(results, code, tuple(self._needs)))
        self._codes[results[0].id] = code
        self._needs.clear()
        return results

    def drop_from(self, before: int) -> None:
        """Take back the statements from one on, and the constants that they declare."""
        dropped = {each.id for one in self.statements[before:] for each in one.results}
        del self.statements[before:]
        self.constants = {
            key: value for key, value in self.constants.items() if value.id not in dropped
        }

    def applied(self, value: Tensor) -> Applied | None:
        """The function or layer that gives a value, if it is the result of one."""
        code = self._codes.get(value.id)
        return code if isinstance(code, Applied) else None

    def with_number(self, value: Tensor, operator: str) -> tuple[int, float] | None:
        """The id of the tensor and the number that an operator makes a value of, if it is so.

        The tensor is on the left, or on either side of a sum or a product.
        """
        code = self._codes.get(value.id)
        if not isinstance(code, Code) or len(code.pieces) != len(("tensor", "operator", "number")):
            return None
        left, between, right = code.pieces
        if isinstance(right, Ref) and operator in "+*":
            left, right = right, left
        if not isinstance(left, Ref) or not isinstance(right, str) or between != f" {operator} ":
            return None
        try:
            return left.value, float(right)
        except ValueError:
            return None

    def is_iota(self, value: Tensor) -> bool:
        """True if a vector counts from 0."""
        code = self._codes.get(value.id)
        return isinstance(code, Code) and code.pieces[0] == "iota("

    def is_zero(self, value: Tensor) -> bool:
        """True if a value is seen to be 0 everywhere."""
        code = self._codes.get(value.id)
        if isinstance(code, Applied) and code.callee in ("expand", "rearrange"):
            code = self._codes.get(code.source)
        return isinstance(code, Code) and code.pieces[0] == "zeros("

    def call(
        self,
        callee: str,
        x: Tensor,
        *config: tuple[Piece, ...],
        shape: Sequence[Size],
        dtype: DType | None = None,
    ) -> Tensor:
        """A built-in function of a tensor."""
        return self.add(Applied(x.id, callee, listed(config)), dtype or x.dtype, shape)

    def block(
        self,
        callee: str,
        x: Tensor,
        *config: tuple[Piece, ...],
        shape: Sequence[Size] | None = None,
        label: Words | None = None,
        dtype: DType | None = None,
    ) -> Tensor:
        """A layer of the library applied to a tensor."""
        code = Applied(x.id, callee, listed(config), (), label, is_block=True)
        return self.add(code, dtype or x.dtype, x.shape if shape is None else shape)

    def elementwise(self, callee: str, x: Tensor) -> Tensor:
        """A function that keeps the shape."""
        return self.call(callee, x, shape=x.shape)

    def need(self, operator: Operator, left: Size, right: Size, otherwise: str) -> None:
        """See to it that sizes are related so: known, or assumed, or refused."""
        condition = Compare(operator, left, right)
        if isinstance(left, int) and isinstance(right, int):
            holds = {"==": left == right, ">=": left >= right}.get(operator)
            if not holds:
                raise UnsupportedNodeError(f"{otherwise}: {left} {operator} {right} does not hold")
            return
        if self.facts.proves(condition):
            return
        if self.facts.example(condition) is None:
            raise UnsupportedNodeError(f"{otherwise}: {condition} never holds")
        self.state(condition)
        self._needs.append(condition)

    def state(self, condition: Compare) -> None:
        """Assume a condition, and state it in the program."""
        self.facts = self.facts.assume(condition)
        self.stated.append(condition)

    def same(self, left: Size, right: Size) -> bool:
        """True if two sizes are known to be equal."""
        if left == right:
            return True
        if isinstance(left, int) and isinstance(right, int):
            return False
        return self.facts.proves(Compare("==", left, right))

    def same_shape(self, left: Sequence[Size], right: Sequence[Size]) -> bool:
        """True if two shapes are known to be equal."""
        return len(left) == len(right) and all(map(self.same, left, right))
