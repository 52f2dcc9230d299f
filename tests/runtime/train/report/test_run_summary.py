"""A run in a few numbers, from the files of its folder, and what several runs are called."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import CannotWrite
from meganeura_runtime.train.report import report_writer
from meganeura_runtime.train.report.run_description import Status
from meganeura_runtime.train.report.run_summary import (
    Measure,
    RunSummary,
    labels,
    read_settings,
    summary_of,
)

STEPS = [(1, 2.0, 1.0), (2, 1.5, 10.0), (3, 1.0, 40.0), (4, 0.5, 30.0)]
"""Of each step its loss and how many were made per second; the first compiles."""
MEASURED = [(2, 1.2, 0.5), (3, 1.4, 0.75), (4, 1.2, 0.625)]
"""Of each evaluation the loss and the accuracy."""


def written(
    folder: Path,
    settings: Mapping[str, object],
    steps: Sequence[tuple[int, float, float | None]] = STEPS,
    measured: Sequence[tuple[int, float | None, float]] = MEASURED,
) -> Path:
    """The folder of a run with these records."""
    folder.mkdir(parents=True, exist_ok=True)
    records: list[dict[str, object]] = [
        {
            "kind": "step",
            "step": step,
            "loss": loss,
            "learning_rate": 0.1,
            "steps_per_second": speed,
        }
        for step, loss, speed in steps
    ]
    records += [
        {"kind": "held_out", "step": step, "loss": loss, "accuracy": accuracy}
        for step, loss, accuracy in measured
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in records))
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


def of_kind(found: RunSummary, kind: str) -> dict[str, tuple[float, float | None]]:
    return {each.name: (each.final, each.best) for each in found.measures if each.kind == kind}


@pytest.mark.parametrize(
    ("settings", "step", "loss", "accuracy"),
    [
        ({}, 2, 1.2, 0.5),
        ({"best": "lowest loss"}, 2, 1.2, 0.5),
        ({"best": "highest loss"}, 3, 1.4, 0.75),
        ({"best": "highest accuracy"}, 3, 1.4, 0.75),
        ({"best": "lowest accuracy"}, 2, 1.2, 0.5),
    ],
)
def test_metrics_are_told_at_the_end_and_at_the_first_of_the_best_evaluations(
    tmp_path: Path, settings: Mapping[str, object], step: int, loss: float, accuracy: float
) -> None:
    found = summary_of(written(tmp_path, settings))
    assert found.best_step == step
    assert of_kind(found, "held_out") == {"loss": (1.2, loss), "accuracy": (0.625, accuracy)}
    assert of_kind(found, "step") == {"loss": (0.5, None)}
    assert [each.kind for each in found.measures] == ["held_out", "held_out", "step"]


def test_an_evaluation_that_is_not_finite_is_never_the_best(tmp_path: Path) -> None:
    for first in (2, 3):
        measured = [(step, None if step == first else 1.0 + step, 0.5) for step in (2, 3, 4)]
        found = summary_of(written(tmp_path, {}, measured=measured))
        assert found.best_step == (3 if first == 2 else 2)


def test_a_run_that_was_not_evaluated_has_no_best(tmp_path: Path) -> None:
    found = summary_of(written(tmp_path, {}, measured=()))
    assert found.best_step is None
    assert found.measures == (Measure("step", "loss", 0.5, None),)
    assert summary_of(written(tmp_path, {"best": "highest size"})).best_step is None


@pytest.mark.parametrize(
    ("speeds", "expected"),
    [
        ([1.0, 10.0, 40.0, 30.0], 30.0),
        ([1.0, 10.0, 40.0], 25.0),
        ([1.0, None, 40.0, 30.0], 35.0),
        ([7.0, 10.0], 10.0),
        ([7.0], None),
        ([], None),
    ],
)
def test_the_speed_is_the_median_without_the_first_step(
    tmp_path: Path, speeds: Sequence[float | None], expected: float | None
) -> None:
    steps = [(number, 1.0, speed) for number, speed in enumerate(speeds, 1)]
    assert summary_of(written(tmp_path, {}, steps)).speed == expected


def test_settings_within_others_are_told_by_paths(tmp_path: Path) -> None:
    written(
        tmp_path,
        {
            "data": "digits", "optimizer": {"kind": "sgd", "lr": 0.5, "nesterov": False},
            "clip_norm": None, "log": [], "disabled_rules": ["a", "b"], "seed": 0, "ema": 0.5,
            "optimizers": {"fc.*": {"kind": "adam", "deep": {"x": 1}}}, "tensors": {},
            "memory": "", "shuffle": True,
        },
    )  # fmt: skip
    assert read_settings(tmp_path / "settings.json") == {
        "data": "digits", "optimizer.kind": "sgd", "optimizer.lr": "0.5",
        "optimizer.nesterov": "false", "disabled_rules": '["a", "b"]', "seed": "0", "ema": "0.5",
        "optimizers.fc.*.kind": "adam", "optimizers.fc.*.deep.x": "1", "memory": "",
        "shuffle": "true",
    }  # fmt: skip


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", '{"best": "most"}', "[" * 9999])
def test_settings_that_are_none_are_damaged(tmp_path: Path, content: str) -> None:
    (written(tmp_path, {}) / "settings.json").write_text(content)
    with pytest.raises(ProblemError, match=r"settings\.json"):
        summary_of(tmp_path)


@pytest.mark.parametrize("missing", ["settings.json", "metrics.jsonl"])
def test_a_folder_without_settings_or_metrics_is_no_run(tmp_path: Path, missing: str) -> None:
    (written(tmp_path, {}) / missing).unlink()
    with pytest.raises(ProblemError, match=missing):
        summary_of(tmp_path)


@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        (["a"], ["a"]),
        (["a", "b"], ["a", "b"]),
        (["x/a", "y/a"], ["x/a", "y/a"]),
        (["x/a", "y/b"], ["a", "b"]),
        (["x/a", "y/a", "y/b"], ["x/a", "y/a", "y/b"]),
        (["p/x/a", "q/x/a", "q/y/a"], ["p/x/a", "q/x/a", "q/y/a"]),
        (["a", "a"], ["a", "a"]),
        (["a", "x/../a"], ["a", "a"]),
        (["x/a", "y/a", "x/a"], ["x/a", "y/a", "x/a"]),
        ([], []),
    ],
)
def test_runs_are_called_by_as_much_of_their_paths_as_tells_them_apart(
    tmp_path: Path, folders: Sequence[str], expected: Sequence[str]
) -> None:
    """One that is given twice has the same name twice."""
    (tmp_path / "x").mkdir()
    runs = [summary_of(written(tmp_path / each, {})) for each in folders]
    assert labels(runs) == tuple(expected)


ENDS: list[tuple[BaseException, Status, str]] = [
    (ZeroDivisionError("by whom"), Status.FAILED, "ZeroDivisionError: by whom"),
    (ValueError("one line\nand another"), Status.FAILED, "ValueError: one line"),
    (MemoryError(), Status.FAILED, "MemoryError: "),
    (AssertionError(""), Status.FAILED, "AssertionError: "),
    (SystemExit(3), Status.FAILED, "SystemExit: 3"),
    (ProblemError(CannotWrite(Path("out"), "it is full")), Status.FAILED, "E0534"),
    (KeyboardInterrupt(), Status.STOPPED, ""),
]


@pytest.mark.parametrize(("error", "status", "said"), ENDS, ids=repr)
def test_what_ended_a_run_is_told_in_a_line(
    error: BaseException, status: Status, said: str
) -> None:
    found, line = report_writer._end(error)
    assert found is status
    assert said in line if isinstance(error, ProblemError) else line == said
    assert "\n" not in line
