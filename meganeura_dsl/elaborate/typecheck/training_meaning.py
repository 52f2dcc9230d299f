"""Notes on the losses of a `train` block: what a model is given of what it has to predict."""

from collections.abc import Iterator

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.elaborate.problems.meaning_notes import AnswerGiven, MeaningNote
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.value_facts import Applied
from meganeura_dsl.elaborate.typecheck.value_origins import carried
from meganeura_dsl.elaborate.values import Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.symbolic.size import Size, show
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

_LOSSES = ("cross_entropy", "masked_cross_entropy")
_HIDING = ("causal", "mask", "bias", "window")
"""Arguments of `attention` by which a query may not see all keys."""
_MOST = 200
"""Values that are followed back."""


def loss_notes(frame: Frame) -> Iterator[MeaningNote]:
    """The notes on losses of next tokens: labels that are not shifted, and labels that are seen.

    `frame` is that of a `train` block whose statements were run.
    """
    for applied in frame.state.values.made.values():
        if applied.layer not in _LOSSES or len(applied.operands) < 2:
            continue
        logits, labels = applied.operands[:2]
        model = _model_of(logits, frame)
        given = [] if model is None else [e for e in model.operands if e.type.dtype.is_integer]
        if model is None or len(given) != 1 or len(model.operands) != 1:
            continue
        part, wanted = _part(given[0]), _part(labels)
        if part is None or wanted is None or part[0] is not wanted[0]:
            continue
        yield from _of_parts(frame, applied, model, part[1:], wanted[1:])


def _of_parts(
    frame: Frame,
    applied: Applied,
    model: Applied,
    given: tuple[Size, Size],
    wanted: tuple[Size, Size],
) -> Iterator[MeaningNote]:
    """The note on two parts of one sequence, by where each begins and ends along its last axis."""
    location, (begin, end) = frame.location(applied.span), given
    if given == wanted:
        following = f"{show(begin + 1)}:{show(end + 1)}"
        yield AnswerGiven(
            location,
            "the labels are the very tokens that the model is given",
            "a model that copies has no loss",
            Help(
                f"the next tokens are one place further, `[:, {following}]`; for a model that is "
                "to give\nback what it is given, the whole sequence is its input and its label"
            ),
        )
        return
    if wanted != (begin + 1, end + 1):
        return
    found = frame.module.find(model.block)
    if found is None:
        return
    calls = list(_attentions(*found, seen=set()))
    if calls and not any(_is_hidden(each) for each in calls):
        call = calls[0].span
        line = call.source.text.count("\n", 0, call.start) + 1
        yield AnswerGiven(
            location,
            f"`{model.block}` sees the tokens that it has to predict",
            f"each label is the next token, and `attention` in line {line} hides none of them",
            Help("let each position see those before it", _causal(call.text)),
        )


def _causal(call: str) -> str:
    """A call of `attention` that hides what follows."""
    code = " ".join(call.split())
    return f"{code.removesuffix(')')}{', ' if not code.endswith('()') else ''}causal=true)"


def _model_of(logits: Tensor, frame: Frame) -> Applied | None:
    """The application of a model or block of the program that gave logits."""
    source_of = frame.state.values.layer_of
    for _ in range(_MOST):
        applied = source_of(logits)
        if applied is not None and not applied.layer:
            return applied
        before = carried(logits, source_of)
        if before is None:
            return None
        logits = before
    return None


def _part(value: Tensor) -> tuple[Tensor, Size, Size] | None:
    """The sequences of which a value is a part, and the begin and the end of the part."""
    if not isinstance(value.op, ops.Slice) or value.type.rank != 2:
        return None
    return value.operands[0], value.op.start[1], value.op.stop[1]


def _attentions(module: LinkedModule, node: ast.Node, seen: set[ast.Node]) -> Iterator[ast.Call]:
    """The calls of `attention` in a declaration, and in those of the program that it applies."""
    if node in seen or module.is_library:
        return
    seen.add(node)
    for each in walk(node):
        if not isinstance(each, ast.Call):
            continue
        if each.callee == "attention":
            yield each
        found = module.find(each.callee)
        if found is not None:
            yield from _attentions(*found, seen)


def _is_hidden(call: ast.Call) -> bool:
    """True if a call of `attention` may hide keys from queries."""
    arguments = (*call.arguments, *call.inputs)
    return any(each.name in _HIDING for each in arguments) or len(arguments) > 3
