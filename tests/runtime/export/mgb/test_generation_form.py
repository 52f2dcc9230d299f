"""A compiled model that writes texts: its steps are those of `generate`, and nothing forged."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.generation import Draw
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.reference.session import ReferenceSession
from meganeura_runtime.export import mgb
from meganeura_runtime.export.mgb import Artefact
from meganeura_runtime.export.mgb.compile import TokenModel, compiled_generation
from meganeura_runtime.export.mgb.container import KEY
from meganeura_runtime.export.mgb.portable_tokenizer import PortableTokenizer
from meganeura_runtime.export.quantize_weights import levels_of
from meganeura_runtime.infer.generator import GREEDY, Sampling
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from tests.runtime.infer.test_generator import lively

NAME, CAPACITY = "lm_tiny", 16
PROMPT = [5, 17, 200, 3, 99]
SAMPLINGS = (GREEDY, Sampling(3.0, 0, 7), Sampling(3.0, 3, 7))

Change = Callable[[dict[str, Any]], object]
"""Of a form as data."""


def token_model() -> TokenModel:
    return TokenModel(pipeline.load(NAME), NAME, {"layers": 1}, RewriteOptions())


@cache
def generation() -> Artefact:
    return compiled_generation(
        token_model(), lively(NAME, layers=1).values, CAPACITY, PortableTokenizer()
    )


def test_its_steps_and_draws_give_what_generate_gives(tmp_path: Path) -> None:
    generation().write(tmp_path / "lm.mgb")
    found = Artefact.read(tmp_path / "lm.mgb")
    assert found.generation == generation().generation
    assert found.generation is not None
    assert [each.tokens for each in found.generation.prompts] == [8]
    assert not {*found.values} & {*found.generation.caches}
    with lively(NAME, layers=1).generator(CAPACITY, device="cpu") as generator:
        wanted = [[int(token[0]) for token in generator.tokens(PROMPT, 6, s)] for s in SAMPLINGS]
    assert len({tuple(each) for each in wanted}) == len(SAMPLINGS)
    for sampling, tokens in zip(SAMPLINGS, wanted, strict=True):
        with mgb.open(tmp_path / "lm.mgb", "cpu") as session:
            ids, drawn = [*PROMPT], list[int]()
            for place in range(len(PROMPT) + 5):
                fed = {"ids": np.array([[ids[place]]], np.int32), "position": np.int32(place)}
                logits = session.step({name: np.asarray(each) for name, each in fed.items()})
                if place >= len(PROMPT) - 1:
                    drawn.append(draw(logits["logits"], sampling, place + 1))
                    ids.append(drawn[-1])
        assert drawn == tokens


@cache
def draw_graph(kind: Draw) -> Graph:
    return token_model().draw(256, kind)


def draw(logits: Array, sampling: Sampling, place: int) -> int:
    """A token by the graph that draws as it is asked to."""
    kind = Draw.TOP if sampling.top_k else Draw.ALL
    graph = draw_graph(kind if sampling.temperature else Draw.LIKELIEST)
    fed = {
        "logits": logits,
        "temperature": np.asarray(sampling.temperature, np.float32),
        "top_k": np.asarray(sampling.top_k, np.int32),
        "counter": np.array([sampling.seed, place], np.uint32),
    }
    with ReferenceSession(graph) as session:
        outputs = session.step({name: fed[name] for name in session.inputs})
        return int(outputs["token"][0, 0])


@pytest.mark.adapter
def test_its_step_runs_on_an_adapter(tmp_path: Path) -> None:
    generation().write(tmp_path / "lm.mgb")
    fed = {"ids": np.array([[5]], np.int32), "position": np.zeros((), np.int32)}
    outputs: list[Array] = []
    for device in ("cpu", "wgpu"):
        with mgb.open(tmp_path / "lm.mgb", device) as session:
            outputs.append(session.step(fed)["logits"])
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-4, atol=1e-4)


def test_its_weights_may_be_packed(tmp_path: Path) -> None:
    model = lively(NAME, layers=1)
    levels = levels_of(model.parameters, 4, None)
    values = {
        name: levels[name].dequantize(*levels[name].quantize(each), each.shape)
        if name in levels
        else each
        for name, each in model.values.items()
    }
    forms = {"plain": token_model(), "packed": replace(token_model(), levels=levels)}
    for name, form in forms.items():
        made = compiled_generation(form, values, CAPACITY, PortableTokenizer())
        made.write(tmp_path / f"{name}.mgb")
    assert {f"{name}.words" for name in levels} <= Artefact.read(
        tmp_path / "packed.mgb"
    ).values.keys()
    fed = {"ids": np.array([[5]], np.int32), "position": np.zeros((), np.int32)}
    outputs: list[Array] = []
    for name in forms:
        with mgb.open(tmp_path / f"{name}.mgb", "cpu") as session:
            outputs.append(session.step(fed)["logits"])
    plain, packed = outputs
    np.testing.assert_array_equal(plain, packed)


def of_draw(name: str, change: Change) -> Change:
    return lambda form: change(form["draws"][name])


def of_prompt(change: Change) -> Change:
    return lambda form: change(form["prompts"][0]["plan"])


FORGED: dict[str, Change] = {
    "no caches": lambda form: form.update(caches=[]),
    "other caches": lambda form: form["caches"].__setitem__(0, "moth"),
    "a step of more tokens": lambda form: form["prompts"][0].update(tokens=9),
    "a step of no tokens": lambda form: form["prompts"][0].update(tokens=0),
    "more tokens than fit": lambda form: form.update(capacity=4),
    "another vocabulary": lambda form: form.update(vocabulary=7),
    "a step that keeps something else": of_prompt(
        lambda plan: plan["parameters"][0].update(name="moth")
    ),
    "a step that keeps it elsewhere": of_prompt(
        lambda plan: plan["parameters"][0]["slot"].update(offset=1 << 20)
    ),
    "a step that is fed something else": of_prompt(
        lambda plan: plan["inputs"][0].update(name="moth")
    ),
    "a step that gives something else": of_prompt(
        lambda plan: plan["outputs"][0].update(name="moth")
    ),
    "a step out of its buffers": of_prompt(
        lambda plan: plan["dispatches"][0]["slots"][0].update(offset=1 << 40)
    ),
    "a draw of something else": of_draw("all", lambda plan: plan["inputs"][0].update(name="moth")),
    "a draw of no token": of_draw("top", lambda plan: plan["outputs"][0].update(name="moth")),
    "a draw that keeps something": of_draw(
        "likeliest", lambda plan: plan.update(parameters=plan["inputs"])
    ),
    "a draw that moves something": of_draw(
        "top",
        lambda plan: plan.update(
            copies=[dict.fromkeys(("source", "target"), plan["inputs"][0]["slot"])]
        ),
    ),
    "a draw out of its buffers": of_draw(
        "top", lambda plan: plan["dispatches"][0]["slots"][0].update(buffer=99)
    ),
    "an end before the first token": lambda form: form.update(ends=[-1]),
    "no draw": lambda form: form["draws"].pop("all"),
}


REASONS = {
    "no caches": "its caches are not those of its graph",
    "other caches": "its caches are not those of its graph",
    "a step of more tokens": "its step of 9 tokens takes or gives something else",
    "a step of no tokens": "prompts.0.tokens",
    "more tokens than fit": "its step of 8 tokens is of another model",
    "another vocabulary": "its step of 1 tokens takes or gives something else",
    "a step that keeps something else": "its step of 8 tokens is of another model",
    "a step that keeps it elsewhere": "its step of 8 tokens is of another model",
    "a step that is fed something else": "its step of 8 tokens takes or gives something else",
    "a step that gives something else": "its step of 8 tokens takes or gives something else",
    "a step out of its buffers": "is not in that buffer",
    "a draw of something else": "what draws its tokens",
    "a draw of no token": "what draws its tokens",
    "a draw that keeps something": "what draws its tokens",
    "a draw that moves something": "what draws its tokens",
    "a draw out of its buffers": "in none of its buffers",
    "an end before the first token": "generation.ends.0",
    "no draw": "draws.all: Field required",
    "no generation": "only a model that generates has",
}


def forged_generation(file: Path, change: Change | None) -> Path:
    """The file with a changed header, or without what it says of generation."""
    generation().write(file)
    tensors, metadata = open_tensors(file)
    header = json.loads(metadata[KEY])
    if change is None:
        header["generation"] = None
    else:
        change(header["generation"])
    arrays = {name: tensor.bits for name, tensor in tensors.items()}
    write_tensors(file, arrays, {**metadata, KEY: json.dumps(header)})
    return file


@pytest.mark.parametrize("name", REASONS)
def test_a_forged_one_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ProblemError, match="E0581") as refused:
        Artefact.read(forged_generation(tmp_path / "lm.mgb", FORGED.get(name)))
    assert REASONS[name] in str(refused.value.problem.report())
