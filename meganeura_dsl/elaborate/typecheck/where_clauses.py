"""`where` at a call: every clause is proved of what the block is given, or assumed of data."""

from collections.abc import Callable
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.problems.proof_failures import deciding_fact, example_of
from meganeura_dsl.elaborate.problems.shape_problems import WhereUnproved
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.typecheck.conditions import clause_condition
from meganeura_dsl.elaborate.typecheck.config_kinds import with_open_numbers
from meganeura_dsl.elaborate.typecheck.positions import (
    facts_about,
    position_of,
    speaks_of,
    unconstrained_element,
)
from meganeura_dsl.elaborate.typecheck.result_facts import stated_facts
from meganeura_dsl.elaborate.typecheck.shape_patterns import size_names
from meganeura_dsl.elaborate.typecheck.stated_positions import (
    names_in,
    negative_bound,
    positions_in,
)
from meganeura_dsl.elaborate.typecheck.where_advice import (
    axes_advice,
    causal_advice,
    channels_last_advice,
    depthwise_advice,
    equal_sizes_advice,
    groups_advice,
    incoming_channels_advice,
    kept_channels_advice,
    norm_width_advice,
    output_pad_advice,
    padding_advice,
    reversed_division_advice,
    shown_value,
    smallest_size_advice,
    too_many_advice,
    window_advice,
)
from meganeura_dsl.elaborate.values import is_tensor
from meganeura_dsl.symbolic.assumptions import (
    And,
    Compare,
    Condition,
    Proved,
    Unknown,
    Verdict,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Dim
from meganeura_dsl.syntax import ast


def check_where(
    inner: Frame,
    block: ast.Block,
    caller: Callable[[], Location],
) -> None:
    """Prove every clause of a block's `where` at its call; of data that is fed, assume it."""
    is_fed = inner.parent is not None and inner.parent.declaration is None
    given, free = with_open_numbers(inner, block), set[str]()
    for name in positions_in(block):
        value = inner.names[name]
        symbol = (
            inner.state.values.symbolic_ints.get(value.id) if is_fed and is_tensor(value) else None
        )
        if is_tensor(value) and not is_fed:
            symbol = unconstrained_element(inner, value)
        if not isinstance(symbol, Dim):
            given = _with_position(inner, given, block, caller(), name)
        else:
            given = replace(given, names={**given.names, name: symbol})
            free |= symbol.variables() & inner.state.values.lasting_symbols
    for clause in stated_facts(block):
        condition = clause_condition(clause, given, block)
        for part in condition.parts if isinstance(condition, And) else (condition,):
            if part is True:
                continue
            verdict = facts_about(inner, part).decide(part)
            is_open = is_fed and speaks_of(inner, part)
            if not isinstance(part, bool) and not free.isdisjoint(sizes_in(part)):
                is_open = True
            if is_open and inner.facts.truth(part) is not False:
                inner.build.facts = inner.facts.assume(part)
            elif not isinstance(verdict, Proved):
                problem = _unmet(inner, block, caller(), clause, part, verdict)
                cure = problem.cure or too_many_advice(given, block, clause, caller().span)
                cure = cure or smallest_size_advice(given, block, clause)
                raise ProblemError(replace(problem, cure=cure))


def assume_where(inner: Frame, block: ast.Block) -> None:
    """Take every clause of a block's `where` for true, as it was proved where the block stands."""
    given = inner
    for name in positions_in(block):
        given = _with_position(inner, given, block, inner.location(block.name.span), name)
    for clause in stated_facts(block):
        inner.build.facts = inner.facts.assume(clause_condition(clause, given, block))


def _with_position(
    inner: Frame, given: Frame, block: ast.Block, caller: Location, name: str
) -> Frame:
    """The frame of a `where` in which an input `i32[]` is the size that was given for it."""
    value = inner.names[name]
    clause = next(each for each in block.where if name in names_in(each))
    size = position_of(inner, value) if is_tensor(value) else None
    if size is None:
        unknown = f"nothing is known of what is given for `{name}`"
        location = inner.location(clause.span)
        raise ProblemError(
            WhereUnproved(caller, block.name.text, clause.span.text, unknown, location, None, "")
        )
    least = Compare(">=", size, 0)
    verdict = facts_about(inner, least).decide(least)
    if negative_bound(block, name) is None and not isinstance(verdict, Proved):
        raise ProblemError(_unmet(inner, block, caller, clause, least, verdict))
    return replace(given, names={**given.names, name: size})


def _unmet(
    inner: Frame,
    block: ast.Block,
    caller: Location,
    clause: ast.Expression,
    part: Condition,
    verdict: Verdict,
) -> WhereUnproved:
    if isinstance(verdict, Unknown) and inner.state.proof is not None:
        raise UndecidableError(f"whether {show_condition(part)} depends on its configuration")
    return _where_problem(inner, block, caller, clause, part, verdict)


def _where_problem(
    inner: Frame,
    block: ast.Block,
    caller: Location,
    clause: ast.Expression,
    part: Condition,
    verdict: Verdict,
) -> WhereUnproved:
    tensors = [
        (item.name, value.type.shape)
        for item in block.inputs
        if is_tensor(value := inner.names[item.name])
    ]
    described = "" if isinstance(part, bool) else f", that is {show_condition(part)}"
    if described.endswith(f" {clause.span.text}"):
        described = ""
    values = "  ".join(
        f"{name}={text}"
        for name in size_names(clause)
        if (text := shown_value(inner.names.get(name, ""))) not in ("", name)
    )
    advice = (
        output_pad_advice(inner, clause)
        or depthwise_advice(inner, block, caller, clause)
        or groups_advice(inner, block, caller, clause)
        or kept_channels_advice(inner, caller, clause)
        or incoming_channels_advice(inner, caller, clause)
        or channels_last_advice(inner, caller, clause)
        or axes_advice(inner, part)
        or reversed_division_advice(inner, part)
    )
    return WhereUnproved(
        caller,
        block.name.text,
        f"{clause.span.text}{described}",
        values,
        Location(clause.span),
        example_of(verdict, tensors),
        ""
        if advice or _is_about_element(inner, part) or causal_advice(inner, clause, part)
        else deciding_fact(inner.facts, part),
        advice
        or equal_sizes_advice(part)
        or norm_width_advice(inner, block, clause)
        or causal_advice(inner, clause, part),
        ""
        if advice
        else padding_advice(inner, caller, clause) or window_advice(inner, caller, clause),
    )


def _is_about_element(inner: Frame, part: Condition) -> bool:
    """True if a condition is about a number that has no name in the program."""
    return not sizes_in(part).isdisjoint(inner.state.values.symbol_ranges)
