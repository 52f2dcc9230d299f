"""Generation by a model that keeps no caches: all tokens are computed anew for each that is drawn.

There is a graph for each length, so that nothing is padded and a model of any kind is exact: one
whose tokens look at later ones too, or that normalizes over them. Where the positions of a model
end, a token is drawn from as many of the last tokens as it takes.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from threading import RLock

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.wording import quoted
from meganeura_dsl.elaborate.declarations.generation import (
    LOGITS,
    TEMPERATURE,
    TOKEN,
    TokenGraph,
    TokenStep,
)
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import Closing, OpenSession, Outputs, Session, SessionError
from meganeura_runtime.backends.inference_session import open_shared
from meganeura_runtime.infer.generator import (
    GREEDY,
    UNBOUNDED,
    Choose,
    Elaborate,
    Generator,
    Sampling,
    bounds_of,
    capacity_for,
)
from meganeura_runtime.io.data.index_problems import check_values

KEPT = 8
"""The number of sessions of recent lengths that stay open, beside the one with the weights."""


def open_generator(
    elaborate: Elaborate,
    values: dict[str, Array],
    open_session: OpenSession,
    rewriting: RewriteOptions,
    step: TokenStep,
) -> "Generator | Recomputation":
    """Returns what draws tokens: with caches, if the model and the step keep them."""
    first = elaborate(step)
    if first.without_caches or not step.keeps:
        return Recomputation(elaborate, values, open_session, rewriting, step, first)
    return Generator(elaborate, values, open_session, rewriting, step, first)


class Recomputation(Closing):
    """A model on a device that draws tokens without caches, of up to `capacity` tokens a text.

    It is used as a `Generator`, and several sequences may be written in turns.
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
        """`first` is the graph of `step`, which has one token."""
        self._elaborate = elaborate
        self._open = open_session
        self._rewriting = rewriting
        self._step = replace(step, keeps=False)
        self._lock = RLock()
        self._sessions: OrderedDict[TokenStep, Session] = OrderedDict()
        self._fits, self._too_long = 0, UNBOUNDED
        """The longest sequence that was seen to fit, and the shortest that does not."""
        self.capacity = step.capacity
        self.vocabulary, self.context = first.vocabulary, first.context
        self._ids, self._bound = first.ids, bounds_of(first.elaboration).get(first.ids)
        self._given: dict[str, Array] | None = None if first.context else {}
        self._weights = open_shared(first.elaboration.graph, open_session, rewriting, None)
        names = [name for name in self._weights.names if name in values]
        self._weights.load({name: values[name] for name in names})

    @property
    def window(self) -> int | None:
        """The most tokens the model takes, if a sequence was longer."""
        return None if self._too_long == UNBOUNDED else self._fits

    def load(self, values: Mapping[str, Array]) -> None:
        """Take other weights."""
        with self._lock:
            self._weights.load({name: values[name] for name in self._weights.names})

    def close(self) -> None:
        """Give the memory back."""
        while self._sessions:
            self._sessions.popitem()[1].close()
        self._weights.close()

    def read(self, inputs: Mapping[str, Array]) -> None:
        """Take a new context for the sequences to come; raises `FeedError` for other inputs."""
        if set(inputs) != set(self.context):
            raise FeedError(f"the model takes {quoted(self.context)} beside its tokens")
        self._given = dict(inputs)

    def tokens(
        self,
        prompt: Array | Sequence[int] | Sequence[Sequence[int]],
        steps: int,
        sampling: Sampling = GREEDY,
    ) -> Iterator[Array]:
        """As `Generator.tokens`; where the positions end, the oldest tokens are left out."""
        ids = self._checked(prompt, steps)
        step = replace(self._step, top_k=sampling.drawn_from)
        return (token[:, 0] for token in self._drawn(ids, steps, step, sampling))

    def chosen(self, prompt: Array | Sequence[int], steps: int, choose: Choose) -> Iterator[Array]:
        """Yields tokens as `tokens` does, but `choose` takes each from the logits, on the host."""
        ids = self._checked(prompt, steps)
        step = replace(self._step, top_k=None, draws=False)
        for _ in range(steps):
            token = np.array(choose(self._outputs(ids, step, GREEDY)[LOGITS]))
            yield token.copy()
            ids = self._longer(ids, token[:, None])

    def _drawn(
        self, ids: Array, steps: int, step: TokenStep, sampling: Sampling
    ) -> Iterator[Array]:
        for number in range(steps):
            token = self._outputs(ids, step, sampling)[TOKEN].copy()
            yield token
            if number + 1 < steps:
                ids = self._longer(ids, token)

    def _checked(
        self, prompt: Array | Sequence[int] | Sequence[Sequence[int]], steps: int
    ) -> Array:
        """Returns a prompt as `i32[rows, tokens]`, which the model takes."""
        ids = np.array(prompt, np.int32).reshape(self._step.rows, -1)
        capacity_for(ids.shape[1], steps, self.capacity)
        self._require_known(ids)
        if self._given is None:
            raise SessionError(f"nothing was read: `read` takes {quoted(self.context)}")
        return ids

    def _longer(self, ids: Array, token: Array) -> Array:
        self._require_known(token)
        return np.concatenate([ids, token], axis=1)

    def _require_known(self, ids: Array) -> None:
        """Raise `ProblemError` for tokens that the model does not take."""
        if self._bound is not None:
            check_values(ids, self._bound, self._ids)

    def _outputs(self, ids: Array, step: TokenStep, sampling: Sampling) -> Outputs:
        """Returns what the model gives for the last tokens that it takes."""
        with self._lock:
            session = self._session(ids.shape[1], step)
            given = {} if self._given is None else self._given
            known = {
                **given,
                TEMPERATURE: np.asarray(sampling.temperature, np.float32),
                COUNTER: np.array([sampling.seed, ids.shape[1]], np.uint32),
            }
            size = min(ids.shape[1], self._fits)
            fed = {name: array for name, array in known.items() if name in session.inputs}
            return session.step({self._ids: np.ascontiguousarray(ids[:, -size:]), **fed})

    def _session(self, length: int, step: TokenStep) -> Session:
        """Returns the session of a sequence, or of as many of its last tokens as fit."""
        while True:
            size = min(length, self._too_long - 1)
            known = self._sessions.get(replace(step, tokens=size))
            if known is not None:
                self._sessions.move_to_end(replace(step, tokens=size))
                return known
            try:
                elaborated = self._elaborate(replace(step, tokens=size))
            except ProblemError as refused:
                self._find_window(size, step, refused)
                continue
            self._fits = max(self._fits, size)
            graph = elaborated.elaboration.graph
            session = open_shared(graph, self._open, self._rewriting, self._weights)
            self._sessions[replace(step, tokens=size)] = session
            if len(self._sessions) > KEPT:
                self._sessions.popitem(last=False)[1].close()
            return session

    def _find_window(self, too_long: int, step: TokenStep, refused: ProblemError) -> None:
        """Find the longest sequence that is elaborated; raises `refused` if there is none."""
        low, high = min(self._fits, too_long - 1), too_long
        while high - low > 1:
            middle = (low + high) // 2
            try:
                self._elaborate(replace(step, tokens=middle))
            except ProblemError:
                high = middle
            else:
                low = middle
        if low == 0:
            raise refused
        self._fits, self._too_long = low, high
