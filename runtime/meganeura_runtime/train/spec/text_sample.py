"""Finds the model, the prompt and the tokenizer of the samples that a training writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Span
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.elaborate.problems.cache_problems import NotGenerating
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.pipeline import Program
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_runtime.infer.generator import UNBOUNDED, Elaborate, Sampling
from meganeura_runtime.infer.text_task import TextTask
from meganeura_runtime.io.preprocess.tokens import Tokenizer, tokenizer_of
from meganeura_runtime.train.training_problems import NothingToSample

TEMPERATURE = 0.8
"""The divisor of logits before a token of a sample is drawn."""


@dataclass(frozen=True, eq=False)
class TextSample:
    """The prompt of a sample, and the model and the tokenizer that write it."""

    prompt: str
    elaborate: Elaborate
    prefix: str
    """The prefix of the model's parameters, in the training."""
    words: Tokenizer
    task: TextTask
    sampling: Sampling

    @classmethod
    def of(
        cls,
        program: Program,
        train: str,
        settings: RunSettings,
        parameters: Sequence[ParameterInfo],
        tokenizer: Path | None,
        span: Span | None,
    ) -> "TextSample | None":
        """Returns the sample of a training, of the first model it applies that generates.

        None where the settings ask for none. Raises `ProblemError` where no such model is applied,
        and for a prompt that does not fit.
        """
        if settings.sample_prompt is None:
            return None
        if settings.devices > 1:
            raise ProblemError(NothingToSample(span, f"`devices` is {settings.devices}"))
        found = _generating(program, train, parameters)
        if found is None:
            reason = f"`{train}` applies no model of tokens that gives their logits"
            raise ProblemError(NothingToSample(span, reason))
        elaborate, prefix = found
        words = tokenizer_of([], tokenizer)
        sampling = Sampling(TEMPERATURE, 0, settings.seed)
        tokens = settings.sample_tokens
        task = TextTask.of(elaborate, words, settings.sample_prompt, tokens, sampling)
        known = elaborate(task.step).vocabulary
        if words.size > known:
            reason = f"a text is made of {words.size:,} tokens, and the model has {known:,}"
            raise ProblemError(NothingToSample(span, reason))
        return cls(settings.sample_prompt, elaborate, prefix, words, task, sampling)


def _generating(
    program: Program, train: str, parameters: Sequence[ParameterInfo]
) -> tuple[Elaborate, str] | None:
    """Returns the first model that generates, and the prefix of its parameters in the training."""
    shapes = {each.name: each.type.shape for each in parameters}
    for _, elaborate in pipeline.token_models(program, train):
        try:
            step = elaborate(TokenStep(UNBOUNDED, 1))
        except ProblemError as error:
            if isinstance(error.problem, NotGenerating):
                continue
            raise
        wanted = {each.name: each.type.shape for each in step.elaboration.parameters}
        prefix = _prefix(wanted, shapes)
        if prefix is not None:
            return elaborate, prefix
    return None


def _prefix(wanted: Mapping[str, object], known: Mapping[str, object]) -> str | None:
    """Returns what stands before all names of `wanted` in `known`, if they are there."""
    first = next(iter(wanted), "")
    for name in known:
        prefix = name.removesuffix(first)
        is_all = all(known.get(prefix + each) == shape for each, shape in wanted.items())
        if name.endswith(first) and is_all:
            return prefix
    return None
