"""Generation: a prompt is read in a few large steps, and then each step draws one token.

All steps are of one model and share its weights and caches on the device. A token that is drawn
stays there as the next step's input; the host reads it behind the steps that follow.

What a model is given beside its tokens, its context, is read first: what follows from that alone,
such as all of an encoder, is computed once, and every step of a token reads it.
"""

from collections import abc, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.declarations.generation import (
    IDS,
    LOGITS,
    POSITION,
    TEMPERATURE,
    TOKEN,
    TokenGraph,
    TokenStep,
)
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.index_checks import Bound, all_of, leaf_bounds
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.hoist import Hoisted, hoist
from meganeura_runtime.backends.base import (
    Closing,
    OpenSession,
    Outputs,
    Session,
    SessionError,
)
from meganeura_runtime.backends.inference_session import open_inference, open_shared
from meganeura_runtime.infer.generation_problems import TooLong, WrongSampling
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.preprocess.token_problems import EmptyPrompt
from meganeura_runtime.io.preprocess.tokens import Tokenizer

CHUNKS = (512, 64, 8, 1)
"""Numbers of tokens of a prompt's steps: so many plans serve prompts of any length, exactly."""
ROUNDED = 64
"""Capacities are multiples of it, so that a plan serves sequences of many lengths."""
STEPS = 128
"""The number of tokens to draw by default, if there is room for them."""
UNBOUNDED = 1 << 30
Elaborate = Callable[[TokenStep], TokenGraph]
Choose = Callable[[Array], Array]
"""Makes the tokens `i32[rows]` of logits `f32[rows, vocabulary]`."""


@dataclass(frozen=True)
class Sampling:
    """The rule of drawing tokens: the likeliest at temperature 0, otherwise at random.

    They are drawn from softmax(logits / temperature), among the `top_k` likeliest or, if that is 0,
    among all. One seed and one prompt give the same tokens each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `ProblemError` for a number that is out of range."""
        limits = {
            "temperature": (
                self.temperature,
                "a number from 0 to 1,000",
                0 <= self.temperature <= 1000,
            ),
            "top_k": (self.top_k, "a number from 0", self.top_k >= 0),
            "seed": (self.seed, "a number from 0 to 2**32 - 1", 0 <= self.seed < 1 << 32),
        }
        for name, (value, wanted, is_right) in limits.items():
            if not is_right:
                raise ProblemError(WrongSampling(name, str(value), wanted))

    @property
    def drawn_from(self) -> int | None:
        """The number of likeliest tokens to draw from; None if nothing is random."""
        return None if self.temperature == 0 else self.top_k


GREEDY = Sampling()


def room_for(elaborate: Elaborate, sizes: Mapping[str, int] | None = None) -> int:
    """Returns the number of positions of a model; `UNBOUNDED` if it takes any number of tokens."""
    step = TokenStep(UNBOUNDED, 1, sizes=tuple((sizes or {}).items()))
    return _positions(elaborate(step).elaboration)


def steps_for(prompt: int, room: int) -> int:
    """Returns the default number of tokens to draw: `STEPS`, or the room that is left."""
    return max(1, min(STEPS, room - prompt + 1))


def capacity_for(prompt: int, steps: int, room: int) -> int:
    """A capacity for so many tokens; raises `ProblemError` if the model has no room for them."""
    if not prompt:
        raise ProblemError(EmptyPrompt())
    if steps < 1:
        raise ProblemError(WrongSampling("steps", str(steps), "a number from 1"))
    needed = prompt + steps - 1
    if needed > room:
        raise ProblemError(TooLong(prompt, steps, room))
    return min(-(-needed // ROUNDED) * ROUNDED, room)


def streamed(
    tokenizer: Tokenizer, tokens: Iterator[Array], ends: Sequence[int] | None = None
) -> Iterator[str]:
    """Tokens of one sequence as text, up to one that ends it."""
    stream = tokenizer.stream()
    for drawn in tokens:
        token = int(drawn[0])
        if token in (tokenizer.ends if ends is None else ends):
            break
        piece = stream.add(token)
        if piece:
            yield piece
    rest = stream.end()
    if rest:
        yield rest


class Generator(Closing):
    """A model on a device that draws tokens, with caches for `capacity` of them.

    Sessions for larger steps are opened when a prompt is long enough for them. It writes one
    sequence at a time: the iterator of an earlier one raises `SessionError` when it would go on.
    """

    def __init__(
        self,
        elaborate: Elaborate,
        values: dict[str, Array],
        open_session: OpenSession,
        rewriting: RewriteOptions,
        step: TokenStep,
        first: TokenGraph,
    ) -> None:
        """`step` is the smallest, one token of each sequence, and `first` its graph."""
        self._elaborate = elaborate
        self._open = open_session
        self._rewriting = rewriting
        self._step = step
        self._rows, self.capacity = step.rows, step.capacity
        self._lock = RLock()
        self._sequence = 0
        """The number of sequences begun."""
        self._sessions: dict[TokenStep, Session] = {}
        self.vocabulary = first.vocabulary
        self.context = first.context
        """The inputs that `read` takes."""
        self._bound = bounds_of(first.elaboration).get(IDS)
        # Nobody need look at a token that is drawn where the model takes all that can be.
        self._chained = self._bound is None or self.vocabulary <= self._bound.count
        parts = self._parts(first)
        self._reader: Session | None = None
        if first.context:
            self._reader = open_inference(parts.first, open_session, rewriting)
            self._reader.load(_those_of(self._reader, values))
        self._has_read = not first.context
        self._first = self._session(step, parts)
        self._first.load(_those_of(self._first, values))

    def load(self, values: Mapping[str, Array]) -> None:
        """Take other weights; sequences that were begun end."""
        with self._begun():
            if self._reader is not None:
                self._reader.load(_those_of(self._reader, values))
                self._has_read = False
            self._first.load(_those_of(self._first, values))

    def close(self) -> None:
        """Give the memory back."""
        if self._reader is not None:
            self._reader.close()
        for session in reversed(self._sessions.values()):
            session.close()
        self._sessions.clear()

    def read(self, inputs: Mapping[str, Array]) -> None:
        """Take a new context for the sequences to come; raises `FeedError` for other inputs.

        Raises `ProblemError` for indices that are out of range.
        """
        if self._reader is None:
            raise FeedError("the model has no inputs beside its tokens")
        with self._begun():
            held = self._reader.step(inputs)
            self._first.load({name: np.ascontiguousarray(held[name]) for name in held})
            self._has_read = True

    def tokens(
        self,
        prompt: Array | Sequence[int] | Sequence[Sequence[int]],
        steps: int,
        sampling: Sampling = GREEDY,
    ) -> Iterator[Array]:
        """Up to so many tokens, `i32[rows]` each, that follow a prompt `[rows, tokens]`.

        A prompt of one axis is one sequence. Each call begins a new sequence; to stop, ask for no
        more. Raises `ProblemError` for a prompt that is empty or too long, and for tokens that the
        model does not have, drawn ones too, before they are read; `SessionError` before the context
        was read.
        """
        ids = self._checked(prompt, steps)
        return self._drawn(ids, steps, sampling)

    def chosen(self, prompt: Array | Sequence[int], steps: int, choose: Choose) -> Iterator[Array]:
        """Yields tokens as `tokens` does, but `choose` takes each from the logits, on the host."""
        return self._chosen(self._checked(prompt, steps), steps, choose)

    def _checked(
        self, prompt: Array | Sequence[int] | Sequence[Sequence[int]], steps: int
    ) -> Array:
        """A prompt as `i32[rows, tokens]`, which the model takes."""
        ids = np.array(prompt, np.int32).reshape(self._rows, -1)
        capacity_for(ids.shape[1], steps, self.capacity)
        self._require_known(ids)
        if not self._has_read:
            raise SessionError(f"nothing was read: `read` takes {quoted(self.context)}")
        return ids

    def _require_known(self, ids: Array) -> None:
        """Raise `ProblemError` for tokens that the model does not take."""
        if self._bound is not None:
            check_values(ids, self._bound, IDS)

    def _chosen(self, ids: Array, steps: int, choose: Choose) -> Iterator[Array]:
        step = replace(self._step, top_k=None, draws=False)
        with self._begun() as sequence:
            logits = self._prefill(ids, step, GREEDY)[LOGITS]
        for position in range(ids.shape[1], ids.shape[1] + steps):
            token = np.array(choose(logits))
            yield token.copy()
            if position + 1 < ids.shape[1] + steps:
                self._require_known(token)
                with self._going_on(sequence):
                    session = self._session(step)
                    inputs = _step_inputs(session, position, 1, GREEDY)
                    logits = session.step({IDS: token[:, None], **inputs})[LOGITS]

    @contextmanager
    def _begun(self) -> abc.Generator[int]:
        """Begin a sequence, whose number this gives, while no other thread does."""
        with self._lock:
            self._sequence += 1
            yield self._sequence

    @contextmanager
    def _going_on(self, sequence: int) -> abc.Generator[None]:
        """Go on with a sequence; raises `SessionError` if the caches are those of a later one."""
        with self._lock:
            if sequence != self._sequence:
                raise SessionError(
                    "the generator has begun another sequence, and writes one at a time: "
                    "finish one before the next, or make a generator for each"
                )
            yield

    def _prefill(self, ids: Array, step: TokenStep, sampling: Sampling) -> Outputs:
        """Returns the outputs of the last step of a prompt."""
        self._first.reset()
        position, outputs = 0, None
        for size in chunks(ids.shape[1]):
            session = self._session(replace(step, tokens=size))
            part = np.ascontiguousarray(ids[:, position : position + size])
            outputs = session.step({IDS: part, **_step_inputs(session, position, size, sampling)})
            position += size
        assert outputs is not None
        return outputs

    def _drawn(self, ids: Array, steps: int, sampling: Sampling) -> Iterator[Array]:
        step = replace(self._step, top_k=sampling.drawn_from)
        with self._begun() as sequence:
            outputs, position = self._prefill(ids, step, sampling), ids.shape[1]
            token = outputs[TOKEN]
        yield token[:, 0].copy()
        session = self._session(step)
        running: deque[Outputs] = deque()
        for number in range(1, steps):
            inputs = _step_inputs(session, position, 1, sampling)
            with self._going_on(sequence):
                if number == 1 or not self._chained:
                    self._require_known(token)
                    outputs = session.step({IDS: token, **inputs})
                else:
                    outputs = session.follow(inputs, {IDS: TOKEN})
                outputs.request()
            running.append(outputs)
            position += 1
            if not self._chained or len(running) > session.ahead:
                token = running.popleft()[TOKEN]
                yield token[:, 0].copy()
        for outputs in running:
            yield outputs[TOKEN][:, 0]

    def _session(self, step: TokenStep, parts: Hoisted | None = None) -> Session:
        """The session of a step, which shares what the first one keeps."""
        known = self._sessions.get(step)
        if known is not None:
            return known
        if parts is None:
            parts = self._parts(self._elaborate(step))
        shared = self._first if self._sessions else None
        elaborated = open_shared(parts.rest, self._open, self._rewriting, shared)
        self._sessions[step] = elaborated
        return elaborated

    def _parts(self, elaborated: TokenGraph) -> Hoisted:
        """Returns the part that runs once for a context, and the part that runs for tokens."""
        graph = elaborated.elaboration.graph
        return hoist(graph, self.context) if self.context else Hoisted(Graph((), {}), graph)


def _those_of(session: Session, values: Mapping[str, Array]) -> dict[str, Array]:
    """The values of what a session keeps."""
    return {name: values[name] for name in session.names if name in values}


def chunks(length: int) -> Iterator[int]:
    """A length as a sum of chunks, the largest first."""
    for size in CHUNKS:
        count, length = divmod(length, size)
        yield from (size for _ in range(count))


def _step_inputs(
    session: Session, position: int, tokens: int, sampling: Sampling
) -> dict[str, Array]:
    """Returns the inputs of a step beside its tokens; the counter counts drawn positions."""
    known = {
        POSITION: np.asarray(position, np.int32),
        TEMPERATURE: np.asarray(sampling.temperature, np.float32),
        COUNTER: np.array([sampling.seed, position + tokens], np.uint32),
    }
    return {name: array for name, array in known.items() if name in session.inputs}


def _positions(elaboration: Elaboration) -> int:
    """Returns the number of positions that the tokens of a step of one may have."""
    bounds = bounds_of(elaboration)
    return min(UNBOUNDED, bounds[POSITION].count) if POSITION in bounds else UNBOUNDED


def bounds_of(elaboration: Elaboration) -> Mapping[str, Bound]:
    """Returns the bounds of inputs: of those that are indices, and those that a program states."""
    return all_of(leaf_bounds(elaboration.graph), elaboration.stated_bounds({}))
