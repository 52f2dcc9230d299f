"""Tasks of a prompt for a model that continues it, or that answers it."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.generation import TokenGraph, TokenStep
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.infer import generator
from meganeura_runtime.infer.generation_problems import TooLong
from meganeura_runtime.infer.generator import Elaborate, Sampling, streamed
from meganeura_runtime.infer.inference_problems import WrongInputs
from meganeura_runtime.infer.text_task import TextTask
from meganeura_runtime.io.preprocess.token_problems import EmptyPrompt
from meganeura_runtime.io.preprocess.tokens import TextStream, Tokenizer

N, T = dim("n"), dim("t")
ROOM = 150
IDS = TensorType(DType.I32, (1, dim("s")))


class _Numbers(TextStream):
    """Of each second token the number, and at the end what is left over."""

    def __init__(self) -> None:
        self.last = ""

    def add(self, token: int) -> str:
        self.last = "" if self.last else f"{token} "
        return "" if self.last else f"{token} "

    def end(self) -> str:
        return self.last and "and one"


class _Words(Tokenizer):
    """A token for each letter; a text begins with 7."""

    start = 7

    def __init__(self, *ends: int) -> None:
        self.ends = ends

    @property
    def size(self) -> int:
        return 128

    def encode(self, text: str) -> list[int]:
        return [ord(each) for each in text]

    def stream(self) -> TextStream:
        return _Numbers()


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_positions", lambda _: ROOM)


def model(**context: TensorType) -> Elaborate:
    """One that is given these beside its tokens."""
    made = SimpleNamespace(
        context=tuple(context),
        elaboration=SimpleNamespace(inputs={"ids": IDS, **context}),
        without_caches=None,
    )

    def elaborate(step: TokenStep) -> TokenGraph:
        assert step.capacity == generator.UNBOUNDED
        return cast("Any", made)

    return elaborate


def text(*shape: Size) -> TensorType:
    return TensorType(DType.I32, shape)


DRAWN = Sampling(temperature=0.5, top_k=3)


def test_a_text_is_gone_on_with_until_it_ends() -> None:
    task = TextTask.of(model(), _Words(9, 4), "abc", None, DRAWN)
    assert (task.ids, dict(task.context), task.ends) == ([97, 98, 99], {}, (9, 4))
    assert (task.steps, task.length) == (128, 3)
    # 130 tokens are 3 of the text and 127 that are drawn and read again, and 150 are all there are.
    assert task.step == TokenStep(ROOM, 1, 1, 3, ())


@pytest.mark.parametrize(("ends", "stops"), [((), (7,)), ((9, 4), (9, 4))])
def test_a_text_is_answered_from_the_token_that_begins_one(
    ends: tuple[int, ...], stops: tuple[int, ...]
) -> None:
    asked: list[TokenStep] = []
    made = model(source=text(N, 2 * T))

    def elaborate(step: TokenStep) -> TokenGraph:
        asked.append(step)
        return made(step)

    task = TextTask.of(elaborate, _Words(*ends), "abcd", 20, Sampling())
    assert [each.sizes for each in asked] == [(), (("n", 1), ("t", 2))], "where its room is asked"
    assert {name: each.tolist() for name, each in task.context.items()} == {
        "source": [[97, 98, 99, 100]]
    }
    assert (task.ids, task.ends, task.steps, task.length) == ([7], stops, 20, 4)
    assert task.step == TokenStep(64, 1, 1, None, (("n", 1), ("t", 2)))


@pytest.mark.parametrize(
    "context",
    [
        {"mel": TensorType(DType.F32, (N, T))},
        {"source": text(T)},
        {"source": text(N, T), "mel": TensorType(DType.F32, (N, 3))},
        {"source": text(N, T), "other": text(N, T)},
    ],
)
def test_what_is_given_something_else_answers_no_text(context: Mapping[str, TensorType]) -> None:
    with pytest.raises(ProblemError) as caught:
        TextTask.of(model(**context), _Words(), "abc", None, Sampling())
    shown = tuple((name, str(each)) for name, each in context.items())
    assert caught.value.problem == WrongInputs((), ("prompt",), shown)


def test_a_prompt_is_not_empty_and_fits() -> None:
    with pytest.raises(ProblemError) as caught:
        TextTask.of(model(), _Words(), "", None, Sampling())
    assert isinstance(caught.value.problem, EmptyPrompt)
    for length, steps, fits in (
        (150, 1, True),
        (151, 1, False),
        (150, None, True),
        (3, 149, False),
    ):
        if fits:
            task = TextTask.of(model(), _Words(), length * "a", steps, Sampling())
            assert (task.steps, task.step.capacity) == (1, ROOM)
            continue
        with pytest.raises(ProblemError) as caught:
            TextTask.of(model(), _Words(), length * "a", steps, Sampling())
        assert caught.value.problem == TooLong(length, steps or 1, ROOM)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        (None, ["2 ", "and one"]),
        ((), ["2 ", "9 ", "4 "]),
        ((4,), ["2 ", "9 ", "and one"]),
        ((1,), []),
        ((9, 2), ["and one"]),
    ],
)
def test_a_text_streams_until_it_ends(ends: tuple[int, ...] | None, expected: list[str]) -> None:
    """By the ends of the tokenizer unless others are given, and be it none at all."""
    tokens = (np.array([token]) for token in (1, 2, 3, 9, 5, 4))
    assert [*streamed(_Words(9), tokens, ends)] == expected
