"""One node of an ONNX graph, with its operands, as the table of ops sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.types import DType, Shape, TensorType
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_runtime.importing.onnx.builder import Builder, Stored, UnsayableError
from meganeura_runtime.importing.onnx.code import Tensor, Words
from meganeura_runtime.importing.onnx.names import Paths, path_words, scope_of


@dataclass(frozen=True, eq=False)
class Known:
    """Numbers that are known before any data is; of whole numbers some may be sizes."""

    array: Array
    dtype: DType
    name: str = ""
    """The initializer it is, or empty."""
    is_turned: bool = False
    """Whether it is that initializer transposed."""

    @property
    def shape(self) -> Shape:
        """Its sizes."""
        return self.array.shape

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return self.array.ndim

    @property
    def is_symbolic(self) -> bool:
        """Whether some of it are sizes that are not numbers."""
        return self.array.dtype == object

    @property
    def numbers(self) -> list[Size]:
        """All of it in one row, as Python's numbers or sizes."""
        return [plain(each) for each in self.array.reshape(-1)]


Value = Tensor | Known


def element_of(of: np.dtype[Any]) -> DType:
    """The element type of the program for an array's; wide ones become narrow."""
    if of.kind == "f":
        return DType.F16 if of.itemsize == 2 else DType.F32
    if of.kind == "b":
        return DType.BOOL
    return DType.U32 if of == np.uint32 else DType.I32


def plain(number: Any) -> Size:  # noqa: ANN401 - an element of any array
    """An element of an array as Python's own number, or as the size it is."""
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
    """How many nodes read each initializer."""
    follower: Known | None = None
    """What is added to the result by the only node that reads it, if that is constant."""
    is_absorbed: bool = False
    """Whether this node took the one that follows into its own."""

    # --- operands --------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """Whether there is an operand at a place."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def value(self, index: int) -> Value:
        """An operand, known or not."""
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise UnsayableError(f"operand {index} is missing")
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
        if isinstance(found, Tensor) or found.array.size != 1:
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
        raise UnsayableError(f"its {what} depend on data")

    def sizes(self, index: int, what: str) -> list[Size]:
        """An operand that has to be known, as sizes or whole numbers."""
        found = self.numbers(index, what)
        whole = [
            each for each in found if isinstance(each, int | Dim) and not isinstance(each, bool)
        ]
        if len(whole) < len(found):
            raise UnsayableError(f"its {what} are no whole numbers")
        return whole

    def integers(self, index: int, what: str) -> list[int]:
        """An operand that has to be whole numbers."""
        numbers = self.sizes(index, what)
        if any(isinstance(each, Dim) for each in numbers):
            raise UnsayableError(f"its {what} depend on sizes")
        return [int(each) for each in numbers]  # pyright: ignore[reportArgumentType] - none is a size

    def number(self, index: int, default: float) -> float:
        """An operand that has to be one number."""
        if not self.has(index):
            return default
        found = self.value(index)
        if isinstance(found, Known) and found.array.size == 1 and not found.is_symbolic:
            return found.array.reshape(-1)[0].item()
        raise UnsayableError(f"operand {index} is no constant")

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
            raise UnsayableError(f"there is no axis {axis} of {rank}")
        return axis % rank

    def attribute(self, name: str, default: Any) -> Any:  # noqa: ANN401 - as the file has it
        """An attribute, or what it is if it is not given."""
        return self.attributes.get(name, default)

    def wants(self, index: int) -> bool:
        """Whether a result is named."""
        return index < len(self.outputs) and bool(self.outputs[index])

    # --- layers of the library -------------------------------------------------------------------

    def is_own(self, known: Value | None) -> bool:
        """Whether an operand is an initializer, of f32 as in layers, that no other node reads."""
        return (
            isinstance(known, Known)
            and bool(known.name)
            and known.dtype is DType.F32
            and self.sites[known.name] == 1
        )

    def label(self, parts: Mapping[str, Known], default: str) -> Words:
        """The path of a layer with these parameters: what their names have in common.

        Where they have nothing in common, the name of the node says it, unless initializers lie
        below that, or the default.
        """
        stems = [
            known.name.removesuffix(f".{suffix}")
            for suffix, known in parts.items()
            if known.name.endswith(f".{suffix}")
        ]
        if stems:
            return self.paths.layer(path_words(stems[0], is_label=True))
        scope = path_words(scope_of(self.name), is_label=True)
        if scope_of(self.name) and scope not in self.paths.above:
            return self.paths.layer(scope)
        return self.paths.fresh(default)

    def keep(
        self, label: Words, suffix: str, array: Array, origin: str, kind: str = "param"
    ) -> None:
        """Values of a parameter that a layer declares."""
        words = (*label, suffix)
        dtype = element_of(array.dtype)
        of, array = TensorType(dtype, array.shape), narrowed(Known(array, dtype))
        self.build.stored[".".join(map(str, words))] = Stored(words, kind, of, array, origin)

    # --- constants as values ---------------------------------------------------------------------

    def written(self, known: Known) -> Tensor:
        """What is known, as a value: a number, a row of numbers, or a parameter."""
        build, array = self.build, known.array
        if known.is_symbolic:
            return self._sizes_written(known)
        if array.size == 0:
            raise UnsayableError("a constant has no elements")
        if known.is_turned:
            return build.transpose(self.written(Known(array.T, known.dtype, known.name)), (1, 0))
        first = array.reshape(-1)[0]
        is_weight = bool(known.name) and known.dtype.is_float
        if array.size == 1 or (not is_weight and bool((array == first).all())):
            return build.filled(first.item(), known.dtype, array.shape)
        if known.dtype is DType.I32 and np.array_equal(array, np.arange(array.size)):
            return build.iota(array.size)
        if known.dtype is DType.BOOL:
            ones = Known(array.astype(np.int64), DType.I32, known.name)
            return build.cast(self.written(ones), DType.BOOL)
        kind = "param" if is_weight else "frozen param"
        words = self.paths.of(known.name) if known.name else self.paths.fresh("constant")
        return self._stored(words, kind, known)

    def _stored(self, words: Words, kind: str, known: Known) -> Tensor:
        build = self.build
        for each in build.stored.values():
            if each.words == words:
                return self.paths.written[words]
        of = TensorType(known.dtype, known.array.shape)
        built = build.parameter(Stored(words, kind, of, narrowed(known), known.name))
        self.paths.written[words] = built
        return built

    def _sizes_written(self, known: Known) -> Tensor:
        parts = [self.build.filled(each, known.dtype) for each in known.numbers]
        if known.rank == 0:
            return parts[0]
        row = self.build.concat([self.build.reshape(each, (1,)) for each in parts], 0)
        return self.build.reshape(row, known.shape)


def narrowed(known: Known) -> Array:
    """Numbers in the element type that the program has them in."""
    array = known.array
    if known.dtype is DType.I32 and array.dtype != np.int32:
        limits = np.iinfo(np.int32)
        if array.min() < limits.min or array.max() > limits.max:
            raise UnsayableError("a whole number has more than 32 bits")
        return array.astype(np.int32)
    if known.dtype is DType.F32 and array.dtype != np.float32:
        with np.errstate(over="ignore"):
            return array.astype(np.float32)
    return array
