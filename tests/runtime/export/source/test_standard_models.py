"""Each standard model as PyTorch source."""

import re
from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.export.source.layout import WIDTH
from meganeura_runtime.export.source.write import torch_text

MODELS = Path(__file__).parents[4] / "stdlib_models"


def models_of(name: str) -> list[str]:
    """The models of a file, in order; layers and losses have none."""
    return re.findall(r"^model (\w+)", (MODELS / f"{name}.mgn").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in standard_model_names() if models_of(name)])
def test_a_standard_model_is_written(name: str) -> None:
    module = pipeline.load(name).module
    text, _ = torch_text(module, module.models[models_of(name)[0]], {}, {})
    compile(text, f"{name}.py", "exec")
    assert max(map(len, text.splitlines())) <= WIDTH
