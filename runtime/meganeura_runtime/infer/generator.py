"""Generation: a prompt is read in a few large steps, and then each step draws one token.

All steps are of one model and share its weights and caches on the device. A token that is drawn
stays there as the next step's input; the host reads it behind the steps that follow.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.generation import (
    IDS,
    POSITION,
    TEMPERATURE,
    TOKEN,
    TokenGraph,
    TokenStep,
)
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.index_checks import leaf_bounds
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Closing, OpenSession, Outputs, Session
from meganeura_runtime.backends.inference_session import open_shared
from meganeura_runtime.infer.generation_problems import TooLong, WrongSampling
from meganeura_runtime.io.data.index_problems import check_values
from meganeura_runtime.io.preprocess.token_problems import EmptyPrompt
from meganeura_runtime.io.preprocess.tokens import Tokenizer

CHUNKS = (512, 64, 8, 1)
"""How many tokens of a prompt a step takes: so many plans serve prompts of any length, exactly."""
ROUNDED = 64
"""Capacities are multiples of it, so that a plan serves sequences of many lengths."""
STEPS = 128
"""How many tokens are drawn where nobody says, and there is room for them."""
UNBOUNDED = 1 << 30
COUNTER = "counter"

Elaborate = Callable[[TokenStep], TokenGraph]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: the likeliest at temperature 0, otherwise at random.

    They are drawn from softmax(logits / temperature), among the `top_k` likeliest or, if that is 0,
    among all. One seed and one prompt give the same tokens each time.
    """

    temperature: float = 0.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `ProblemError` for a number that is out of range."""
        limits = {
            "temperature": (self.temperature, "from 0 to 1,000", 0 <= self.temperature <= 1000),
            "top_k": (self.top_k, "from 0", self.top_k >= 0),
            "seed": (self.seed, "from 0 to 2**32 - 1", 0 <= self.seed < 1 << 32),
        }
        for name, (value, wanted, is_right) in limits.items():
            if not is_right:
                raise ProblemError(WrongSampling(name, str(value), wanted))

    @property
    def drawn_from(self) -> int | None:
        """From how many of the likeliest a token is drawn; None where nothing is random."""
        return None if self.temperature == 0 else self.top_k


GREEDY = Sampling()


def room_for(elaborate: Elaborate) -> int:
    """How many tokens a model has positions for; `UNBOUNDED` if it takes any number."""
    return _positions(elaborate(TokenStep(UNBOUNDED, 1)).elaboration)


def steps_for(prompt: int, room: int) -> int:
    """How many tokens are drawn where nobody says: `STEPS`, or what there is room for."""
    return max(1, min(STEPS, room - prompt + 1))


def capacity_for(prompt: int, steps: int, room: int) -> int:
    """A capacity for so many tokens; raises `ProblemError` if the model has no room for them."""
    if not prompt:
        raise ProblemError(EmptyPrompt())
    if steps < 1:
        raise ProblemError(WrongSampling("steps", str(steps), "from 1"))
    needed = prompt + steps - 1
    if needed > room:
        raise ProblemError(TooLong(prompt, steps, room))
    return min(-(-needed // ROUNDED) * ROUNDED, room)


def streamed(tokenizer: Tokenizer, tokens: Iterator[Array]) -> Iterator[str]:
    """Tokens of one sequence as text, up to one that ends it."""
    stream = tokenizer.stream()
    for drawn in tokens:
        token = int(drawn[0])
        if token in tokenizer.ends:
            break
        piece = stream.add(token)
        if piece:
            yield piece
    rest = stream.end()
    if rest:
        yield rest


class Generator(Closing):
    """A model on a device that draws tokens, with caches for `capacity` of them.

    Sessions for larger steps are opened when a prompt is long enough for them.
    """

    def __init__(
        self,
        elaborate: Elaborate,
        values: dict[str, Array],
        open_session: OpenSession,
        rewriting: RewriteOptions,
        step: TokenStep,
    ) -> None:
        """`step` is the smallest: one token of each sequence."""
        self._elaborate = elaborate
        self._open = open_session
        self._rewriting = rewriting
        self._rows, self.capacity = step.rows, step.capacity
        self._sessions: dict[tuple[int, int | None], Session] = {}
        first = elaborate(step)
        self.vocabulary = first.vocabulary
        self._bounds = leaf_bounds(first.elaboration.graph)
        self._chained = _may_chain(first)
        self._first = self._session(1, step.top_k, first)
        self._first.load(values)

    def close(self) -> None:
        """Give the memory back."""
        for session in reversed(self._sessions.values()):
            session.close()
        self._sessions.clear()

    def tokens(
        self,
        prompt: Array | Sequence[int] | Sequence[Sequence[int]],
        steps: int,
        sampling: Sampling = GREEDY,
    ) -> Iterator[Array]:
        """Up to so many tokens, `i32[rows]` each, that follow a prompt `[rows, tokens]`.

        A prompt of one axis is one sequence. Each call begins a new sequence; to stop, ask for no
        more. Raises `ProblemError` for a prompt that is empty or too long, and for tokens that the
        model does not have.
        """
        ids = np.asarray(prompt, np.int32).reshape(self._rows, -1)
        capacity_for(ids.shape[1], steps, self.capacity)
        if IDS in self._bounds:
            check_values(ids, self._bounds[IDS], IDS)
        return self._drawn(ids, steps, sampling)

    def _drawn(self, ids: Array, steps: int, sampling: Sampling) -> Iterator[Array]:
        self._first.reset()
        place, outputs = 0, None
        for size in chunks(ids.shape[1]):
            session = self._session(size, sampling.drawn_from)
            part = np.ascontiguousarray(ids[:, place : place + size])
            outputs = session.step({IDS: part, **_manner(session, place, size, sampling)})
            place += size
        assert outputs is not None
        token = outputs[TOKEN]
        yield token[:, 0]
        session = self._session(1, sampling.drawn_from)
        running: deque[Outputs] = deque()
        for number in range(1, steps):
            manner = _manner(session, place, 1, sampling)
            if number == 1 or not self._chained:
                outputs = session.step({IDS: token, **manner})
            else:
                outputs = session.follow(manner, {IDS: TOKEN})
            outputs.request()
            running.append(outputs)
            place += 1
            if not self._chained or len(running) > session.ahead:
                token = running.popleft()[TOKEN]
                yield token[:, 0]
        for outputs in running:
            yield outputs[TOKEN][:, 0]

    def _session(
        self, tokens: int, top_k: int | None, elaborated: TokenGraph | None = None
    ) -> Session:
        """The session of a step, which shares what the first one keeps."""
        known = self._sessions.get((tokens, top_k))
        if known is not None:
            return known
        step = TokenStep(self.capacity, tokens, self._rows, top_k)
        graph = (elaborated or self._elaborate(step)).elaboration.graph
        shared = self._first if self._sessions else None
        made = open_shared(graph, self._open, self._rewriting, shared)
        self._sessions[tokens, top_k] = made
        return made


def chunks(length: int) -> Iterator[int]:
    """A length as a sum of chunks, the largest first."""
    for size in CHUNKS:
        count, length = divmod(length, size)
        yield from (size for _ in range(count))


def _manner(session: Session, place: int, tokens: int, sampling: Sampling) -> dict[str, Array]:
    """What a step is fed beside its tokens; the counter counts the places that are drawn for."""
    known = {
        POSITION: np.asarray(place, np.int32),
        TEMPERATURE: np.asarray(sampling.temperature, np.float32),
        COUNTER: np.array([sampling.seed, place + tokens], np.uint32),
    }
    return {name: array for name, array in known.items() if name in session.inputs}


def _positions(elaboration: Elaboration) -> int:
    """How many positions the tokens of a step of one may have."""
    bounds = [leaf_bounds(elaboration.graph), elaboration.stated_bounds({})]
    counts = [each[POSITION].count for each in bounds if POSITION in each]
    return min([UNBOUNDED, *counts])


def _may_chain(made: TokenGraph) -> bool:
    """Whether every token that is drawn is one that the model takes, so that nobody checks it."""
    bounds = [leaf_bounds(made.elaboration.graph), made.elaboration.stated_bounds({})]
    return all(made.vocabulary <= each[IDS].count for each in bounds if IDS in each)
