"""The list of standard models that nightly runs export and compile has one of each file."""

from meganeura_dsl import pipeline
from meganeura_dsl.resources import standard_model_names
from tests.kinds import KINDS
from tests.standard import declared


def test_each_standard_file_is_among_the_kinds() -> None:
    listed = {pipeline.find(name).path.stem for name in KINDS}
    assert listed == {file for file in standard_model_names() if declared(file, "model")}
