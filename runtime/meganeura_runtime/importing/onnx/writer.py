"""Statements as text: which values get names, which stand inside of others, what is piped."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.conditions import Compare
from meganeura_dsl.symbolic.polynomial import Atom, Floor, terms_of
from meganeura_dsl.symbolic.size import Size
from meganeura_runtime.importing.onnx.code import (
    Applied,
    Code,
    Count,
    Declared,
    LabelPath,
    Level,
    Piece,
    Ref,
    Scanned,
    Statement,
    Tensor,
    Words,
)
from meganeura_runtime.importing.onnx.size_text import SizeScope
from meganeura_runtime.importing.onnx.structure import Body, Repeat, straight

WIDEST = 64
"""Characters of an expression inside of another."""
WIDEST_PIPE = 150
"""Characters of what is piped on."""
INDICES = ("t", "k")
"""Names of what counts the iterations of a scan."""
POOL = ("x", "y", "z", "u", "v", "w", "a", "b", "c", "d", "e", "f", "g", "h", "p", "q", "r")


@dataclass(frozen=True)
class Text:
    """An expression, how strongly it holds together, and the named values it reads."""

    text: str
    level: Level
    reads: tuple[int, ...]

    def at(self, level: Level) -> str:
        """The text where an expression of at least a level stands."""
        return self.text if self.level >= level else f"({self.text})"


def type_text(of: TensorType, sizes: SizeScope) -> str:
    """A type in a signature."""
    axes = ", ".join(sizes.text(size) for size in of.shape)
    return f"[{axes}]" if of.dtype is DType.F32 else f"{of.dtype.value}[{axes}]"


def condition_text(condition: Compare, sizes: SizeScope) -> str:
    """Returns the text of a condition on sizes; that of a remainder has `%`."""
    for atom in {each for monomial in _monomials(condition.left) for each in monomial}:
        if isinstance(atom, Floor) and condition.left == atom.numerator % atom.denominator:
            upper = sizes.text(atom.numerator, Level.PRODUCT)
            lower, right = sizes.text(atom.denominator, Level.SIGN), condition.right
            return f"{upper} % {lower} {condition.operator} {sizes.text(right, Level.SUM)}"
    left, right = (sizes.text(each, Level.SUM) for each in (condition.left, condition.right))
    return f"{left} {condition.operator} {right}"


def _monomials(size: Size) -> Iterable[tuple[Atom, ...]]:
    """The products that a size is a sum of."""
    return () if isinstance(size, int) else terms_of(size)


class BodyWriter:
    """The lines of one body."""

    def __init__(
        self, body: Body, inputs: Mapping[int, str], sizes: SizeScope, taken: frozenset[str],
        blocks: Mapping[int, str], prefix: Words = (),
    ) -> None:  # fmt: skip
        self.body = body
        self.sizes = sizes
        self.prefix = prefix
        self.blocks = blocks
        """The block of each repetition, by the first value it gives."""
        self.taken = taken | set(inputs.values())
        self.names = dict(inputs)
        self.pending: dict[int, Text] = {}
        self.paths: dict[int, str] = {}
        self.left = Counter(_uses(body))
        self.shared = shared_labels(body)
        self.labelled: set[Words] = set()
        """The layers that are applied already."""
        self.holders: dict[str, int] = {}

    def lines(self) -> list[str]:
        """All lines, the last of them what is returned."""
        lines = self._steps()
        results = [self._operand(Ref(value)) for value in self.body.results]
        return [*lines, "return " + ", ".join(each.text for each in results)]

    def _steps(self) -> list[str]:
        lines: list[str] = []
        for step in self.body.steps:
            if isinstance(step, Repeat):
                lines += self._repeat(step)
            elif isinstance(step.code, Scanned):
                lines += self._scan(step, step.code)
            else:
                lines += self._statement(step, step.code)
        return lines

    # --- steps -----------------------------------------------------------------------------------

    def _statement(self, statement: Statement, code: Code | Applied | Declared) -> Iterator[str]:
        if isinstance(code, Declared):
            path = self._path(code.words)
            (value,) = statement.results
            self.paths[value.id] = path
            initial = " = zeros" if code.kind == "param" else ""
            yield f"{code.kind} {path}: {type_text(value.type, self.sizes)}{initial}"
            return
        is_named = isinstance(code, Code) and code.is_named
        is_named |= isinstance(code, Applied) and code.label in self.shared - self.labelled
        shown = self._expression(code)
        uses = [self.left[each.id] for each in statement.results]
        if uses == [1] and not is_named and self._is_inside(shown):
            self.pending[statement.results[0].id] = shown
            return
        yield self._bound(statement.results, shown, _primary(code))

    def _is_inside(self, shown: Text) -> bool:
        """True if an expression that is read once stands where it is read."""
        return len(shown.text) <= (WIDEST_PIPE if shown.level is Level.PIPE else WIDEST)

    def _bound(self, results: Sequence[Tensor], shown: Text, primary: int | None) -> str:
        """A line that gives values their names."""
        self._spend(shown)
        names = [
            self._name(each, primary if index == 0 else None)
            if self.left[each.id]
            else f"_{POOL[index]}"
            for index, each in enumerate(results)
        ]
        return f"{', '.join(names)} = {shown.text}"

    def _spend(self, shown: Text) -> None:
        self.left.subtract(shown.reads)

    def _name(self, value: Tensor, primary: int | None) -> str:
        """A name for a value: that of what it is made of, if nothing reads that any more."""
        before = self.names.get(primary, "") if primary is not None else ""
        if before in self.holders and not self.left[self.holders[before]]:
            name = before
        else:
            name = next(
                each for each in self._pool() if each not in self.taken and self._is_free(each)
            )
        self.holders[name] = value.id
        self.names[value.id] = name
        return name

    def _pool(self) -> Iterator[str]:
        yield from POOL
        number = 1
        while True:
            yield f"x{number}"
            number += 1

    def _is_free(self, name: str) -> bool:
        holder = self.holders.get(name)
        return holder is None or not self.left[holder]

    def _repeat(self, repeat: Repeat) -> Iterator[str]:
        """A loop over a block: what is carried keeps its names."""
        label = self._path((*repeat.prefix, "{i}"))
        carried: list[str] = []
        for start, result in zip(repeat.starts, repeat.results, strict=True):
            shown = self._operand(Ref(start))
            holder = self.names.get(start)
            if holder in self.holders and self.left[start] == 1 and start not in self.pending:
                self._spend(shown)
                name = holder
                self.holders[name] = result.id
                self.names[result.id] = name
            else:
                self._spend(shown)
                name = self._name(result, None)
                yield f"{name} = {shown.text}"
            carried.append(name)
        shared = [self._operand(Ref(each)) for each in repeat.shared]
        for each in shared:
            self._spend(each)
        others = ", ".join([*carried[1:], *(each.text for each in shared)])
        block = self.blocks[repeat.results[0].id]
        call = f"{block}()({others})" if others else block
        yield f"for i in {repeat.first}..{repeat.first + repeat.count}:"
        yield f"  {', '.join(carried)} = {carried[0]} |> {label}: {call}"

    # --- scans -----------------------------------------------------------------------------------

    def _scan(self, statement: Statement, code: Scanned) -> Iterator[str]:
        """A scan: what it reads has names before it, and what it carries keeps its name."""
        starts = {*code.starts}
        for each in dict.fromkeys(statement.operands):
            shown = self.pending.pop(each, None) if each not in starts else None
            if shown is not None:
                self._spend(shown)
                self.names[each] = name = self._new_name(each)
                yield f"{name} = {shown.text}"
        results = statement.results
        names = [self._new_name(each.id) for each in results]
        for start, name in zip(code.starts, names, strict=False):
            yield f"{name} = {self._operand(Ref(start)).text}"
        self.names.update((each.id, name) for each, name in zip(results, names, strict=True))
        yield from self._scan_lines(code, names)
        for each in statement.operands:
            shown = self.pending.pop(each, None)
            self._spend(shown or Text("", Level.ATOM, (each,)))

    def _new_name(self, value: int) -> str:
        """A name that nothing had before, for a loop would carry what it binds anew."""
        known = self.taken | {*self.names.values()} | {*self.holders}
        name = next(each for each in self._pool() if each not in known)
        self.holders[name] = value
        return name

    def _scan_lines(self, code: Scanned, names: Sequence[str]) -> Iterator[str]:
        taken = self.taken | {*self.names.values()} | {*self.holders}
        index = next(each for each in chain(INDICES, self._pool()) if each not in taken)
        iterations = self.sizes.text(code.iterations)
        yield f"scan {index} in 0..{iterations}:"
        iteration = index
        if code.is_backward:
            iteration = next(
                each for each in chain(("at",), self._pool()) if each not in {*taken, index}
            )
            yield f"  {iteration} = {self.sizes.text(code.iterations, Level.SUM)} - 1 - {index}"
        known = {**self.names, code.iteration.id: iteration}
        known.update((each.id, name) for each, name in zip(code.carries, names, strict=False))
        leaving = [*code.following, *(each.value for each in code.collected)]
        inner = BodyWriter(
            straight(code.body, leaving), known, self.sizes,
            frozenset({*taken, index, iteration}), self.blocks, self.prefix,
        )  # fmt: skip
        inner.paths, inner.labelled, inner.shared = self.paths, self.labelled, self.shared
        yield from (f"  {line}" for line in inner.iteration_lines(code, names, iteration))

    def iteration_lines(self, code: Scanned, names: Sequence[str], iteration: str) -> list[str]:
        """The lines of an iteration: its statements, what is collected, what is carried on.

        What a carry becomes is read before another carry is bound that it may be.
        """
        lines = self._steps()
        stacks = names[len(code.carries) :]
        for each, name in zip(code.collected, stacks, strict=True):
            lines.append(
                f"{name}[{':, ' * each.axis}{iteration}] = {self._operand(Ref(each.value)).text}"
            )
        own = {each.id: name for each, name in zip(code.carries, names, strict=False)}
        moved: dict[int, str] = {}
        for carry, after in zip(code.carries, code.following, strict=True):
            if after in own and after != carry.id:
                moved[after] = self._new_name(after)
                lines.append(f"{moved[after]} = {own[after]}")
        for carry, after in zip(code.carries, code.following, strict=True):
            if after != carry.id:
                text = moved.get(after) or self._operand(Ref(after)).text
                lines.append(f"{own[carry.id]} = {text}")
        return lines

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, code: Code | Applied) -> Text:
        if isinstance(code, Applied):
            return self._applied(code)
        text, reads = self._joined(code.pieces)
        return Text(text, code.level, reads)

    def _joined(self, pieces: Sequence[Piece]) -> tuple[str, tuple[int, ...]]:
        parts: list[str] = []
        reads: list[int] = []
        for piece in pieces:
            match piece:
                case Ref():
                    shown = self._operand(piece)
                    parts.append(shown.at(piece.level))
                    reads.extend(shown.reads)
                case Count(size, level):
                    parts.append(self.sizes.text(size, level))
                case LabelPath(words):
                    parts.append(self._path(words))
                case str():
                    parts.append(piece)
        return "".join(parts), tuple(reads)

    def _operand(self, ref: Ref) -> Text:
        value = ref.value
        if value in self.paths:
            return Text(self.paths[value], Level.ATOM, ())
        found = self.pending.get(value)
        if found is not None:
            return found
        return Text(self.names[value], Level.ATOM, (value,))

    def _applied(self, code: Applied) -> Text:
        source = self._operand(Ref(code.source))
        config, first = self._joined(code.config)
        tensors, second = self._joined(code.tensors)
        reads = (*source.reads, *first, *second)
        given = f"({config})" if config else ""
        behind = f"({tensors})" if tensors else ""
        is_piped = source.level is Level.PIPE
        if code.label is None and not is_piped and not tensors:
            if not code.is_block:
                listed = ", ".join(each for each in (source.text, config) if each)
                return Text(f"{code.callee}({listed})", Level.ATOM, reads)
            if not config:
                return Text(f"{code.callee}({source.text})", Level.ATOM, reads)
        layer = f"{code.callee}{given}{behind}"
        if code.label is not None:
            path = self._path(code.label)
            layer = path if code.label in self.labelled else f"{path}: {layer}"
            self.labelled.add(code.label)
        is_plain = is_piped or (source.level >= Level.PRODUCT and source.text[0] != "-")
        piped = source.text if is_plain else f"({source.text})"
        return Text(f"{piped} |> {layer}", Level.PIPE, reads)

    def _path(self, words: Words) -> str:
        """A path below the block's own."""
        if words[: len(self.prefix)] == self.prefix:
            words = words[len(self.prefix) :]
        return path_text(words)


def shared_labels(body: Body) -> frozenset[Words]:
    """The layers that are applied again, or whose parameters something else reads."""
    labels: Counter[Words] = Counter()
    read: set[Words] = set()
    for each in _statements(body.steps):
        if isinstance(each.code, Applied):
            labels.update([] if each.code.label is None else [each.code.label])
        elif isinstance(each.code, Code):
            read.update(one.words[:-1] for one in each.code.pieces if isinstance(one, LabelPath))
    return frozenset(each for each, count in labels.items() if count > 1 or each in read)


def _statements(steps: Sequence[Statement | Repeat]) -> Iterator[Statement]:
    """The statements of a body, those of its scans included."""
    for each in steps:
        if isinstance(each, Statement):
            yield each
            if isinstance(each.code, Scanned):
                yield from _statements(each.code.body)


def path_text(words: Words) -> str:
    """A path as labels have it: `layer[0].conv1`; `{i}` is the index of the loop."""
    text = ""
    for word in words:
        if isinstance(word, int):
            text += f"[{word}]"
        elif word == "{i}":
            text += "[i]"
        else:
            text += f".{word}" if text else word
    return text


def _primary(code: Code | Applied) -> int | None:
    """The value that a statement is mostly made of."""
    if isinstance(code, Applied):
        return code.source
    return next((each.value for each in code.pieces if isinstance(each, Ref)), None)


def _uses(body: Body) -> Iterator[int]:
    """Every time that a value is read, except through paths."""
    declared = {
        each.results[0].id
        for each in body.steps
        if isinstance(each, Statement) and isinstance(each.code, Declared)
    }
    for step in body.steps:
        found = step.operands if isinstance(step, Statement) else (*step.starts, *step.shared)
        yield from (each for each in found if each not in declared)
    yield from (each for each in body.results if each not in declared)
