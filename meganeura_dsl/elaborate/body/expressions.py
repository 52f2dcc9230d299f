"""The walk over expressions: every form to its value."""

from abc import ABC, abstractmethod
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.round_parts import (
    lifted_operand,
    note_read,
    round_part,
    speaks_of_round,
)
from meganeura_dsl.elaborate.builtins.initial_values import WORDS as INITIALS
from meganeura_dsl.elaborate.problems.name_problems import (
    EndedWithScan,
    TooMuchWork,
    UndecidedChoice,
    UnknownName,
    WrongKind,
)
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByRound, LabelOfRound
from meganeura_dsl.elaborate.problems.shape_problems import RankMismatch
from meganeura_dsl.elaborate.scope.linker import nearest
from meganeura_dsl.elaborate.scope.scope import Binding, Frame, NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.typecheck import static_arithmetic, tensor_arithmetic
from meganeura_dsl.elaborate.typecheck.round_numbers import lifted
from meganeura_dsl.elaborate.typecheck.static_arithmetic import KindError, length_of_list
from meganeura_dsl.elaborate.values import (
    Axes,
    Evaluated,
    Tensor,
    describe,
    is_condition,
    is_initializer,
    is_size,
    is_static,
    is_tensor,
)
from meganeura_dsl.ir import ops
from meganeura_dsl.limits.language_limits import EXPRESSION, LONGEST_LIST, MOST_PATHS
from meganeura_dsl.limits.work_budget import OutOfWorkError, spend
from meganeura_dsl.symbolic.assumptions import Condition, Flag, negate, show_condition
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, dim, show
from meganeura_dsl.syntax import ast

OWN_PATH = "."
"""The label of a layer that shares the path of the block around it."""


class Expressions(ABC):
    """Evaluates expressions in a frame; what a layer does is for the subclass."""

    @abstractmethod
    def apply(self, call: ast.Call, piped: Evaluated | None, frame: Frame) -> Evaluated:
        """A layer, function or block applied to its arguments."""

    @abstractmethod
    def layer_words(self, name: str, frame: Frame) -> str | None:
        """A description of the layer or function of a name for messages; None if there is none."""

    def evaluate(self, node: ast.Expression, frame: Frame) -> Evaluated:
        """The value of an expression."""
        try:
            spend(EXPRESSION)
            return self._evaluate(node, frame)
        except OutOfWorkError as error:
            name, place = frame.outermost(node.span)
            problem = TooMuchWork(place, error.reason, name)
            raise ProblemError(problem) from error

    def _evaluate(self, node: ast.Expression, frame: Frame) -> Evaluated:
        match node:
            case ast.Name():
                return self._name(node, frame)
            case ast.Integer(value=value):
                return value
            case ast.Real(value=value):
                return value
            case ast.Text(value=value):
                return value
            case ast.Boolean(value=value):
                return value
            case ast.Binary():
                return self._binary(node, frame)
            case ast.Pipe():
                return self._pipe(node, frame)
            case ast.Call():
                return self.apply(node, None, frame)
            case ast.Unary():
                return self._unary(node, frame)
            case ast.ListOf():
                return self._list(node, frame)
            case ast.Conditional():
                branch = node.then if self.choose(node.condition, frame) else node.otherwise
                return self.evaluate(branch, frame)
            case ast.Attribute():
                return self._attribute(node, frame)
            case ast.Subscript():
                return self._subscript(node, frame)

    def path_text(self, path: ast.Path, frame: Frame) -> str:
        """A label with its indices evaluated: `layers[i]` is `layers.3`."""
        return ".".join(
            part if isinstance(part, str) else self._path_item(part, frame) for part in path.parts
        )

    def _path_item(self, node: ast.Expression, frame: Frame) -> str:
        size = self.size(node, frame)
        if frame.state.differs_by_round(size):
            raise ProblemError(LabelOfRound(frame.place(node.span)))
        return show(size)

    def size(self, node: ast.Expression, frame: Frame) -> Size:
        """The value of an expression that must be a size."""
        value = self.evaluate(node, frame)
        if not is_size(value):
            raise ProblemError(WrongKind(frame.place(node.span), "a size", describe(value)))
        return value

    def tensor(self, node: ast.Expression, frame: Frame) -> Tensor:
        """The value of an expression that must be one tensor."""
        value = lifted(frame, node.span, self.evaluate(node, frame))
        if not is_tensor(value):
            raise ProblemError(WrongKind(frame.place(node.span), "a tensor", describe(value)))
        return value

    def condition(self, node: ast.Expression, frame: Frame) -> Condition:
        """The value of an expression that must be true, false or a condition on sizes."""
        value = self.evaluate(node, frame)
        if frame.state.generic and isinstance(value, Dim):
            value = _as_flag(value)
        if is_initializer(value):
            return True  # a flag that also says how the parameter begins
        if not is_condition(value):
            raise _wrong_kind(frame, node.span, "a condition", value)
        return value

    def choose(self, node: ast.Expression, frame: Frame) -> bool:
        """Which way a condition goes; where it depends on configuration, one path at a time."""
        condition = self.condition(node, frame)
        truth = frame.facts.truth(condition)
        if truth is not None:
            return truth
        words = show_condition(condition)
        if frame.state.differs_by_round(condition):
            cure = f"pick values instead: where({words}, ..., ...)"
            raise ProblemError(DiffersByRound(frame.place(node.span), f"whether {words}", cure))
        if not frame.state.generic:
            raise ProblemError(UndecidedChoice(frame.place(node.span), words))
        return self._follow(condition, frame)

    def _follow(self, condition: Condition, frame: Frame) -> bool:
        choices = frame.choices
        if choices.closed:
            raise UndecidableError(f"its result has another shape if {show_condition(condition)}")
        if frame.state.indices & sizes_in(condition):
            raise UndecidableError(
                f"whether {show_condition(condition)} changes from round to round"
            )
        if choices.next == len(choices.decided):
            if choices.next >= MOST_PATHS.bit_length():
                raise UndecidableError("it has too many paths to prove at once")
            choices.decided.append(True)
        decision = choices.decided[choices.next]
        choices.next += 1
        assumed = condition if decision else negate(condition)
        choices.words.append(show_condition(assumed))
        frame.build.facts = frame.facts.assume(assumed)
        return decision

    def _name(self, node: ast.Name, frame: Frame) -> Evaluated:
        value = frame.names.get(node.text)
        if value is not None:
            if frame.state.scans:
                note_read(frame, node.text, value)
            return value
        if node.text == "training":
            return frame.state.training
        if node.text in INITIALS:
            return INITIALS[node.text]
        own = self._parameter(node.text, frame) if OWN_PATH in frame.layers else None
        if own is not None:
            return own
        place = frame.place(node.span)
        layer = self.layer_words(node.text, frame)
        if layer is not None:
            cure = "a layer or function is no value: apply it where it stands"
            raise ProblemError(WrongKind(place, "a value", layer, cure))
        if node.text in frame.gone:
            raise ProblemError(EndedWithScan(place, node.text))
        known = [*frame.names, "training"]
        raise ProblemError(UnknownName(place, node.text, "value", nearest(node.text, known)))

    def _binary(self, node: ast.Binary, frame: Frame) -> Evaluated:
        left = self.evaluate(node.left, frame)
        if (
            node.operator in ("and", "or")
            and isinstance(left, bool)
            and left is (node.operator == "or")
        ):
            return left
        right = self.evaluate(node.right, frame)
        if frame.state.scans:
            left, right = (
                lifted_operand(frame, node, side, other)
                for side, other in ((left, right), (right, left))
            )
        try:
            if is_tensor(left) or is_tensor(right):
                names = (short_text(node.left), short_text(node.right))
                return tensor_arithmetic.elementwise(
                    frame, node.operator_span, node.operator, left, right, names
                )
            return static_arithmetic.combine(node.operator, left, right)
        except KindError as error:
            raise _wrong_kind(frame, node.operator_span, error.wanted, error.value) from error

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
        for item, written in zip(items, node.items, strict=True):
            if not is_static(item):
                place = frame.place(written.span)
                raise ProblemError(WrongKind(place, "a number or a size in a list", describe(item)))
        made = [item for item in items if is_static(item)]
        if length_of_list(made) > LONGEST_LIST:
            wanted = f"a list of at most {LONGEST_LIST:,}"
            raise ProblemError(WrongKind(frame.place(node.span), wanted, describe(made)))
        return made

    def _pipe(self, node: ast.Pipe, frame: Frame) -> Evaluated:
        value = lifted(frame, node.source.span, self.evaluate(node.source, frame))
        result = self.apply(node.layer, value, frame)
        if is_tensor(result) and not frame.module.is_library:
            frame.state.bindings.append(
                Binding(node.layer.span, layer_text(node.layer), frame.path, result.type)
            )
        return result

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Evaluated:
        relative = dotted(node)
        if relative is None:
            raise ProblemError(
                WrongKind(frame.place(node.span), "a parameter's path", node.span.text)
            )
        value = self._parameter(relative, frame)
        if value is not None:
            return value
        prefix = f"{frame.path}." if frame.path else ""
        known = [key.removeprefix(prefix) for key in frame.state.leaves if key.startswith(prefix)]
        raise ProblemError(
            UnknownName(frame.place(node.span), relative, "parameter", nearest(relative, known))
        )

    def _parameter(self, relative: str, frame: Frame) -> Tensor | None:
        """The parameter at a path inside this layer, if there is one."""
        name = frame.join(relative)
        if name in frame.state.leaves:
            return frame.state.current(name)
        if frame.state.is_proved is not None:
            raise NeedsInliningError
        return None

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Evaluated:
        base = self.evaluate(node.base, frame)
        if is_tensor(base):
            return self._part(node, base, frame)
        if isinstance(base, Dim) and isinstance(frame.declaration, ast.Block):
            raise UndecidableError(f"`{node.base.span.text}` is a list the configuration gives")
        if not isinstance(base, list | Axes):
            raise ProblemError(
                WrongKind(frame.place(node.base.span), "a list or a tensor", describe(base))
            )
        items = list(base)
        if len(node.entries) != 1:
            raise ProblemError(
                WrongKind(frame.place(node.span), "one index", f"{len(node.entries)} of them")
            )
        entry = node.entries[0]
        if isinstance(entry, ast.Range):
            start = 0 if entry.start is None else self._index(entry.start, frame)
            stop = len(items) if entry.stop is None else self._index(entry.stop, frame)
            spend(len(items))
            return items[start:stop]
        index = self._index(entry, frame)
        if not -len(items) <= index < len(items):
            raise ProblemError(
                WrongKind(
                    frame.place(entry.span), f"an index of a list of {len(items)}", f"{index}"
                )
            )
        return items[index]

    def _index(self, node: ast.Expression, frame: Frame) -> int:
        value = self.evaluate(node, frame)
        if frame.state.differs_by_round(value):
            raise ProblemError(DiffersByRound(frame.place(node.span), "which item this is"))
        if isinstance(value, Dim):
            raise UndecidableError(f"`{node.span.text}` is an index the configuration gives")
        if not isinstance(value, int) or isinstance(value, bool):
            raise ProblemError(WrongKind(frame.place(node.span), "an index", describe(value)))
        return value

    def _part(self, node: ast.Subscript, base: Tensor, frame: Frame) -> Tensor:
        """A part of a tensor: first along the axes where it is the same in all rounds of a scan."""
        of_round = [
            axis
            for axis, entry in enumerate(node.entries)
            if frame.state.scans and speaks_of_round(entry, frame, self.evaluate)
        ]
        if not of_round:
            return self._slice(node, base, frame)
        entries = list(node.entries)
        for axis in of_round:
            entries[axis] = ast.Range(entries[axis].span, None, None)
        result = self._slice(replace(node, entries=tuple(entries)), base, frame)
        for axis in reversed(of_round):
            at = sum(isinstance(each, ast.Range) for each in entries[:axis])
            result = round_part(result, at, node.entries[axis], frame, self.size)
        return result

    def _slice(self, node: ast.Subscript, base: Tensor, frame: Frame) -> Tensor:
        rank = base.type.rank
        if len(node.entries) > rank:
            found = f"{len(node.entries)} subscripts"
            raise ProblemError(
                RankMismatch(
                    frame.place(node.span), f"{base.type}", f"at most {rank} subscripts", found
                )
            )
        starts: list[Size] = [0] * rank
        stops: list[Size] = list(base.type.shape)
        dropped: list[int] = []
        for axis, entry in enumerate(node.entries):
            size = base.type.shape[axis]
            if isinstance(entry, ast.Range):
                starts[axis] = 0 if entry.start is None else self._bound(entry.start, size, frame)
                stops[axis] = size if entry.stop is None else self._bound(entry.stop, size, frame)
            else:
                starts[axis] = self._bound(entry, size, frame)
                stops[axis] = starts[axis] + 1
                dropped.append(axis)
        result = base
        if any(starts) or tuple(stops) != base.type.shape:
            op = ops.Slice(tuple(starts), tuple(stops), (1,) * rank)
            result = frame.add(node.span, op, base)
        if dropped:
            kept = tuple(size for axis, size in enumerate(result.type.shape) if axis not in dropped)
            result = frame.add(node.span, ops.Reshape(kept), result)
        return result

    def _bound(self, node: ast.Expression, size: Size, frame: Frame) -> Size:
        bound = self.size(node, frame)
        return size + bound if isinstance(bound, int) and bound < 0 else bound


def _wrong_kind(frame: Frame, span: Span, wanted: str, value: Evaluated) -> ProblemError:
    return ProblemError(
        WrongKind(frame.place(span), wanted, describe(value), _cure_of_guess(frame, wanted, value))
    )


def _cure_of_guess(frame: Frame, wanted: str, value: Evaluated) -> str:
    """How to say the kind of a configuration name, if it was taken for a size without a reason."""
    names = value.variables() if isinstance(value, Dim) else frozenset[str]()
    if not frame.state.generic or wanted != "a condition" or len(names) != 1:
        return ""
    (name,) = names
    while frame.parent is not None:
        frame = frame.parent
    parameters = frame.declaration.parameters if isinstance(frame.declaration, ast.Block) else ()
    if value != dim(name) or not any(p.name == name and p.default is None for p in parameters):
        return ""
    return f"`{name}` has no default, so it is taken for a size: `{name}=false` makes it a flag"


def _as_flag(value: Dim) -> Evaluated:
    """In a proof, a configuration name of unknown kind that turns out to be true or false."""
    names = tuple(value.variables())
    return Flag(names[0]) if len(names) == 1 and value == dim(names[0]) else value


def dotted(node: ast.Expression) -> str | None:
    """`wte.weight` as text, if the expression is words and dots or indices."""
    match node:
        case ast.Name(text=text):
            return text
        case ast.Attribute(base=base, name=name):
            prefix = dotted(base)
            return None if prefix is None else f"{prefix}.{name}"
        case ast.Subscript(base=base, entries=(ast.Integer(value=value),)):
            prefix = dotted(base)
            return None if prefix is None else f"{prefix}.{value}"
        case _:
            return None


def short_text(node: ast.Expression) -> str:
    """What to call an expression in a message: its own text if that is short."""
    text = " ".join(node.span.text.split())
    if isinstance(node, ast.Pipe):
        text = layer_text(node.layer)
    return text if len(text) <= 32 else f"{text[:29]}..."


def layer_text(call: ast.Call) -> str:
    """A layer's label, or its name if it has none or is labelled `.`."""
    if call.label is None or not call.label.parts:
        return call.callee
    return "".join(call.label.span.text.split())
