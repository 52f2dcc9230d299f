"""A call of a built-in function, and how its arguments are read."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.habits import is_quotient, piped_into
from meganeura_dsl.elaborate.problems.location import counted
from meganeura_dsl.elaborate.problems.name_problems import WrongArguments, WrongKind
from meganeura_dsl.elaborate.problems.shape_problems import RankMismatch
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.iteration_numbers import lifted
from meganeura_dsl.elaborate.values import (
    Axes,
    ElabValue,
    LayerWeights,
    Opaque,
    Tensor,
    describe,
    is_size,
    is_tensor,
)
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import Constant
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.symbolic.size import Dim, Size
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.problems.block_text import split_top


@dataclass(frozen=True)
class BuiltinCall:
    """A call of a built-in function, its arguments evaluated."""

    frame: Frame
    node: ast.Call
    signature: str
    arguments: tuple[ElabValue, ...]
    named: Mapping[str, ElabValue]

    @property
    def span(self) -> Span:
        """The span of the call."""
        return self.node.span

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.node.callee

    def fault(self, fault: str, unknown: str = "") -> ProblemError:
        """The error that the arguments do not fit, one of which may be unknown."""
        location = self.frame.location(self.span)
        return ProblemError(WrongArguments(location, self.name, fault, self.signature, unknown))

    def wrong(self, wanted: str, found: ElabValue, advice: Help | None = None) -> ProblemError:
        """The error that an argument is of the wrong kind."""
        cure: str | Help = advice or ""
        if isinstance(found, LayerWeights):
            cure = "of weights there are + - * / **, functions of one element, and `sum`"
        location = self.frame.location(self.span)
        return ProblemError(WrongKind(location, wanted, describe(found), cure))

    def add(self, op: Op, *operands: Tensor) -> Tensor:
        """An op at the place of the call."""
        return self.frame.add(self.span, op, *operands)

    def add_all(self, op: Op, *operands: Tensor) -> tuple[Tensor, ...]:
        """All results of an op at the place of the call."""
        return self.frame.build.results_of(self.add(op, *operands))

    def tensor(self, index: int) -> Tensor:
        """The positional argument at `index`, which must be a tensor.

        In a scan, integers and truth values count as tensors too: whether one differs by
        iteration depends on the sizes.
        """
        if index >= len(self.arguments):
            raise self.fault("needs another tensor")
        value = self.lifted(self.arguments[index])
        if self.frame.state.scans and isinstance(value, bool | int):
            value = self.add(Constant(value, DType.BOOL if isinstance(value, bool) else DType.I32))
        if not is_tensor(value):
            raise self.wrong("a tensor", value)
        return value

    def lifted(self, value: ElabValue) -> ElabValue:
        """A number or condition of an iteration of a scan as a tensor; anything else as it is."""
        return lifted(self.frame, self.span, value)

    def option(self, index: int, name: str, default: ElabValue | None = None) -> ElabValue:
        """An argument by position or name."""
        if index < len(self.arguments):
            return self.arguments[index]
        value = self.named.get(name, default)
        if value is None:
            raise self.fault(f"needs `{name}`")
        return value

    def size(self, index: int, name: str, default: Size | None = None) -> Size:
        """An argument that must be a size."""
        value = self.option(index, name, default)
        if not is_size(value):
            self._require_known(index, name, value)
            raise self.wrong(f"a size as `{name}`", value)
        return value

    def sizes(self, index: int, name: str, rank: int, default: Size | None = None) -> Shape:
        """One size for each of `rank` axes: a list, or one size for all of them."""
        value = self.option(index, name, default)
        if is_size(value):
            return (value,) * rank
        if isinstance(value, list | Axes) and len(value) == rank:
            sizes = [size for size in value if is_size(size)]
            if len(sizes) == rank:
                return tuple(sizes)
        self._require_known(index, name, value)
        raise self.wrong(f"a size, or a list of {rank} sizes, as `{name}`", value)

    def _require_known(self, index: int, name: str, value: ElabValue) -> None:
        """Raise `UndecidableError` for a number that may be whole in models, as `2 ** i` is."""
        named = [each.value for each in self.node.arguments if each.name == name]
        nodes = named or [each.value for each in self.node.arguments[index : index + 1]]
        if value is Opaque.NUMBER and not any(is_quotient(each.span.text) for each in nodes):
            raise UndecidableError(f"`{name}` is a number the configuration gives")

    def axis(self, value: ElabValue, rank: int) -> int:
        """An axis number, counted from the front; negative numbers count from the end."""
        proof = self.frame.state.proof
        numbers = frozenset[str]() if proof is None else proof.whole_numbers
        if isinstance(value, Dim) and value.variables() <= numbers:
            raise UndecidableError(f"{value} is an axis the configuration gives")
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong("the number of an axis", value, self._of_two(value))
        if not -rank <= value < rank:
            raise ProblemError(
                RankMismatch(
                    self.frame.location(self.span),
                    f"axis {value}",
                    "an axis that exists",
                    f"of {rank} axes",
                )
            )
        return value % rank

    def _of_two(self, value: ElabValue) -> Help | None:
        """Returns the function of two tensors for `max(x, y)` and `min(x, y)`."""
        written = re.fullmatch(r"(max|min)\((.*)\)", " ".join(self.span.text.split()))
        is_operand = is_tensor(value) or isinstance(value, float)
        if written is None or not is_operand or len(split_top(written[2])) > 2:
            return None
        text = f"`{written[1]}` is over an axis; of two tensors it is"
        return Help(text, f"{written[1]}imum({written[2]})")

    def shape(self, index: int, name: str) -> Shape:
        """An argument that lists the sizes of a new tensor."""
        value = self.option(index, name)
        if isinstance(value, list | Axes):
            sizes: list[Size] = []
            for part in value:
                if is_size(part):
                    sizes.append(part)
                elif isinstance(part, Axes):
                    sizes.extend(part)
                else:
                    raise self.wrong("a list of sizes", part)
            return tuple(sizes)
        raise self.wrong("a list of sizes", value, self._listed(value))

    def _listed(self, value: ElabValue) -> Help | None:
        """The call with a list of sizes in place of its first argument, a tensor or one size."""
        written = self.node.arguments[0].span.text if self.node.arguments else ""
        written = " ".join(written.split()) or piped_into(self.span)
        if not written:
            return None
        if is_tensor(value):
            return Help("the sizes of a tensor are its `shape`", f"{self.name}(shape({written}))")
        return Help("sizes are listed", f"{self.name}([{written}])") if is_size(value) else None


@dataclass(frozen=True)
class Builtin:
    """A built-in function: how it is called, its line in the language reference, what it does."""

    signature: str
    meaning: str
    apply: Callable[[BuiltinCall], ElabValue]
    named: tuple[str, ...] = ()
    """The arguments that may be given by name; by position they follow the others."""
    leading: int | None = 1
    """The number of arguments before those that have names; None if any number may be given."""

    def called(self, call: BuiltinCall) -> ElabValue:
        """Returns the result of a call. Raises `ProblemError` if an argument is not used."""
        for name in call.named:
            if name not in self.named:
                raise call.fault(f"has no argument `{name}`", name)
        if self.leading is not None:
            places = call.arguments[self.leading :]
            for name, _ in zip(self.named, places, strict=False):
                if name in call.named:
                    raise call.fault(f"got `{name}` twice")
            if len(places) > len(self.named):
                over = counted(len(places) - len(self.named), "argument")
                raise call.fault(f"got {over} too many")
        return self.apply(call)
