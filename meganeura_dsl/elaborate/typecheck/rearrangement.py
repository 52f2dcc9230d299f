"""`source -> target`: the axes of a tensor split, moved and merged."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import eq

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.name_problems import UnknownAxis, UnknownName
from meganeura_dsl.elaborate.problems.pattern_cures import (
    factor_cure,
    numbers_apart_cure,
    numbers_cure,
    rank_cure,
)
from meganeura_dsl.elaborate.problems.proof_failures import deciding_fact, example_of, reversed_fact
from meganeura_dsl.elaborate.problems.shape_cures import order_cure, other_input_cure
from meganeura_dsl.elaborate.problems.shape_problems import (
    AmbiguousRearrangement,
    RearrangeMismatch,
)
from meganeura_dsl.elaborate.problems.width_cures import made_width
from meganeura_dsl.elaborate.problems.window_cures import window_cure
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.typecheck.pattern_readings import (
    first_fit,
    in_order,
    last_fit,
    other_order,
)
from meganeura_dsl.elaborate.typecheck.shape_patterns import Binder, Mismatch, size_names_of
from meganeura_dsl.elaborate.typecheck.value_origins import (
    axes_of_inputs,
    inputs_of,
    layer_behind,
    split_from,
)
from meganeura_dsl.elaborate.values import Axes, ElabValue, Pattern, Tensor, is_size
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import Shape
from meganeura_dsl.symbolic.assumptions import Compare, Refuted
from meganeura_dsl.symbolic.size import Size, product, show
from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Atom:
    """An axis that moves as a whole; `key` tells it from the others of the same rearrangement.

    The key is how the axis is written. Its size is no key: which axes are meant must not depend on
    which of them happen to be equal in one model.
    """

    key: str
    size: Size
    span: Span | None
    """The place of the size in the text, unless that is a product of a rest."""
    stem: str = ""
    """The name it has, if it is written as one."""


class Rearranger:
    """Reads `source -> target` beside a tensor and moves the axes."""

    def __init__(self, frame: Frame, span: Span, pattern: Pattern) -> None:
        self.span = span
        self.node = pattern.node
        names: dict[str, ElabValue] = {
            name: value
            for name, value in frame.names.items()
            if is_size(value) or isinstance(value, Axes)
        }
        self.outer = frame
        self.frame = Frame(
            frame.state, frame.module, frame.name, names, frame.path,
            parent=frame.parent, call_span=frame.call_span, choices=frame.choices,
        )  # fmt: skip

    def rearrange(self, value: Tensor) -> Tensor:
        """Split, transpose and merge axes; both sides hold the same elements."""
        source, target = self._sides(value)
        keys, flat = _keys(source), _flat(target)
        order = in_order(keys, _keys(flat))
        if order is None:
            raise self._refuse(
                "the two sides of the rearrangement hold different axes", value, keys, flat
            )
        other = other_order(keys, order)
        if other is not None:
            readings = dict(enumerate(order)), dict(enumerate(other))
            raise self._ambiguous(source, flat, *readings)
        value = self._split(value, source)
        if order != tuple(range(len(order))):
            value = self.outer.add(self.span, ops.Transpose(order), value)
        return self._merge(value, target)

    def expand(self, value: Tensor) -> Tensor:
        """Repeat along the axes that only the target names."""
        source, target = self._expanded(value)
        keys, flat = _keys(source), _flat(target)
        positions, others = first_fit(keys, _keys(flat)), last_fit(keys, _keys(flat))
        if positions is None or others is None:
            fault = "expand keeps every axis of the source, in order"
            raise self._refuse(fault, value, keys, flat)
        if positions != others:
            readings = ({at: axis for axis, at in enumerate(each)} for each in (positions, others))
            raise self._ambiguous(source, flat, *readings)
        value = self._split(value, source)
        shape = tuple(atom.size for atom in flat)
        if len(positions) < len(shape):
            value = self.outer.add(self.span, ops.Broadcast(shape, positions), value)
        return self._merge(value, target)

    def reduce(self, value: Tensor, fold: Callable[[Tensor, tuple[int, ...]], Tensor]) -> Tensor:
        """Fold the axes that only the source names."""
        source, target = self._sides(value)
        keys, flat = _keys(source), _flat(target)
        positions, others = first_fit(_keys(flat), keys), last_fit(_keys(flat), keys)
        if positions is None or others is None:
            raise self._refuse(
                "a reduction keeps some axes of the source, in order", value, keys, flat
            )
        if positions != others:
            readings = dict(enumerate(positions)), dict(enumerate(others))
            raise self._ambiguous(source, flat, *readings)
        value = self._split(value, source)
        axes = tuple(axis for axis in range(len(keys)) if axis not in positions)
        return self._merge(fold(value, axes), target)

    def _sides(self, value: Tensor) -> tuple[list[Atom], list[list[Atom]]]:
        binder = Binder(self.frame)
        try:
            binder.match(self.node.source, value.type.shape)
            binder.finish()
        except Mismatch as mismatch:
            raise self._mismatch(value, mismatch) from mismatch
        return _flat(self._groups(self.node.source)), self._groups(self.node.target)

    def _expanded(self, value: Tensor) -> tuple[list[Atom], list[list[Atom]]]:
        """The sides of an expansion; a name that only the target has is reported with its cure."""
        try:
            return self._sides(value)
        except ProblemError as error:
            problem = error.problem
            if isinstance(problem, UnknownName) and problem.name in size_names_of(self.node.target):
                raise ProblemError(UnknownAxis(problem.location, problem.name)) from error
            raise

    def _groups(self, pattern: ast.Pattern) -> list[list[Atom]]:
        groups: list[list[Atom]] = []
        for entry in pattern.entries:
            if isinstance(entry, ast.Rest):
                groups.extend([atom] for atom in self._rest(entry.name, entry.span))
            else:
                groups.append(self._atoms(entry))
        return groups

    def _rest(self, name: str, span: Span | None) -> list[Atom]:
        axes = self.frame.names.get(name)
        if not isinstance(axes, Axes):
            raise self._fault(f"`...{name}` is not on the left side")
        stem = f"...{name}"
        return [Atom(f"{stem}.{index}", size, span, stem) for index, size in enumerate(axes)]

    def _atoms(self, entry: ast.Expression) -> list[Atom]:
        match entry:
            case ast.Binary(operator="*", left=left, right=right):
                return [*self._atoms(left), *self._atoms(right)]
            case ast.Integer(value=1):
                return []
            case ast.Name(text=text):
                return [Atom(text, self._size(entry), entry.span, text)]
            case ast.Call(
                callee="product", arguments=[ast.Argument(value=ast.Name(text=text))]
            ) if isinstance(self.frame.names.get(text), Axes):
                return self._rest(text, None)
            case _:
                return [Atom(_written(entry), self._size(entry), entry.span)]

    def _size(self, entry: ast.Expression) -> Size:
        size = self.frame.evaluate(entry)
        if not is_size(size):
            raise self._fault("an axis of a rearrangement is a size")
        return size

    def _split(self, value: Tensor, atoms: Sequence[Atom]) -> Tensor:
        return self._reshape(value, tuple(atom.size for atom in atoms))

    def _merge(self, value: Tensor, groups: list[list[Atom]]) -> Tensor:
        return self._reshape(value, tuple(product(atom.size for atom in group) for group in groups))

    def _reshape(self, value: Tensor, shape: Shape) -> Tensor:
        if len(shape) == value.type.rank and all(map(eq, shape, value.type.shape)):
            return value
        return self.outer.add(self.span, ops.Reshape(shape), value)

    def _refuse(
        self, fault: str, value: Tensor, keys: Sequence[str], flat: Sequence[Atom]
    ) -> ProblemError:
        left, right = Counter(keys), Counter(_keys(flat))
        parts = [
            f"only on the {side}: {', '.join(surplus)}"
            for side, surplus in (("left", left - right), ("right", right - left))
            if surplus
        ]
        found = "\n".join([str(value.type), *parts])
        cure = numbers_apart_cure(self.node, self.frame.names)
        location = self.outer.location(self.span)
        return ProblemError(RearrangeMismatch(location, fault, found, cure=cure))

    def _ambiguous(
        self,
        source: Sequence[Atom],
        flat: Sequence[Atom],
        first: Mapping[int, int],
        second: Mapping[int, int],
    ) -> ProblemError:
        """The refusal of two readings, each saying which source axis a target axis is."""
        unclear = {flat[at].key for at in first if first[at] != second.get(at)}
        either, other = (self._apart(source, flat, each, unclear) for each in (first, second))
        location = self.outer.location(self.span)
        return ProblemError(AmbiguousRearrangement(location, either, other))

    def _apart(
        self,
        source: Sequence[Atom],
        flat: Sequence[Atom],
        reading: Mapping[int, int],
        unclear: Collection[str],
    ) -> str:
        """The rearrangement, written with its own name for each of the unclear axes."""
        given: Counter[str] = Counter()

        def name(atom: Atom) -> str:
            if atom.key not in unclear:
                return ""
            numbered = atom.key if atom.stem else ""
            given[numbered] += 1
            return f"{atom.stem or 'axis'}_{given[numbered]}"

        left = [name(atom) for atom in source]
        right = [left[reading[at]] if at in reading else name(atom) for at, atom in enumerate(flat)]
        named = zip([*source, *flat], [*left, *right], strict=True)
        edits = {atom.span: text for atom, text in named if atom.span is not None and text}
        text, start = self.node.span.text, self.node.span.start
        for span in sorted(edits, key=lambda each: -each.start):
            text = text[: span.start - start] + edits[span] + text[span.end - start :]
        return " ".join(text.split())

    def _fault(self, fault: str) -> ProblemError:
        return ProblemError(
            RearrangeMismatch(self.outer.location(self.span), fault, self.node.span.text)
        )

    def _mismatch(self, value: Tensor, mismatch: Mismatch) -> ProblemError:
        location = self.outer.location(self.span)
        found = str(value.type)
        if mismatch.axis is None or mismatch.wanted is None or mismatch.found is None:
            fault = (
                f"a tensor of {value.type.rank} axes does not match {self.node.source.span.text}"
            )
            cure = rank_cure(self.node, value.type.shape, self.frame.names)
            return ProblemError(RearrangeMismatch(location, fault, found, cure=cure))
        axis = f"axis {mismatch.axis} is {show(mismatch.found)}"
        fault = f"{axis}, and the pattern says {mismatch.wanted_text}"
        condition = Compare("==", mismatch.wanted, mismatch.found)
        if mismatch.factor is not None:
            fault = f"{axis}, which {show(mismatch.factor)} need not divide"
            condition = Compare("==", mismatch.found % mismatch.factor, 0)
        example = None
        if mismatch.verdict is not None and isinstance(mismatch.verdict, Refuted):
            example = example_of(mismatch.verdict, [("this is", value.type.shape)])
        fact = deciding_fact(self.frame.facts, condition)
        wanted = ["".join(each.span.text.split()) for each in self.node.source.entries]
        axes = [show(size) for size in value.type.shape]
        cure = reversed_fact(self.frame.facts, condition)
        if cure is None and not fact:
            cure = self._of_width(value, mismatch.axis, mismatch.wanted)
        if cure is None and len(axes) == len(wanted):
            named = numbers_cure(self.node, value.type.shape, self.frame.names)
            cure = self._of_heads(value, wanted, axes) or order_cure(axes, wanted, mismatch.axis)
            cure = cure or self._by_windows(value, named) or named
            if not mismatch.unknown:
                sides = show(mismatch.wanted), show(mismatch.found)
                cure = cure or factor_cure(self.node, mismatch.axis, *sides)
            cure = cure or self._of_queries(value, mismatch.axis, mismatch.wanted)
            cure = cure or self._named(mismatch.axis, wanted[mismatch.axis], axes[mismatch.axis])
        return ProblemError(RearrangeMismatch(location, fault, found, example, fact, cure))

    def _of_width(self, value: Tensor, axis: int, wanted: Size) -> Help | None:
        """The layer that makes as many on an axis as the pattern says, `c * 4`, where it made `c`.

        None unless the pattern wants a multiple of what is there.
        """
        found = value.type.shape[axis]
        if isinstance(found, int) or wanted % found != 0 or axis >= value.type.rank:
            return None
        source_of, block = self.frame.state.values.source_of, self.outer.declaration
        known = [each.name for each in block.parameters] if isinstance(block, ast.Block) else ()
        return made_width(value, axis, wanted, source_of, known)

    def _by_windows(self, value: Tensor, named: Help | None) -> Help | None:
        """The padding of the layers before it that gives the numbers of a pattern.

        `named` is the pattern that fits without it.
        """
        said = [
            entry.value if isinstance(entry, ast.Integer) else size
            for entry, size in zip(self.node.source.entries, value.type.shape, strict=True)
        ]
        source_of = self.frame.state.values.source_of
        cure = window_cure(value, tuple(said), eq, source_of, self.outer.may_change)
        if cure is None or named is None or named.code is None:
            return cure
        return replace(
            cure, text=f"{cure.text},\nand without it `{named.code}` takes what is there"
        )

    def _of_heads(self, value: Tensor, wanted: list[str], axes: list[str]) -> Help | None:
        """The pattern with the heads before the positions, as `attention` gives them.

        None where its heads were left behind the positions, which is what is wrong there.
        """
        source_of = self.frame.state.values.layer_of
        applied = layer_behind(value, ("attention",), source_of)
        if applied is None or len(axes) != 4 or [*axes[:3]] != [wanted[at] for at in (0, 2, 1)]:
            return None
        if split_from(applied.operands[0], source_of) is not None:
            return None
        source = f"[{', '.join([*axes[:3], wanted[3]])}]"
        words = "`attention` gives the heads before the positions: name its axes in this order"
        return Help(words, self.node.span.text.replace(self.node.source.span.text, source, 1))

    def _of_queries(self, value: Tensor, axis: int, wanted: Size) -> Help | None:
        """The words for positions of an attention that its keys and values have, not its queries.

        None unless both are made of inputs, each of its own.
        """
        source_of = self.frame.state.values.layer_of
        applied = layer_behind(value, ("attention",), source_of)
        if applied is None or axis != 2 or len(applied.operands) < 3:
            return None
        queries, *others = applied.operands[:3]
        if any(each.type.rank != 4 or each.type.shape[2] != wanted for each in others):
            return None
        given = [inputs_of(each, source_of) for each in (queries, *others)]
        if any(len(names) != 1 for names in given) or given[1] != given[2]:
            return None
        (first,), (second,) = given[:2]
        return Help(
            "`attention` gives a row for each position of its first tensor, the queries: make them "
            f"of\n`{second}`, which has {show(wanted)}, and the keys and values of `{first}`"
        )

    def _named(self, axis: int, wanted: str, found: str) -> Help | None:
        """Advice to write the axis that is there in place of a name with another meaning."""
        if wanted.isidentifier() and not found.isidentifier():
            names = [each for each in ("a", "b", "e", "u") if each not in self.frame.names]
            new = re.sub(rf"\b{wanted}\b", names[0], self.node.span.text) if names else ""
            return Help(f"`{wanted}` is another size: give this axis a name of its own", new)
        if not (wanted.isidentifier() or wanted.isdecimal()) or not found.isidentifier():
            return None
        block = self.outer.declaration
        names = axes_of_inputs(block) if isinstance(block, ast.Block) else {}
        if {wanted, found} <= {name for each in names.values() for name in each}:
            return other_input_cure(axis, found, wanted)
        new = re.sub(rf"\b{wanted}\b", found, self.node.span.text)
        if wanted.isidentifier():
            return Help(f"`{wanted}` is something else here, and this axis is `{found}`", new)
        return Help(f"this axis is `{found}`, of any size: write its name", new)


def _keys(atoms: Sequence[Atom]) -> list[str]:
    return [atom.key for atom in atoms]


def _flat(groups: Sequence[Sequence[Atom]]) -> list[Atom]:
    return [atom for group in groups for atom in group]


def _written(entry: ast.Expression) -> str:
    """An expression as it is written, whatever the spaces in it."""
    return "".join(entry.span.text.split())
