"""Generation without caches: the tokens are those of a model that keeps them, and windows slide."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura import Model
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import SessionError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.infer.generator import GREEDY, Generator, Sampling
from meganeura_runtime.infer.recomputation import KEPT, Recomputation, open_generator
from tests.effort import effort
from tests.runtime.infer.test_generator import DEVICES, DRAWN, PROMPT, lively

DECODER = """\
block Net(words=50, positions=8, d=8)(ids: i32[n, s]) -> [n, s, words]:
  x = ids |> table: embedding(words, d)
  x = x + (iota(s) |> places: embedding(positions, d))
  q = (x |> q: linear(d)) |> insert_axis(1, 1)
  x = x + attention(q, q, q{causal})[:, 0]
  return x |> head: linear(words)

model net = Net()
"""


def recomputing(model: Model, device: str = "cpu", **sizes: int) -> Recomputation:
    """Draws the tokens of a model that has caches without them."""
    step = TokenStep(64, 1, keeps=False, sizes=tuple(sizes.items()))
    made = model._generator(step, device)
    assert isinstance(made, Recomputation)
    return made


def drawn(made: Generator | Recomputation, steps: int, sampling: Sampling = GREEDY) -> list[int]:
    return [int(token[0]) for token in made.tokens(PROMPT, steps, sampling)]


@pytest.mark.parametrize("name", effort(["lm_tiny"], ["gpt2_tiny", "lm_tiny"]))
def test_the_tokens_are_those_of_caches(name: str) -> None:
    model = lively(name, layers=effort(1, 2))
    with model.generator(64, device="cpu") as cached, recomputing(model) as recomputed:
        for sampling in (GREEDY, DRAWN):
            expected = drawn(cached, 8, sampling)
            assert len({*expected}) > 2
            assert drawn(recomputed, 8, sampling) == expected
        assert recomputed.window is None


@pytest.mark.parametrize("device", effort(["cpu"], DEVICES))
def test_every_device_draws_them(device: str) -> None:
    model = lively("gpt2_tiny", layers=1)
    with model.generator(64, device="cpu") as cached:
        expected = drawn(cached, 4, DRAWN)
    with recomputing(model, device) as recomputed:
        assert drawn(recomputed, 4, DRAWN) == expected
        assert drawn(recomputed, 4, DRAWN) == expected


def test_an_answer_is_that_of_caches() -> None:
    model = lively("t5_tiny", layers=1)
    context = {"prompt": np.array([PROMPT], np.int32)}
    with model.generator(16, sizes={"t": 11}, device="cpu") as cached:
        cached.read(context)
        expected = [int(each[0]) for each in cached.tokens([0], 4)]
    with recomputing(model, t=11) as recomputed:
        with pytest.raises(SessionError, match="takes `prompt`"):
            recomputed.tokens([0], 4)
        with pytest.raises(FeedError, match="takes `prompt`"):
            recomputed.read({"pormpt": context["prompt"]})
        recomputed.read(context)
        assert [int(each[0]) for each in recomputed.tokens([0], 4)] == expected


def decoder(folder: Path, causal: str = ", causal=true", **changes: int) -> Model:
    file = folder / "net.mgn"
    file.write_text(DECODER.format(causal=causal))
    return meganeura.load(file).model(seed=0, config=changes)


def by_hand(model: Model, ids: list[int], steps: int, window: int) -> list[int]:
    """The likeliest token each time, of the model run on the last tokens."""
    for _ in range(steps):
        given = np.array([ids[-window:]], np.int32)
        ids = [*ids, int(model.run({"ids": given}, device="cpu")["output"][0, -1].argmax())]
    return ids[-steps:]


SMALL = [5, 17, 20, 3, 49, 41, 7, 8, 9, 10, 11]


@pytest.mark.parametrize("causal", [", causal=true", ""])
def test_where_positions_end_the_window_slides(tmp_path: Path, causal: str) -> None:
    """Of a model that looks at later tokens too no token is padded, so it is exact as well."""
    model = decoder(tmp_path, causal)
    with model.generator(32, device="cpu") as made:
        assert isinstance(made, Recomputation)
        for length, steps in ((1, 9), (8, 2), (11, 2)):
            found = [int(each[0]) for each in made.tokens(SMALL[:length], steps)]
            assert found == by_hand(model, SMALL[:length], steps, window=8), length
        assert made.window == 8
        assert len([*made.tokens(SMALL[:1], 3)]) == 3


def test_rows_are_written_together_and_sequences_in_turns(tmp_path: Path) -> None:
    model = decoder(tmp_path)
    first, second = [1, 2, 3], [4, 5, 6]
    with model.generator(32, device="cpu") as made:
        turns = [*zip(made.tokens(first, 4), made.tokens(second, 4), strict=True)]
        alone = [[int(each[0]) for each in made.tokens(ids, 4)] for ids in (first, second)]
    assert [[int(each[0]) for each in column] for column in zip(*turns, strict=True)] == alone
    with model.generator(32, rows=2, device="cpu") as made:
        both = [each.tolist() for each in made.tokens([first, second], 4)]
    assert [[*row] for row in zip(*both, strict=True)] == alone


def test_others_may_choose(tmp_path: Path) -> None:
    def likeliest(logits: Array) -> Array:
        return logits.argmax(1).astype(np.int32)

    with decoder(tmp_path).generator(32, device="cpu") as made:
        chosen = [int(each[0]) for each in made.chosen(SMALL, 4, likeliest)]
        assert chosen == [int(each[0]) for each in made.tokens(SMALL, 4)]


@pytest.mark.parametrize(
    ("prompt", "steps", "code"),
    [([], 4, "E0665"), ([1], 40, "E0661"), ([50], 4, "E0535"), ([1], 0, "E0662")],
)
def test_what_cannot_be_written_is_refused_at_once(
    tmp_path: Path, prompt: list[int], steps: int, code: str
) -> None:
    with (
        decoder(tmp_path).generator(32, device="cpu") as made,
        pytest.raises(ProblemError, match=code),
    ):
        made.tokens(prompt, steps)


def test_a_model_that_takes_no_single_token_is_refused_for_that(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    text = "block Net()(ids: i32[n, s]) -> [n, s, 5]\n    where s % 2 == 0:\n"
    file.write_text(f"{text}  return ids |> table: embedding(5, 5)\nmodel net = Net()\n")
    with pytest.raises(ProblemError, match="s % 2 == 0"):
        meganeura.load(file).model(seed=0).generator(8, device="cpu")


class _Counted(ReferenceSession):
    opened = 0

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        type(self).opened += 1

    def close(self) -> None:
        type(self).opened -= 1
        super().close()


def test_few_sessions_stay_open_and_none_in_the_end(tmp_path: Path) -> None:
    model, step = decoder(tmp_path, positions=40), TokenStep(32, 1)
    opens: Callable[[Graph], _Counted] = _Counted
    with open_generator(model._token_step, model.values, opens, RewriteOptions(), step) as made:
        assert len([*made.tokens([1], 20)]) == 20
        assert _Counted.opened == KEPT + 1
    assert _Counted.opened == 0
