"""Names of tensors in a file that are others in the model: renames, prefixes, and advice."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.weight_names import MalformedRename, Names, Rename
from meganeura_runtime.io.weights import Allowed, WeightsMismatch, compare
from tests.runtime.io.declared import PARAMETERS, Declared, saved


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
