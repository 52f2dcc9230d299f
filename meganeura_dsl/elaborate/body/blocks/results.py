"""The results of a block: compared with the declared ones, or known by type alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meganeura_dsl.diagnostics.problem import Help, ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.problems.example_cures import (
    classifier_cure,
    second_index_cure,
    split_cure,
)
from meganeura_dsl.elaborate.problems.gather_cures import one_of_each_row
from meganeura_dsl.elaborate.problems.location import STATE_IT, counted
from meganeura_dsl.elaborate.problems.name_problems import NoResult
from meganeura_dsl.elaborate.problems.proof_failures import (
    deciding_fact,
    example_of,
    require_countable,
)
from meganeura_dsl.elaborate.problems.result_cures import (
    channels_behind,
    differing,
    other_join,
    result_cure,
)
from meganeura_dsl.elaborate.problems.result_names import count_cure
from meganeura_dsl.elaborate.problems.scan_problems import DiffersByIteration
from meganeura_dsl.elaborate.problems.sequence_cures import (
    causal_result,
    channels_last_cure,
    last_step_cure,
    picture_last_cure,
)
from meganeura_dsl.elaborate.problems.shape_problems import ResultMismatch
from meganeura_dsl.elaborate.problems.width_cures import made_width, width_cure
from meganeura_dsl.elaborate.problems.window_cures import window_cure
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.typecheck.result_facts import assume_result_facts
from meganeura_dsl.elaborate.typecheck.tensor_values import equal
from meganeura_dsl.elaborate.typecheck.value_origins import axes_of_inputs
from meganeura_dsl.elaborate.typecheck.written_types import declared_types
from meganeura_dsl.elaborate.values import (
    ElabValue,
    Results,
    Tensor,
    assumed_tensor,
    is_assumed_tensor,
    is_tensor,
)
from meganeura_dsl.ir.types import Shape, TensorType
from meganeura_dsl.symbolic.assumptions import (
    Compare,
    Proved,
    Unknown,
    Unproved,
    Verdict,
    show_condition,
)
from meganeura_dsl.symbolic.conditions import sizes_in
from meganeura_dsl.symbolic.size import Size, dim, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk


def check_results(
    inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue], results: Results
) -> None:
    """Raise `ProblemError` unless results are of the types that the signature declares."""
    declared = declared_types(inner, block, signature, results)
    if declared is None:
        return
    name = block.name.text
    if len(declared) != len(results):
        fault = f"returns {counted(len(results), 'result')} and declares {len(declared)}"
        cure = count_cure(inner.names, block, declared, results)
        raise ProblemError(NoResult(inner.location(block.name.span), name, fault, cure=cure))
    for wanted, value in zip(declared, results, strict=True):
        _check_result(inner, block, wanted, value)


def _check_result(inner: Frame, block: ast.Block, wanted: TensorType, value: Tensor) -> None:
    found = value.type
    if wanted.dtype is not found.dtype or wanted.rank != found.rank:
        raise _result_mismatch(inner, block, wanted, value, Unknown())
    for left, right in zip(wanted.shape, found.shape, strict=True):
        verdict = equal(inner, left, right)
        if isinstance(verdict, Proved):
            continue
        if isinstance(verdict, Unknown) and inner.state.proof is not None:
            raise UndecidableError(
                f"whether {show(left)} is {show(right)} depends on its configuration"
            )
        raise _result_mismatch(inner, block, wanted, value, verdict)


def _odd_window(inner: Frame, block: ast.Block, left: Size, right: Size) -> str:
    """The fact `k % 2 == 1` of a parameter that makes two sizes equal; empty if none does.

    A parameter that is the size of an axis is no window.
    """
    claim = Compare("==", left, right)
    axes = {axis for each in axes_of_inputs(block).values() for axis in each}
    for name in sorted(sizes_in(claim) & ({each.name for each in block.parameters} - axes)):
        odd = Compare("==", dim(name) % 2, 1)
        if inner.facts.assume(odd).proves(claim):
            return show_condition(odd)
    return ""


def _dividing(
    inner: Frame, block: ast.Block, span: Span, wanted: TensorType, found: TensorType
) -> Help | None:
    """Returns the facts that make sizes that differ by roundings the same: `h % 2 == 0`."""
    if wanted.rank != found.rank:
        return None
    pairs = zip(wanted.shape, found.shape, strict=True)
    apart = [each for each in pairs if not isinstance(equal(inner, *each), Proved)]
    facts = [deciding_fact(inner.facts, Compare("==", *each)) for each in apart]
    if not all(re.fullmatch(r"\w+ % \d+ == 0", each) for each in facts):
        facts = [_odd_window(inner, block, *each) for each in apart]
    if not all(facts):
        return None
    return inner.location(span).stating(STATE_IT, ", ".join(dict.fromkeys(facts)))


def _result_mismatch(
    inner: Frame,
    block: ast.Block,
    wanted: TensorType,
    value: Tensor,
    verdict: Verdict,
) -> ProblemError:
    found = value.type
    example = example_of(verdict, [("found", found.shape), ("declared", wanted.shape)])
    span = _last_return(block)
    written = span.text.removeprefix("return ") if len(block.results or ()) == 1 else ""

    def same(left: Size, right: Size) -> bool:
        return isinstance(equal(inner, left, right), Proved)

    def same_shape(left: Shape, right: Shape) -> bool:
        return len(left) == len(right) and all(map(same, left, right))

    cure = None
    if written and wanted.dtype is found.dtype:
        source_of = inner.state.values.source_of
        is_alike = wanted.rank == found.rank
        apart = differing(found.shape, wanted.shape, same) if is_alike else []
        cure = (
            other_join(value, wanted.shape, same)
            or (one_of_each_row(value) if same_shape(wanted.shape, found.shape[:1]) else None)
            or window_cure(value, wanted.shape, same, source_of, inner.may_change)
            or causal_result(value, written, wanted.shape, same, inner.state.values.layer_of)
            or last_step_cure(value, written, wanted.shape, _bound_alone(inner, block), source_of)
            or channels_last_cure(value, wanted.shape, same, source_of)
            or picture_last_cure(value, wanted.shape, same, source_of)
            or channels_behind(value, written, wanted.shape, same)
            or width_cure(value, apart, wanted.shape, source_of)
            or second_index_cure(value, written, wanted.shape, inner.names, same)
            or split_cure(value, written, wanted.shape)
            or (made_width(value, *_only(apart, wanted), source_of) if len(apart) == 1 else None)
            or result_cure(value, written, wanted.shape, inner.names, block, same, source_of)
            or classifier_cure(value, wanted.shape, same, block.span.text)
            or (made_width(value, 1, wanted.shape[1], source_of) if 1 in apart else None)
            or (None if is_assumed_tensor(value) else _dividing(inner, block, span, wanted, found))
        )
    sizes = str(wanted), str(found)
    return ProblemError(
        ResultMismatch(inner.location(span), block.name.text, *sizes, example, cure)
    )


def _only(apart: Sequence[int], wanted: TensorType) -> tuple[int, Size]:
    """The one axis that differs, and its wanted size."""
    (axis,) = apart
    return axis, wanted.shape[axis]


def _bound_alone(inner: Frame, block: ast.Block) -> Mapping[str, ElabValue]:
    """The names in scope, without those of one of several results: another may be meant."""
    statements = [each for statement in block.body for each in walk(statement)]
    shared = {
        target.text
        for each in statements
        if isinstance(each, ast.Bind) and len(each.targets) > 1
        for target in each.targets
    }
    return {name: value for name, value in inner.names.items() if name not in shared}


def _last_return(block: ast.Block) -> Span:
    for statement in reversed(block.body):
        if isinstance(statement, ast.Return):
            return statement.span
    return block.name.span


def opaque_results(inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]) -> Results:
    """Results of which nothing is known but the types a signature declares."""
    types = declared_types(inner, block, signature)
    assert types is not None
    results = opaque_tensors(inner, block, types, signature)
    assume_result_facts(inner, block, signature, results)
    return results


def opaque_tensors(
    inner: Frame,
    block: ast.Block,
    types: tuple[TensorType, ...],
    signature: Mapping[str, ElabValue],
) -> Results:
    """Tensors of which nothing is known but these types, and what they were computed from."""
    for type_ in types:
        for size in type_.shape:
            if inner.state.differs_by_iteration(size):
                location = inner.caller_location(inner.call_span or block.name.span)
                raise ProblemError(DiffersByIteration(location, f"the size `{show(size)}`"))
        require_countable(type_, inner.location(block.name.span), inner.facts)
    try:
        results = tuple(assumed_tensor(inner.build, type_) for type_ in types)
    except Unproved as error:
        reason = f"whether {show_condition(error.condition)} depends on its configuration"
        raise UndecidableError(reason) from error
    for value in results:
        applied = _application(inner, block, value, signature)
        inner.state.values.applied[value.id] = replace(applied, results=results)
    return results


def note_made(inner: Frame, block: ast.Block, results: Results, before: int) -> None:
    """Note what a layer of the library gave that was run in a proof, and the values that it made.

    `before` is the number of values before it. A layer that gives its input back made nothing.
    """
    values = inner.state.values
    for value in results:
        if is_tensor(value) and value.id >= before:
            values.made[value.id] = _application(inner, block, value, inner.names)
    values.inside.update(range(before, inner.build.count))


def _application(
    inner: Frame, block: ast.Block, value: Tensor, names: Mapping[str, ElabValue]
) -> Applied:
    """The application of a block that gave a value, by the values of its inputs and parameters."""
    given = (names[item.name] for item in block.inputs if item.name in names)
    operands = tuple(each for each in given if is_tensor(each))
    span = inner.call_span or block.name.span
    span = span if inner.parent is None else inner.parent.user_span(span)
    config = {each.name: names[each.name] for each in block.parameters if each.name in names}
    return Applied(value, operands, span, block.name.text, config, inner.module.is_library)
