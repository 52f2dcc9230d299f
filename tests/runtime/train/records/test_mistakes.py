"""The mistakes of a classifier: which are kept, what is said of them, and their pictures."""

import json
from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.preprocess.preparation import ImagePreparation
from meganeura_runtime.train.loop.evaluation import pictures_in
from meganeura_runtime.train.records.mistakes import LARGEST, MOST, Mistakes, probabilities
from meganeura_runtime.train.records.visual_log import FOLDER, VisualLog
from meganeura_runtime.train.report.shown_data import mistakes_data

GENERATOR = np.random.default_rng(0)


def test_the_mistakes_are_those_with_the_least_probability() -> None:
    labels = GENERATOR.integers(-1, 4, 90).astype(np.int32)
    labels[7] = 9
    logits = GENERATOR.normal(size=(90, 4)).astype(np.float32)
    kept = Mistakes()
    for start in (0, 32, 64):
        kept.add(labels[start : start + 32], logits[start : start + 32], None)
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wrong = [
        (shares[each, labels[each]], each)
        for each in range(90)
        if 0 <= labels[each] < 4 and logits[each].argmax() != labels[each]
    ]
    found = kept.as_data(5)
    assert (found["step"], found["examples"], found["count"]) == (5, 90, len(wrong))
    worst = found["worst"]
    assert isinstance(worst, list)
    assert [each["number"] for each in worst] == [each for _, each in sorted(wrong)[:MOST]]
    for each in worst:
        assert each["label"] == labels[each["number"]]
        assert each["predicted"] == logits[each["number"]].argmax()
        assert each["share"] == pytest.approx(shares[each["number"], each["label"]], rel=1e-3)
        assert each["picture"] is None


def test_probabilities_stay_and_large_logits_are_finite() -> None:
    given = np.array([[0.25, 0.75], [1.0, 0.0]])
    assert probabilities(given) is given
    assert probabilities(np.array([[1000.0, 0.0]])).tolist() == [[1.0, 0.0]]
    assert probabilities(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_no_error(value: float, tmp_path: Path) -> None:
    log = VisualLog()
    with np.errstate(all="ignore"):
        log.mistakes.add(np.array([1]), np.array([[value, 0.0]], np.float32), None)
    assert list(log.write(tmp_path, 1)) == []
    found = mistakes_data(tmp_path)
    assert found is not None
    assert [each["share"] for each in found["worst"]] == [None]


def test_a_picture_is_kept_small(tmp_path: Path) -> None:
    pictures = GENERATOR.random((1, 3, 2 * LARGEST + 1, 5)).astype(np.float32)
    log = VisualLog()
    log.mistakes.add(np.array([1]), np.array([[1.0, 0.0]], np.float32), pictures)
    list(log.write(tmp_path, 1))
    found = mistakes_data(tmp_path)
    assert found is not None
    head, _, content = found["worst"][0]["picture"].partition(",")
    drawn = np.asarray(Image.open(BytesIO(b64decode(content))))
    assert head == "data:image/png;base64"
    np.testing.assert_allclose(drawn, 255 * pictures[0, :, ::3, ::3].transpose(1, 2, 0), atol=0.51)


def test_pictures_are_drawn_as_they_were_before_they_were_prepared() -> None:
    x = GENERATOR.normal(size=(2, 3, 4, 5)).astype(np.float32)
    assert pictures_in({"x": x[0], "y": np.arange(3)}, None) is None
    stretched = pictures_in({"a": np.arange(3), "x": x}, None)
    assert stretched is not None
    assert (stretched.min(), stretched.max()) == (0, pytest.approx(1))
    unit = np.clip(x, 0, 1)
    assert pictures_in({"x": unit}, None) is unit
    prepared = ImagePreparation(
        colors=3,
        height=4,
        width=5,
        resize=None,
        crop=None,
        filter="nearest",
        scale=0.5,
        mean=(9.0, 9.0, 9.0),
        std=(2.0, 2.0, 2.0),
    )
    found = pictures_in({"x": x}, prepared)
    assert found is not None
    np.testing.assert_allclose(
        found.astype(np.float64), (x * 2 + 9) / (255 * prepared.scale), rtol=1e-5
    )


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"step": 1, "examples": 1, "count": 1, "worst": [{"number": 1}]}', "\x00"],
)
def test_a_damaged_file_is_named(text: str, tmp_path: Path) -> None:
    assert mistakes_data(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "mistakes.json").write_text(text)
    with pytest.raises(ProblemError, match=r"E0621.*mistakes\.json"):
        mistakes_data(tmp_path)


def test_a_picture_that_is_no_base64_is_damaged(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    entry = {"number": 1, "label": 1, "predicted": 0, "share": 0.5, "picture": '"><script>'}
    content = {"step": 1, "examples": 1, "count": 1, "worst": [entry]}
    (tmp_path / FOLDER / "mistakes.json").write_text(json.dumps(content))
    with pytest.raises(ProblemError, match="E0621"):
        mistakes_data(tmp_path)
