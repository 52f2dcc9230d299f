"""What a summary in symbols says of the sizes that they stand for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body import open_numbers
from meganeura_dsl.elaborate.problems.proof_failures import is_countable
from meganeura_dsl.elaborate.scope.declared import Held
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.scope.postponed import Postponed
from meganeura_dsl.elaborate.scope.scope import (
    Binding,
    ElaborationState,
    Frame,
    UndecidableError,
)
from meganeura_dsl.elaborate.scope.summary import SummarizedValue, Summary
from meganeura_dsl.ir.initializers import Initializer
from meganeura_dsl.ir.types import TensorType
from meganeura_dsl.symbolic.conditions import with_sizes as condition_with_sizes
from meganeura_dsl.symbolic.size import Size, substitute


def with_sizes(summary: Summary, sizes: Mapping[str, Size], inner: Frame) -> Summary | None:
    """What a summary says where its symbols are these sizes, if it holds for them.

    It does not where a number has no value, or where something it needs is not known.
    """
    known: dict[Size, Size] = {}

    def sized(size: Size) -> Size:
        found = known.get(size)
        if found is None:
            found = known[size] = substitute(size, sizes)
        return found

    def typed(type_: TensorType) -> TensorType:
        return TensorType(type_.dtype, tuple([sized(size) for size in type_.shape]))

    def valued(values: Iterable[SummarizedValue]) -> tuple[SummarizedValue, ...]:
        return tuple([each._replace(type=typed(each.type)) for each in values])

    needs = (condition_with_sizes(each, sizes) for each in summary.needs)
    unproved = tuple(each for each in needs if not inner.facts.proves(each))
    if unproved and not inner.state.generalized:
        return None
    shapes = frozenset([tuple([sized(size) for size in shape]) for shape in summary.shapes])
    if not all(is_countable(shape, inner.facts) for shape in shapes):
        return None
    try:
        _, postponed = _numbers(summary.postponed, sizes, inner.state)
        held = _Sizing(inner, sizes, typed).held(summary.held)
    except (ProblemError, _SizedByDataError):
        return None
    names = [name for name, _ in summary.updates]
    return replace(
        summary,
        results=valued(summary.results),
        updates=tuple(zip(names, valued(each for _, each in summary.updates), strict=True)),
        held=held,
        bindings=tuple(
            [
                Binding(each.span, each.name, each.path, typed(each.type))
                for each in summary.bindings
            ]
        ),
        postponed=postponed,
        needs=unproved,
        shapes=shapes,
    )


class _SizedByDataError(Exception):
    """A parameter would be as large as the data says."""


class _Sizing:
    """Gives sizes to what layers hold, once where layers hold the same."""

    def __init__(
        self, inner: Frame, sizes: Mapping[str, Size], typed: Callable[[TensorType], TensorType]
    ) -> None:
        self.inner, self.sizes, self.typed = inner, sizes, typed
        self.known: dict[int, Held] = {}

    def held(self, held: Held) -> Held:
        """The same with sizes. Raises what `_numbers` raises, and `_SizedByDataError`."""
        found = self.known.get(id(held))
        if found is None:
            initials, postponed = _numbers(held.postponed, self.sizes, self.inner.state)
            entries = [
                (
                    name,
                    self.held(each)
                    if isinstance(each, Held)
                    else self._info(each, initials.get(name)),
                )
                for name, each in held.entries
            ]
            found = self.known[id(held)] = Held.of(entries, postponed)
        return found

    def _info(self, info: ParameterInfo, initial: Initializer | None) -> ParameterInfo:
        sized = info._replace(type=self.typed(info.type), initializer=initial or info.initializer)
        if info.kind != "cache" and not _may_be_sized(sized, self.inner):
            raise _SizedByDataError
        return sized


def _may_be_sized(info: ParameterInfo, inner: Frame) -> bool:
    """Whether no size of a parameter is one that the data decides."""
    return all(
        isinstance(size, int) or size.variables() <= inner.state.generalized
        for size in info.type.shape
    )


def _numbers(
    postponed: Sequence[Postponed[Frame]], sizes: Mapping[str, Size], state: ElaborationState
) -> tuple[dict[str, Initializer], tuple[Postponed[Frame], ...]]:
    """What parameters begin as, and the numbers that are not known here either.

    Raises `ProblemError` where a number has no value.
    """
    initials: dict[str, Initializer] = {}
    left: list[Postponed[Frame]] = []
    seen: set[tuple[int, int]] = set()
    apart = open_numbers.alone(state) if postponed else state
    for each in postponed:
        expression = id(each.node), id(each.frame)
        if not each.parameter and expression in seen:
            continue
        seen.add(expression)
        here = open_numbers.with_sizes(each, sizes, apart)
        try:
            if each.parameter:
                initials[each.parameter] = open_numbers.initializer_of(here)
            else:
                open_numbers.value_of(here)
        except UndecidableError:
            left.append(here)
    return initials, tuple(left)
