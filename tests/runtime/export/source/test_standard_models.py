"""Each standard model as source of PyTorch and of JAX."""

import re
from pathlib import Path

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.resources import standard_model_names
from meganeura_runtime.export.source.layout import WIDTH, laid_out
from meganeura_runtime.export.source.write import TARGETS, written_training
from meganeura_runtime.export.source.write import written as source_of
from meganeura_runtime.train.spec.run_request import RunRequest
from tests.effort import effort

ROOT = Path(__file__).parents[4]
MODELS = ROOT / "stdlib_models"


def models_of(name: str) -> list[str]:
    """The models of a file, in order; layers and losses have none."""
    return re.findall(r"^model (\w+)", (MODELS / f"{name}.mgn").read_text(), re.MULTILINE)


UNWRITTEN = {("rwkv", "torch")}
"""A norm that is named as a part of the first layer is made before the list of layers."""
WRITTEN = [name for name in standard_model_names() if models_of(name)]
EVERY = [(name, to) for name in WRITTEN for to in TARGETS if (name, to) not in UNWRITTEN]
TURNS = [
    (name, [*TARGETS][number % len(TARGETS)])
    for number, name in enumerate(WRITTEN)
    if (name, [*TARGETS][number % len(TARGETS)]) not in UNWRITTEN
]
"""Each model as source of one of the two, in turns."""


@pytest.mark.parametrize(("name", "to"), effort(usual=TURNS[::4], nightly=EVERY))
def test_a_standard_model_is_written(name: str, to: str) -> None:
    module = pipeline.load(name).module
    text = source_of(module, module.models[models_of(name)[0]], {}, {}, to)
    compile(text, f"{name}.py", "exec")
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize(("name", "to"), UNWRITTEN)
def test_what_is_not_written_is_refused(name: str, to: str) -> None:
    module = pipeline.load(name).module
    with pytest.raises(ProblemError, match="E0598"):
        source_of(module, module.models[models_of(name)[0]], {}, {}, to)


def test_a_long_return_is_broken_between_its_values() -> None:
    values = [f"{name * 20} + {name * 20}" for name in "abc"]
    lines = laid_out(f"return {', '.join(values)}", 8)
    assert lines == ["        return (", *(f"            {each}," for each in values), "        )"]


def test_weights_as_values_have_no_form() -> None:
    module = pipeline.load("maml").module
    with pytest.raises(ProblemError, match="E0598"):
        source_of(module, module.models["adapted"], {}, {}, "torch")


@pytest.mark.parametrize(
    ("file", "model", "to", "start"),
    [
        *effort([], [("densenet", "densenet121", "torch", "in_channels = width")]),
        ("gpt2", "gpt2", "jax", "n, s, d = x.shape"),
    ],
)
def test_the_page_shows_what_is_written(file: str, model: str, to: str, start: str) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    shown = page[page.index(start) :].partition("```")[0]
    module = pipeline.load(file).module
    text = source_of(module, module.models[model], {}, {}, to)
    joined = [" ".join(each.split()) for each in (text, shown)]
    assert joined[1].replace("( ", "(") in joined[0].replace("( ", "(").replace(" )", ")")


def test_a_number_that_is_the_same_by_chance_is_no_width() -> None:
    module = pipeline.load("digits_mlp").module
    text = source_of(module, module.models["digits_mlp"], {}, {}, "torch")
    assert "self.fc1 = nn.Linear(8 * 8, hidden)" in text  # which is 64 here, too


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("  minimize loss over fc\n", "`over`"),
        ("  minimize loss\n  project fc = minimum(fc, 0.1)\n", "`project`"),
        ("  minimize loss\n  run:\n    schedule = plateau()\n", "`schedule`"),
        ('  minimize loss\n  run:\n    every["fc.*"] = 2\n', "`every`"),
        ("  minimize loss\n  run:\n    optimizer = slow()\n", "`optimizer`"),
        ("  minimize loss\n  run:\n    ema = 0.9\n", "`ema`"),
    ],
)
def test_a_loop_that_source_does_not_have_is_refused(text: str, named: str) -> None:
    head = "train fit(x: [batch, 3]):\n  loss = mean((x |> fc: linear(2)) ** 2)\n"
    slow = "optimizer slow(lr: real = 1.0)(p: [...s], g: [...s]) -> [...s] = p - lr * g\n\n"
    whole = text if "run:" in text else f"{text}  run:\n"
    program = pipeline.load_text(Source("fit.mgn", f"{slow}{head}{whole}    batch = 4\n"))
    wanted = RunRequest(program, "fit", Path())
    places = {key: each.span for key, each in wanted.written.items()}
    with pytest.raises(ProblemError, match=rf"E0598\]: {named}[\s\S]*fit\.mgn:\d+"):
        written_training(program, "fit", wanted.settings, places, "torch")
