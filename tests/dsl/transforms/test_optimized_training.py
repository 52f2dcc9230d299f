"""A training step is the same step optimized: the same leaves, losses, gradients and updates."""

from collections.abc import Mapping

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.verify import verify
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from tests.dsl.transforms.egraph.compare import assert_equal_results, feeds, names, ops_of, run
from tests.effort import effort

TRAINS: Mapping[str, tuple[str, str]] = {
    "digits_cnn": ("digits_cnn", "fit"),
    "resnet": ("resnet", "digits"),
    "repvgg": ("repvgg", "digits"),
    "whisper": ("whisper", "words"),
    "lm": ("lm", "text"),
    "gpt2": ("gpt2", "text"),
    "vit": ("vit", "digits"),
    "unet": ("unet", "denoise"),
}
SETTINGS = TrainingSettings(
    Sgd(0.1, momentum=0.9, weight_decay=5e-4), clip_norm=1.0, feed_learning_rate=True
)


def forward(name: str, batch: int = 2) -> Graph:
    target, train = TRAINS[name]
    program = pipeline.load(target)
    return pipeline.elaborate_train(program, train, sizes={"batch": batch}, training=True).graph


@pytest.mark.parametrize("name", effort(["digits_cnn", "whisper", "unet"], [*TRAINS]))
def test_a_step_gives_the_same_numbers(name: str) -> None:
    graph = forward(name)
    plain = training_step(graph, SETTINGS)
    step = optimized_training_step(graph, SETTINGS, RewriteOptions())
    verify(step.graph)
    assert [each.report.mode for each in step.optimizations] == ["forward", "train"]
    assert len(ops_of(step.graph)) < len(ops_of(plain))
    assert sorted(names(step.graph)) == sorted(names(plain))
    fed = feeds(plain)
    assert_equal_results(run(step.graph, fed), run(plain, fed))


def test_each_parameter_keeps_its_own_rate() -> None:
    settings = TrainingSettings(Sgd(0.1), groups=(("stem.*", None), ("fc.*", Sgd(0.3))))
    graph = forward("digits_cnn")
    plain = training_step(graph, settings)
    step = optimized_training_step(graph, settings, RewriteOptions()).graph
    fed = feeds(plain)
    found = run(step, fed)
    assert_equal_results(found, run(plain, fed))
    assert "stem.weight" not in found.updates
    assert (found.updates["fc.weight"] != fed["fc.weight"]).any()


def test_without_the_optimizer_a_step_is_as_it_is_written() -> None:
    graph = forward("digits_cnn")
    step = optimized_training_step(graph, SETTINGS, RewriteOptions(enabled=False))
    assert not step.optimizations
    assert [value.op for value in step.graph.values] == [
        value.op for value in training_step(graph, SETTINGS).values
    ]
