"""Runs the body of a block; in a proof, once for each path through it."""

from collections.abc import Mapping

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.body.blocks.results import (
    check_results,
    opaque_results,
    opaque_tensors,
)
from meganeura_dsl.elaborate.problems.name_problems import NoResult, UnknownParameter
from meganeura_dsl.elaborate.scope.body import DECLARATIONS
from meganeura_dsl.elaborate.scope.gradient_names import bound_value
from meganeura_dsl.elaborate.scope.proof import ProofPath
from meganeura_dsl.elaborate.scope.recovery import EndOfPathError
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.undecided import NeedsInliningError, UndecidableError
from meganeura_dsl.elaborate.typecheck.result_facts import keep_result_facts, require_result_facts
from meganeura_dsl.elaborate.values import ElabValue, Results
from meganeura_dsl.syntax import ast


def run_body(inner: Frame, block: ast.Block) -> Results:
    """Run a body whose signature is bound; in a proof, once for each path through it."""
    inner.state.body.applied.blocks.add(block)
    for item in block.inputs:
        value = bound_value(inner, item.span, item.name, inner.names[item.name])
        inner.names[item.name] = value
    signature = inner.signature = dict(inner.names)
    if inner.state.proof is None:
        results = _run_path(inner, block, signature)
    else:
        results = _run_paths(inner, block, signature)
    if results:
        keep_result_facts(inner, block, signature, results)
    return results


def _run_path(inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]) -> Results:
    results = inner.execute(block.body)
    name = block.name.text
    if results is None:
        location = inner.location(block.name.span)
        raise ProblemError(NoResult(location, name, "ends without `return`", _named_last(block)))
    check_results(inner, block, signature, results)
    require_result_facts(inner, block, signature, results)
    for name in inner.initials:
        if inner.state.proof is None and inner.join(name) not in inner.state.body.parameters:
            location = inner.caller_location(inner.call_span or block.name.span)
            raise ProblemError(UnknownParameter(location, block.name.text, name, (name,)))
    return results


def _named_last(block: ast.Block) -> str:
    """The name that a block of one result gives in its last statement; empty for any other."""
    last = block.body[-1] if block.body else None
    is_one = block.results is None or len(block.results) == 1
    if not (is_one and isinstance(last, ast.Bind) and len(last.targets) == 1):
        return ""
    name = last.targets[0].text
    return "" if name.startswith("_") else name


def _run_paths(inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]) -> Results:
    state, facts, around = inner.state, inner.facts, inner.choices
    saved = state.body.savepoint()
    found: list[Results] = []
    path = ProofPath()
    if inner.parent is None:
        path = ProofPath(case=around.case, given=tuple(around.words))
    inner.choices = path
    while True:
        inner.names, inner.layers, inner.own = dict(signature), {}, set()
        inner.loop_labels = set()
        path.begin()
        state.build.facts = facts
        state.body.undo(saved, DECLARATIONS)
        if state.recovery is None or inner.parent is not None:
            found.append(_run_path(inner, block, signature))
        else:
            _run_recovered_path(inner, block, signature)
        if not path.advance():
            break
    state.build.facts, inner.choices = facts, around
    if not found:
        return ()
    return found[0] if len(found) == 1 else _join(inner, block, signature, found)


def _run_recovered_path(inner: Frame, block: ast.Block, signature: Mapping[str, ElabValue]) -> None:
    """One path through a block that was refused, for all that is wrong with it."""
    recovery = inner.state.recovery
    assert recovery is not None
    recovery.unknown.clear()
    try:
        _run_path(inner, block, signature)
    except ProblemError as error:
        recovery.add(error.problem)
    except (EndOfPathError, UndecidableError, NeedsInliningError):
        pass


def _join(
    inner: Frame,
    block: ast.Block,
    signature: Mapping[str, ElabValue],
    found: list[Results],
) -> Results:
    """Returns results that stand for those of every path: of the declared or the common types."""
    if block.results is not None:
        return found[0] if inner.parent is None else opaque_results(inner, block, signature)
    types = [tuple(value.type for value in results) for results in found]
    if any(other != types[0] for other in types[1:]):
        raise UndecidableError(
            f"`{block.name.text}` has results of several shapes and declares none"
        )
    return opaque_tensors(inner, block, types[0], signature)
