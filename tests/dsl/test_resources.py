"""The files that ship with the package are found."""

from meganeura_dsl import resources
from meganeura_dsl.syntax.parser.source_files import read_source


def test_grammar() -> None:
    assert "?start: import" in resources.grammar()


def test_standard_models() -> None:
    names = resources.standard_model_names()
    assert {"nn", "loss", "resnet"} <= set(names)
    assert list(names) == sorted(names)
    for name in names:
        assert read_source(resources.standard_models() / f"{name}.mgn").text
