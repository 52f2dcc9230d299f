"""Applies a block or a model to arguments that are evaluated."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.assumed_signatures import may_assume_signature
from meganeura_dsl.elaborate.body.blocks.bodies import run_body
from meganeura_dsl.elaborate.body.blocks.call_arguments import call_arguments, unknown_callee
from meganeura_dsl.elaborate.body.blocks.child_frames import child_frame
from meganeura_dsl.elaborate.body.blocks.layer_summaries import apply_summary
from meganeura_dsl.elaborate.body.blocks.layer_templates import apply_template
from meganeura_dsl.elaborate.body.blocks.modes import in_mode, kept_below, mode_below, split_mode
from meganeura_dsl.elaborate.body.blocks.results import note_made, opaque_results
from meganeura_dsl.elaborate.body.blocks.signature_match import match_signature
from meganeura_dsl.elaborate.body.expressions.labels import path_text
from meganeura_dsl.elaborate.builtins.initial_values import take_initials
from meganeura_dsl.elaborate.problems.name_problems import MissingLabel
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import LinkedModule, configuration
from meganeura_dsl.elaborate.scope.scope import Frame
from meganeura_dsl.elaborate.scope.weight_paths import (
    own_parameters,
    own_paths,
    sure_paths,
    with_texts,
)
from meganeura_dsl.elaborate.typecheck.argument_binding import (
    bind_config,
    bind_inputs,
    require_once,
)
from meganeura_dsl.elaborate.typecheck.outside_proofs import is_of_numbers, outside_proof
from meganeura_dsl.elaborate.values import ElabValue, Results, is_tensor
from meganeura_dsl.syntax import ast


@dataclass(frozen=True)
class Application:
    """A block about to be run: where it is declared, what it was given, where its weights live."""

    module: LinkedModule
    block: ast.Block
    arguments: Arguments
    path: str
    span: Span
    may_own: bool = True
    """True where weights declared in the block itself have a name: of a label or of a model."""
    mode: Mapping[str, ElabValue] = field(default_factory=dict[str, ElabValue])
    """The mode that a model was declared with."""


def instantiate(
    module: LinkedModule,
    declaration: ast.Block | ast.Model,
    arguments: Arguments,
    path: str,
    span: Span,
    frame: Frame,
    *,
    may_own: bool = True,
) -> Results:
    """The results of a block or a model with its weights at a path."""
    if isinstance(declaration, ast.Block):
        return run_block(Application(module, declaration, arguments, path, span, may_own), frame)
    application = model_application(module, declaration, arguments, path, span, frame)
    body = frame.state.body
    before, layers = len(body.parameters), len(body.layers)
    try:
        with frame.state.within(open_models=frame.state.context.open_models + 1):
            return run_block(application, frame)
    finally:
        names = list(body.parameters)[before:]
        body.weights.setdefault(declaration, []).extend(names)
        body.model_layers.setdefault(declaration, set()).update(list(body.layers)[layers:])


def model_application(
    module: LinkedModule,
    model: ast.Model,
    overrides: Arguments,
    path: str,
    span: Span,
    frame: Frame | None,
) -> Application:
    """The block of a model, configured by the model and then by the caller."""
    assert frame is not None
    inner = child_frame(frame, module, model, span, path)
    own = call_arguments(model.call, None, inner)
    label = "" if model.call.label is None else path_text(model.call.label, inner)
    path = inner.join(label)
    found = module.find(model.call.callee)
    if found is None or isinstance(found[1], ast.Def | ast.Optimizer):
        raise unknown_callee(model.call, inner)
    named, mode = split_mode(own.named)
    own = replace(own, named=named)
    parameters = configuration(found[0], found[1])
    require_once(inner, model.call.callee, parameters, own, model.call.span)
    merged = overrides.over(own, parameters)
    if isinstance(found[1], ast.Model):
        built = model_application(found[0], found[1], merged, path, span, inner)
        return replace(built, mode=mode_below(mode, built.mode, inner, span))
    return Application(found[0], found[1], merged, path, span, mode=mode)


def run_block(application: Application, frame: Frame) -> Results:
    """The results of a block, its signature matched and its `where` proved."""
    if not application.mode:
        return _run_block(application, frame)
    kept = kept_below(application.mode, frame, application.span)
    with (
        in_mode(application.mode, frame, application.span),
        frame.state.within(kept_mode=kept),
    ):
        return _run_block(application, frame)


def _run_block(application: Application, frame: Frame) -> Results:
    block, span = application.block, application.span
    inner = child_frame(frame, application.module, block, span, application.path)
    inner.may_own = application.may_own
    if not inner.may_own:
        owned = own_parameters(inner.module, block)
        if owned:
            problem = MissingLabel(frame.location(span), block.name.text, owned)
            if frame.state.recovery is None:
                raise ProblemError(problem)
            frame.state.recovery.add(problem)
            inner.may_own, inner.path = True, frame.join(f"#{inner.build.count}")
    config = bind_inputs(inner, block, application.arguments, span)
    config = take_initials(inner, block, config, span)
    bind_config(inner, block.name.text, block.parameters, config, span)
    match_signature(inner, block, span)
    if may_assume_signature(inner, block):
        if not _has_same_weights(inner, block):
            return run_body(inner, block)
        sure = sure_paths(inner.module, block) if inner.state.loops.open else ()
        for name in own_paths(inner.module, block):
            location = frame.location(span)
            path = inner.join(with_texts(block, name, inner.names))
            inner.state.claim(path, location, inner.label, is_sure=name in sure)
        return opaque_results(inner, block, dict(inner.names))
    if inner.state.proof is not None and inner.module.is_library and not frame.module.is_library:
        before = inner.build.count
        results = apply_template(inner, block, span, lambda: _run_given(inner, block, span))
        note_made(inner, block, results, before)
        return results
    summaries = inner.state.context.summaries
    if summaries is not None:
        before = inner.build.count
        results = apply_summary(inner, block, summaries, lambda: run_body(inner, block))
        if isinstance(frame.declaration, ast.Train):
            note_made(inner, block, results, before)
        return results
    return apply_template(inner, block, span, lambda: _run_given(inner, block, span))


def _run_given(inner: Frame, block: ast.Block, span: Span) -> Results:
    """Run a body; what fails in one that is proved for other numbers is said of the number."""
    try:
        return run_body(inner, block)
    except ProblemError as error:
        is_proved = inner.state.context.is_proved
        if is_proved is None or not is_of_numbers(error.problem):
            raise
        problem = outside_proof(inner, block, inner.caller_location(span))
        if problem is None or not is_proved(inner.module, block):
            raise
        raise ProblemError(problem) from error


def _has_same_weights(inner: Frame, block: ast.Block) -> bool:
    """Returns True for the first application of a layer, and for others with the same inputs.

    If it is applied to something else, its first application is looked into, so that its
    weights are known, and a second one that needs others is refused.
    """
    proof, key = inner.state.proof, (inner.path, block)
    assert proof is not None
    if not inner.state.context.shared or key not in proof.assumed:
        proof.assumed[key] = inner, dict(inner.names)
        return True
    first, names = proof.assumed[key]
    if _types(names) == _types(inner.names):
        return True
    first.names = dict(names)
    run_body(first, block)
    return False


def _types(names: Mapping[str, ElabValue]) -> dict[str, object]:
    """Returns the types of tensors by name, and all other values as they are."""
    return {name: each.type if is_tensor(each) else each for name, each in names.items()}
