"""The walk over expressions: every form to its value."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, TypeVar

from meganeura_dsl.diagnostics.other_names import Answer, Form, other_names
from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.open_numbers import defer
from meganeura_dsl.elaborate.body.round_parts import (
    innermost_of,
    lifted_operand,
    note_read,
    round_part,
)
from meganeura_dsl.elaborate.body.tensor_parts import Part, entries_of_axes, take_part
from meganeura_dsl.elaborate.builtins.initial_values import WORDS as INITIALS
from meganeura_dsl.elaborate.problems import habits
from meganeura_dsl.elaborate.problems.limit_problems import TooMuchWork
from meganeura_dsl.elaborate.problems.name_problems import (
    EndedWithScan,
    UndecidedChoice,
    UnfitLabel,
    UnknownName,
    UnreadName,
    WrongKind,
)
from meganeura_dsl.elaborate.problems.proof_failures import require_divisor
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByRound, LabelOfRound
from meganeura_dsl.elaborate.problems.shape_problems import RankMismatch
from meganeura_dsl.elaborate.scope.binding import Binding
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import (
    BoundBlock,
    ByRoundError,
    Frame,
    NeedsInliningError,
    OpenNumberError,
    ProofPath,
    UndecidableError,
)
from meganeura_dsl.elaborate.scope.unused_values import layer_text
from meganeura_dsl.elaborate.typecheck import static_arithmetic, tensor_arithmetic
from meganeura_dsl.elaborate.typecheck.config_kinds import (
    as_flag,
    is_about_open_real,
    is_configured,
    size_as_condition,
)
from meganeura_dsl.elaborate.typecheck.positions import POSITION
from meganeura_dsl.elaborate.typecheck.round_numbers import lifted
from meganeura_dsl.elaborate.typecheck.static_arithmetic import NONZERO, KindError, length_of_list
from meganeura_dsl.elaborate.values import (
    Axes,
    BlockValue,
    Evaluated,
    OpenText,
    Tensor,
    TensorList,
    Unknown,
    describe,
    is_condition,
    is_initializer,
    is_number,
    is_size,
    is_static,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.types import DType
from meganeura_dsl.limits.language_limits import EXPRESSION, LONGEST_LIST, MOST_PATHS
from meganeura_dsl.limits.work_budget import OutOfWorkError, spend
from meganeura_dsl.symbolic.assumptions import Compare, Condition, negate, show_condition
from meganeura_dsl.symbolic.conditions import sizes_in, with_differing
from meganeura_dsl.symbolic.size import Dim, Size, show
from meganeura_dsl.syntax import ast

_Result = TypeVar("_Result")
_IN_A_WORD = re.compile(r"\w*", re.ASCII)

OWN_PATH = "."
"""The label of a layer that shares the path of the block around it."""


class Expressions(ABC):
    """Evaluates expressions in a frame; what a layer does is for the subclass."""

    @abstractmethod
    def apply(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Evaluated:
        """A layer, function or block applied to its arguments."""

    @abstractmethod
    def block_named(self, node: ast.Name, frame: Frame) -> BoundBlock | None:
        """The layer in scope, block, model or function of one tensor that has a name."""

    @abstractmethod
    def layer_words(self, name: str, frame: Frame) -> str | None:
        """A description of the layer or function of a name for messages; None if there is none."""

    def evaluate(self, node: ast.Expression, frame: Frame) -> Evaluated:
        """The value of an expression."""
        value = self._operand(node, frame)
        if value is Unknown.NUMBER and frame.state.abstract.symbols:
            raise UndecidableError("a number depends on one that a symbol stands for")
        return value

    def _operand(self, node: ast.Expression, frame: Frame) -> Evaluated:
        """The value of a part of an expression, which need not be known while symbols are not."""
        try:
            spend(EXPRESSION)
            return self._forms[type(node)](self, node, frame)
        except OutOfWorkError as error:
            name, location = frame.outermost(node.span)
            problem = TooMuchWork(location, error.reason, name)
            raise ProblemError(problem) from error

    def _literal(
        self, node: ast.Integer | ast.Real | ast.Text | ast.Boolean, _: Frame
    ) -> Evaluated:
        return node.value

    def _call(self, node: ast.Call, frame: Frame) -> Evaluated:
        return self.apply(node, None, frame)

    def _conditional(self, node: ast.Conditional, frame: Frame) -> Evaluated:
        branch = node.then if self.choose(node, frame) else node.otherwise
        return self.evaluate(branch, frame)

    def path_text(self, path: ast.Path, frame: Frame) -> str:
        """A label with its numbers evaluated: `layers[i].conv{i + 1}` is `layers.3.conv4`."""
        words: list[str] = []
        for part in path.parts:
            match part:
                case str():
                    words.append(part)
                case ast.Splice(value=value):
                    words[-1] += self._splice(value, frame)
                case _:
                    words.append(self._path_item(part, frame))
        return ".".join(words)

    def _splice(self, node: ast.Expression, frame: Frame) -> str:
        """What a number or a text adds to a word; what is open in a proof stays in braces."""
        value, location = self.evaluate(node, frame), frame.location(node.span)
        self._require_known_label(value, frame)
        if frame.state.differs_by_round(value):
            raise ProblemError(LabelOfRound(location))
        match value:
            case OpenText(name):
                return f"{{{name}}}"
            case Dim() if is_configured(frame, value):
                return f"{{{value}}}"
            case int() if not isinstance(value, bool) and value >= 0:
                return str(value)
            case str() if _IN_A_WORD.fullmatch(value):
                return value
            case Dim():
                raise ProblemError(
                    UnfitLabel(location, f"the size {value}, which the data decides")
                )
            case _:
                raise ProblemError(UnfitLabel(location, describe(value)))

    def _path_item(self, node: ast.Expression, frame: Frame) -> str:
        size = self.size(node, frame)
        self._require_known_label(size, frame)
        if frame.state.differs_by_round(size):
            raise ProblemError(LabelOfRound(frame.location(node.span)))
        return show(size)

    def _require_known_label(self, value: Evaluated, frame: Frame) -> None:
        if frame.state.is_general(value):
            raise UndecidableError("a label depends on a number that a symbol stands for")

    def size(self, node: ast.Expression, frame: Frame) -> Size:
        """The value of an expression that must be a size."""
        value = self.evaluate(node, frame)
        if not is_size(value):
            raise ProblemError(WrongKind(frame.location(node.span), "a size", describe(value)))
        return value

    def tensor(self, node: ast.Expression, frame: Frame) -> Tensor:
        """The value of an expression that must be one tensor."""
        value = lifted(frame, node.span, self.evaluate(node, frame))
        if not is_tensor(value):
            raise ProblemError(WrongKind(frame.location(node.span), "a tensor", describe(value)))
        return value

    def condition(
        self, node: ast.Expression, frame: Frame, cure: Callable[[Tensor], Help] | None = None
    ) -> Condition:
        """The value of an expression that must be true, false or a condition on sizes.

        `cure` says what to write where it is a tensor that is true or false by its data.
        """
        value = self.evaluate(node, frame)
        if isinstance(value, Dim):
            value = as_flag(frame, value, node.span) or value
        if is_initializer(value):
            return True  # a flag that also says how the parameter begins
        if not is_condition(value):
            advice = ""
            if cure is not None and is_tensor(value) and value.type.dtype is DType.BOOL:
                advice = cure(value)
            raise _wrong_kind(frame, node.span, "a condition", value, advice)
        return value

    def fact(self, clause: ast.Expression, frame: Frame) -> Condition:
        """The condition of a clause of a `where`, whichever way its choices go."""
        return _joined(clause, frame, self.condition)

    def stated(self, clause: ast.Expression, frame: Frame, block: ast.Block) -> Condition:
        """The condition of a clause of a block's `where`, whichever way its choices go."""
        return _joined(clause, frame, partial(self.followed, block=block))

    def followed(self, clause: ast.Expression, frame: Frame, block: ast.Block) -> Condition:
        """The condition of a clause of a block's `where` on one path through its choices.

        In a proof for every configuration, nothing is known of a real: a clause about one says
        nothing there, and each model is held to it. Beside `and` it says nothing alone.
        """
        if isinstance(clause, ast.Binary) and clause.operator == "and":
            left = self.followed(clause.left, frame, block)
            if left is False:
                return False
            right = _right(clause, left, frame, partial(self.followed, block=block))
            return static_arithmetic.connect("and", left, right)
        try:
            return self.condition(clause, frame)
        except OpenNumberError:
            if not is_about_open_real(clause, frame, block):
                raise
            return True

    def choose(
        self,
        choice: ast.If | ast.Conditional,
        frame: Frame,
        rest: tuple[ast.Statement, ...] = (),
    ) -> bool:
        """Which way a condition goes; where it depends on configuration, one path at a time.

        `rest` are the statements behind a choice, for what is said where it may not stand.
        """
        node = choice.condition
        condition = self.condition(node, frame, partial(_without_choice, choice, rest, frame))
        if frame.state.abstract.numbers:
            condition = with_differing(condition, frame.state.abstract.numbers)
        truth = frame.facts.truth(condition)
        if truth is not None:
            return truth
        if frame.choices.is_joined:
            return self._follow(node, condition, frame)
        words = show_condition(condition)
        if frame.state.differs_by_round(condition):
            cure = f"pick values instead: where({words}, ..., ...)"
            raise ProblemError(DiffersByRound(frame.location(node.span), f"whether {words}", cure))
        if frame.state.proof is None:
            raise ProblemError(UndecidedChoice(frame.location(node.span), words))
        return self._follow(node, condition, frame)

    def _follow(self, node: ast.Expression, condition: Condition, frame: Frame) -> bool:
        choices = frame.choices
        if not choices.is_joined and frame.state.loops.indices & sizes_in(condition):
            raise ByRoundError(node, condition)
        if choices.next == len(choices.decided):
            if choices.next >= MOST_PATHS.bit_length():
                raise UndecidableError("it has too many paths to prove at once")
            choices.decided.append(True)
        decision = choices.decided[choices.next]
        choices.next += 1
        assumed = condition if decision else negate(condition)
        choices.words.append(show_condition(assumed))
        choices.assumed.append(assumed)
        frame.build.facts = frame.facts.assume(assumed)
        return decision

    def _name(self, node: ast.Name, frame: Frame) -> Evaluated:
        value = frame.names.get(node.text)
        if value is not None:
            if frame.state.scans:
                note_read(frame, node.text, value)
            return value
        if node.text == "training":
            return frame.state.context.training
        if node.text in INITIALS:
            return INITIALS[node.text]
        own = self._parameter(node.text, frame) if OWN_PATH in frame.layers else None
        if own is not None:
            return own
        block = self.block_named(node, frame)
        if block is not None:
            return block
        location = frame.location(node.span)
        layer = self.layer_words(node.text, frame)
        if layer is not None:
            cure = "a function is no value: apply it where it stands"
            raise ProblemError(WrongKind(location, "a value", layer, cure))
        if node.text in frame.scan_locals:
            raise ProblemError(EndedWithScan(location, node.text))
        known = [*frame.names, "training"]
        kind = UnreadName if node.text in frame.module.unread else UnknownName
        raise ProblemError(kind(location, node.text, "value", nearest(node.text, known)))

    def _binary(self, node: ast.Binary, frame: Frame) -> Evaluated:
        left = self._operand(node.left, frame)
        if (
            node.operator in ("and", "or")
            and isinstance(left, bool)
            and left is (node.operator == "or")
        ):
            return left
        right = _right(node, left, frame, self._operand)
        for side, value in ((node.left, left), (node.right, right)):
            if isinstance(value, BlockValue):
                raise _wrong_kind(frame, side.span, "a tensor or a number", value)
        if frame.state.abstract.symbols:
            self._postpone_scale(node, left, right, frame)
        if frame.state.scans:
            left, right = (
                lifted_operand(frame, node, side, other)
                for side, other in ((left, right), (right, left))
            )
        try:
            if is_tensor(left) or is_tensor(right):
                if node.operator == "/" and is_number(right):
                    _require_value(right, frame)
                names = (short_text(node.left), short_text(node.right))
                return tensor_arithmetic.elementwise(
                    frame, node.operator_span, node.operator, left, right, names
                )
            if node.operator in ("//", "%"):
                _require_divisor(node, right, frame)
            return static_arithmetic.combine(node.operator, left, right)
        except KindError as error:
            raise _wrong_kind(frame, node.operator_span, error.wanted, error.value) from error

    def _postpone_scale(
        self, node: ast.Binary, left: Evaluated, right: Evaluated, frame: Frame
    ) -> None:
        """Leave a number that scales a tensor to those who know what symbols stand for."""
        for side, value, other in ((node.left, left, right), (node.right, right, left)):
            if value is Unknown.NUMBER and is_tensor(other):
                if node.operator not in ("+", "-", "*", "/"):
                    raise UndecidableError("a number depends on one that a symbol stands for")
                one = ast.Integer(node.left.span, 1)
                divides = node.operator == "/" and side is node.right
                scale = replace(node, left=one) if divides else side
                defer(scale, frame, self.evaluate)

    def _unary(self, node: ast.Unary, frame: Frame) -> Evaluated:
        value = self.evaluate(node.operand, frame)
        try:
            if node.operator == "not":
                if is_tensor(value):
                    return tensor_arithmetic.invert_tensor(frame, node.span, value)
                return static_arithmetic.invert(value)
            if is_tensor(value):
                return frame.add(node.span, ops.Neg(), value)
            return static_arithmetic.negate(value)
        except KindError as error:
            raise _wrong_kind(frame, node.span, error.wanted, error.value) from error

    def _list(self, node: ast.ListOf, frame: Frame) -> Evaluated:
        items = [self.evaluate(item, frame) for item in node.items]
        if items and is_tensor(items[0]):
            pairs = zip(items, node.items, strict=True)
            return TensorList(tuple(self._only_tensor(*each, frame) for each in pairs))
        for item, written in zip(items, node.items, strict=True):
            if not is_static(item) or isinstance(item, BlockValue):
                location = frame.location(written.span)
                raise ProblemError(
                    WrongKind(location, "a number or a size in a list", describe(item))
                )
        built = [item for item in items if is_static(item)]
        if length_of_list(built) > LONGEST_LIST:
            wanted = f"a list of at most {LONGEST_LIST:,}"
            raise ProblemError(WrongKind(frame.location(node.span), wanted, describe(built)))
        return built

    def _only_tensor(self, item: Evaluated, written: ast.Expression, frame: Frame) -> Tensor:
        if not is_tensor(item):
            location = frame.location(written.span)
            raise ProblemError(WrongKind(location, "a tensor in a list of tensors", describe(item)))
        return item

    def _pipe(self, node: ast.Pipe, frame: Frame) -> Evaluated:
        value = lifted(frame, node.source.span, self.evaluate(node.source, frame))
        result = self.apply(node.layer, value, frame)
        if is_tensor(result) and not frame.module.is_library:
            frame.state.body.bindings.append(
                Binding(node.layer.span, layer_text(node.layer), frame.path, result.type)
            )
        return result

    def _attribute(self, node: ast.Attribute | ast.Spliced, frame: Frame) -> Evaluated:
        relative = self._dotted(node, frame)
        if relative is None:
            raise ProblemError(
                WrongKind(frame.location(node.span), "a parameter's path", node.span.text)
            )
        value = self._parameter(relative, frame)
        if value is not None:
            return value
        prefix = f"{frame.path}." if frame.path else ""
        known = [
            key.removeprefix(prefix) for key in frame.state.body.leaves if key.startswith(prefix)
        ]
        location, close = frame.location(node.span), nearest(relative, known)
        raise ProblemError(
            UnknownName(location, relative, "parameter", close, self._foreign(relative, frame))
        )

    def _foreign(self, dotted: str, frame: Frame) -> Answer | None:
        """What is said to an attribute of a tensor that other systems have, such as `k.T`."""
        base, _, name = dotted.rpartition(".")
        value = frame.names.get(base)
        if value is None or not is_tensor(value):
            return None
        if name == "shape":
            return Answer("sizes are in the signature, and these are functions", _OF_SIZES)
        if name in _TURNED and value.type.rank >= 2:
            axes = [str(size) for size in value.type.shape]
            if len(set(axes)) == len(axes) and all(map(str.isidentifier, axes)):
                turned = [*axes[:-2], axes[-1], axes[-2]]
                code = f"rearrange({base}, [{', '.join(axes)}] -> [{', '.join(turned)}])"
                return Answer("", (Form(code, dotted),))
        return other_names().get(name)

    def _spliced(self, node: ast.Spliced, frame: Frame) -> Evaluated:
        """A parameter or state that this block declares, or one of a layer, by its name."""
        relative = self._dotted(node, frame)
        known = None if relative is None else frame.names.get(relative)
        return self._attribute(node, frame) if known is None else known

    def _dotted(self, node: ast.Expression, frame: Frame) -> str | None:
        """`wte.weight` or `weight_l{k}` as text, if the expression is a path."""
        match node:
            case ast.Name(text=text):
                return text
            case ast.Attribute(base=base, name=name):
                prefix = self._dotted(base, frame)
                return None if prefix is None else f"{prefix}.{name}"
            case ast.Subscript(base=base, entries=(entry,)) if isinstance(
                entry, ast.Integer
            ) or not (
                isinstance(entry, ast.Range | ast.EllipsisEntry)
                or (isinstance(base, ast.Name) and base.text in frame.names)
            ):
                prefix = self._dotted(base, frame)
                return None if prefix is None else f"{prefix}.{self._path_item(entry, frame)}"
            case ast.Spliced(base=base, value=value):
                prefix = self._dotted(base, frame)
                return None if prefix is None else prefix + self._splice(value, frame)
            case _:
                return None

    def _parameter(self, relative: str, frame: Frame) -> Tensor | None:
        """The parameter at a path inside this layer, if there is one."""
        name = frame.join(relative)
        if name in frame.state.body.leaves:
            return frame.state.current(name)
        proof = frame.state.proof
        if proof is None:
            return None
        if proof.flags_if_proved is not None:
            raise NeedsInliningError(proof.assumed_around(name))
        if any(name.startswith(f"{path}.") for path in proof.contracts if path):
            raise UndecidableError(f"`{relative}` is a weight of a block that is given")
        return None

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Evaluated:
        base = self.evaluate(node.base, frame)
        if is_tensor(base):
            return self._part(node, base, frame)
        if isinstance(base, Dim) and isinstance(frame.declaration, ast.Block):
            raise UndecidableError(f"`{node.base.span.text}` is a list the configuration gives")
        if not isinstance(base, list | Axes | TensorList):
            raise ProblemError(
                WrongKind(frame.location(node.base.span), "a list or a tensor", describe(base))
            )
        items = base.items if isinstance(base, TensorList) else base
        if len(node.entries) != 1:
            raise ProblemError(
                WrongKind(frame.location(node.span), "one index", f"{len(node.entries)} of them")
            )
        entry = node.entries[0]
        if isinstance(entry, ast.EllipsisEntry):
            raise ProblemError(WrongKind(frame.location(entry.span), "an index", "all axes"))
        if isinstance(entry, ast.Range):
            start = 0 if entry.start is None else self._index(entry.start, frame)
            stop = len(items) if entry.stop is None else self._index(entry.stop, frame)
            spend(len(items))
            if isinstance(base, TensorList):
                return TensorList(base.items[start:stop])
            return list(base)[start:stop]
        index = self._index(entry, frame)
        if not -len(items) <= index < len(items):
            raise ProblemError(
                WrongKind(
                    frame.location(entry.span), f"an index of a list of {len(items)}", f"{index}"
                )
            )
        return items[index]

    def _index(self, node: ast.Expression, frame: Frame) -> int:
        value = self.evaluate(node, frame)
        if frame.state.differs_by_round(value):
            raise ProblemError(DiffersByRound(frame.location(node.span), "which item this is"))
        if isinstance(value, Dim):
            raise UndecidableError(f"`{node.span.text}` is an index the configuration gives")
        if not isinstance(value, int) or isinstance(value, bool):
            raise ProblemError(WrongKind(frame.location(node.span), "an index", describe(value)))
        return value

    def _part(self, node: ast.Subscript, base: Tensor, frame: Frame) -> Tensor:
        """A part of a tensor: first along the axes where it is the same in all rounds of a scan."""
        of_axes = entries_of_axes(frame, node.span, node.entries, base.type.rank)
        of_round = {
            axis: innermost
            for axis, entry in enumerate(of_axes)
            if frame.state.scans and (innermost := innermost_of(entry, frame, self.evaluate))
        }
        entries = list(of_axes)
        for axis in of_round:
            entries[axis] = ast.Range(entries[axis].span, None, None)
        result = take_part(frame, node.span, base, self.part_of(node.span, entries, base, frame))
        for axis in sorted(of_round, key=of_round.__getitem__):  # a scan slices what is around it
            at = sum(isinstance(each, ast.Range) for each in entries[:axis])
            result = round_part(result, at, of_axes[axis], frame, self.size)
            entries[axis] = of_axes[axis]
        return result

    def part_of(
        self, span: Span, subscripts: Sequence[ast.Entry], base: Tensor, frame: Frame
    ) -> Part:
        """Where a part of a tensor begins and how large it is, from its subscripts."""
        rank = base.type.rank
        entries = entries_of_axes(frame, span, subscripts, rank)
        if len(entries) > rank:
            found = f"{len(entries)} subscripts"
            wanted = f"at most {rank} subscripts"
            raise ProblemError(RankMismatch(frame.location(span), f"{base.type}", wanted, found))
        part = Part(base.type.shape)
        for axis, entry in enumerate(entries):
            size = base.type.shape[axis]
            if isinstance(entry, ast.Range):
                start = 0 if entry.start is None else self._bound(entry.start, size, frame)
                stop = size if entry.stop is None else self._bound(entry.stop, size, frame)
                part = part.between(frame, entry.span, axis, start, stop)
            else:
                part = part.entry(
                    frame, entry.span, axis, self._bound(entry, size, frame, (span, base))
                )
        return part

    def _bound(
        self, node: ast.Expression, size: Size, frame: Frame, of: tuple[Span, Tensor] | None = None
    ) -> Size | Tensor:
        """Where a part begins or ends; `of` is the part and its tensor, for what is said."""
        bound = self.evaluate(node, frame)
        if is_tensor(bound) and bound.type == POSITION:
            return bound
        if not is_size(bound):
            found = describe(bound)
            cure = habits.of_subscript(of[0], node.span.text, bound, of[1]) if of else None
            raise ProblemError(WrongKind(frame.location(node.span), "a size", found, cure or ""))
        return size + bound if _is_negative(bound, frame) else bound

    _forms: ClassVar[Mapping[type[ast.Node], Callable[..., Evaluated]]] = {
        ast.Name: _name,
        ast.Integer: _literal,
        ast.Real: _literal,
        ast.Text: _literal,
        ast.Boolean: _literal,
        ast.Binary: _binary,
        ast.Pipe: _pipe,
        ast.Call: _call,
        ast.Unary: _unary,
        ast.ListOf: _list,
        ast.Conditional: _conditional,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.Spliced: _spliced,
    }
    """What evaluates each form: to test one type after another takes longer than most forms."""


def _right(
    node: ast.Binary,
    left: Evaluated,
    frame: Frame,
    evaluate: Callable[[ast.Expression, Frame], _Result],
) -> _Result:
    """The right side; that of `and` and `or` where the left side does not decide."""
    if node.operator not in ("and", "or") or not is_condition(left):
        return evaluate(node.right, frame)
    before, count = frame.facts, len(frame.choices.assumed)
    frame.build.facts = before.assume(left if node.operator == "and" else negate(left))
    try:
        return evaluate(node.right, frame)
    finally:
        for chosen in frame.choices.assumed[count:]:
            before = before.assume(chosen)
        frame.build.facts = before


def _joined(
    clause: ast.Expression, frame: Frame, condition: Callable[[ast.Expression, Frame], Condition]
) -> Condition:
    """A condition whose choices depend on sizes: what it is on each path, and which path it is.

    Nothing is decided by it, and nothing more is known behind it.
    """
    path, facts, around, found = ProofPath(is_joined=True), frame.facts, frame.choices, False
    while True:
        path.begin()
        frame.choices = path
        try:
            here = condition(clause, frame)
        finally:
            frame.build.facts, frame.choices = facts, around
        try:
            for chosen in reversed(path.assumed):
                here = static_arithmetic.connect("and", chosen, here)
            found = static_arithmetic.connect("or", found, here)
        except KindError as error:
            raise _wrong_kind(frame, clause.span, error.wanted, error.value) from error
        if not path.advance():
            return found


def _is_negative(bound: Size, frame: Frame) -> bool:
    """Whether a position counts from the end: a number below 0, or configuration that is one."""
    if isinstance(bound, int):
        return bound < 0
    proof = frame.state.proof
    if proof is None or proof.whole_numbers.isdisjoint(bound.variables()):
        return False
    return frame.facts.proves(Compare("<", bound, 0))


def _require_divisor(node: ast.Binary, right: Evaluated, frame: Frame) -> None:
    """Raise `ProblemError` unless no size of a divisor is ever zero.

    Raises `UndecidableError` unless one that depends on the number of a symbol is 1 or more.
    """
    if isinstance(right, int):
        return
    sizes = [each for each in (right if isinstance(right, Axes) else (right,)) if is_size(each)]
    if frame.state.is_general(right):
        for size in sizes:
            _require_positive(size, frame)
        return
    for size in sizes:
        location = frame.location(node.operator_span)
        rounds = {*frame.state.loops.indices, *frame.state.scans}
        require_divisor(size, location, frame.facts, rounds)


_TURNED = ("T", "mT")
"""What turns the last two axes of a tensor elsewhere."""
_OF_SIZES = (Form("shape(x)", "x.shape"), Form("size(x, 1)", "x.shape[1]"))


def _require_positive(divisor: Size, frame: Frame) -> None:
    """Raise `UndecidableError` unless a size in symbols is 1 or more."""
    if not frame.facts.proves(Compare(">=", divisor, 1)):
        raise UndecidableError("a divisor depends on a number that a symbol stands for")


def _require_value(right: float | Dim | Unknown, frame: Frame) -> None:
    """Raise `KindError` for a zero by which a tensor is divided: the quotient has no value.

    Raises `UndecidableError` for a size that may be zero for a number that a symbol stands for.
    """
    if right == 0:
        raise KindError(NONZERO, right)
    if isinstance(right, Dim) and frame.state.is_general(right):
        _require_positive(right, frame)


def _without_choice(
    choice: ast.If | ast.Conditional, rest: tuple[ast.Statement, ...], frame: Frame, found: Tensor
) -> Help:
    tensors = {name: each.type.shape for name, each in frame.names.items() if is_tensor(each)}
    return habits.of_choice(choice, rest, found.type.shape, tensors)


def _wrong_kind(
    frame: Frame, span: Span, wanted: str, value: Evaluated, cure: str | Help = ""
) -> ProblemError:
    problem = size_as_condition(frame, span, value) if wanted == "a condition" else None
    cure = cure or _of_widths(frame, wanted, value)
    return problem or ProblemError(WrongKind(frame.location(span), wanted, describe(value), cure))


def _of_widths(frame: Frame, wanted: str, value: Evaluated) -> str:
    """Advice for `linear` of two widths, as other systems write it."""
    block = frame.declaration
    if not (wanted == "a condition" and frame.module.is_library and isinstance(block, ast.Block)):
        return ""
    first = frame.names.get(block.parameters[0].name, "") if block.parameters else ""
    if not is_size(value) or not is_size(first) or block.name.text != "linear":
        return ""
    return f"the width of what comes in is never written: `linear({show(value)})`"


def short_text(node: ast.Expression) -> str:
    """What to call an expression in a message: its own text if that is short."""
    text = " ".join(node.span.text.split())
    if isinstance(node, ast.Pipe):
        text = layer_text(node.layer)
    return text if len(text) <= 32 else f"{text[:29]}..."
