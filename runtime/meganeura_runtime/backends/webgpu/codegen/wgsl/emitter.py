"""Expressions written as WGSL, each once, in the outermost loop that knows what it depends on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

from meganeura_dsl.ir.types import DType
from meganeura_runtime.backends.webgpu.codegen.wgsl.affine import (
    WORD,
    Affine,
    Atom,
    Axis,
    BoundsCheck,
    Expression,
    Inside,
    Loaded,
    Quotient,
    Remainder,
    bounds,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.expression import (
    Call,
    Choice,
    Literal,
    Load,
    Number,
    Register,
)
from meganeura_runtime.backends.webgpu.codegen.wgsl.literal import literal, memory_type


@dataclass(frozen=True, slots=True)
class _Entry:
    """Neighbours in memory that are read at once, by the number of the entry."""

    tensor: int
    dtype: DType
    index: Affine


@dataclass(frozen=True, slots=True)
class HalfRun:
    """Neighbours of a tensor that memory holds in f16: one, or several that are read at once."""

    first: Load
    guards: tuple[BoundsCheck, ...]
    """Conditions without which all are 0."""
    width: int
    """1, 4 or 8."""


Node = Expression | Atom | BoundsCheck | Affine | _Entry | tuple[BoundsCheck, ...]


@dataclass
class _Scope:
    """A block being written: its lines, and the names it has given to what it computed."""

    lines: list[str] = field(default_factory=list[str])
    names: dict[Node, str] = field(default_factory=dict["Node", str])


class WgslEmitter:
    """The body of one kernel, from the outside in."""

    def __init__(self, halves: Container[int] = ()) -> None:
        """`halves` are the tensors of f32 whose elements lie in memory as f16."""
        self._halves = halves
        self.vec4s: frozenset[int] = frozenset()
        """Tensors bound as arrays of four elements each."""
        self.vec8s: Collection[int] = ()
        """Tensors of halves bound as arrays of eight each, in four words."""
        self.tensors: list[int] = []
        self.dtypes: dict[int, DType] = {}
        self._scopes = [_Scope()]
        self._axes: dict[str, int] = {}
        self._depths: dict[Node, int] = {}
        self._floor = 0
        self._count = 0

    @property
    def lines(self) -> list[str]:
        """The lines written so far, all blocks closed."""
        return self._scopes[0].lines

    def line(self, text: str) -> None:
        """A statement at the current position."""
        self._scopes[-1].lines.append(text)

    def axis(self, axis: Axis, text: str) -> None:
        """Declare a variable of the current block that indices may use."""
        self._axes[axis.name] = len(self._scopes) - 1
        self.line(f"let {axis.name} = {text};")

    def register(self, name: str, text: str) -> None:
        """Name a value of the current block that `Register`s stand for."""
        self._axes[name] = len(self._scopes) - 1
        self.line(f"let {name} = {text};")

    @contextmanager
    def loop(self, axis: Axis) -> Generator[None]:
        """A block run for every value of an axis."""
        with self.span(axis, "0u", f"{axis.size}u"):
            yield

    @contextmanager
    def span(self, axis: Axis, start: str, stop: str) -> Generator[None]:
        """A block run for the values of an axis from one on, up to another one."""
        name = axis.name
        with self.block(f"for (var {name} = {start}; {name} < {stop}; {name}++)"):
            self._axes[name] = len(self._scopes) - 1
            yield

    @contextmanager
    def walk(self, axis: Axis, start: Affine) -> Generator[None]:
        """A block run from a value of an axis on, until what it goes on with is no value of it."""
        self.line(f"var {axis.name} = {self.index(start)};")
        with self.block(f"while ({axis.name} < {axis.size}u)"):
            self._axes[axis.name] = len(self._scopes) - 1
            yield

    @contextmanager
    def condition(self, text: str) -> Generator[None]:
        """A block run only where a condition holds; nothing made in it is moved out of it."""
        before = self._floor
        with self.block(f"if ({text})"):
            self._floor = len(self._scopes) - 1
            yield
        self._floor = before

    @contextmanager
    def block(self, header: str) -> Generator[None]:
        """Opens a block; expressions that do not depend on it are written before it."""
        self._scopes.append(_Scope())
        yield
        inner = self._scopes.pop()
        self.line(f"{header} {{")
        self._scopes[-1].lines.extend(f"    {line}" for line in inner.lines)
        self.line("}")

    def buffer(self, tensor: int, dtype: DType) -> str:
        """The name a tensor is bound under."""
        if tensor not in self.dtypes:
            self.dtypes[tensor] = self._kept_as(tensor, dtype)
            self.tensors.append(tensor)
        return f"b{self.tensors.index(tensor)}"

    def store(self, tensor: int, dtype: DType, index: Affine, value: str) -> None:
        """Write an element to memory."""
        target = f"{self.buffer(tensor, dtype)}[{self.index(index)}]"
        self.line(f"{target} = {_stored(self._kept_as(tensor, dtype), value)};")

    def store_vec4(self, tensor: int, dtype: DType, index: Affine, values: Sequence[str]) -> None:
        """Write four neighbours at once, from the element at `index` on."""
        target = f"{self.buffer(tensor, dtype)}[{self.index(quarter(index))}]"
        kept_as = self._kept_as(tensor, dtype)
        parts = ", ".join(_stored(kept_as, value) for value in values)
        self.line(f"{target} = vec4<{memory_type(kept_as)}>({parts});")

    def _kept_as(self, tensor: int, dtype: DType) -> DType:
        """Returns the type of a tensor's elements in memory."""
        return DType.F16 if tensor in self._halves else dtype

    def value(self, expression: Expression) -> str:
        """The name of a computed element, or the constant it is."""
        match expression:
            case Literal(dtype=dtype, value=value):
                return literal(value, dtype)
            case Register(name=name):
                return name
            case Number(dtype=dtype, index=index):
                return f"{dtype.value}({self.index(index)})"
            case _:
                return self._named(expression, "v", lambda: self._compute(expression))

    def _compute(self, expression: Expression) -> str:
        match expression:
            case Load(dtype=dtype, tensor=tensor, index=index):
                element = self._element(tensor, dtype, index)
                if dtype is DType.BOOL:
                    return f"{element} != 0u"
                is_half = self._kept_as(tensor, dtype) is DType.F16
                return f"f32({element})" if is_half else element
            case Call(template=template, operands=operands):
                return template.format(*(self.value(operand) for operand in operands))
            case Choice(outside=outside):
                guards, inside = _nested(expression)
                chosen, other = self.value(inside), self.value(outside)
                return f"select({other}, {chosen}, {self._all(guards)})"
            case _:
                raise TypeError(f"{expression} has no text")

    def _element(self, tensor: int, dtype: DType, index: Affine) -> str:
        width = self._width(tensor)
        if width == 1:
            return f"{self.buffer(tensor, dtype)}[{self.index(index)}]"
        text, place = self._together(tensor, dtype, index), index.constant % width
        if width == 8:
            return f"unpack2x16float({text}.{'xyzw'[place // 2]}).{'xy'[place % 2]}"
        return f"{text}.{'xyzw'[place]}"

    def _width(self, tensor: int) -> int:
        """The number of elements of one entry of the array that a tensor is bound as."""
        return 8 if tensor in self.vec8s else 4 if tensor in self.vec4s else 1

    def _together(self, tensor: int, dtype: DType, index: Affine) -> str:
        """The name of the neighbours that an element is read with."""
        entry = _Entry(tensor, dtype, share(index, self._width(tensor)))
        return self._named(
            entry, "q", lambda: f"{self.buffer(tensor, dtype)}[{self.index(entry.index)}]"
        )

    def halves(self, run: HalfRun) -> str:
        """Neighbours as memory holds them in f16, or zeros where their guards fail."""
        load = run.first
        kind = {1: "f16", 4: "vec4<f16>", 8: "vec4<u32>"}[run.width]
        read = self._element if run.width == 1 else self._together
        text = read(load.tensor, load.dtype, load.index)
        return f"select({kind}(), {text}, {self._all(run.guards)})" if run.guards else text

    def half_run(self, elements: Sequence[Expression]) -> HalfRun | None:
        """One element, or four or eight that are read at once, if memory holds them in f16."""
        guards, first = _guarded(elements[0])
        if not isinstance(first, Load) or self._kept_as(first.tensor, first.dtype) is not DType.F16:
            return None
        width, together = len(elements), self._width(first.tensor)
        if width != together or first.index.constant % width:
            return None
        if width > 1:
            for place, element in enumerate(elements):
                others, load = _guarded(element)
                if not isinstance(load, Load) or load.tensor != first.tensor:
                    return None
                if others != guards or load.index != first.index + place:
                    return None
        return HalfRun(first, guards, width)

    def guard(self, guard: BoundsCheck) -> str:
        """The condition under which a guarded position counts."""
        return self._named(guard, "g", lambda: self._condition(guard))

    def _all(self, guards: tuple[BoundsCheck, ...]) -> str:
        if len(guards) == 1:
            return self.guard(guards[0])
        return self._named(guards, "g", lambda: " && ".join(map(self.guard, guards)))

    def _condition(self, guard: BoundsCheck) -> str:
        low, high = bounds(guard.position)
        position = self._factor(guard.position)
        if guard.step == 1:
            return f"{position} < {guard.size}u"
        on_grid = f"{position} % {guard.step}u == 0u"
        if low >= 0 and high < guard.size * guard.step:
            return on_grid
        return f"{on_grid} && {position} / {guard.step}u < {guard.size}u"

    def index(self, index: Affine) -> str:
        """A position as u32 text; what outer blocks know of it is added up there."""
        by_depth: dict[int, list[tuple[Atom, int]]] = {}
        for term in index.terms:
            by_depth.setdefault(self._depth(term[0]), []).append(term)
        if len(by_depth) < 2:
            return _sum(index.constant, [(self._atom(atom), n) for atom, n in index.terms])
        deepest = max(by_depth)
        outer = tuple(term for term in index.terms if self._depth(term[0]) < deepest)
        base = self._factor(Affine(0, outer))
        terms = [(base, 1), *((self._atom(atom), n) for atom, n in by_depth[deepest])]
        return _sum(index.constant, terms)

    def _factor(self, index: Affine) -> str:
        """A position as text that binds tighter than any operator."""
        if not index.terms:
            return _sum(index.constant, [])
        if index.constant == 0 and len(index.terms) == 1 and index.terms[0][1] == 1:
            return self._atom(index.terms[0][0])
        return self._named(index, "n", lambda: self.index(index))

    def _atom(self, atom: Atom) -> str:
        match atom:
            case Axis(name, _):
                return name
            case Quotient() | Remainder() | Inside() | Loaded():
                return self._named(atom, "n", lambda: self._position(atom))

    def _position(self, atom: Quotient | Remainder | Inside | Loaded) -> str:
        match atom:
            case Quotient(numerator, divisor):
                return f"{self._factor(numerator)} / {divisor}u"
            case Remainder(numerator, divisor):
                return f"{self._factor(numerator)} % {divisor}u"
            case Inside(guard):
                position = self._factor(guard.position)
                inside = position if guard.step == 1 else f"{position} / {guard.step}u"
                return f"select(0u, {inside}, {self.guard(guard)})"
            case Loaded(expression):
                text = self.value(expression)
                return f"bitcast<u32>({text})" if expression.dtype is DType.I32 else text
            case _:
                assert_never(atom)

    def _named(self, node: Node, letter: str, text: Callable[[], str]) -> str:
        """The name of what a node computes, which is written down at its first use."""
        for scope in self._scopes:
            if node in scope.names:
                return scope.names[node]
        depth = max(self._depth(node), self._floor)
        computed = text()
        name = f"{letter}{self._count}"
        self._count += 1
        self._scopes[depth].lines.append(f"let {name} = {computed};")
        self._scopes[depth].names[node] = name
        return name

    def _depth(self, node: Node) -> int:
        """The innermost block a node depends on."""
        known = self._depths.get(node)
        if known is None:
            known = self._depths[node] = self._find_depth(node)
        return known

    def _find_depth(self, node: Node) -> int:
        match node:
            case Axis(name, _):
                return self._axes[name]
            case Affine(_, terms):
                return self._deepest([atom for atom, _ in terms])
            case Quotient(part, _) | Remainder(part, _) | BoundsCheck(position=part):
                return self._depth(part)
            case Inside(part) | Loaded(part):
                return self._depth(part)
            case Load(index=part) | Number(index=part) | _Entry(index=part):
                return self._depth(part)
            case Call(operands=operands):
                return self._deepest(operands)
            case tuple():
                return self._deepest(node)
            case Register(name=name):
                return self._axes.get(name.partition(".")[0], 0)
            case Choice(guard=guard, inside=inside, outside=outside):
                return self._deepest([guard, inside, outside])
            case _:
                return 0

    def _deepest(self, nodes: Sequence[Node]) -> int:
        return max((self._depth(node) for node in nodes), default=0)

    def bound_type(self, tensor: int) -> str:
        """The type of the elements that a tensor is bound as."""
        if tensor in self.vec8s:
            return "vec4<u32>"
        element = memory_type(self.dtypes[tensor])
        return f"vec4<{element}>" if tensor in self.vec4s else element


def _nested(choice: Choice) -> tuple[tuple[BoundsCheck, ...], Expression]:
    """Returns the innermost choice and its guards: one `select` does for all."""
    guards, inside = (choice.guard,), choice.inside
    while isinstance(inside, Choice) and inside.outside is choice.outside:
        guards, inside = (*guards, inside.guard), inside.inside
    return guards, inside


def _guarded(element: Expression) -> tuple[tuple[BoundsCheck, ...], Expression]:
    """Returns an element and the guards without which it is 0."""
    if not isinstance(element, Choice):
        return (), element
    is_zero = isinstance(element.outside, Literal) and element.outside.value == 0
    return _nested(element) if is_zero else ((), element)


def is_aligned(index: Affine, width: int = 4) -> bool:
    """True if an element always has the same place among so many neighbours."""
    return all(count % width == 0 for _, count in index.terms)


def quarter(index: Affine) -> Affine:
    """The number of the four neighbours that an element is among; raises as `share` does."""
    return share(index, 4)


def share(index: Affine, width: int) -> Affine:
    """The number of the `width` neighbours that an element is among.

    Raises `ValueError` for one that has different places among them: a kernel that took it for
    aligned would read another element.
    """
    if not is_aligned(index, width):
        raise ValueError(f"{index} is not aligned")
    terms = tuple((atom, count // width) for atom, count in index.terms)
    return Affine(index.constant // width, terms)


def _stored(dtype: DType, value: str) -> str:
    match dtype:
        case DType.BOOL:
            return f"select(0u, 1u, {value})"
        case DType.F16:
            return f"f16({value})"
        case DType.F32 | DType.I32 | DType.U32:
            return value


def _sum(constant: int, terms: Sequence[tuple[str, int]]) -> str:
    """`a * 4u + b - c + 3u`; a sum that begins with what it subtracts begins with its constant."""
    text = ""
    positive = [term for term in terms if term[1] > 0]
    for name, factor in (*positive, *(term for term in terms if term[1] < 0)):
        product = name if abs(factor) == 1 else f"{name} * {abs(factor)}u"
        if not text:
            text = product if factor > 0 else f"{constant % WORD}u - {product}"
            constant = constant if factor > 0 else 0
        else:
            text += f" {'+' if factor > 0 else '-'} {product}"
    if not text:
        return f"{constant % WORD}u"
    if constant:
        text += f" {'+' if constant > 0 else '-'} {abs(constant)}u"
    return text
