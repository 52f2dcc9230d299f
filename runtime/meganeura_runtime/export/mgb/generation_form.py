"""The data for writing texts of a compiled model, beside its step of one token."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.backends.webgpu.plan import Plan
from meganeura_runtime.export.mgb.training_form import Count, Some

STEPPED = {"position": TensorType(DType.I32, ())}
"""The inputs of a step beside `ids`, if it reads them."""
DRAWN = {
    "temperature": TensorType(DType.F32, ()),
    "top_k": TensorType(DType.I32, ()),
    "counter": TensorType(DType.U32, (2,)),
}
"""The optional inputs of a draw beside `logits`; the counter is the seed and the position."""

Text = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True)
class PromptStep:
    """The step that reads so many tokens of a prompt at once."""

    tokens: Some
    plan: Plan


@dataclass(frozen=True)
class DrawPlans:
    """The plans that draw a token from `logits: [1, vocabulary]` on the device."""

    likeliest: Plan
    all: Plan
    """The plan that draws at random from all tokens."""
    top: Plan
    """The plan that draws at random from the `top_k` likeliest tokens."""

    @property
    def each(self) -> tuple[Plan, ...]:
        """All three."""
        return (self.likeliest, self.all, self.top)


@dataclass(frozen=True)
class GenerationForm:
    """The plans of a generation, and what makes text of its tokens.

    The artefact's own plan is a step of one token. All steps give logits and share the weights and
    the caches, which lie in the same places of each plan.
    """

    capacity: Some
    """Tokens that the caches hold."""
    vocabulary: Some
    caches: tuple[str, ...]
    """The parameters that begin as zeros and are in no file."""
    prompts: tuple[PromptStep, ...]
    """The largest first."""
    draws: DrawPlans
    tokenizer: Text | None = None
    """The text of a tokenizer.json; None where tokens are bytes."""
    ends: tuple[Count, ...] = ()
    """The tokens at which a text ends."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """All but that of one token."""
        return (*(each.plan for each in self.prompts), *self.draws.each)
