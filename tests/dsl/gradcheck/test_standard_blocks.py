"""Every standard block and model has the gradient that finite differences show."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.gradcheck.search import Effort, check_gradients
from meganeura_dsl.gradcheck.subjects import Subject, block_subject, subjects
from meganeura_dsl.gradcheck.verdicts import Passed
from meganeura_dsl.gradcheck.words import tell
from meganeura_dsl.resources import standard_model_names
from tests.effort import effort

LAYERS = [
    block_subject(module, block)
    for module in (pipeline.load("nn").module, pipeline.load("loss").module)
    for block in module.blocks.values()
]


@pytest.mark.parametrize("subject", LAYERS, ids=repr)
def test_layers(subject: Subject) -> None:
    verdict = check_gradients(subject, Effort(examples=effort(40, 10_000)))
    assert isinstance(verdict, Passed), tell(verdict)
    assert verdict.examples >= 25
    assert verdict.slopes > 0
    assert verdict.worst < 1e-5


@pytest.mark.parametrize("subject", LAYERS, ids=repr)
def test_layers_on_kinks(subject: Subject) -> None:
    verdict = check_gradients(subject, Effort(examples=effort(5, 1000), kinks=True))
    assert isinstance(verdict, Passed), tell(verdict)


@pytest.mark.parametrize("name", [n for n in standard_model_names() if n not in ("nn", "loss")])
def test_models(name: str) -> None:
    for subject in subjects(pipeline.load(name).module):
        verdict = check_gradients(subject, Effort(examples=effort(2, 100)))
        assert isinstance(verdict, Passed), tell(verdict)
        assert verdict.slopes > 0
