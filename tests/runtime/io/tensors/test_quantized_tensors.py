"""Quantized tensors of a file are read as what they stand for, and false entries are refused."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.quantization import Quantization
from meganeura_dsl.ir.types import DType
from meganeura_runtime.io.files.file_problems import UnreadableFile
from meganeura_runtime.io.tensors.quantized_tensors import QUANTIZED, read_weights, write_quantized
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.stored_tensor import read

SHAPE = (6, 5, 8)
HOW = Quantization(4, 8)
WORDS, SCALES = HOW.quantize(np.random.default_rng(0).normal(size=SHAPE).astype(np.float32))
PARTS = {"w.words": WORDS, "w.scales": SCALES}
ENTRY = {"bits": 4, "group": 8, "shape": [*SHAPE]}


def test_a_file_has_the_levels(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    values = {"w": HOW.dequantize(WORDS, SCALES, SHAPE), "b": np.ones(3, np.float32)}
    write_quantized(path, values, {"w": HOW}, {"format": "pt"})
    found = read_weights(path)
    assert {name: str(each) for name, each in found.items()} == {
        "b": "f32[3]",
        "w": "4-bit[6, 5, 8]",
    }
    np.testing.assert_array_equal(read(found["w"], DType.F32), values["w"])
    some = np.array([4, 1])
    for rows in (slice(2, 5), some):
        np.testing.assert_array_equal(read(found["w"], DType.F32, rows), values["w"][rows])
    assert found["w"].quantization == HOW
    assert path.stat().st_size < 1500


@pytest.mark.parametrize(
    ("entries", "parts", "reason"),
    [
        ("{", PARTS, "is wrong"),
        ({"w": {**ENTRY, "bits": 3}}, PARTS, r"is wrong at `w.bits`"),
        ({"w": {**ENTRY, "group": -8}}, PARTS, r"is wrong at `w.group`"),
        ({"w": {**ENTRY, "zero": 1}}, PARTS, r"is wrong at `w.zero`"),
        ({"w": {**ENTRY, "shape": [48]}}, PARTS, r"is wrong at `w.shape`"),
        ({"w": {**ENTRY, "shape": [6, 0]}}, PARTS, r"is wrong at `w.shape.1`"),
        ({"w": {**ENTRY, "shape": [6, 2**40]}}, PARTS, r"is wrong at `w.shape.1`"),
        ({"w": {**ENTRY, "shape": [6, 2**30, 2**30]}}, PARTS, r"`w.words` is u32\[6, 5\], not"),
        ({"w": {**ENTRY, "group": 7}}, PARTS, "a row of 40 has no whole groups of 7"),
        ({"w": {**ENTRY, "bits": 8}}, PARTS, r"`w.words` is u32\[6, 5\], not u32\[6, 10\]"),
        ({"w": {**ENTRY, "group": 4}}, PARTS, r"`w.scales` is f32\[6, 5\], not f32\[6, 10\]"),
        ({"w": ENTRY}, {"w.words": WORDS}, "`w.scales` is not in it"),
        ({"w": ENTRY}, {**PARTS, "w.words": WORDS.view(np.int32)}, "is i32"),
        ({"w": ENTRY}, {**PARTS, "w": SCALES}, "it holds `w` as it is, and quantized"),
        ({"w": ENTRY, "w.words": ENTRY}, PARTS, "`w.words.words` is not in it"),
    ],
)
def test_false_entries_are_refused(
    tmp_path: Path, entries: object, parts: Mapping[str, Array], reason: str
) -> None:
    path = tmp_path / "w.safetensors"
    text = entries if isinstance(entries, str) else json.dumps(entries)
    write_tensors(path, parts, {QUANTIZED: text})
    with pytest.raises(ProblemError) as caught:
        read_weights(path)
    problem = caught.value.problem
    assert isinstance(problem, UnreadableFile)
    assert re.search(reason, problem.reason), problem.reason
