"""Measurements of held-out examples, however they are divided into batches.

The right values are those of NumPy in double precision over all examples at once.
"""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

import meganeura
from meganeura.cli.ui import narration
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.events import Evaluated, Event
from tests.effort import effort

EXAMPLES = 11
PROGRAM = """\
block Tagger()(x: [n, s, 2]) -> [n, s, 3]:
  return x |> fc: linear(3)

model tagger = Tagger()

train fit(x: [batch, 5, 2], label: i32[batch, 5], truth: [batch], chosen: [batch]):
  logits = x |> tagger
  loss = masked_cross_entropy(logits, label)
  minimize {loss}
  score = logits[:, 0, 0]
  flagged = f32(score > 0)
  hits = sum(flagged * truth)
  metric recall = hits / sum(truth)
  metric precision = hits / maximum(sum(flagged), 1)
  metric f1 = 2 * hits / (sum(truth) + sum(flagged))
  metric perplexity = exp(masked_cross_entropy(logits, label))
  metric plain = mean(score ** 2)
  metric root = sqrt(mean(score ** 2))
  metric total = sum(score)
  metric share = mean(score * chosen) / mean(chosen)
  metric largest = max(abs(score))
  taken = one_hot(argmax(logits[:, 0], 1), 3) * insert_axis(truth, 1, 3)
  metric macro = mean(sum(taken, 0) / sum(truth))
  metric decay = 0.1 * sum(score ** 2) / batch + 0.5
  metric rows = sum(rearrange(logits[:, :, 0], [batch, 5] -> [5, batch])[2]) / sum(truth)
  run:
    data       = "data.safetensors"
    batch      = 2
    epochs     = {epochs}
    drop_last  = false
    shuffle    = false
    optimizer  = sgd(lr=0.1)
{more}"""


def examples() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    label = generator.integers(0, 3, (EXAMPLES, 5)).astype(np.int32)
    for row, length in enumerate([1, 1, 5, 5, 1, 0, 5, 5, 0, 2, 3]):
        label[row, length:] = -100
    return {
        "x": generator.normal(size=(EXAMPLES, 5, 2)).astype(np.float32),
        "label": label,
        "truth": np.array([0, 0, 1, 1, 1, 1, 0, 1, 0, 0, 1], np.float32),
        "chosen": np.array([0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1], np.float32),
    }


def program(folder: Path, loss: str = "loss", epochs: int = 1, more: str = "") -> meganeura.Program:
    save_file(examples(), folder / "data.safetensors")
    (folder / "tagger.mgn").write_text(PROGRAM.format(loss=loss, epochs=epochs, more=more))
    return meganeura.load(str(folder / "tagger.mgn"))


def expected(logits: NDArray[np.float64], data: dict[str, Array]) -> dict[str, float]:
    label = data["label"].astype(np.int64)
    truth, chosen = (data[name].astype(np.float64) for name in ("truth", "chosen"))
    logarithms = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    kept = label != -100
    picked = np.take_along_axis(logarithms, np.where(kept, label, 0)[..., None], -1)[..., 0]
    loss = -(picked * kept).sum() / kept.sum()
    score = logits[:, 0, 0]
    flagged = score > 0
    hits = (flagged * truth).sum()
    square = (score**2).mean()
    classes = np.eye(3)[logits[:, 0].argmax(1)] * truth[:, None]
    return {
        "loss": loss,
        "recall": hits / truth.sum(),
        "precision": hits / flagged.sum(),
        "f1": 2 * hits / (truth.sum() + flagged.sum()),
        "perplexity": np.exp(loss),
        "plain": square,
        "root": np.sqrt(square),
        "total": score.sum(),
        "share": (score * chosen).sum() / chosen.sum(),
        "largest": np.abs(score).max(),
        "macro": (classes.sum(0) / truth.sum()).mean(),
        "decay": 0.1 * square + 0.5,
        "rows": logits[:, 2, 0].sum() / truth.sum(),
    }


@pytest.mark.parametrize(
    "device", ["cpu", *effort([], [pytest.param("wgpu", marks=pytest.mark.adapter)])]
)
def test_no_measurement_depends_on_the_batches(tmp_path: Path, device: str) -> None:
    data, made = examples(), program(tmp_path)
    with made.trainer(device=device) as trainer:
        weight, bias = (
            trainer.weights[f"fc.{name}"].astype(np.float64) for name in ("weight", "bias")
        )
        right = expected(data["x"].astype(np.float64) @ weight.T + bias, data)
        for batch in effort((1, 4), (1, 2, 3, 4, 8, 11)):
            parts = [
                {name: each[at : at + batch] for name, each in data.items()}
                for at in range(0, EXAMPLES, batch)
            ]
            found = trainer.evaluate(parts, counts=False)
            assert found == pytest.approx(right, rel=2e-6), batch
            assert [*found] == [*right], "in the order of the program"


def evaluations(run_events: list[Event]) -> list[Evaluated]:
    return [each for each in run_events if isinstance(each, Evaluated)]


def test_what_is_computed_from_no_example_has_no_value(tmp_path: Path) -> None:
    """It is said, and neither `best` nor `stop_after` nor `plateau` follows from it."""
    made = program(tmp_path)
    data = examples()
    nothing = {**data, "chosen": np.zeros(EXAMPLES, np.float32)}
    settings = {
        "best": "highest share",
        "stop_after": 2,
        "schedule": 'plateau(metric="share", mode="max", patience=0, threshold=1e9)',
    }
    with made.trainer(device="cpu", settings=settings, out=tmp_path / "run") as trainer:
        rate = trainer.learning_rate
        for _ in range(4):
            assert np.isnan(trainer.evaluate(nothing)["share"])
        assert not trainer.should_stop
        assert not (tmp_path / "run" / "best.safetensors").exists()
        trainer.evaluate(data)
        assert (tmp_path / "run" / "best.safetensors").exists()
        for _ in range(4):
            trainer.evaluate(nothing)
        assert not trainer.should_stop
        assert trainer.learning_rate == rate
        trainer.save()
    with made.trainer(device="cpu", resume=tmp_path / "run") as trainer:
        assert trainer.learning_rate == rate
        trainer.evaluate(data)
        assert not trainer.should_stop
        trainer.evaluate(data)
        assert trainer.should_stop
        assert trainer.learning_rate < rate


def test_a_run_says_what_has_no_value_and_goes_on(tmp_path: Path) -> None:
    data = examples()
    held_out = {f"test.{name}": each for name, each in data.items()}
    held_out["test.chosen"] = np.zeros(EXAMPLES, np.float32)
    made = program(
        tmp_path, epochs=4, more='    best       = "highest share"\n    stop_after = 1\n'
    )
    trained_on = {f"train.{name}": each for name, each in data.items()}
    save_file({**trained_on, **held_out}, tmp_path / "data.safetensors")
    events: list[Event] = []
    made.train(device="cpu", watch=events.append, out=tmp_path / "run")
    found = evaluations(events)
    assert [each.epoch for each in found] == [0, 1, 2, 3]
    assert all(each.without_value == ("share",) and not each.best for each in found)
    assert "share: no value, as nothing is chosen" in narration.held_out(found[0])


def test_what_is_not_finite_in_itself_has_a_bad_value(tmp_path: Path) -> None:
    """A run whose scores are not finite gets no better, and is stopped."""
    made = program(tmp_path)
    settings = {"best": "lowest share", "stop_after": 1, "not_finite": "ignore"}
    with made.trainer(device="cpu", settings=settings) as trainer:
        trainer.weights["fc.bias"] = np.full(3, np.inf)
        assert not np.isfinite(trainer.evaluate(examples())["share"])
        assert trainer.should_stop
