"""Samples of text in training: written by the weights as they are, and changing nothing."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_runtime.train.events import Evaluated, Event, Sampled
from meganeura_runtime.train.report.page_data import LONGEST, SAMPLES, samples_data
from meganeura_runtime.train.report.run_records import RunRecords, TextWritten
from meganeura_runtime.train.spec.text_sample import TEMPERATURE
from tests.runtime.train.report.test_report import run_of

DECODER = """\
block Net(words=256, d=8)(ids: i32[n, s]) -> [n, s, words]:
  return cumsum(ids |> table: embedding(words, d), 1) |> head: linear(words)

model net = Net()
model small = Net(words=200)

train text(ids: i32[batch, 17]):
  logits = ids[:, :16] |> {label}net
  minimize cross_entropy(logits, ids[:, 1:])
  run:
    data      = "corpus.txt"
    batch     = 4
    epochs    = 2
    optimizer = adam(lr=0.1)
"""
PROMPT = "to be"


def program(folder: Path, label: str = "", text: str = DECODER) -> meganeura.Program:
    (folder / "corpus.txt").write_text("to be or not to be\n" * 20)
    file = folder / "net.mgn"
    file.write_text(text.replace("{label}", label))
    return meganeura.load(file)


def trained(
    of: meganeura.Program, out: Path, resume: Path | None = None, **settings: object
) -> tuple[list[Event], meganeura.Run]:
    events: list[Event] = []
    run = of.train(
        device="cpu",
        settings={"sample_prompt": PROMPT, "sample_tokens": 6, **settings},
        out=None if resume else out,
        resume=resume,
        watch=events.append,
    )
    return events, run


def samples(events: Sequence[Event]) -> list[Sampled]:
    return [each for each in events if isinstance(each, Sampled)]


def by_hand(of: meganeura.Program, run: meganeura.Run, seed: int = 0) -> str:
    """Returns the text that the weights of a run write."""
    model = of.model("net", weights=run.weights)
    pieces = model.generate(PROMPT, steps=6, temperature=TEMPERATURE, seed=seed, device="cpu")
    return "".join(pieces)


def test_a_sample_follows_each_epoch_and_changes_nothing(tmp_path: Path) -> None:
    of = program(tmp_path)
    events, run = trained(of, tmp_path / "run", seed=3)
    found = samples(events)
    assert [(each.step, each.epoch, each.prompt) for each in found] == [
        (5, 0, PROMPT),
        (10, 1, PROMPT),
    ]
    assert found[-1].text == by_hand(of, run, seed=3)
    assert found[0].text != found[1].text
    assert run.samples == tuple((each.step, each.text) for each in found)
    lines = [json.loads(each) for each in (run.folder / "metrics.jsonl").read_text().splitlines()]
    kept = [each for each in lines if each["kind"] == "sample"]
    assert [(each["step"], each["prompt"], each["text"]) for each in kept] == [
        (each.step, PROMPT, each.text) for each in found
    ]
    assert run_of(run.folder)["samples"] == [
        {"step": each.step, "prompt": PROMPT, "text": each.text} for each in reversed(found)
    ]
    plain = of.train(device="cpu", settings={"seed": 3}, out=tmp_path / "plain")
    assert plain.weights.read_bytes() == run.weights.read_bytes()
    assert (plain.samples, run_of(plain.folder)["samples"]) == ((), [])


def test_a_sample_follows_each_evaluation(tmp_path: Path) -> None:
    settings = {"validation": 0.2, "eval_every_steps": 3, "epochs": 2}
    events, _ = trained(program(tmp_path), tmp_path / "run", **settings)
    kinds = [each for each in events if isinstance(each, Evaluated | Sampled)]
    assert [type(each) for each in kinds] == [Evaluated, Sampled] * (len(kinds) // 2)
    steps = [each.step for each in samples(events)]
    assert len(steps) > 2
    assert steps == [each.step for each in kinds if isinstance(each, Evaluated)]
    rarely, _ = trained(program(tmp_path), tmp_path / "rarely", epochs=3, eval_every=2)
    assert [each.epoch for each in samples(rarely)] == [1, 2]


def test_the_model_of_a_layer_with_a_label_writes_by_its_own_weights(tmp_path: Path) -> None:
    plain, labelled = program(tmp_path), program(tmp_path, label="a.b: ")
    events, run = trained(labelled, tmp_path / "run")
    assert "a.b.head.weight" in load_file(run.weights)
    own = {name.removeprefix("a.b."): each for name, each in load_file(run.weights).items()}
    save_file(own, tmp_path / "own.safetensors")
    model = plain.model("net", weights=tmp_path / "own.safetensors")
    pieces = model.generate(PROMPT, steps=6, temperature=TEMPERATURE, device="cpu")
    assert samples(events)[-1].text == "".join(pieces)


def test_averages_of_weights_write(tmp_path: Path) -> None:
    of = program(tmp_path)
    events, run = trained(of, tmp_path / "run", ema=0.9)
    assert samples(events)[-1].text == by_hand(of, run)


def test_a_run_that_goes_on_has_the_samples_of_one_that_does_not_stop(tmp_path: Path) -> None:
    of = program(tmp_path)
    whole, _ = trained(of, tmp_path / "whole", epochs=3)
    first, run = trained(of, tmp_path / "parts", epochs=1)
    then, _ = trained(of, run.folder, run.folder, epochs=3)
    assert samples(first) + samples(then) == samples(whole)
    longer, _ = trained(of, run.folder, run.folder, epochs=4, sample_prompt="not", sample_tokens=2)
    assert [each.prompt for each in samples(longer)] == ["not"]


@pytest.mark.parametrize(
    ("old", "new", "settings", "code"),
    [
        ("|> net", "|> table: embedding(256, 256)", {}, "E0668"),
        ("", "", {"devices": 2}, "E0668"),
        ("|> net", "|> small", {}, "model has 200"),
        ("", "", {"sample_tokens": 0}, "E0513"),
    ],
)
def test_what_cannot_write_a_sample_is_refused_before_a_step(
    tmp_path: Path, old: str, new: str, settings: dict[str, Any], code: str
) -> None:
    of = program(tmp_path, text=DECODER.replace("{label}", "").replace(f"{old}\n", f"{new}\n"))
    with pytest.raises((ProblemError, ProblemsError), match=code):
        trained(of, tmp_path / "run", **settings)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


def test_a_text_beyond_the_places_of_caches_is_refused(tmp_path: Path) -> None:
    of = meganeura.load("gpt2_tiny")
    (tmp_path / "corpus.txt").write_text("to be or not to be\n" * 80)
    with pytest.raises(ProblemError, match="E0661"):
        trained(of, tmp_path / "run", data=tmp_path / "corpus.txt", sample_tokens=100)


def test_a_page_has_the_last_samples(tmp_path: Path) -> None:
    many = [TextWritten(step, "p", "x" * 2 * LONGEST) for step in range(SAMPLES + 3)]
    shown = samples_data(many)
    assert [each["step"] for each in shown] == [*range(SAMPLES + 2, 2, -1)]
    assert {len(str(each["text"])) for each in shown} == {LONGEST}
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"kind": "sample", "step": 3, "epoch": 0, "prompt": "a", "text": "b"}\n')
    records = RunRecords(file)
    records.read()
    assert (records.samples, records.curves) == ([TextWritten(3, "a", "b")], ())
