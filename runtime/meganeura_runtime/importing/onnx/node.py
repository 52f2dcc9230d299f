"""One node of an ONNX graph, with its operands, as the table of ops sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import (
    Code,
    LabelPath,
    Level,
    Limits,
    Piece,
    Tensor,
    Words,
)
from meganeura_runtime.importing.onnx.import_problems import UnsupportedNodeError
from meganeura_runtime.importing.onnx.levels import Levels
from meganeura_runtime.importing.onnx.names import Paths, path_words, scope_of
from meganeura_runtime.importing.onnx.statements import Kept, Stored


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers that are known before any data is; of whole numbers some may be sizes."""

    array: Array
    dtype: DType
    name: str = ""
    """The initializer it is, or empty."""
    is_turned: bool = False
    """True if it is that initializer transposed."""
    is_parameter: bool = False
    """True if the file says that it is trained, so that it is no mere number."""
    open_shape: Shape | None = None
    """Its sizes, if it has no elements and some of them are not numbers."""
    limits: Limits | None = None
    """Its limits in the file, if they are those of few bits that NumPy's types do not say."""
    levels: Levels | None = None
    """The levels that it was dequantized from."""

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return self.array.shape if self.open_shape is None else self.open_shape

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return self.array.ndim

    @property
    def turned(self) -> "Known":
        """The transpose of a matrix, which remembers what it is."""
        levels = self.levels and self.levels.turned
        return replace(self, array=self.array.T, is_turned=not self.is_turned, levels=levels)

    @property
    def is_symbolic(self) -> bool:
        """True if some of it are sizes that are not numbers."""
        return self.array.dtype == object

    @property
    def numbers(self) -> list[Size]:
        """All of it in one row, as Python's numbers or sizes."""
        return [plain(each) for each in self.array.reshape(-1)]


Value = Tensor | Known
SMALL = 1 << 16
"""Elements of a constant without a name that is compared with others."""
ARRAYS: Mapping[DType, str] = {
    DType.F32: "f4", DType.F16: "f2", DType.I32: "i8", DType.U32: "u4", DType.BOOL: "?",
}  # fmt: skip
"""The type of an array of constants of an element type; whole numbers are checked when written."""


@dataclass(frozen=True)
class Part:
    """A parameter or a state of a layer of the library, and the constant that it holds."""

    known: Known
    kind: str = "param"
    is_flipped: bool = False
    """True if the layer has the transpose of the constant."""

    @property
    def array(self) -> Array:
        """The values that the layer has."""
        return np.asarray(self.placed.array, order="C")

    @property
    def placed(self) -> Known:
        """The constant as the layer has it."""
        return self.known.turned if self.is_flipped else self.known

    @property
    def is_turned(self) -> bool:
        """True if these are the transpose of the initializer."""
        return self.is_flipped != self.known.is_turned

    def is_trained(self, constants: frozenset[str]) -> bool:
        """True if it is an initializer that is trained; a constant of a node is not."""
        return bool(self.known.name) and self.known.name not in constants


def without_elements(dtype: DType, shape: Shape) -> Known:
    """A tensor of which an axis has size 0; the program has no such value."""
    sizes = tuple(each if isinstance(each, int) else 1 for each in shape)
    return Known(np.zeros(sizes, ARRAYS[dtype]), dtype, open_shape=shape)


def element_of(of: np.dtype[Any]) -> DType:
    """The element type of the program for an array's; wide ones become narrow."""
    if of.kind == "f":
        return DType.F16 if of.itemsize == 2 else DType.F32
    if of.kind == "b":
        return DType.BOOL
    return DType.U32 if of == np.uint32 else DType.I32


def plain(number: Any) -> Size:  # noqa: ANN401 - an element of any array
    """An element of an array as a Python number, or as a `Size` if it is symbolic."""
    return (
        number if isinstance(number, Dim) else number.item() if hasattr(number, "item") else number
    )


def known_sizes(sizes: Sequence[Size] | Size) -> Known:
    """Sizes as ONNX has them: whole numbers."""
    array = np.array(sizes, dtype=object) if not isinstance(sizes, Dim) else _scalar(sizes)
    return Known(settled(array), DType.I32)


def _scalar(size: Dim) -> Array:
    array = np.empty((), dtype=object)
    array[()] = size
    return array


def settled(array: Array) -> Array:
    """An array of objects as one of numbers, if none of them is symbolic."""
    if array.dtype == object and not any(isinstance(each, Dim) for each in array.reshape(-1)):
        return array.astype(np.int64)
    return array


@dataclass
class Node:
    """A node, its operands and attributes, and the statements it adds to."""

    op: str
    name: str
    inputs: Sequence[Value | None]
    outputs: Sequence[str]
    attributes: Mapping[str, Any]
    opset: int
    build: Builder
    paths: Paths
    sites: Mapping[str, int]
    """The number of nodes that read each initializer."""
    constants: frozenset[str] = frozenset()
    """The initializers that are not trained."""
    tracked: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of batches that batch norms have seen, by the names of these counts."""
    in_loop: bool = False
    """True if the node stands in the iterations of a loop."""
    follower: Known | None = None
    """The constant that the only reader of the result adds to it, if any."""
    is_absorbed: bool = False
    """True if this node took the one that follows into its own."""

    # --- operands --------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """True if there is an operand at a place."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """An operand, known or not."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise UnsupportedNodeError(f"operand {index} is missing")
        return found

    def tensor(self, index: int) -> Tensor:
        """An operand as a value of the program; what is known is written out."""
        found = self.value(index)
        return found if isinstance(found, Tensor) else self.written(found)

    def tensors(self) -> list[Tensor]:
        """All operands."""
        return [self.tensor(index) for index in range(len(self.inputs))]

    def operand(self, index: int) -> Tensor | float | Size:
        """An operand for arithmetic: a number of any rank that broadcasts is just a number."""
        found = self.value(index)
        if isinstance(found, Tensor) or found.array.size != 1 or found.is_parameter:
            return self.tensor(index)
        others = [each for each in self.inputs if each is not None and each is not found]
        if not any(isinstance(each, Tensor) and each.rank >= found.rank for each in others):
            return self.tensor(index)
        number = found.numbers[0]
        is_usual = isinstance(number, Dim) or bool(np.isfinite(number))
        return number if is_usual else self.tensor(index)

    def numbers(self, index: int, what: str) -> list[Size | float]:
        """An operand that has to be known, as sizes or numbers of any kind."""
        found = self.value(index)
        if isinstance(found, Known):
            return list(found.numbers)
        raise UnsupportedNodeError(f"its {what} depend on data")

    def sizes(self, index: int, what: str) -> list[Size]:
        """An operand that has to be known, as sizes or whole numbers."""
        found = self.numbers(index, what)
        whole = [
            each for each in found if isinstance(each, int | Dim) and not isinstance(each, bool)
        ]
        if len(whole) < len(found):
            raise UnsupportedNodeError(f"its {what} are no whole numbers")
        return whole

    def integers(self, index: int, what: str) -> list[int]:
        """An operand that has to be whole numbers."""
        numbers = self.sizes(index, what)
        if any(isinstance(each, Dim) for each in numbers):
            raise UnsupportedNodeError(f"its {what} depend on sizes")
        return [int(each) for each in numbers]  # pyright: ignore[reportArgumentType] - none is a size

    def number(self, index: int, default: float) -> float:
        """An operand that has to be one number."""
        if not self.has(index):
            return default
        found = self.value(index)
        if isinstance(found, Known) and found.array.size == 1 and not found.is_symbolic:
            return found.array.reshape(-1)[0].item()
        raise UnsupportedNodeError(f"operand {index} is no constant")

    def axes(self, index: int, since: int) -> list[int] | None:
        """Axes, an attribute in old opsets and operand `index` since a newer one."""
        rank = self.value(0).rank
        if self.opset < since or "axes" in self.attributes:
            found = self.attributes.get("axes")
            return None if found is None else [self.checked_axis(each, rank) for each in found]
        if not self.has(index):
            return None
        return [self.checked_axis(each, rank) for each in self.integers(index, "axes")]

    def axis(self, default: int, rank: int | None = None, name: str = "axis") -> int:
        """The attribute that is an axis, counted from the front."""
        found = self.attributes.get(name, default)
        return self.checked_axis(found, self.value(0).rank if rank is None else rank)

    def checked_axis(self, axis: int, rank: int) -> int:
        """An axis counted from the front."""
        if not -rank <= axis < rank:
            raise UnsupportedNodeError(f"there is no axis {axis} of {rank}")
        return axis % rank

    def attribute(self, name: str, default: Any) -> Any:  # noqa: ANN401 - as the file has it
        """An attribute, or what it is if it is not given."""
        return self.attributes.get(name, default)

    def wants(self, index: int) -> bool:
        """True if a result is named."""
        return index < len(self.outputs) and bool(self.outputs[index])

    # --- layers of the library -------------------------------------------------------------------

    def is_own(self, known: Value | None) -> bool:
        """True if an operand is an initializer that a layer may keep: finite, and of f32.

        Other nodes may read it too, but for one in the iterations of a loop.
        """
        return (
            isinstance(known, Known)
            and bool(known.name)
            and known.dtype is DType.F32
            and (self.sites[known.name] == 1 or not self.in_loop)
            and bool(np.isfinite(narrowed(known)).all())
        )

    def layer(
        self, callee: str, x: Tensor, config: Sequence[tuple[Piece, ...]],
        parts: Mapping[str, Part], default: str, shape: Sequence[Size] | None = None,
        dtype: DType | None = None,
    ) -> Tensor | None:  # fmt: skip
        """A layer of the library that keeps these parts, None where it cannot keep them all.

        Its parameters are trained, or none of them is. What another layer keeps is kept once: the
        same layer is applied again, and for another layer of other parts there is no form.
        """
        build = self.build
        params = [each for each in parts.values() if each.kind == "param"]
        trained = {each.is_trained(self.constants) for each in params}
        if len(trained) > 1:
            return None
        if trained == {False}:  # a path that is read elsewhere is trained
            if any(self.sites[each.known.name] > 1 for each in params if each.known.name):
                return None
            config = [*config, ("frozen=true",)]
        names = {suffix: each.known.name for suffix, each in parts.items()}
        key = (callee, tuple(config), tuple(names.items()))
        label = build.layers.get(key)
        if label is None:
            if any(name in build.kept for name in names.values()):
                return None
            if _stem({suffix: each.known for suffix, each in parts.items()}) in self.paths.apart:
                return None
            label = self.label({suffix: each.known for suffix, each in parts.items()}, default)
            build.layers[key] = label
            for suffix, part in parts.items():
                self.keep(label, suffix, part)
        return build.block(callee, x, *config, shape=shape, label=label, dtype=dtype)

    def label(self, parts: Mapping[str, Known], default: str) -> Words:
        """The path of a layer with these parameters: what their names have in common.

        Where they have nothing in common, the name of the node says it, unless initializers lie
        below that, or the default.
        """
        stem = _stem(parts)
        if stem is not None:
            return self.paths.layer(stem)
        scope = path_words(scope_of(self.name), is_label=True)
        if scope_of(self.name) and scope not in self.paths.above:
            return self.paths.layer(scope)
        return self.paths.fresh(default)

    def steps_of(self, statistics: Known) -> Known:
        """Returns the number of batches behind a batch norm's statistics, if it is known."""
        name = f"{statistics.name.rpartition('.')[0]}.num_batches_tracked".lstrip(".")
        return Known(np.array(self.tracked.get(name, 0), np.int32), DType.I32)

    def keep(self, label: Words, suffix: str, part: Part) -> None:
        """Values of a parameter that a layer declares."""
        words, known, array = (*label, suffix), part.known, part.array
        of, values = TensorType(known.dtype, array.shape), narrowed(Known(array, known.dtype))
        is_constant = not part.is_trained(self.constants)
        levels = part.placed.levels
        stored = Stored(words, part.kind, of, values, known.name, levels, is_constant)
        self.build.stored[".".join(map(str, words))] = stored
        if known.name:
            self.build.kept[known.name] = Kept(words, of, part.is_turned)

    # --- constants as values ---------------------------------------------------------------------

    def written(self, known: Known) -> Tensor:
        """Returns a known array as a value: a number, a row of numbers, or a parameter."""
        build, array = self.build, known.array
        if known.is_symbolic:
            return self._sizes_written(known)
        if array.size == 0:
            raise UnsupportedNodeError("a constant has no elements")
        kept = build.kept.get(known.name)
        if kept is not None and kept.words not in self.paths.written:
            path = Code((LabelPath(kept.words),), Level.ATOM)
            value = build.add(path, known.dtype, kept.type.shape)
            return build.transpose(value, (1, 0)) if known.is_turned != kept.is_turned else value
        if known.is_turned:
            return build.transpose(self.written(known.turned), (1, 0))
        if known.dtype.is_float and array.size > 1 and not np.isfinite(narrowed(known)).all():
            return self._with_infinities(known)
        first = array.reshape(-1)[0]
        is_weight = bool(known.name) and known.dtype.is_float
        is_number = array.size == 1 and not known.is_parameter
        if is_number or (not is_weight and bool((array == first).all())):
            return build.filled(first.item(), known.dtype, array.shape)
        if known.dtype is DType.I32 and np.array_equal(array, np.arange(array.size)):
            return build.iota(array.size)
        diagonal = None if known.name else _diagonal(array)
        if diagonal is not None:
            return build.expand(build.triangle(array.shape[-2:], *diagonal), array.shape)
        if known.dtype is DType.BOOL:
            ones = Known(array.astype(np.int64), DType.I32, known.name)
            return build.cast(self.written(ones), DType.BOOL)
        is_trained = is_weight and known.name not in self.constants
        kind = "param" if is_trained else "frozen param"
        if known.name:
            return self._stored(self.paths.of(known.name), kind, known)
        key = known.dtype, known.shape, array.tobytes() if array.size <= SMALL else object()
        if key not in build.constants:
            build.constants[key] = self._stored(self.paths.fresh("constant"), kind, known)
        return build.constants[key]

    def _stored(self, words: Words, kind: str, known: Known) -> Tensor:
        build = self.build
        for each in build.stored.values():
            if each.words == words:
                return self.paths.written[words]
        of = TensorType(known.dtype, known.array.shape)
        stored = Stored(words, kind, of, narrowed(known), known.name, known.levels)
        built = build.parameter(stored)
        self.paths.written[words] = built
        if known.name:
            build.kept[known.name] = Kept(words, of)
        return built

    def _with_infinities(self, known: Known) -> Tensor:
        """Floats of which some are infinite, which no file of weights may hold.

        The finite ones are as they would be, with 0 in place of the others, and the signs of the
        infinities are a tensor of their own.
        """
        array = narrowed(known)
        if np.isnan(array).any():
            raise UnsupportedNodeError(f"`{known.name or 'a constant'}` holds NaN")
        build, infinite = self.build, np.isinf(array)
        signs = np.where(infinite, np.sign(array), 0).astype(np.int64)
        words = self.paths.beside(self.paths.of(known.name) if known.name else ("constant",))
        sign = self._stored(words, "frozen param", Known(signs, DType.I32))
        rest = np.where(infinite, 0, array).astype(array.dtype)
        is_mask = not rest.any() and (not known.name or known.name in self.constants)
        value = 0.0 if is_mask else self.written(Known(rest, known.dtype, known.name))
        for number, operator in ((1, ">"), (-1, "<")):
            if (signs == number).any():
                infinity = build.filled(number * np.inf, known.dtype)
                value = build.where(build.binary(operator, sign, 0), infinity, value)
        assert isinstance(value, Tensor)
        return value

    def _sizes_written(self, known: Known) -> Tensor:
        parts = [self.build.filled(each, known.dtype) for each in known.numbers]
        if known.rank == 0:
            return parts[0]
        row = self.build.concat([self.build.reshape(each, (1,)) for each in parts], 0)
        return self.build.reshape(row, known.shape)


def _stem(parts: Mapping[str, Known]) -> Words | None:
    """Returns the path that the names of a layer's parameters have in common, if they do."""
    stems = (
        known.name.removesuffix(f".{suffix}")
        for suffix, known in parts.items()
        if known.name.endswith(f".{suffix}")
    )
    first = next(stems, None)
    return None if first is None else path_words(first, is_label=True)


def _diagonal(array: Array) -> tuple[str, int] | None:
    """Returns the operator and the diagonal of a `Builder.triangle`, if bools are one.

    They are [..., rows, columns], and the same for each matrix.
    """
    if array.dtype.kind != "b" or array.ndim < 2 or min(array.shape[-2:]) < 2:
        return None
    rows, columns = int(array.shape[-2]), int(array.shape[-1])
    apart = np.arange(columns) - np.arange(rows)[:, None]
    inside = apart[array.reshape(-1, rows, columns)[0]]
    if not inside.size:
        return None
    least, largest = int(inside.min()), int(inside.max())
    if (array == (apart >= least)).all():
        return ">=", least
    return ("<=", largest) if (array == (apart <= largest)).all() else None


def narrowed(known: Known) -> Array:
    """Numbers in the element type that the program has them in."""
    array = known.array
    if known.dtype is DType.I32 and array.dtype != np.int32:
        limits = np.iinfo(np.int32)
        if array.min() < limits.min or array.max() > limits.max:
            raise UnsupportedNodeError("a whole number has more than 32 bits")
        return array.astype(np.int32)
    if known.dtype is DType.F32 and array.dtype != np.float32:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    return array
