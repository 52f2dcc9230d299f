"""Gradient graphs are replayed from the pullbacks of their ops, by a sweep of our own.

Every use of the chain rule is noted while a training step is built: by the step, by `grad` in a
program, and by the gradient of a loop, for its body. The sweep makes each gradient anew from the
definition: that of a value is the sum, over all operands that it is, of what the pullback of that
op gives there. Two graphs are the same if they are, op by op, up to the order of sums.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from unittest import mock

from meganeura_dsl.elaborate.builtins import builtin_gradient
from meganeura_dsl.ir.graph import Builder, Value, by_application, dependencies
from meganeura_dsl.ir.ops import Add
from meganeura_dsl.ir.ops.primitive import loop_gradient
from meganeura_dsl.ir.ops.primitive.reverse_mode import pull_back
from meganeura_dsl.transforms import autodiff

USERS = (autodiff, builtin_gradient, loop_gradient)
"""The modules that apply the chain rule."""
Gradients = tuple[Value | None, ...]


@dataclass(frozen=True)
class Use:
    """A use of the chain rule: cotangents of some values, and the gradients found of others."""

    build: Builder
    seeds: Mapping[Value, Value]
    wrt: Sequence[Value]
    found: Gradients


@contextmanager
def noted() -> Generator[list[Use]]:
    """The uses of the chain rule meanwhile."""
    uses: list[Use] = []

    def note(build: Builder, seeds: Mapping[Value, Value], wrt: Sequence[Value]) -> Gradients:
        found = pull_back(build, seeds, wrt)
        uses.append(Use(build, dict(seeds), tuple(wrt), found))
        return found

    patches = [mock.patch.object(module, "pull_back", note) for module in USERS]
    for each in patches:
        each.start()
    try:
        yield uses
    finally:
        for each in patches:
            each.stop()


@dataclass
class Numbers:
    """Numbers of values, the same for two that are the same up to the order of sums."""

    known: dict[object, int] = field(default_factory=dict[object, int])

    def of(self, roots: Iterable[Value]) -> dict[int, int]:
        """The numbers of values and of all that they depend on, by their ids."""
        found: dict[int, int] = {}
        terms: dict[int, tuple[int, ...]] = {}
        for value in dependencies(roots):
            operands = tuple(found[each.id] for each in value.operands)
            key: object = (value.op, operands, value.index)
            if isinstance(value.op, Add):
                parts = (terms.get(each.id, (found[each.id],)) for each in value.operands)
                terms[value.id] = tuple(sorted(reduce(tuple.__add__, parts)))
                key = ("sum", terms[value.id])
            found[value.id] = self.known.setdefault(key, len(self.known))
        return found


class Sweep:
    """The gradients of one use of the chain rule, in a builder of their own."""

    def __init__(self, use: Use) -> None:
        self.use = use
        self.build = Builder(use.build.facts)
        self.ops: set[str] = set()
        """The names of the ops whose pullbacks were used."""
        self._copies: dict[int, Value] = {}
        self._forward = dependencies(use.seeds)
        for value in dependencies((*use.seeds, *use.seeds.values(), *use.wrt)):
            operands = [self._copies[each.id] for each in value.operands]
            self._copies[value.id] = self.build.reapply(value, *operands)

    def run(self) -> Gradients:
        """The gradient of each value, `None` where nothing flows."""
        below = self._below()
        terms: dict[int, list[Value]] = {}
        for value, seed in self.use.seeds.items():
            terms.setdefault(self._copies[value.id].id, []).append(self._copies[seed.id])
        for results in reversed(by_application([v for v in self._forward if v.id in below])):
            value = self._copies[results[0].id]
            every = self.build.results_of(value)
            sums = [self._sum(terms.get(each.id)) for each in every]
            if not any(sums) or not any(each.id in below for each in results[0].operands):
                continue
            several = value.op.multiple_results
            given = (every, tuple(sums)) if several else (value, sums[0])
            self.ops.add(type(value.op).__name__)
            parts = value.op.pullback(self.build, *given)
            for old, operand, part in zip(results[0].operands, value.operands, parts, strict=True):
                if part is not None and old.id in below:
                    terms.setdefault(operand.id, []).append(part)
        return tuple(self._sum(terms.get(self._copies[each.id].id)) for each in self.use.wrt)

    def _below(self) -> set[int]:
        """The float values that depend on one that a gradient is wanted of, and these."""
        found = {value.id for value in self.use.wrt}
        for value in self._forward:
            if value.type.dtype.is_float and any(each.id in found for each in value.operands):
                found.add(value.id)
        return found

    def _sum(self, parts: Sequence[Value] | None) -> Value | None:
        if not parts:
            return None
        return reduce(lambda total, part: self.build.add(Add(), total, part), parts)


def is_replayed(use: Use, made: Gradients) -> bool:
    """True if a sweep made the gradients that were found."""
    if [each is None for each in made] != [each is None for each in use.found]:
        return False
    numbers = Numbers()
    pairs = [
        (a, b) for a, b in zip(made, use.found, strict=True) if a is not None and b is not None
    ]
    first, second = (numbers.of(side) for side in zip(*pairs, strict=True)) if pairs else ({}, {})
    return all(first[a.id] == second[b.id] for a, b in pairs)
