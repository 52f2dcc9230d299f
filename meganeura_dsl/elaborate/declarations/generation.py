"""Generation: a model of tokens as the graph that draws the token after them.

A model generates if it takes tokens, such as `ids: i32[n, s]`, and gives the logits `[n, s,
vocabulary]` of the token after each. With `ids`, `position: i32[] = 0` and a parameter `capacity`
it keeps caches: it is elaborated for the tokens of a prompt and for one token, both graphs are of
one program, and keep the same caches. One that lacks any of these is elaborated for each length.

Whatever other inputs it needs, such as a sound or the text to be answered, are the same for all
tokens of a sequence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.body.blocks.block_application import (
    Application,
    model_application,
    run_block,
)
from meganeura_dsl.elaborate.body.elaborator import ELABORATOR
from meganeura_dsl.elaborate.declarations.models import Elaboration, Inputs, finish, run_model
from meganeura_dsl.elaborate.problems.cache_problems import (
    NotGenerating,
    TooFewTokens,
    WritesWithoutCaches,
)
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.scope.arguments import Arguments
from meganeura_dsl.elaborate.scope.linker import LinkedModule, library
from meganeura_dsl.elaborate.scope.scope import ElaborationState, Frame
from meganeura_dsl.elaborate.values import StaticValue, Tensor
from meganeura_dsl.ir import ops
from meganeura_dsl.ir.graph import Builder
from meganeura_dsl.ir.ops.type_rules import concrete
from meganeura_dsl.ir.types import DType, Shape
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.walk import walk

IDS, POSITION, CAPACITY = "ids", "position", "capacity"
"""Names of a generating model's tokens, of the first one's position, and of its capacity."""
TEMPERATURE, TOKEN = "temperature", "token"
LOGITS, TOP_K = "logits", "top_k"
"""Names of the output of a step, and of the inputs of a draw, which are separate graphs."""
SAMPLE, SAMPLE_TOP = "sample", "sample_top"
"""The blocks of the standard library that draw a token."""


class Draw(Enum):
    """The rule by which a token follows from logits."""

    LIKELIEST = "likeliest"
    ALL = "all"
    """Draws at random from all tokens."""
    TOP = "top"
    """Draws at random from the likeliest tokens, whose number is an input."""


@dataclass(frozen=True)
class TokenGraph:
    """A step as a graph, and from how many tokens it draws."""

    elaboration: Elaboration
    vocabulary: int
    context: tuple[str, ...] = ()
    """The inputs that are the same for all tokens of a sequence."""
    ids: str = IDS
    """The input of the tokens."""
    without_caches: WritesWithoutCaches | None = None
    """The note on a model that keeps no caches: a step of it has no tokens before its own."""


@dataclass(frozen=True)
class TokenStep:
    """So many tokens of each of some sequences, and what is drawn after the last of them."""

    capacity: int
    tokens: int
    rows: int = 1
    top_k: int | None = None
    """The number of likeliest tokens to draw from, 0 for all; the likeliest itself if None."""
    sizes: tuple[tuple[str, int], ...] = ()
    """The sizes that the inputs of the context leave open, by name."""
    draws: bool = True
    """True if the graph draws a token; otherwise it returns logits, and its caller draws."""
    keeps: bool = True
    """True if a model that has caches keeps in them what it computes of these tokens."""


@dataclass(frozen=True)
class _Reading:
    """The inputs of a model of tokens."""

    ids: str
    """The input of the tokens."""
    rows: str
    tokens: str
    """The names of its two sizes."""
    context: tuple[str, ...]
    lacks: tuple[str, ...]
    """The parts that caches need and the model lacks, as words of a message; empty if none."""


def elaborate_tokens(
    module: LinkedModule, model: ast.Model, config: Mapping[str, StaticValue], step: TokenStep
) -> TokenGraph:
    """The graph of a step: outputs `token: i32[rows, 1]`. Raises `ProblemError`.

    It is fed `ids`, `position`, the context, and to draw at random also `temperature: f32[]` and
    the counter of random numbers. One that does not draw outputs `logits: f32[rows, vocabulary]`.
    """
    root, logits, reading = _logits(module, model, config, step)
    vocabulary = concrete(logits.type.shape[1])
    if step.top_k is not None and not step.top_k <= vocabulary:
        raise ProblemError(TooFewTokens(step.top_k, vocabulary))
    outputs = {TOKEN: _drawn(model, root, logits, step)} if step.draws else {LOGITS: logits}
    elaboration = finish(root.state, outputs)
    note = WritesWithoutCaches(Location(model.name.span), model.name.text, reading.lacks)
    without = note if reading.lacks else None
    return TokenGraph(elaboration, vocabulary, reading.context, reading.ids, without)


def models_applied(
    module: LinkedModule, train: ast.Train
) -> tuple[tuple[LinkedModule, ast.Model], ...]:
    """The models that a `train` block applies, each with its module, in the order of the text."""
    calls = [each for each in walk(train) if isinstance(each, ast.Call)]
    calls.sort(key=lambda each: each.callee_span.start)
    found = {each.callee: module.find(each.callee) for each in calls}
    return tuple(
        (each[0], each[1])
        for each in found.values()
        if each is not None and isinstance(each[1], ast.Model)
    )


def elaborate_logits(
    module: LinkedModule, model: ast.Model, config: Mapping[str, StaticValue], step: TokenStep
) -> TokenGraph:
    """The graph of a step that draws nothing: outputs `logits: [rows, vocabulary]`.

    It is fed `ids` and `position` alone. Raises `ProblemError` as `elaborate_tokens`, and for a
    model that keeps no caches or needs a context.
    """
    elaborated = elaborate_tokens(module, model, config, replace(step, top_k=None, draws=False))
    lacks = elaborated.without_caches.lacks if elaborated.without_caches else ()
    faults = lacks + tuple(f"needs `{name}`" for name in elaborated.context)
    if faults:
        raise ProblemError(NotGenerating(Location(model.name.span), model.name.text, faults))
    return elaborated


def elaborate_draw(
    module: LinkedModule, model: ast.Model, vocabulary: int, draw: Draw
) -> Elaboration:
    """The graph that draws a token from `logits: [1, vocabulary]`: outputs `token: i32[1, 1]`.

    To draw at random it is fed `temperature: f32[]` and the counter of random numbers, and for
    `Draw.TOP` also `top_k: i32[]`, from 1. It draws what `elaborate_tokens` draws.
    """
    state = ElaborationState(ELABORATOR, Builder())
    root = Frame(state, module, model.name.text, {}, declaration=None)
    span = model.call.span

    def fed(name: str, dtype: DType, *shape: int) -> Tensor:
        return root.add(span, ops.Input(name, dtype, shape))

    logits = fed(LOGITS, DType.F32, 1, vocabulary)
    match draw:
        case Draw.LIKELIEST:
            token = root.add(span, ops.ArgMax(1), logits)
        case Draw.ALL:
            given = Arguments((logits, fed(TEMPERATURE, DType.F32)), {})
            token = _sampled(span, root, SAMPLE, given)
        case Draw.TOP:
            values = (logits, fed(TEMPERATURE, DType.F32), fed(TOP_K, DType.I32))
            token = _sampled(span, root, SAMPLE_TOP, Arguments(values, {}))
        case _:
            assert_never(draw)
    return finish(state, {TOKEN: root.add(span, ops.Reshape((1, 1)), token)})


def _logits(
    module: LinkedModule, model: ast.Model, config: Mapping[str, StaticValue], step: TokenStep
) -> tuple[Frame, Tensor, _Reading]:
    """The logits `[rows, vocabulary]` after the last token, their frame, and how it is read."""
    state = ElaborationState(ELABORATOR, Builder())
    root = Frame(state, module, model.name.text, {}, declaration=None)
    span = model.call.span
    plain = Arguments((), dict(config))
    application = model_application(module, model, plain, "", span, root)
    reading = _reading(model, application.block)
    if step.keeps and not reading.lacks:
        arguments = Arguments((), {**config, CAPACITY: step.capacity})
        application = model_application(module, model, arguments, "", span, root)
    numbers = {**dict(step.sizes), reading.rows: step.rows, reading.tokens: step.tokens}
    is_placed = step.keeps and not reading.lacks
    inputs = Inputs(optional=frozenset({POSITION} if is_placed else ()))
    results = run_model(application, root, numbers, inputs)
    return root, _last_logits(model, root, results, step), reading


def _reading(model: ast.Model, block: ast.Block) -> _Reading:
    """Returns the form of a model's inputs. Raises `ProblemError` for a model without tokens.

    Tokens may have any name where they are all that has to be given, and no caches are kept.
    """
    needed = {each.name: each for each in block.inputs if each.default is None}
    sizes = {name: _sizes_of_tokens(each.type) for name, each in needed.items()}
    position = next((each for each in block.inputs if each.name == POSITION), None)
    only = next(iter(needed)) if len(needed) == 1 else IDS
    ids = IDS if sizes.get(IDS) else only
    rows_and_tokens = sizes.get(ids)
    faults: list[str] = []
    if rows_and_tokens is None:
        faults.append(f"takes no `{IDS}: i32[n, s]`")
    if POSITION in needed:
        faults.append(f"takes no `{POSITION}: i32[] = 0`")
    if faults or rows_and_tokens is None:
        raise ProblemError(NotGenerating(Location(model.name.span), model.name.text, tuple(faults)))
    lacks: list[str] = []
    if ids != IDS:
        lacks.append(f"takes no `{IDS}: i32[n, s]`")
    if position is None or not _is_one_whole_number(position.type):
        lacks.append(f"takes no `{POSITION}: i32[] = 0`")
    if CAPACITY not in [each.name for each in block.parameters]:
        lacks.append(f"has no parameter `{CAPACITY}`")
    return _Reading(
        ids, *rows_and_tokens, tuple(name for name in needed if name != ids), tuple(lacks)
    )


def _sizes_of_tokens(type_: ast.Type) -> tuple[str, str] | None:
    """The names of the sizes of `i32[n, s]`, or None for another type."""
    sizes = [each.text for each in type_.shape.entries if isinstance(each, ast.Name)]
    if type_.dtype != "i32" or len(sizes) != 2 or len(type_.shape.entries) != 2:
        return None
    return sizes[0], sizes[1]


def _is_one_whole_number(type_: ast.Type) -> bool:
    return type_.dtype == "i32" and not type_.shape.entries


def text_input(elaboration: Elaboration, context: Sequence[str]) -> str | None:
    """The input of a context that takes the tokens of a text, `i32[n, t]`, if there is one."""
    types = {name: elaboration.inputs[name] for name in context}
    texts = [name for name, of in types.items() if of.dtype is DType.I32 and len(of.shape) == 2]
    return texts[0] if len(texts) == 1 else None


def _last_logits(
    model: ast.Model, root: Frame, results: tuple[Tensor, ...], step: TokenStep
) -> Tensor:
    """The logits of the last token of each sequence."""
    logits = results[0]
    shape: Shape = logits.type.shape
    before = (step.rows, step.tokens)
    if (
        len(results) != 1
        or len(shape) != 3
        or shape[:2] != before
        or logits.type.dtype != DType.F32
    ):
        found = ", ".join(str(each.type) for each in results)
        fault = f"gives {found} for tokens `i32[{step.rows}, {step.tokens}]`"
        raise ProblemError(NotGenerating(Location(model.name.span), model.name.text, (fault,)))
    span, last = model.call.span, step.tokens - 1
    row = ops.Slice((0, last, 0), (step.rows, step.tokens, shape[2]), (1, 1, 1))
    picked = root.add(span, row, logits) if last else logits
    return root.add(span, ops.Reshape((step.rows, shape[2])), picked)


def _drawn(model: ast.Model, root: Frame, logits: Tensor, step: TokenStep) -> Tensor:
    """The token drawn for each sequence."""
    span = model.call.span
    if step.top_k is None:
        token = root.add(span, ops.ArgMax(1), logits)
    else:
        temperature = root.add(span, ops.Input(TEMPERATURE, DType.F32, ()))
        given = Arguments((logits, temperature), {"top_k": step.top_k})
        token = _sampled(span, root, SAMPLE, given)
    return root.add(span, ops.Reshape((step.rows, 1)), token)


def _sampled(span: Span, root: Frame, name: str, given: Arguments) -> Tensor:
    """Returns the result of a block of the standard library that draws."""
    module = next(each for each in library() if name in each.own)
    block = module.own[name]
    assert isinstance(block, ast.Block)
    application = Application(module, block, given, "", span, may_own=False)
    (token,) = run_block(application, root)
    return token
