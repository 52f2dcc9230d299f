"""The e-graph's language, derived from the ops themselves: a constructor for each class and arity.

A constructor takes the operands, then every field of the op's dataclass, then the type of the
result. So two values share an e-class only if all of that agrees, and a rule that makes a value
has to say what type it makes. The name of a constructor has those of the optional operands.

    (Sum x (vec-of 1) (T "f32" (vec-of 2)))
    (Attention_mask q k v mask 0.125 false 0 1 0 (T "f32" (vec-of 2 8 64 64)))

Of an op with several results, the number of the result stands before its type. A body is known by
a number: rules do not look into it.
"""

import types
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from math import copysign
from typing import Literal, Union, cast, get_args, get_origin

from meganeura_dsl.ir.graph import Body, Leaf, Op
from meganeura_dsl.ir.ops import OPS
from meganeura_dsl.ir.ops.fused import FUSED_OPS
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.transforms.egraph.encoding.egglog_engine import quoted

OPAQUE = "Opaque"
"""The constructor of ops that rules cannot look into, known by a number."""
Sort = Literal["i64", "f64", "bool", "String", "Ints", "Body"]
Attribute = int | float | bool | str | DType | tuple[int, ...] | Body


class NotConcreteError(Exception):
    """An attribute that is no plain number, text or tuple of numbers."""


@dataclass(frozen=True)
class Constructor:
    """The constructor of values of one op and arity; `arity` is None if an op takes any number."""

    name: str
    op: type[Op]
    arity: int | None
    fields: tuple[tuple[str, Sort], ...]

    @property
    def sorts(self) -> tuple[str, ...]:
        """The sorts of its arguments: operands, attributes, type."""
        operands = ("Ops",) if self.arity is None else ("Op",) * self.arity
        return (*operands, *self.attributes, "Type")

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The sorts of the fields and, where there are several, of the number of the result."""
        index = ("i64",) if self.op.multiple_results else ()
        return (*("i64" if sort == "Body" else sort for _, sort in self.fields), *index)

    @cached_property
    def has_reals(self) -> bool:
        """True if a field holds real numbers, which egglog may not tell apart."""
        return any(sort == "f64" for _, sort in self.fields)

    @cached_property
    def _dtypes(self) -> frozenset[str]:
        """The fields that are types of elements."""
        return frozenset(field.name for field in fields(self.op) if field.type is DType)

    def make(self, attributes: Mapping[str, Attribute]) -> Op:
        """The op with these attributes."""
        return self.op(
            **{
                name: DType(value) if name in self._dtypes else value
                for name, value in attributes.items()
            }
        )


@cache
def constructors() -> dict[str, Constructor]:
    """The constructors of every op but leaves, which are opaque, by name."""
    every = (op for op in (*OPS, *FUSED_OPS) if not issubclass(op, Leaf))
    return {each.name: each for op in every for each in _constructors(op)}


def _constructors(op: type[Op]) -> Iterator[Constructor]:
    sorts: tuple[tuple[str, Sort], ...] = tuple(
        (field.name, sort_of(field.type)) for field in fields(op)
    )
    if op.operands.variadic:
        yield Constructor(op.__name__, op, None, sorts)
        return
    for count in op.operands.counts:
        yield Constructor(constructor_name(op, count), op, count, sorts)


def constructor_name(op: type[Op], count: int) -> str:
    """The name of an op with so many operands: of the class, and the optional ones it has."""
    optional = op.operands.optional[: count - len(op.operands.required)]
    return "_".join((op.__name__, *optional))


def sort_of(hint: object) -> Sort:
    """The sort that holds a field of this annotation."""
    if hint is DType or hint is str:
        return "String"
    if hint is bool:
        return "bool"
    if hint is Body:
        return "Body"
    if get_origin(hint) is Literal:
        return "String"
    if get_origin(hint) is tuple:
        return "Ints"
    if hint is float or float in _members(hint):
        return "f64"
    if hint is int or int in _members(hint):
        return "i64"
    raise TypeError(f"no sort holds {hint}")


def _members(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()


def declarations(names: Collection[str]) -> list[str]:
    """The sorts, the constructors of these names, and the two tables that every rule may read.

    `(Value n)` is the value number n of the graph that was loaded.
    """
    known = [each for name, each in constructors().items() if name in names]
    variants = " ".join(f"({each.name} {' '.join(each.sorts)})" for each in known)
    return [
        "(sort Ints (Vec i64))",
        "(datatype Type (T String Ints))",
        f"(datatype* (Op (Value i64) ({OPAQUE} i64 Type) {variants}) (sort Ops (Vec Op)))",
        "(function type (Op) Type :no-merge)",
        "(relation why (Op String))",
    ]


def literal(value: object, sort: Sort) -> str:
    """An attribute as egglog reads it."""
    match sort:
        case "i64" if isinstance(value, int):
            return str(value)
        case "f64" if isinstance(value, float | int):
            return real(float(value))
        case "bool" if isinstance(value, bool):
            return "true" if value else "false"
        case "String":
            return quoted(value.value if isinstance(value, DType) else str(value))
        case "Ints" if isinstance(value, tuple):
            return vector(cast("tuple[object, ...]", value))
        case _:
            raise NotConcreteError(f"{value!r} is no {sort}")


def real(value: float) -> str:
    """A float as egglog reads it, exactly."""
    return repr(value) if value == value else "NaN"  # noqa: PLR0124 - NaN alone differs from itself


def vector(values: tuple[object, ...]) -> str:
    """A vector of integers; raises `NotConcreteError` for a size that is still a symbol."""
    if not all(isinstance(value, int) for value in values):
        raise NotConcreteError(f"{values!r} holds a size that is no number")
    return f"(vec-of {' '.join(map(str, values))})" if values else "(vec-empty)"


def type_literal(of: TensorType) -> str:
    """A tensor type as egglog reads it."""
    return f'(T "{of.dtype.value}" {vector(of.shape)})'


def is_exact(op: Op) -> bool:
    """True if egglog can tell the op's attributes apart: to it 0.0 is -0.0."""
    values = (getattr(op, field.name) for field in fields(op))
    return not any(isinstance(value, float) and _is_confusing(value) for value in values)


def _is_confusing(value: float) -> bool:
    return value != value or (value == 0 and copysign(1, value) < 0)  # noqa: PLR0124
