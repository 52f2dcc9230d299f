"""Weights of several files: by their index, by their folder, or named one by one."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import NoSuchFile, UnreadableFile
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from meganeura_runtime.io.weights import compare
from tests.runtime.io.declared import PARAMETERS, read_weights, values


def shards(folder: Path) -> Path:
    """The weights in two files and an index."""
    first, second = "model-1.safetensors", "model-2.safetensors"
    places = {"fc.weight": first, "fc.bias": second, "bn.num_batches_tracked": second}
    for file in (first, second):
        save_file({name: values()[name] for name in places if places[name] == file}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return index


def test_shards_are_read_through_their_index_or_their_folder(tmp_path: Path) -> None:
    index = shards(tmp_path)
    for path in (index, tmp_path):
        read = read_weights(path, PARAMETERS)
        np.testing.assert_array_equal(read["fc.weight"], values()["fc.weight"])


BESIDE = "its `weight_map` names something that is not a file beside it"


@pytest.mark.parametrize(
    ("weight_map", "reason"),
    [
        (None, "weight_map"),
        ([], "weight_map"),
        ({"fc.weight": "../other.safetensors"}, BESIDE),
        ({"fc.weight": "/etc/passwd"}, BESIDE),
        ({"fc.weight": ".."}, BESIDE),
        ({"fc.weight": "."}, BESIDE),
        ({"fc.weight": ""}, BESIDE),
        ({"fc.weight": 3}, BESIDE),
        ({"fc.weight": "a\0b"}, BESIDE),
        ({"fc.weight": "a\ud800b"}, BESIDE),
        ({"fc.weight": "model-2.safetensors"}, "does not hold `fc.weight`"),
        ({"fc.bias": "model-1.safetensors"}, "does not hold `fc.bias`"),
        ({"fc.bias": "model-2.safetensors"}, "holds `bn.num_batches_tracked` unannounced"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, weight_map: object, reason: str) -> None:
    index = shards(tmp_path)
    index.write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert reason in problem.reason, problem.reason


@pytest.mark.parametrize(
    "place",
    [
        "../other.safetensors", "..", ".", "./", "./model-2.safetensors", "/model-2.safetensors",
        "model-2.safetensors/", "inner/model-2.safetensors", "inner/../model-2.safetensors", "",
        "/", None, 2, 2.0, True, ["model-2.safetensors"], {"file": "model-2.safetensors"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["fc.weight", "bn.num_batches_tracked", "more"])
def test_one_place_of_an_index_that_is_no_file_beside_it_is_refused(
    tmp_path: Path, name: str, place: object
) -> None:
    """Among places that are right, and whether or not the tensor is asked for."""
    index = shards(tmp_path)
    (tmp_path / "inner").mkdir()
    places = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**places, name: place}}))
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    assert caught.value.problem == UnreadableFile(index, BESIDE)


def test_an_index_of_no_tensors_promises_none(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    assert open_weights(tmp_path) == {}


@pytest.mark.parametrize("content", ["[]", '"weight_map"', "3"])
def test_an_index_that_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    index = shards(tmp_path)
    index.write_text(content)
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    assert caught.value.problem == UnreadableFile(index, "it has no `weight_map`")


@pytest.mark.parametrize("content", ["[" * 100_000, '{"weight_map": ', "\0"])
def test_an_index_that_is_not_json_is_refused(tmp_path: Path, content: str) -> None:
    index = shards(tmp_path)
    index.write_text(content)
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert problem.reason.startswith("it is not JSON")


@pytest.mark.parametrize("other", ["model-1.safetensors", "model-2.safetensors"])
def test_a_tensor_of_two_shards_is_refused_whichever_is_announced(
    tmp_path: Path, other: str
) -> None:
    index = shards(tmp_path)
    save_file(load_file(tmp_path / other) | values(), tmp_path / other)
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert f"`{other}` holds `" in caught.value.problem.reason


def test_shards_without_an_index_are_named_one_by_one(tmp_path: Path) -> None:
    shards(tmp_path)
    files = sorted(tmp_path.glob("model-*.safetensors"))
    assert sorted(compare(files, PARAMETERS).read()) == sorted(values())
    with pytest.raises(ProblemError) as caught:
        compare([*files, files[0]], PARAMETERS)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "it holds `fc.weight`, and so does" in caught.value.problem.reason


def test_a_missing_shard_is_told(tmp_path: Path) -> None:
    index = shards(tmp_path)
    (tmp_path / "model-1.safetensors").unlink()
    with pytest.raises(ProblemError) as caught:
        read_weights(index, PARAMETERS)
    assert isinstance(caught.value.problem, NoSuchFile)


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    path.write_bytes(b"whatever")
    with pytest.raises(ProblemError) as caught:
        read_weights(path, PARAMETERS)
    assert isinstance(caught.value.problem, UnreadableFile)
    assert "pickle" in caught.value.problem.reason


def test_of_a_folder_the_index_counts_then_the_model_then_its_weights(tmp_path: Path) -> None:
    index = shards(tmp_path)
    for scale, name in ((2, "model.safetensors"), (3, "weights.safetensors")):
        save_file(
            {key: np.asarray(np.multiply(each, scale)) for key, each in values().items()},
            tmp_path / name,
        )
    for scale, gone in ((1, index), (2, tmp_path / "model.safetensors"), (3, None)):
        read = read_weights(tmp_path, PARAMETERS)
        np.testing.assert_array_equal(read["fc.weight"], np.multiply(values()["fc.weight"], scale))
        if gone is not None:
            gone.unlink()


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="E0533"):
        read_weights(tmp_path, PARAMETERS)
