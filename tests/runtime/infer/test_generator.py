"""Generation: prefill and decoding give what the model gives for the whole sequence."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meganeura
from meganeura import Model
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import FeedError
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import check, loader_beside
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.base import SessionError
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, Style
from meganeura_runtime.backends.webgpu.device.device import Device
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.quantize_weights import levels_of
from meganeura_runtime.infer.generator import (
    CHUNKS,
    GREEDY,
    ROUNDED,
    STEPS,
    UNBOUNDED,
    Generator,
    Sampling,
    capacity_for,
    chunks,
    steps_for,
)
from meganeura_runtime.infer.recomputation import Recomputation, open_generator
from meganeura_runtime.io.tensors.quantized_tensors import write_quantized
from tests.effort import effort

WGPU = pytest.param("wgpu", marks=pytest.mark.adapter)
DEVICES = ["cpu", "xla:cpu", WGPU]
PROMPT = [5, 17, 200, 3, 99, 41, 7, 8, 9, 10, 11]
DRAWN = Sampling(temperature=0.9, top_k=20, seed=7)


standard = cache(meganeura.load)
"""A standard program, read once."""


def lively(name: str, **config: int) -> Model:
    """A small model whose tokens vary: its weights are far larger than first values."""
    model = standard(name).model(name, seed=1, config=config)
    generator = np.random.default_rng(0)
    model.values = {
        each.name: (np.ones(1, np.float32) if "norm" in each.name or ".ln_" in each.name else 0)
        + generator.normal(0, 0.25, concrete_shape(each.type.shape)).astype(np.float32)
        for each in model.parameters
    }
    return model


@pytest.fixture(scope="module", params=["gpt2_tiny", "lm_tiny"])
def model(request: pytest.FixtureRequest) -> Model:
    return lively(request.param)


def written(
    generator: Generator | Recomputation, steps: int, length: int = 11, sampling: Sampling = GREEDY
) -> list[int]:
    return [int(token[0]) for token in generator.tokens(PROMPT[:length], steps, sampling)]


@pytest.mark.adapter
def test_packed_weights_write_what_their_levels_write(tmp_path: Path) -> None:
    """On the CPU they are unpacked, on the adapter each step takes them out of their words."""
    file, several = tmp_path / "small.safetensors", lively("lm_tiny", layers=1)
    write_quantized(file, several.values, levels_of(several.parameters, 4, None), {})
    packed = meganeura.load("lm_tiny").model("lm_tiny", weights=file, config={"layers": 1})
    texts: list[list[int]] = []
    for model, device in ((several, "cpu"), (packed, "cpu"), (packed, "wgpu")):
        with model.generator(24, device=device) as generator:
            texts.append(written(generator, 12))
    assert texts[0] != texts[1] == texts[2]


WHOLE = 32
"""Tokens that the model without caches is given; causality hides those that are not there yet."""


def expected(model: Model, prompt: Sequence[int], steps: int) -> list[int]:
    """The likeliest token each time, of the model without caches on the whole sequence."""
    ids = np.zeros((1, WHOLE), np.int32)
    ids[0, : len(prompt)] = prompt
    with model.session({"n": 1, "s": WHOLE}, device="cpu") as session:
        for at in range(len(prompt), len(prompt) + steps):
            ids[0, at] = session.step({"ids": ids})["output"][0, at - 1].argmax()
    return [*map(int, ids[0, len(prompt) : len(prompt) + steps])]


def test_the_cached_model_writes_what_the_whole_one_does(model: Model) -> None:
    with model.generator(64, device="cpu") as generator:
        found = written(generator, 20)
        assert found == expected(model, PROMPT, 20)
        assert len({*found}) >= 3
        assert written(generator, 20) == found
        stopped = generator.tokens(PROMPT, 20)
        next(stopped)
        assert written(generator, 20) == found


@pytest.mark.parametrize("device", effort(["xla:cpu", WGPU], DEVICES))
def test_every_device_draws_the_same_tokens(device: str) -> None:
    model = lively("lm_tiny", layers=1)
    with model.generator(64, device="cpu") as generator:
        greedy, drawn = written(generator, 20, 3), written(generator, 20, 3, DRAWN)
    with model.generator(64, device=device) as generator:
        assert written(generator, 20, 3) == greedy
        assert written(generator, 20, 3, DRAWN) == drawn
        assert written(generator, 1, 3) == greedy[:1]
    assert greedy != drawn


@pytest.mark.parametrize("device", effort(["cpu", WGPU], DEVICES))
def test_a_sequence_ends_where_another_begins(device: str) -> None:
    """Both would go on with the caches of the other; what was drawn by then is given."""
    with lively("lm_tiny", layers=1).generator(64, device=device) as generator:
        expected = written(generator, 6)
        for begin in (
            lambda: generator.tokens(PROMPT, 6),
            lambda: generator.chosen(PROMPT, 6, lambda logits: logits.argmax(1).astype(np.int32)),
        ):
            first, second = begin(), begin()
            next(first)
            assert [int(token[0]) for token in second] == expected
            with pytest.raises(SessionError, match="begun another sequence"):
                list(first)


@pytest.mark.parametrize("device", effort(["cpu", "xla:cpu"], DEVICES))
def test_what_the_caller_does_with_prompts_and_tokens_changes_nothing(device: str) -> None:
    with lively("lm_tiny", layers=1).generator(64, device=device) as generator:
        expected = written(generator, 6)
        prompt = np.array(PROMPT, np.int32)
        tokens, found = generator.tokens(prompt, 6), list[int]()
        prompt[...] = 0
        for token in tokens:
            found.append(int(token[0]))
            token[...] = 0
        assert found == expected


@pytest.mark.parametrize("name", effort(["lm_tiny"], ["gpt2_tiny", "lm_tiny"]))
def test_in_bf16_a_model_writes_what_it_does_in_f32(name: str) -> None:
    """By logits that are not the same, but near."""
    length = effort(4, 11)  # 11 are read in two sizes of steps
    model, logits = lively(name, layers=effort(1, 2)), list[Array]()

    def likeliest(found: Array) -> Array:
        logits.append(np.array(found))
        return found.argmax(1).astype(np.int32)

    with model.generator(64, device="xla:cpu", precision="bf16") as generator:
        found = written(generator, 4, length)
        next(generator.chosen(PROMPT[:length], 1, likeliest))
    with model.generator(64, device="xla:cpu") as generator:
        assert found == written(generator, 4, length)
        next(generator.chosen(PROMPT[:length], 1, likeliest))
    rough, exact = logits
    assert 1e-4 < np.abs(rough - exact).max() / np.abs(exact).max() < 0.1


def test_prompts_of_any_length_are_read_in_few_sizes_of_steps() -> None:
    assert CHUNKS == (512, 64, 8, 1)
    assert [*chunks(1102)] == [512, 512, 64, 8, *[1] * 6]
    model = lively("lm_tiny")
    prompt = np.random.default_rng(2).integers(0, 256, 31)
    with model.generator(128, device="cpu") as generator:
        for length in (1, 7, 8, 9, 17, 31):
            (found,) = generator.tokens(prompt[:length], 1)
            assert [int(found[0])] == expected(model, [*map(int, prompt[:length])], 1)
        assert {step.tokens for step in generator._sessions} == {1, 8}


def test_capacities_hold_a_prompt_and_what_follows_and_are_few() -> None:
    """The last token that is drawn is not read, so it needs no place."""
    for prompt, steps, room in product((1, 63, 64, 65), (1, 2, 36, 64), (64, 100, UNBOUNDED)):
        needed = prompt + steps - 1
        if needed > room:
            with pytest.raises(ProblemError):
                capacity_for(prompt, steps, room)
            continue
        found = capacity_for(prompt, steps, room)
        assert needed <= found <= min(room, needed + ROUNDED - 1)
        assert found in (room, ROUNDED * (found // ROUNDED))


def test_as_many_tokens_are_drawn_as_fit() -> None:
    assert [steps_for(prompt, 12) for prompt in (1, 10, 12, 13)] == [12, 3, 1, 1]
    assert steps_for(5, UNBOUNDED) == steps_for(5, STEPS + 4) == STEPS
    assert steps_for(5, STEPS + 3) == STEPS - 1


RECURRENT = """\
block Lm(capacity=0)(ids: i32[n, s], position: i32[] = 0) -> [n, s, 20]
    where 0 <= position:
  place = expand(f32(iota(s) + position), [s] -> [n, s, 8])
  x = (ids |> embed: embedding(20, 8)) + sin(place)
  if capacity > 0:
    cache h: [n, 8]
    scan t in 0..s:
      update h = tanh((x[:, t] |> ih: linear(8)) + (h |> hh: linear(8)))
      y[:, t] = h
  else:
    h = zeros([n, 8])
    scan t in 0..s:
      h = tanh((x[:, t] |> ih: linear(8)) + (h |> hh: linear(8)))
      y[:, t] = h
  return 5 * y |> out: linear(20)

model lm = Lm()
"""


NEXT = """\
block Lm(capacity=0)(ids: i32[n, s], position: i32[] = 0) -> [n, s, 9]
    where 0 <= position{stated}:
  param table: [{rows}, 9] = zeros
  x = {table} + 0 * f32(position)
  if capacity > 0:
    cache h: [n, 9]
    scan t in 0..s:
      update h = x[:, t]
      y[:, t] = h
    x = y
  return x

model lm = Lm()
"""
"""Of a token's row the likeliest is the next token, so that the last row's is one too many."""


@pytest.mark.parametrize(
    ("rows", "stated", "table"),
    [
        (5, "", "gather(table, ids)"),
        (8, ", ids < 5", "gather(table, ids)"),
        (8, ", ids < 5", "one_hot(ids, 8) @ table"),
    ],
)
@pytest.mark.parametrize("device", effort(["cpu", WGPU], DEVICES))
def test_a_token_that_is_drawn_is_one_that_the_model_takes(
    tmp_path: Path, rows: int, stated: str, table: str, device: str
) -> None:
    """It is told before it is read: nothing follows from it."""
    path = tmp_path / "lm.mgn"
    path.write_text(NEXT.format(rows=rows, stated=stated, table=table))
    model = meganeura.load(str(path)).model("lm", seed=0)
    model.values = {"table": 9 * np.eye(rows, 9, 1, np.float32)}
    with model.generator(64, device=device) as generator:
        assert [int(each[0]) for each in generator.tokens([1], 4)] == [2, 3, 4, 5]
        for prompt in ([5], [1, 7], [-1]):
            with pytest.raises(ProblemError, match="E0535"):
                generator.tokens(prompt, 1)

        def likeliest(logits: Array) -> Array:
            return logits.argmax(1).astype(np.int32)

        for tokens in (generator.tokens([1], 9), generator.chosen([1], 9, likeliest)):
            found: list[int] = []
            with pytest.raises(ProblemError, match="`ids` holds 5, and must be below 5"):
                found.extend(int(each[0]) for each in tokens)
            assert found == [2, 3, 4, 5]


def test_a_vocabulary_of_one_token_too_many_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "lm.mgn").write_text(NEXT.format(rows=8, stated="", table="gather(table, ids)"))
    model = meganeura.load(str(tmp_path / "lm.mgn")).model("lm", seed=0)
    model.values = {"table": 9 * np.eye(8, 9, 1, np.float32)}
    found: list[int] = []
    with (
        model.generator(64, device="cpu") as generator,
        pytest.raises(ProblemError, match="`ids` holds 8, and must be below 8"),
    ):
        found.extend(int(each[0]) for each in generator.tokens([5], 9))
    assert found == [6, 7, 8]


def test_a_sequence_begins_with_a_carry_of_zeros(tmp_path: Path) -> None:
    """A recurrence remembers what it read, so that its caches are cleared for another sequence."""
    (tmp_path / "lm.mgn").write_text(RECURRENT)
    model = meganeura.load(str(tmp_path / "lm.mgn")).model("lm", seed=1)
    with model.generator(64, device="cpu") as generator:
        prompts = [[3], [9], [3]]
        found = [[int(each[0]) for each in generator.tokens(ids, 9)] for ids in prompts]
    assert found[0] == found[2] == expected(model, prompts[0], 9)
    assert found[1] == expected(model, prompts[1], 9)


def test_what_is_drawn_at_a_place_depends_on_the_seed_and_on_the_place() -> None:
    """Not on how much was the prompt, nor on the steps it was read in: 8 tokens are one step."""
    with lively("lm_tiny").generator(64, device="cpu") as generator:
        drawn = [int(each[0]) for each in generator.tokens(PROMPT[:5], 8, DRAWN)]
        for count in (1, 3):
            rest = generator.tokens([*PROMPT[:5], *drawn[:count]], 8 - count, DRAWN)
            assert [int(each[0]) for each in rest] == drawn[count:]


def test_each_place_and_each_seed_draws_for_itself() -> None:
    """So hot that all 256 tokens are about as likely."""
    with lively("lm_tiny").generator(64, device="cpu") as generator:
        drawn = [written(generator, 30, 3, Sampling(1000, 0, seed)) for seed in (0, 1)]
    assert min(len({*tokens}) for tokens in drawn) > 20
    assert sum(one == other for one, other in zip(*drawn, strict=True)) < 5


def test_several_sequences_go_on_at_once() -> None:
    model = lively("lm_tiny")
    prompts = np.random.default_rng(3).integers(0, 256, (3, 4))
    with model.generator(32, rows=3, device="cpu") as generator:
        found = np.stack([*generator.tokens(prompts, 6)], 1)
    for prompt, tokens in zip(prompts, found, strict=True):
        assert [*map(int, tokens)] == expected(model, [*map(int, prompt)], 6)


def test_drawing_follows_the_softmax(tmp_path: Path) -> None:
    (tmp_path / "net.mgn").write_text(
        "block Net(k)(x: [n, 4], heat: []) -> i32[n]\n"
        "    where k <= 4:\n  return x |> sample(k)(heat)\n\nmodel net = Net(0)\n"
        "block Nucleus()(x: [n, 4], heat: [], share: []) -> i32[n]:\n"
        "  return x |> sample_nucleus(heat, share)\n\nmodel nucleus = Nucleus()\n"
    )
    program = meganeura.load(str(tmp_path / "net.mgn"))
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    x = np.tile(logits, (effort(10_000, 40_000), 1))
    counter = np.array([3, 1], np.uint32)

    def of(model: meganeura.Model, **given: float) -> Array:
        fed = {name: np.float32(each) for name, each in given.items()}
        tokens = model.run({"x": x, "counter": counter, **fed}, device="cpu")["output"]
        return np.bincount(tokens, minlength=4) / len(tokens)

    def shares(k: int, heat: float) -> Array:
        return of(program.model("net", config={"k": k}, seed=0), heat=heat)

    def nucleus(share: float, heat: float) -> Array:
        return of(program.model("nucleus", seed=0), heat=heat, share=share)

    np.testing.assert_allclose(shares(0, 1), [0.1, 0.2, 0.3, 0.4], atol=0.01)
    np.testing.assert_allclose(shares(0, 0.5), np.array([1, 4, 9, 16]) / 30, atol=0.01)
    np.testing.assert_allclose(shares(2, 1), [0, 0, 3 / 7, 4 / 7], atol=0.01)
    np.testing.assert_array_equal(shares(0, 0), [0, 0, 0, 1])
    np.testing.assert_allclose(nucleus(1, 0.5), np.array([1, 4, 9, 16]) / 30, atol=0.01)
    np.testing.assert_allclose(nucleus(0.6, 1), [0, 0, 3 / 7, 4 / 7], atol=0.01)
    np.testing.assert_allclose(nucleus(0.6, 0.3), [0, 0, 0, 1])  # the first has 0.65
    for share, heat in ((0.3, 1), (0, 1), (1, 0)):
        np.testing.assert_array_equal(nucleus(share, heat), [0, 0, 0, 1])


def test_a_step_writes_no_more_than_its_tokens_into_the_caches() -> None:
    made = lively("gpt2_tiny")._token_step(TokenStep(64, 1))
    plan = plan_graph(made.elaboration.graph, PORTABLE, Style.GPU)
    updates = [each for each in plan.dispatches if each.name.startswith("update")]
    assert not plan.copies
    assert sum(each.bytes for each in updates) == 2 * 2 * 2 * 64 * 4


@pytest.mark.adapter
def test_steps_allocate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = lively("gpt2_tiny", layers=1)
    with model.generator(64, device="wgpu") as generator:
        found = written(generator, 12)
        made: list[int] = []
        allocate = Device.allocate
        monkeypatch.setattr(
            Device, "allocate", lambda self, size: made.append(size) or allocate(self, size)
        )
        assert written(generator, 12) == found
    assert made == []
    assert found == expected(model, PROMPT, 12)


def answered(model: Model, prompt: Array, steps: int) -> list[int]:
    """Returns the answer of a model that is given all of its tokens anew each time."""
    ids = np.zeros((1, 16), np.int32)
    with model.session({"n": 1, "t": prompt.shape[1], "s": 16}, device="cpu") as session:
        for at in range(steps):
            logits = session.step({"prompt": prompt, "ids": ids})["output"]
            ids[0, at + 1] = logits[0, at].argmax()
    return [*map(int, ids[0, 1 : steps + 1])]


@pytest.mark.parametrize("device", effort(["cpu"], DEVICES))
def test_a_context_is_read_once_for_all_tokens(device: str) -> None:
    model = lively("t5_tiny", layers=1)
    prompts = np.random.default_rng(4).integers(1, 256, (2, 1, 7)).astype(np.int32)
    with model.generator(16, sizes={"t": 7}, device=device) as generator:
        assert generator.context == ("prompt",)
        with pytest.raises(SessionError, match="nothing was read"):
            generator.tokens([0], 9)
        for prompt in prompts:
            generator.read({"prompt": prompt})
            found = [int(token[0]) for token in generator.tokens([0], 5)]
            assert found == answered(model, prompt, 5)
            again = generator.chosen([0], 5, lambda logits: logits.argmax(1).astype(np.int32))
            assert [int(token[0]) for token in again] == found
        with pytest.raises(ProblemError) as refused:
            generator.read({"prompt": prompts[0] + 300})
        assert refused.value.problem.code == "E0535"


class _Watched(ReferenceSession):
    """A session that remembers whether it was closed."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()


def test_what_reads_a_context_is_given_back_too() -> None:
    model, opened = lively("t5_tiny", layers=1), list[_Watched]()

    def open_session(graph: Graph) -> _Watched:
        opened.append(_Watched(graph))
        return opened[-1]

    step = TokenStep(16, 1, sizes=(("t", 7),))
    with open_generator(
        model._token_step, model.values, open_session, RewriteOptions(), step
    ) as made:
        made.read({"prompt": np.ones((1, 7), np.int32)})
        assert len([*made.tokens([0], 2)]) == 2
    assert len(opened) >= 2
    assert all(each.is_closed for each in opened)


def test_a_model_of_tokens_alone_has_no_context() -> None:
    with lively("gpt2_tiny").generator(16, device="cpu") as generator:
        with pytest.raises(FeedError, match="no inputs beside"):
            generator.read({"prompt": np.zeros((1, 3), np.int32)})
        assert len(written(generator, 3)) == 3


def test_a_text_is_answered_from_python() -> None:
    model = lively("t5_tiny", layers=1)
    prompt = np.array([[*b"Once"]], np.int32)
    with model.generator(64, sizes={"t": 4}, device="cpu") as generator:
        generator.read({"prompt": prompt})
        tokens = [int(token[0]) for token in generator.tokens([0], 12)]
    until = tokens.index(0) if 0 in tokens else 12
    text = bytes(tokens[:until]).decode(errors="replace")
    assert "".join(model.generate("Once", steps=12, device="cpu")) == text


REFUSED = {
    "E0661": lambda generator: generator.tokens(PROMPT, 99),
    "E0662": lambda generator: generator.tokens(PROMPT, 0),
    "E0665": lambda generator: generator.tokens([], 3),
    "E0535": lambda generator: generator.tokens([1, 256], 3),
    "E0664": lambda generator: [*generator.tokens(PROMPT, 3, Sampling(1.0, 257))],
}


def test_what_cannot_be_is_refused_before_a_step() -> None:
    with lively("gpt2_tiny", layers=1).generator(64, device="cpu") as generator:
        for code, refused in REFUSED.items():
            with pytest.raises(ProblemError, match=code):
                refused(generator)
            assert len(written(generator, 3)) == 3


@pytest.mark.parametrize(
    "sampling",
    [
        (-1.0, 0, 0),
        (1000.5, 0, 0),
        (float("nan"), 0, 0),
        (1.0, -1, 0),
        (1.0, 0, -1),
        (1.0, 0, 1 << 32),
    ],
)
def test_settings_out_of_range_are_refused(sampling: tuple[float, int, int]) -> None:
    assert Sampling(1000, 0, (1 << 32) - 1).drawn_from == 0
    with pytest.raises(ProblemError) as refused:
        Sampling(*sampling)
    assert refused.value.problem.code == "E0662"


def test_text_is_streamed_from_python() -> None:
    model = lively("lm_tiny")
    pieces = [*model.generate("Once", steps=12, device="cpu")]
    with model.generator(64, device="cpu") as generator:
        tokens = [int(token[0]) for token in generator.tokens(list(b"Once"), 12)]
    assert "".join(pieces) == bytes(tokens).decode(errors="replace")
    misspelt: dict[str, Any] = {"top_n": 4}
    with pytest.raises(TypeError, match="no option `top_n`"):
        model.generate("Once", **misspelt)


def test_the_models_that_generate_have_no_state_of_it_in_training() -> None:
    for name in ("gpt2", "lm"):
        text = f"from {name} import {name.replace('lm', 'lm_tiny').replace('gpt2', 'gpt2_tiny')}\n"
        model = text.rsplit(maxsplit=1)[-1]
        text += f"train fit(ids: i32[batch, 9]):\n  logits = ids[:, :8] |> {model}(capacity=8)\n"
        text += "  minimize cross_entropy(logits, ids[:, 1:])\n"
        result = check(Source("net.mgn", text), loader_beside(Path("net.mgn")))
        assert "E0318" in [problem.code for problem in result.problems]
