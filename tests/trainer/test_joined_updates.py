"""Several batches make the update of one: with `accumulate`, the loss is that of all examples.

The right weights are those of one batch of all examples, whose update is held to PyTorch elsewhere.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import meganeura
from meganeura_dsl.transforms.joined_loss import Joins
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.spec.train_spec import manual_spec, settings_of
from tests.effort import effort

PROGRAM = """\
train fit(x: [batch, 5, 2], label: i32[batch, 5], weight: [batch]):
  h = x |> fc: linear(4) |> tanh
  logits = h |> head: linear(3)
  each = sum(sum(logits ** 2, 2), 1)
  minimize {loss}
  metric others = mean(weight) + mean(each) + mean(f32(label))
  run:
    batch      = 2
    optimizer  = {optimizer}
    {more}
"""
LOSSES = {
    "a mean over chosen tokens": "masked_cross_entropy(logits, label)",
    "a weighted mean": "sum(weight * each) / sum(weight)",
    "a quotient of means": "mean(weight * each) / mean(weight)",
    "a mean": "cross_entropy(logits[:, 0], maximum(label[:, 0], 0)) + 0.1 * mean(logits ** 2)",
    "a sum": "0.01 * sum(each)",
    "a mean, written": "sum(each) / batch",
    "a function of a ratio": "exp(masked_cross_entropy(logits, label))",
    "a root": "sqrt(mean((each - weight) ** 2))",
    "an overlap": "1 - 2 * sum(weight * tanh(each)) / (sum(tanh(each)) + sum(weight))",
    "a ratio and a mean": "masked_cross_entropy(logits, label) + 0.1 * mean(each)",
    "classes apart": "masked_cross_entropy(logits, label) * sum(mean(weight) * ones([3]))",
}
MEANS = {"a mean", "a mean, written"}
ADAM = ("adam(lr=0.01)", "clip_norm  = 0.5")
SGD = ("sgd(lr=0.1, momentum=0.9)", 'not_finite = "skip"\n    ema        = 0.9')
WGPU = pytest.param("wgpu", *SGD, marks=pytest.mark.adapter)
OPTIMIZED = effort(
    [("cpu", *ADAM), WGPU],
    [
        *((device, *each) for device in ("cpu", "xla:cpu") for each in (ADAM, SGD)),
        pytest.param("wgpu", *ADAM, marks=pytest.mark.adapter),
        WGPU,
    ],
)
APART = {
    "a contrast": "mean((h[:, 0] @ rearrange(h[:, 0], [batch, 4] -> [4, batch])) ** 2)",
    "a deviation": "mean((each - mean(each)) ** 2)",
    "a maximum": "max(each)",
}
EXAMPLES = 12


def examples() -> dict[str, Array]:
    generator = np.random.default_rng(1)
    label = generator.integers(0, 3, (EXAMPLES, 5)).astype(np.int32)
    for row, length in enumerate([1, 1, 5, 5, 1, 1, 5, 5, 2, 3, 1, 4]):
        label[row, length:] = -100
    return {
        "x": generator.normal(size=(EXAMPLES, 5, 2)).astype(np.float32),
        "label": label,
        "weight": generator.uniform(0.1, 3, EXAMPLES).astype(np.float32),
    }


def program(
    folder: Path, loss: str, optimizer: str = "sgd(lr=0.1)", more: str = ""
) -> meganeura.Program:
    text = PROGRAM.format(loss=loss, optimizer=optimizer, more=more)
    (folder / "fit.mgn").write_text(text.replace("    \n", ""))
    return meganeura.load(str(folder / "fit.mgn"))


def joins(made: meganeura.Program) -> Joins:
    """The way in which a program says that the losses of batches are joined."""
    return manual_spec(made._program, "fit", settings_of(made._program, "fit")).joins


def trained(
    made: meganeura.Program, device: str, batches: Sequence[int], *, optimize: bool = True
) -> Mapping[str, Array]:
    """The weights after one update by batches of these sizes, and of another one."""
    data, settings = (
        examples(),
        {"accumulate": len(batches), "batch": batches[0], "optimize": optimize},
    )
    with made.trainer(device=device, settings=settings) as trainer:
        for _ in range(2):
            at = 0
            for size in batches:
                trainer.step({name: each[at : at + size] for name, each in data.items()})
                at += size
        return {name: np.asarray(trainer.weights[name]) for name in trainer.weights}


def assert_alike(found: Mapping[str, Array], right: Mapping[str, Array]) -> None:
    assert found.keys() == right.keys()
    for name, each in found.items():
        near = np.allclose(each, right[name], rtol=2e-6, atol=1e-6)
        assert near, f"{name}: {each}, and not {right[name]}"


@pytest.mark.parametrize("loss", [*LOSSES][:: effort(2, 1)])
def test_batches_make_the_update_of_one(tmp_path: Path, loss: str) -> None:
    made = program(tmp_path, LOSSES[loss])
    assert joins(made) is not Joins.NOT
    right = trained(made, "cpu", [EXAMPLES], optimize=False)
    for batches in ([1] * EXAMPLES, [4, 4, 4], *([] if loss in MEANS else [[5, 5, 2]])):
        assert_alike(trained(made, "cpu", batches, optimize=False), right)


@pytest.mark.parametrize(("device", "optimizer", "more"), OPTIMIZED)
def test_optimizers_see_the_joined_gradient_alone(
    tmp_path: Path, device: str, optimizer: str, more: str
) -> None:
    losses = ("a mean over chosen tokens", "a ratio and a mean")
    for loss in losses if device == "cpu" else losses[: effort(1, 2)]:
        made = program(tmp_path, LOSSES[loss], optimizer, more)
        right = trained(made, "cpu", [EXAMPLES])
        assert_alike(trained(made, device, [4, 4, 4]), right)


def test_an_update_of_which_a_batch_is_not_finite_is_left_out(tmp_path: Path) -> None:
    """The next one is as if it had not been."""
    made = program(tmp_path, LOSSES["a weighted mean"], more='not_finite = "skip"')
    data = examples()
    halves = [{name: each[at : at + 6] for name, each in data.items()} for at in (0, 6)]
    for bad in (0, 1):
        spoilt = [{**half} for half in halves]
        spoilt[bad]["x"] = np.full_like(spoilt[bad]["x"], np.nan)
        with made.trainer(device="cpu", settings={"accumulate": 2, "batch": 6}) as trainer:
            before = {name: np.asarray(trainer.weights[name]) for name in trainer.weights}
            skipped = [trainer.step(half).is_skipped for half in spoilt]
            assert skipped == [bad == 0, True]
            assert_alike({name: np.asarray(trainer.weights[name]) for name in before}, before)
            after = [trainer.step(half).is_skipped for half in halves]
            assert after == [False, False]
            found = {name: np.asarray(trainer.weights[name]) for name in before}
        with made.trainer(device="cpu", settings={"batch": 12}) as trainer:
            trainer.step(data)
            assert_alike(found, {name: np.asarray(trainer.weights[name]) for name in before})


def test_sums_of_batches_are_kept_in_a_checkpoint(tmp_path: Path) -> None:
    made = program(tmp_path, LOSSES["a mean over chosen tokens"])
    data, settings = examples(), {"accumulate": 3, "batch": 4}
    parts = [{name: each[at : at + 4] for name, each in data.items()} for at in (0, 4, 8)]
    with made.trainer(device="cpu", settings=settings) as trainer:
        trainer.step(parts[0])
        trainer.step(parts[1])
        trainer.save(tmp_path / "run")
        trainer.step(parts[2])
        whole = {name: np.asarray(trainer.weights[name]) for name in trainer.weights}
    with made.trainer(device="cpu", resume=tmp_path / "run") as trainer:
        trainer.step(parts[2])
        for name, each in whole.items():
            np.testing.assert_array_equal(trainer.weights[name], each)


@pytest.mark.parametrize("loss", APART)
def test_what_does_not_join_is_known(tmp_path: Path, loss: str) -> None:
    assert joins(program(tmp_path, APART[loss])) is Joins.NOT
