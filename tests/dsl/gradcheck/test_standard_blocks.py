"""Every standard block and model has the gradient that finite differences show."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.subjects import Subject, block_subject, subjects
from meganeura_dsl.gradcheck.verdict_text import describe
from meganeura_dsl.gradcheck.verdicts import Passed
from meganeura_dsl.resources import standard_model_names
from tests.effort import effort

LAYERS = [
    block_subject(module, block)
    for module in (pipeline.load("nn").module, pipeline.load("loss").module)
    for block in module.blocks.values()
]

FILES = [name for name in standard_model_names() if name not in ("nn", "loss")]
BLOCKS = {
    f"{name}: {block.name.text}": block_subject(module, block)
    for name in FILES
    for module in (pipeline.load(name).module,)
    for block in module.blocks.values()
}


@pytest.mark.parametrize("subject", LAYERS, ids=repr)
def test_layers(subject: Subject) -> None:
    verdict = check_gradients(subject, SearchBudget(examples=effort(200, 10_000)))
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.examples >= 100
    assert verdict.slopes > 0
    assert verdict.worst < 1e-5


@pytest.mark.parametrize("subject", LAYERS, ids=repr)
def test_layers_on_kinks(subject: Subject) -> None:
    verdict = check_gradients(subject, SearchBudget(examples=effort(5, 1000), kinks=True))
    assert isinstance(verdict, Passed), describe(verdict)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    verdict = check_gradients(BLOCKS[name], SearchBudget(examples=effort(200, 10_000)))
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.slopes > 0


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp", "gpt2", "lm"])
def test_small_models(name: str) -> None:
    """Of larger ones, the configurations are among those of their blocks."""
    (model,) = (each for each in subjects(pipeline.load(name).module) if each.is_model)
    verdict = check_gradients(model, SearchBudget(examples=effort(200, 10_000)))
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.slopes > 0
