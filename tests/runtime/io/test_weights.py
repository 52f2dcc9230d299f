"""Weights: loaded strictly, with one message for all that differs, and saved in stored types."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io import weights
from meganeura_runtime.io.files.file_problems import NotFinite, OutOfRange
from meganeura_runtime.io.tensors.shape_mismatch import transposed
from meganeura_runtime.io.weights import (
    LISTED,
    Allowed,
    Difference,
    NothingToAllow,
    WeightsMismatch,
    compare,
    of_values,
    write_weights,
)
from tests.runtime.io.declared import PARAMETERS, mismatch, read_weights, saved, values


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


@pytest.mark.parametrize("count", [LISTED - 1, LISTED, LISTED + 1, LISTED + 7])
def test_of_many_names_the_first_are_listed_and_the_others_counted(count: int) -> None:
    names = tuple(f"layer{number}.weight" for number in range(count))
    (remark,) = NothingToAllow("head.*", "missing", names).report().remarks
    listed = remark.text.partition(" and ")[0].split(", ")
    assert listed == list(names[:LISTED])
    assert (f" and {count - LISTED} more" in remark.text) == (count > LISTED)
    assert remark.text.endswith("more") == (count > LISTED)
