"""Weights: loaded strictly, with one message for all that differs, and saved in stored types."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_runtime.io import weights
from meganeura_runtime.io.files.file_problems import (
    NoSuchFile,
    NotFinite,
    OutOfRange,
    UnreadableFile,
)
from meganeura_runtime.io.tensors.shape_mismatch import transposed
from meganeura_runtime.io.tensors.sharded_weights import open_weights
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.io.weight_names import MalformedRename, Names, Rename
from meganeura_runtime.io.weights import (
    LISTED,
    STRICT,
    Allowed,
    Difference,
    NothingToAllow,
    WeightsMismatch,
    compare,
    of_values,
    write_weights,
)


@dataclass(frozen=True)
class Declared:
    name: str
    type: TensorType
    stored: str


PARAMETERS = (
    Declared("fc.weight", TensorType(DType.F32, (2, 3)), "f32"),
    Declared("fc.bias", TensorType(DType.F32, (2,)), "f32"),
    Declared("bn.num_batches_tracked", TensorType(DType.I32, ()), "i64"),
)


def read_weights(
    path: Path, parameters: Sequence[Declared], allowed: Allowed = STRICT
) -> dict[str, Array]:
    return compare([path], parameters, allowed).read()


def values() -> dict[str, Array]:
    return {
        "fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fc.bias": np.array([1, 2], np.float32),
        "bn.num_batches_tracked": np.array(5, np.int64),
    }


def saved(folder: Path, changes: Mapping[str, Array | None]) -> Path:
    """A file of `values` with some tensors changed, added or, for None, left out."""
    tensors = {**values(), **changes}
    path = folder / "weights.safetensors"
    save_file({name: each for name, each in tensors.items() if each is not None}, path)
    return path


def mismatch(path: Path) -> WeightsMismatch:
    with pytest.raises(ProblemError) as caught:
        read_weights(path, PARAMETERS)
    problem = caught.value.problem
    assert isinstance(problem, WeightsMismatch)
    return problem


def test_weights_are_read_to_their_declared_types(tmp_path: Path) -> None:
    read = read_weights(saved(tmp_path, {"fc.weight": np.ones((2, 3), np.float64)}), PARAMETERS)
    assert {name: str(each.dtype) for name, each in read.items()} == {
        "fc.weight": "float32",
        "fc.bias": "float32",
        "bn.num_batches_tracked": "int32",
    }
    assert read["bn.num_batches_tracked"] == 5


def test_weights_are_saved_in_their_stored_types_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    kept = {**values(), "bn.num_batches_tracked": np.array(5, np.int32), "optimizer.step": values()}
    write_weights(path, PARAMETERS, {name: kept[name] for name in values()}, {"by": "test"})
    loaded = load_file(path)
    assert sorted(loaded) == sorted(values())
    assert loaded["bn.num_batches_tracked"].dtype == np.int64
    for name, each in read_weights(path, PARAMETERS).items():
        np.testing.assert_array_equal(each, values()[name])


def test_everything_that_differs_is_told_at_once(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        {
            "fc.weight": np.zeros((3, 2), np.float32),
            "fc.bias": None,
            "fc.bias_": np.zeros(2, np.float32),
            "bn.num_batches_tracked": np.array(5.0),
        },
    )
    problem = mismatch(path)
    assert problem.missing == ("fc.bias",)
    assert problem.unexpected == ("fc.bias_",)
    [shape] = problem.shapes
    assert (shape.name, shape.given, shape.wanted) == ("fc.weight", "[3, 2]", "[2, 3]")
    assert "transposed" in shape.hint
    [kind] = problem.types
    assert (kind.name, kind.given, kind.wanted) == ("bn.num_batches_tracked", "f64", "i32")
    report = problem.report()
    assert "1 missing, 1 unexpected, 1 of another shape, 1 of another type" in report.headline
    assert report.remarks[0].text == "fc.bias   (the file has fc.bias_)"


def test_a_name_that_is_hardly_like_a_missing_one_is_not_offered(tmp_path: Path) -> None:
    other = {"fc.bias": None, "fc.bi123": np.zeros(2, np.float32)}
    problem = mismatch(saved(tmp_path, other))
    assert problem.nearest("fc.bias") is None
    assert problem.report().remarks[0].text == "fc.bias"


def test_long_lists_are_cut(tmp_path: Path) -> None:
    extra = {f"more.{number}": np.zeros(1, np.float32) for number in range(40)}
    [remark] = mismatch(saved(tmp_path, extra)).report().remarks
    assert remark.text.endswith("and 28 more")


def test_integers_where_floats_are_due_are_refused(tmp_path: Path) -> None:
    problem = mismatch(saved(tmp_path, {"fc.bias": np.array([1, 2], np.int64)}))
    assert [each.name for each in problem.types] == ["fc.bias"]


def test_a_value_that_does_not_fit_or_is_not_finite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError) as caught:
        read_weights(saved(tmp_path, {"bn.num_batches_tracked": np.array(2**31)}), PARAMETERS)
    assert isinstance(caught.value.problem, OutOfRange)
    with pytest.raises(ProblemError) as caught:
        read_weights(saved(tmp_path, {"fc.bias": np.array([1, np.nan], np.float32)}), PARAMETERS)
    assert isinstance(caught.value.problem, NotFinite)


@pytest.mark.parametrize("stored", [np.float64, np.float16])
def test_wider_and_narrower_floats_are_read(tmp_path: Path, stored: type[np.generic]) -> None:
    path = saved(tmp_path, {"fc.bias": np.array([1.5, -2], stored)})
    np.testing.assert_array_equal(read_weights(path, PARAMETERS)["fc.bias"], [1.5, -2])


# --- what may differ -----------------------------------------------------------------------------


def test_an_excused_parameter_is_left_out_and_an_excused_tensor_is_not_read(tmp_path: Path) -> None:
    path = saved(tmp_path, {"fc.bias": None, "head.x": np.array([np.nan], np.float32)})
    found = compare([path], PARAMETERS, Allowed(("*.bias",), ("head.*",)))
    assert (found.anew, found.unused) == (("fc.bias",), ("head.x",))
    assert sorted(found.read()) == ["bn.num_batches_tracked", "fc.weight"]


def test_a_glob_excuses_only_what_it_matches(tmp_path: Path) -> None:
    path = saved(tmp_path, {"fc.bias": None, "fc.weight": None})
    mismatch_ = compare([path], PARAMETERS, Allowed(("*.bias",))).mismatch()
    assert mismatch_ is not None
    assert mismatch_.missing == ("fc.weight",)


def test_another_shape_or_type_is_excused_by_both_globs_only(tmp_path: Path) -> None:
    path = saved(
        tmp_path, {"fc.bias": np.zeros(7, np.float32), "fc.weight": np.zeros((2, 3), "i4")}
    )
    both = Allowed(("fc.*",), ("fc.*",))
    assert sorted(read_weights(path, PARAMETERS, both)) == ["bn.num_batches_tracked"]
    for half in (Allowed(missing=("fc.*",)), Allowed(unexpected=("fc.*",))):
        with pytest.raises(ProblemError) as caught:
            read_weights(path, PARAMETERS, half)
        problem = caught.value.problem
        assert isinstance(problem, NothingToAllow)
        advice = problem.report().help
        assert advice is not None
        assert advice.code == "--allow-missing 'fc.*' --allow-unexpected 'fc.*'"


@pytest.mark.parametrize("names", [["a[0].w"], ["it's.w"], [f"n{each}.w" for each in range(20)]])
def test_what_is_advised_leaves_the_unexpected_unused(tmp_path: Path, names: list[str]) -> None:
    path = saved(tmp_path, dict.fromkeys(names, np.zeros(1, np.float32)))
    refused = compare([path], PARAMETERS).mismatch()
    assert refused is not None
    advice = refused.report().help
    assert advice is not None
    options = shlex.split(advice.code)
    allowed = Allowed(unexpected=tuple(options[1::2]))
    assert set(options[::2]) == {"--allow-unexpected"}
    assert compare([path], PARAMETERS, allowed).mismatch() is None


@pytest.mark.parametrize(
    ("allowed", "glob", "kind"),
    [
        (Allowed(("fx.*",)), "fx.*", "missing"),
        (Allowed((), ("fc.*",)), "fc.*", "unexpected"),
        (Allowed(("*.bias", "*.weight"), ("head.*",)), "*.weight", "missing"),
        (Allowed(("*.bias",), ("head.*", "tail.*")), "tail.*", "unexpected"),
    ],
)
def test_a_glob_that_excuses_nothing_is_refused(
    tmp_path: Path, allowed: Allowed, glob: str, kind: str
) -> None:
    head = {"fc.bias": None, "head.x": np.zeros(1, np.float32)}
    path = saved(tmp_path, head if len(allowed.missing) + len(allowed.unexpected) > 1 else {})
    with pytest.raises(ProblemError) as caught:
        compare([path], PARAMETERS, allowed)
    problem = caught.value.problem
    assert isinstance(problem, NothingToAllow)
    assert (problem.glob, problem.kind, problem.unlike) == (glob, kind, ())


def test_several_globs_excuse_what_any_of_them_matches(tmp_path: Path) -> None:
    changes = {"fc.bias": None, "bn.num_batches_tracked": None}
    extra = {"head.x": np.zeros(1, np.float32), "tail": np.zeros(1, np.float32)}
    path = saved(tmp_path, {**changes, **extra})
    found = compare([path], PARAMETERS, Allowed(("*.bias", "bn.*"), ("tail", "head.*")))
    assert found.anew == ("fc.bias", "bn.num_batches_tracked")
    assert sorted(found.unused) == ["head.x", "tail"]
    assert [*found.read()] == ["fc.weight"]


@pytest.mark.parametrize(
    ("missing", "unexpected", "shapes", "types", "advice"),
    [
        ("", "a.w a.b c", "", "", "--allow-unexpected 'a.*' --allow-unexpected c"),
        ("b", "a.w", "", "", "meganeura abi MODEL"),
        ("", "a.w", "b", "", "meganeura abi MODEL"),
        ("", "a.w", "", "b", "meganeura abi MODEL"),
    ],
)
def test_advice_is_about_all_that_differs(
    missing: str, unexpected: str, shapes: str, types: str, advice: str
) -> None:
    of_shape, of_type = (
        tuple(Difference(name, "[2]", "[3]") for name in each.split()) for each in (shapes, types)
    )
    problem = WeightsMismatch(
        Path("a.safetensors"), tuple(missing.split()), tuple(unexpected.split()), of_shape, of_type
    )
    help_ = problem.report().help
    assert help_ is not None
    assert help_.code == advice


@pytest.mark.parametrize("count", [LISTED, LISTED + 1])
def test_many_tops_are_left_unused_together(count: int) -> None:
    tops = tuple(f"n{each}.w" for each in range(count))
    help_ = WeightsMismatch(Path("a.safetensors"), (), tops, (), ()).report().help
    assert help_ is not None
    globs = shlex.split(help_.code)[1::2]
    assert globs == (["*"] if count > LISTED else [f"n{each}.*" for each in range(count)])


def test_values_that_are_trained_may_be_of_more_than_one_model() -> None:
    given = {**values(), "other": np.zeros(1, np.float32)}
    found = of_values(given, PARAMETERS)
    assert sorted(found) == sorted(values())
    wrong = {"fc.weight": np.zeros((2, 3), np.int32), "fc.bias": np.zeros(2, np.int32)}
    with pytest.raises(ProblemError) as caught:
        of_values({**given, **wrong}, PARAMETERS)
    problem = caught.value.problem
    assert isinstance(problem, WeightsMismatch)
    assert [each.name for each in problem.types] == ["fc.weight", "fc.bias"]
    assert problem.report().remarks[0].text.splitlines() == [
        f"{name}   the file has i32, the model f32" for name in wrong
    ]


def test_each_tensor_with_a_value_that_does_not_fit_is_told(tmp_path: Path) -> None:
    bad = {"fc.weight": np.full((2, 3), np.inf, np.float32), "fc.bias": np.array([0, 1e300])}
    found = compare([saved(tmp_path, bad)], PARAMETERS)
    assert [problem.code for problem in found.faults()] == ["E0531", "E0532"]
    with pytest.raises(ProblemError, match="E0531"):
        found.read()


# --- shards --------------------------------------------------------------------------------------


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


def test_a_shape_in_another_order_is_told_with_the_order_to_bring_it_into() -> None:
    """Both are what `numpy.transpose` takes: of what the file has."""
    given, wanted = (3, 5, 7), (5, 7, 3)
    order = [int(axis) for axis in re.findall(r"\d", transposed(given, wanted))]
    assert np.zeros(given).transpose(order).shape == wanted
    parameter: Any = SimpleNamespace(name="w", type=SimpleNamespace(shape=wanted))
    stored: Any = SimpleNamespace(shape=given)
    (told,) = weights._shape_differences([(parameter, stored)])
    assert (told.given, told.wanted) == (str(list(given)), str(list(wanted)))
    assert told.hint == transposed(given, wanted)


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("renames", "prefix", "expected"),
    [
        ({}, "net.", ("net.a.w", "net.a.b", "net.c")),
        ({r"a\.(.*)": r"\1"}, "", ("w", "b", "c")),
        ({r"a\.(.*)": r"\1"}, "x.", ("x.w", "x.b", "x.c")),
        ({r"a\.w": "first", r"(?P<all>.*)": r"\g<all>_"}, "", ("first", "a.b_", "c_")),
        ({"a": "x.", "c": "d"}, "", None),
        ({"[": "x"}, "", None),
        ({"c": r"\1"}, "", None),
        ({"c": "a.b"}, "", None),
    ],
)
def test_names_in_files_and_models(
    renames: Mapping[str, str], prefix: str, expected: tuple[str, ...] | None
) -> None:
    stored: Any = {"a.w": 1, "a.b": 2, "c": 3}
    if expected is None:
        with pytest.raises(ProblemError, match=r"E058[567]"):
            Names.of(renames, prefix).apply(stored)
    else:
        assert Names.of(renames, prefix).apply(stored) == dict(zip(expected, stored, strict=True))


def test_a_rename_is_a_pattern_and_a_name() -> None:
    assert Rename.parse("a=b") == Rename("a", "b")
    assert Rename.parse("(?=a).*=") == Rename("(?=a).*", "")
    for text, reason in (
        ("a", "it is not"),
        ("=a", "it is not"),
        ("", "it is not"),
        ("(=a", "missing"),
    ):
        with pytest.raises(ProblemError) as caught:
            Rename.parse(text)
        problem = caught.value.problem
        assert isinstance(problem, MalformedRename)
        assert (problem.text, problem.reason.split(" ")[0]) == (text, reason.split(" ")[0])


@pytest.mark.parametrize(
    ("replacement", "reason"),
    [(r"\2", "invalid group reference 2 at position 1"), (r"\g<x>", "unknown group name 'x'")],
)
def test_a_name_that_lacks_what_it_takes_is_malformed(replacement: str, reason: str) -> None:
    stored: Any = {"fc.bias": 1}
    with pytest.raises(ProblemError) as caught:
        Names.of({r"(fc)\..*": replacement}, "").apply(stored)
    assert caught.value.problem == MalformedRename(rf"(fc)\..*={replacement}", reason)


def test_a_checkpoint_is_loaded_below_a_prefix(tmp_path: Path) -> None:
    path = saved(tmp_path, {})
    parts = [Declared(f"{part}.{each.name}", each.type, each.stored)
             for part in ("teacher", "student") for each in PARAMETERS]  # fmt: skip
    found = compare([path], parts, Allowed(missing=("student.*",)), Names(prefix="teacher."))
    np.testing.assert_array_equal(found.read()["teacher.fc.bias"], [1, 2])
    assert found.anew == tuple(each.name for each in parts[3:])
    stored = sorted(each.name for each in PARAMETERS)
    assert sorted(found.renamed) == [(name, f"teacher.{name}") for name in stored]


def test_what_has_another_name_is_told_and_nothing_else(tmp_path: Path) -> None:
    path = saved(tmp_path, {})
    parts = [replace(each, name=each.name.replace("fc", "head")) for each in PARAMETERS]
    found = compare([path], parts, names=Names.of({r"fc(\..*)": r"head\1"}, ""))
    assert sorted(found.renamed) == [("fc.bias", "head.bias"), ("fc.weight", "head.weight")]
    assert len(parts) > len(found.renamed)


@pytest.mark.parametrize("count", [LISTED - 1, LISTED, LISTED + 1, LISTED + 7])
def test_of_many_names_the_first_are_listed_and_the_others_counted(count: int) -> None:
    names = tuple(f"layer{number}.weight" for number in range(count))
    (remark,) = NothingToAllow("head.*", "missing", names).report().remarks
    listed = remark.text.partition(" and ")[0].split(", ")
    assert listed == list(names[:LISTED])
    assert (f" and {count - LISTED} more" in remark.text) == (count > LISTED)
    assert remark.text.endswith("more") == (count > LISTED)


@pytest.mark.parametrize("path", ["module.", "_orig_mod.", "model.encoder."])
def test_a_path_in_front_of_all_names_of_a_file_is_told(path: str) -> None:
    names = ("conv1.weight", "layer.0.weight", "fc.weight")
    problem = WeightsMismatch(Path("a"), names, tuple(path + name for name in names), (), ())
    help_ = problem.report().help
    assert help_ is not None
    assert help_.code is not None
    assert help_.code == f"--rename '{path.replace('.', chr(92) + '.')}(.*)=\\1'"
    pattern, _, new = help_.code.removeprefix("--rename ").strip("'").partition("=")
    renamed = [re.sub(f"^{pattern}$", new, name) for name in problem.unexpected]
    assert tuple(renamed) == names


def test_a_file_that_fits_below_a_path_is_told_the_path() -> None:
    names = ("conv1.weight", "layer.0.weight", "bn.weight", "head.weight")
    missing = tuple(f"body.{name}" for name in names[:3])
    help_ = WeightsMismatch(Path("a"), (*missing, "fc.weight"), names, (), ()).report().help
    assert help_ is not None
    assert help_.text == "3 of 4 fit below `body.`, with"
    assert help_.code == "--prefix body."


def test_names_that_differ_otherwise_are_not_moved() -> None:
    help_ = WeightsMismatch(Path("a"), ("a.w", "b.w"), ("x.a.w", "c", "d"), (), ()).report().help
    assert help_ is not None
    assert help_.code == "meganeura abi MODEL"
