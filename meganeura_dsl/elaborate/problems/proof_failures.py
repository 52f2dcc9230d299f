"""Problems for readers, made from failed proofs and refused operands."""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import combinations

from meganeura_dsl.diagnostics.problem import Help, Problem, ProblemError
from meganeura_dsl.elaborate.problems import join_cures
from meganeura_dsl.elaborate.problems.argument_cures import to_float
from meganeura_dsl.elaborate.problems.limit_problems import TooManyAxes, TooManyElements
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.origin_cures import filled_cure, kernel_cure
from meganeura_dsl.elaborate.problems.part_cures import (
    ended_part,
    last_place,
    other_entry,
    takes_places,
    wider_cure,
)
from meganeura_dsl.elaborate.problems.resolution_cures import Around, skip_cure
from meganeura_dsl.elaborate.problems.shape_problems import (
    Example,
    MissingFact,
    TooSmall,
    TypeRuleBroken,
    ZeroDivisor,
)
from meganeura_dsl.elaborate.values import Tensor, show_shape
from meganeura_dsl.ir.graph import TypeRuleError
from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.limits.language_limits import MOST_AXES, MOST_ELEMENTS
from meganeura_dsl.symbolic.assumptions import (
    Compare,
    Condition,
    Facts,
    Refuted,
    Unproved,
    Verdict,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import And, sizes_in
from meganeura_dsl.symbolic.size import Dim, Size, dim, show, substitute
from meganeura_dsl.syntax.problems.block_text import split_top


def example_of(verdict: Verdict, shapes: Sequence[tuple[str, Sequence[Size]]]) -> Example | None:
    """Returns the shapes for the sizes that refute a claim."""
    if not isinstance(verdict, Refuted):
        return None
    named = [f"{name} {show_shape(at(shape, verdict.example))}".lstrip() for name, shape in shapes]
    return Example(tuple(verdict.example.items()), "   ".join(named))


def at(shape: Sequence[Size], sizes: Mapping[str, int]) -> tuple[Size, ...]:
    """A shape with some of its names given a size."""
    return tuple(substitute(size, dict(sizes)) for size in shape)


def helpful_fact(facts: Facts, condition: Condition) -> Condition | None:
    """A further bound or divisor that would make the condition hold, unless it pins a size."""
    fact = facts.suggest(condition)
    return None if fact is None or _pins(facts, fact) else fact


def helpful_facts(facts: Facts, first: Condition, claims: Sequence[Condition]) -> str:
    """A helpful fact, and those by which further claims hold, each where those before do not do.

    A claim that no fact helps adds none.
    """
    stated, known = [first], facts.assume(first)
    for claim in claims:
        fact = None if known.proves(claim) else helpful_fact(known, claim)
        if fact is not None:
            stated.append(fact)
            known = known.assume(fact)
    return ", ".join(map(show_condition, stated))


def _pins(facts: Facts, fact: Condition) -> bool:
    """True if a fact, with those that are known, makes two sizes equal, or one a certain number.

    `h >= w` does so where `w >= h` is known, and `w <= 1` always.
    """
    further = facts.assume(fact)
    names = [dim(name) for name in sorted(sizes_in(fact))]
    claims = [Compare("==", first, second) for first, second in combinations(names, 2)]
    claims += (
        Compare("==", part.left, part.right)
        for part in (fact.parts if isinstance(fact, And) else (fact,))
        if isinstance(part, Compare) and part.operator in (">=", "<=")
    )
    return any(further.proves(claim) and not facts.proves(claim) for claim in claims)


def deciding_fact(facts: Facts, condition: Condition) -> str:
    """The `where` clause that would make the condition hold, or nothing."""
    fact = helpful_fact(facts, condition)
    return "" if fact is None else show_condition(fact)


def reversed_fact(facts: Facts, condition: Condition) -> Help | None:
    """The stated `a % b == 0` that would make the condition hold as `b % a == 0`, if one would."""
    for fact in facts.stated:
        names = sorted(sizes_in(fact))
        if not isinstance(fact, Compare) or fact.operator != "==" or len(names) != 2:
            continue
        for divisor, name in (names, names[::-1]):
            stated = Compare("==", dim(name) % dim(divisor), 0)
            turned = Compare("==", dim(divisor) % dim(name), 0)
            if fact == stated and Facts().assume(turned).proves(condition):
                wrong = f"`{show_condition(stated)}` is the wrong way round"
                text = f"{wrong}: what is divided stands before `%`"
                return Help(text, f"where {show_condition(turned)}")
    return None


def require_countable(type_: TensorType, location: Location, facts: Facts) -> None:
    """Raise `ProblemError` for a tensor no device can have: its axes, or its elements."""
    if type_.rank > MOST_AXES:
        raise ProblemError(TooManyAxes(location, type_.rank))
    if not is_countable(type_.shape, facts):
        raise ProblemError(TooManyElements(location, show_shape(type_.shape)))


def is_countable(shape: Shape, facts: Facts) -> bool:
    """True if a device can have a tensor: its axes, and its elements where it is smallest."""
    if len(shape) > MOST_AXES:
        return False
    count = 1
    for size in shape:
        least = size if isinstance(size, int) else facts.least_value(size)
        if least > 1:
            count *= least
    return count <= MOST_ELEMENTS


def require_divisor(
    size: Size, location: Location, facts: Facts, iterations: AbstractSet[str]
) -> None:
    """Raise `ProblemError` for a size that may be zero, and by which another is divided.

    No `where` can speak of `iterations`, the indices of loops and scans.
    """
    needed = Compare("!=", size, 0)
    if isinstance(size, int) or facts.proves(needed):
        return
    verdict = facts.decide(needed)
    zero = isinstance(verdict, Refuted)
    example = Example(tuple(verdict.example.items()), "a divisor of 0") if zero else None
    fact = "" if size.variables() & iterations else deciding_fact(facts, Compare(">=", size, 1))
    raise ProblemError(ZeroDivisor(location, show_condition(needed), example, fact))


NOTATION = {
    "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Neg": "-", "MatMul": "@",
    "FloorDivide": "//", "Remainder": "%", "Broadcast": "expand", "Reshape": "rearrange",
    "Transpose": "rearrange", "ReduceMax": "max", "ArgMax": "argmax", "Iota": "iota",
    "Slice": "x[a:b]", "DynamicSlice": "x[p:p + k]", "DynamicUpdate": "update x[p:p + k]",
    "RandomBits": "random_uniform", "Compare": "==", "Cumulative": "cumsum", "Cast": "f32",
}  # fmt: skip
"""The notation of ops in a program, if it is not their name in lower case."""


def in_notation(text: str, code: str) -> str:
    """A message of a type rule, with the notation of programs for the names of ops.

    A layer is called as in the code that applies it, such as `conv2d` for a convolution.
    """

    def written(found: re.Match[str]) -> str:
        snake = re.sub(r"(?<!^)(?=[A-Z])", "_", found[1]).lower()
        applied = re.search(rf"\b{snake}\w*", code)
        if found[1] == "Slice" and takes_places(code):
            return "`x[i]`"
        return f"`{NOTATION.get(found[1]) or (applied[0] if applied else snake)}`"

    return re.sub(r"`([A-Z]\w*)`", written, text)


def _exchanged(location: Location, facts: Facts, operands: Sequence[Tensor]) -> Help | None:
    """A convolution whose filter stands first, if it is smaller than what it is to move along."""
    found = re.fullmatch(r"conv\((.+)\)", " ".join(location.span.text.split()))
    given = split_top(found[1]) if found else []
    if len(operands) != 2 or len(given) < 2 or len({each.type.rank for each in operands}) != 1:
        return None
    window, whole = (each.type.shape[2:] for each in operands)
    pairs = zip(whole, window, strict=True)
    if not all(facts.proves(Compare(">=", size, width)) for size, width in pairs):
        return None
    code = f"conv({', '.join((given[1], given[0], *given[2:]))})"
    return Help("what the window moves along comes first, and then the window", code)


def _are_equal(facts: Facts, left: Size, right: Size) -> bool:
    return facts.proves(Compare("==", left, right))


def _bound_cure(
    location: Location, facts: Facts, operands: Sequence[Tensor], condition: Compare
) -> tuple[str, Help | None]:
    """The fact that would decide a bound, if it is one to state, and the cure of its code."""
    code, ends, same = (
        location.span.text,
        (condition.left, condition.right),
        partial(_are_equal, facts),
    )
    ends_axis = condition.operator == "<="
    cure = other_entry(operands[0], code, ends[0]) if operands and ends_axis else None
    if cure is not None:
        return "", cure
    fact = deciding_fact(facts, condition)
    if fact:
        return fact, _exchanged(location, facts, operands)
    if operands and condition.operator == "<":
        cure = wider_cure(operands[0], *ends, same)
    if ends_axis and isinstance(ends[1], Dim):
        cure = last_place(code, *ends)
    if operands and cure is None and ends_axis:
        cure = ended_part(operands[0], code, *ends, same)
    return "", cure or _exchanged(location, facts, operands)


def refusal(
    location: Location,
    error: Unproved | TypeRuleError,
    facts: Facts,
    operands: Sequence[Tensor],
    around: Around | None = None,
) -> Problem:
    """The problem of an op whose type rule refuses its operands, with a cure by what is around."""
    found = "\n".join(str(operand.type) for operand in operands)
    if isinstance(error, TypeRuleError):
        fault, cure = in_notation(str(error), location.span.text), None
        if len({each.type.rank for each in operands}) > 1 and fault.startswith("`concat` joins"):
            cure = join_cures.of_ranks(" ".join(location.span.text.split()), operands)
        if around is not None and re.search(r" takes f32 or f16\b", fault):
            cure = to_float(operands, around.names, location.span)
        return TypeRuleBroken(location, fault, found, cure)
    reason = in_notation(error.reason, location.span.text)
    condition = error.condition
    if not isinstance(condition, Compare):
        return TypeRuleBroken(location, reason, found)
    if condition.operator in (">=", ">", "<=", "<"):
        shapes = [("an operand", operand.type.shape) for operand in operands[:1]]
        example = example_of(error.verdict, shapes)
        if example is not None and not operands:
            sides = (
                (side, at((side,), dict(example.sizes))[0])
                for side in (condition.left, condition.right)
            )
            shown = [f"{show(side)} = {show(found)}" for side, found in sides if side != found]
            example = replace(example, consequence="   ".join(shown))
        fact_text, cure = _bound_cure(location, facts, operands, condition)
        needed = show_condition(condition)
        return TooSmall(location, reason, needed, found, example, fact_text, cure)
    fact = helpful_fact(facts, condition)
    sides = (("found", show(condition.left)), ("against", show(condition.right)))
    example = example_of(error.verdict, [("", (condition.left,)), ("against", (condition.right,))])
    if fact is None:
        advice = f"{reason}: {show(condition.left)} against {show(condition.right)}"
        code, same = " ".join(location.span.text.split()), partial(_are_equal, facts)
        cure = join_cures.stretched(code, operands, same) or join_cures.other_axis(
            code, operands, same
        )
        if cure is None and len(operands) == 2:
            cure = filled_cure(operands, (condition.left, condition.right))
        if cure is None and reason.endswith("reads its own channels"):
            is_whole = condition.right == operands[1].type.shape[1]
            cure = kernel_cure(code, condition.left, location.span) if is_whole else None
        if cure is None and around is not None and condition.operator == "==":
            cure = skip_cure(code, operands, around, same)
        return TypeRuleBroken(location, advice, found, cure)
    return MissingFact(
        location,
        reason,
        *sides,
        example,
        helpful_facts(facts, fact, join_cures.claims_of(location.span.text, operands)),
    )
