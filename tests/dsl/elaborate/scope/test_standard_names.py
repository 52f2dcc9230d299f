"""Names that a file of the standard library declares, and the line that imports them."""

import pytest

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.standard_names import imports_of
from meganeura_dsl.pipeline import check_text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("resnet18", ("from resnet import resnet18",)),
        ("ResNet18", ("from resnet import resnet18",)),
        ("ResNet", ("from resnet import ResNet",)),
        ("GPT2", ("from gpt2 import Gpt2", "from gpt2 import gpt2")),
        ("Net", ()),  # anybody's
        ("net", ()),
        ("Layer", ()),
        ("linear", ()),  # known without an import
        ("down", ()),  # a formula
        ("nothing", ()),
    ],
)
def test_imports_of_a_name(name: str, lines: tuple[str, ...]) -> None:
    assert imports_of(name) == lines


def test_a_model_of_the_library_is_told_its_import() -> None:
    text = "block A()(x: [n, 3, h, w]) -> [n, 9]:\n  return x |> net: ResNet18(classes=9)\n"
    (problem,) = check_text(Source("net.mgn", text)).problems
    assert "library has it: `from resnet import resnet18`" in render(problem.report())
    cured = text.replace("ResNet18", "resnet18")
    assert check_text(Source("net.mgn", f"from resnet import resnet18\n\n{cured}")).problems == ()
