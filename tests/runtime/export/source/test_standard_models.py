"""The standard models as PyTorch source, and what docs/deploy.md says of them."""

import re
from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.export.source.layout import WIDTH
from meganeura_runtime.export.source.write import torch_text

ROOT = Path(__file__).parents[4]


def models_of(name: str) -> list[str]:
    """The models of a file, in order; layers and losses have none."""
    text = (ROOT / "stdlib_models" / f"{name}.mgn").read_text()
    return re.findall(r"^model (\w+)", text, re.MULTILINE)


def refused_by_the_page() -> set[str]:
    """The standard models that docs/deploy.md names as refused."""
    page = (ROOT / "docs" / "deploy.md").read_text()
    table = page[page.index("these are refused:") : page.index("## One file")]
    return {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }


@pytest.mark.parametrize("name", [name for name in standard_model_names() if models_of(name)])
def test_a_standard_model_is_written_or_named_by_the_page(name: str) -> None:
    module = pipeline.load(name).module
    model = module.models[models_of(name)[0]]
    if name in refused_by_the_page():
        with pytest.raises(ProblemError, match="E0598"):
            torch_text(module, model, {}, {})
        return
    text, _ = torch_text(module, model, {}, {})
    compile(text, f"{name}.py", "exec")
    assert max(map(len, text.splitlines())) <= WIDTH


def test_the_page_names_standard_models_alone() -> None:
    assert refused_by_the_page() <= {*standard_model_names()}
