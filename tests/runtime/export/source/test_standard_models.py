"""Each standard model as PyTorch source."""

import re
from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.export.source.layout import WIDTH, laid_out
from meganeura_runtime.export.source.write import torch_text

ROOT = Path(__file__).parents[4]
MODELS = ROOT / "stdlib_models"


def models_of(name: str) -> list[str]:
    """The models of a file, in order; layers and losses have none."""
    return re.findall(r"^model (\w+)", (MODELS / f"{name}.mgn").read_text(), re.MULTILINE)


REFUSED = {"s4d": "`length` is another number each time"}
"""The models that are not written, and the reason."""
WRITTEN = [name for name in standard_model_names() if models_of(name) and name not in REFUSED]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_standard_model_is_written(name: str) -> None:
    module = pipeline.load(name).module
    text = torch_text(module, module.models[models_of(name)[0]], {}, {})
    compile(text, f"{name}.py", "exec")
    assert max(map(len, text.splitlines())) <= WIDTH


def test_a_long_return_is_broken_between_its_values() -> None:
    values = [f"{name * 20} + {name * 20}" for name in "abc"]
    lines = laid_out(f"return {', '.join(values)}", 8)
    assert lines == ["        return (", *(f"            {each}," for each in values), "        )"]


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_that_is_not_written_is_refused_with_the_reason(name: str) -> None:
    module = pipeline.load(name).module
    with pytest.raises(ProblemError, match=f"E0598[\\s\\S]*{REFUSED[name]}"):
        torch_text(module, module.models[models_of(name)[0]], {}, {})


def test_weights_as_values_have_no_form() -> None:
    module = pipeline.load("maml").module
    with pytest.raises(ProblemError, match="E0598"):
        torch_text(module, module.models["adapted"], {}, {})


def test_the_page_shows_what_is_written() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    shown = page[page.index("in_channels = width") :].partition("```")[0]
    module = pipeline.load("densenet").module
    text = torch_text(module, module.models["densenet121"], {}, {})
    joined = [" ".join(each.split()) for each in (text, shown)]
    assert joined[1].replace("( ", "(") in joined[0].replace("( ", "(").replace(" )", ")")


def test_a_number_that_is_the_same_by_chance_is_no_width() -> None:
    module = pipeline.load("digits_mlp").module
    text = torch_text(module, module.models["digits_mlp"], {}, {})
    assert "self.fc1 = nn.Linear(8 * 8, hidden)" in text  # which is 64 here, too
