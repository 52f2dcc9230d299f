"""The task of a generator for a text: the first tokens, the context, and the room."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meganeura_dsl.diagnostics.problem import ProblemError, Report
from meganeura_dsl.elaborate.declarations.generation import TokenStep, text_input
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.infer.generator import (
    UNBOUNDED,
    Elaborate,
    Sampling,
    capacity_for,
    room_for,
    steps_for,
)
from meganeura_runtime.infer.inference_problems import WrongInputs
from meganeura_runtime.infer.size_binding import bind_sizes
from meganeura_runtime.io.preprocess.token_problems import EmptyPrompt
from meganeura_runtime.io.preprocess.tokens import Tokenizer


@dataclass(frozen=True, eq=False)
class TextTask:
    """A text as a model is given it."""

    ids: list[int]
    """The tokens before the first that is drawn."""
    context: Mapping[str, Array]
    """The inputs read before the tokens: the text, if the model answers it."""
    step: TokenStep
    """The smallest step of the generator."""
    steps: int
    ends: tuple[int, ...]
    length: int
    """The number of tokens of the text."""
    notes: tuple[Report, ...]
    """The note on a model that keeps no caches, or nothing."""

    @classmethod
    def of(
        cls,
        elaborate: Elaborate,
        words: Tokenizer,
        prompt: str,
        steps: int | None,
        sampling: Sampling,
    ) -> "TextTask":
        """Returns the task of a prompt, for `steps` tokens or as many as fit.

        A model without caches writes on where its positions end. Raises `ProblemError` for a prompt
        that is empty or too long, and for a model that does not generate or that takes something
        else.
        """
        found = words.encode(prompt)
        if not found:
            raise ProblemError(EmptyPrompt())
        open_ = elaborate(TokenStep(UNBOUNDED, 1))
        ids, ends = found, words.ends
        context: dict[str, Array] = {}
        sizes: dict[str, int] = {}
        if open_.context:
            types = {name: open_.elaboration.inputs[name] for name in open_.context}
            name = text_input(open_.elaboration, open_.context)
            if name is None or len(types) > 1:
                shown = tuple((each, str(type_)) for each, type_ in types.items())
                raise ProblemError(WrongInputs((), ("prompt",), shown))
            context = {name: np.asarray([found], np.int32)}
            sizes = bind_sizes(types, {name: context[name].shape})
            ids, ends = [words.start], words.stops
        room = UNBOUNDED if open_.without_caches else room_for(elaborate, sizes)
        most = steps_for(len(ids), room) if steps is None else steps
        capacity = capacity_for(len(ids), most, room)
        step = TokenStep(capacity, 1, 1, sampling.drawn_from, tuple(sizes.items()))
        notes = () if open_.without_caches is None else (open_.without_caches.report(),)
        return cls(ids, context, step, most, ends, len(found), notes)
