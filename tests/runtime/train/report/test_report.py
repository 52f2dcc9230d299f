"""The page of a run: written while it trains, whole when it ends, and safe whatever is in it."""

import json
import re
from array import array
from base64 import b64encode
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any, cast

import numpy as np
import pytest

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.backends.reference.backend import ReferenceBackend
from meganeura_runtime.backends.reference.device import ReferenceDevice
from meganeura_runtime.io.files.folder_lock import locked
from meganeura_runtime.train.events import EpochEnded, Event, Finished, StoppedEarly
from meganeura_runtime.train.loop.training_loop import train
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.report import page_data, run_summary
from meganeura_runtime.train.report.page import comparison_page, run_page
from meganeura_runtime.train.report.page_data import (
    FEWEST,
    MOST,
    POINTS,
    CurveData,
    run_data,
    thinned,
)
from meganeura_runtime.train.report.report_problems import DamagedRun
from meganeura_runtime.train.report.report_writer import PAUSE, SHARE, ReportWriter, reported
from meganeura_runtime.train.report.run_description import Status, memory_of
from meganeura_runtime.train.report.run_records import Curve, RunRecords
from meganeura_runtime.train.report.run_summary import labels, read_settings, summary_of
from meganeura_runtime.train.spec.resume import RunOptions
from tests.runtime.runs import FAILING, STEPS, Workspace

CPU = ReferenceDevice(ReferenceBackend(), "cpu (as asked)")


def data_of(page: str) -> dict[str, Any]:
    """Returns the data that a page draws."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def run_of(folder: Path) -> dict[str, Any]:
    """The one run of the page that a folder holds."""
    (found,) = data_of(RunFolder(folder).report.read_text())["runs"]
    return found


def written(folder: Path, *records: dict[str, object], settings: object = None) -> Path:
    """A run folder with these records."""
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps(each) + "\n" for each in records)
    (folder / "metrics.jsonl").write_text(lines)
    (folder / "settings.json").write_text(json.dumps(settings or {"epochs": 3}))
    return folder


def step(number: int, **measured: float | None) -> dict[str, object]:
    return {"kind": "step", "step": number, "epoch": 0, **measured}


# --- while a run goes on, and at its end ---------------------------------------------------------


def test_the_page_of_a_finished_run_has_all_of_it(workspace: Workspace) -> None:
    folder = workspace.start("run", options=RunOptions(device=CPU))
    page = data_of(folder.report.read_text())
    assert page["every"] == 0
    (run,) = page["runs"]
    about = run["about"]
    assert (about["status"], about["error"], about["device"]) == ("finished", "", "cpu")
    assert (about["epochs"], about["steps_per_epoch"], about["batch"]) == (4, 5, 4)
    assert run["step"] == STEPS
    assert [(each["name"], each["type"], each["declared"]) for each in about["inputs"]] == [
        ("x", "f32[4, 6]", "f32[batch, 6]"),
        ("y", "i32[4]", "i32[batch]"),
    ]
    assert about["memory"] == memory_of(workspace.job().spec, CPU)
    assert about["memory"]["parameters"] == 4 * (8 * 6 + 8 + 8 + 8 + 3 * 8 + 3)
    names = {row[0]: row[1:] for row in run["parameters"]["rows"]}
    assert names["fc1.weight"] == ["f32[8, 6]", "param", 48, True]
    assert names["norm.running_mean"][1] == "state"
    assert (run["parameters"]["count"], run["parameters"]["elements"]) == (6, 99)
    assert (run["parameters"]["trained_count"], run["parameters"]["trained"]) == (6, 99)
    assert ["optimizer.lr", "0.01"] in run["settings"]
    curves = {(each["kind"], each["name"]): each for each in run["curves"]}
    assert {("step", "loss"), ("step", "learning_rate"), ("epoch", "loss")} <= curves.keys()
    assert curves["held_out", "loss"]["x"] == [5, 10, 15, 20]
    evaluated = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    losses = [each["loss"] for each in evaluated if each["kind"] == "held_out"]
    assert curves["held_out", "loss"]["y"] == pytest.approx(losses, rel=1e-5)
    (best,) = [each for each in run["measures"] if each[:2] == ["held_out", "loss"]]
    assert best[2:] == [losses[-1], min(losses)]
    assert run["best_step"] == 5 * (1 + int(np.argmin(losses)))


def test_it_is_there_while_the_run_goes_on(workspace: Workspace) -> None:
    folder, seen = workspace.run_folder("run"), []

    def watch(event: Event) -> None:
        if isinstance(event, EpochEnded) and not seen:
            until = monotonic() + 20
            while not folder.report.is_file() and monotonic() < until:
                sleep(0.01)
            seen.append(data_of(folder.report.read_text()))

    train(workspace.job(), folder, CPU.open, watch, lambda: False, RunOptions(device=CPU))
    (page,) = seen
    assert page["every"] > 0
    assert page["runs"][0]["about"]["status"] == "running"
    assert run_of(folder.path)["about"]["status"] == "finished"


def test_a_stopped_run_says_so_and_goes_on_to_the_end(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    before = run_of(folder.path)
    assert (before["about"]["status"], before["step"]) == ("stopped", 6)
    assert 0 < before["about"]["seconds"] < 60
    long = {**json.loads(folder.description.read_text()), "seconds": 3600.0}
    folder.description.write_text(json.dumps(long))
    workspace.resume("run")
    after = run_of(folder.path)
    assert (after["about"]["status"], after["step"]) == ("finished", STEPS)
    assert 3600 < after["about"]["seconds"] < 3660
    (steps,) = [
        each["x"] for each in after["curves"] if (each["kind"], each["name"]) == ("step", "loss")
    ]
    assert steps == sorted(set(steps))


def test_a_run_that_stopped_early_says_why(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    job = workspace.job()
    for event, reason in (
        (StoppedEarly(10, 1, 3, "loss", 0.5), "loss was not better than 0.5 in 3 evaluations"),
        (StoppedEarly(10, 1, 3, "recall", None), "recall had no value in 3 evaluations"),
    ):
        writer = ReportWriter(job.spec, folder, None, job)
        writer.take_in(event)
        writer.take_in(Finished(10, 1.0, interrupted=False))
        writer.complete(writer.status)
        run = run_of(folder.path)
        assert (run["about"]["status"], run["about"]["ended"]) == ("stopped early", reason)
    assert run["best_by"] == "loss"


def test_a_run_that_fails_says_why(workspace: Workspace) -> None:
    workspace.write(FAILING)
    with pytest.raises(ProblemError, match="E0550"):
        workspace.start("run")
    about = run_of(workspace.folder / "run")["about"]
    assert about["status"] == "failed"
    assert "E0550" in about["error"]


def test_what_is_raised_by_who_watches_ends_the_run_and_is_told(workspace: Workspace) -> None:
    def watch(event: Event) -> None:
        if isinstance(event, EpochEnded):
            raise ZeroDivisionError("by whom")

    folder = workspace.run_folder("run")
    with pytest.raises(ZeroDivisionError):
        train(workspace.job(), folder, CPU.open, watch, lambda: False)
    about = run_of(folder.path)["about"]
    assert (about["status"], about["error"]) == ("failed", "ZeroDivisionError: by whom")


def test_a_compiler_says_what_a_step_takes(workspace: Workspace) -> None:
    """Without a second compilation: of a run, and of steps by hand."""
    program = meganeura.load(str(workspace.folder / "fit.mgn"))
    run = program.train(device="xla:cpu", settings={"epochs": 1}, out=workspace.folder / "run")
    settings, out = {"steps": 20, "log_every": 1}, workspace.folder / "by-hand"
    batch = {"x": np.ones((4, 6), np.float32), "y": [0, 1, 2, 0]}
    with program.trainer(device="xla:cpu", settings=settings, out=out) as trainer:
        trainer.step(batch)
    for folder in (run.folder, out):
        about = summary_of(folder).description
        assert about is not None
        assert about.memory is not None
        assert about.memory["temporaries"] > 0
        assert about.memory["parameters"] == 4 * (8 * 6 + 8 + 2 * 8 + 3 * 8 + 3)


def test_ctrl_c_is_no_failure(workspace: Workspace) -> None:
    folder = workspace.run_folder("run")
    folder.write_settings(workspace.job().settings)
    with pytest.raises(KeyboardInterrupt), reported(workspace.job(), folder, None, lambda _: None):
        raise KeyboardInterrupt
    about = run_of(folder.path)["about"]
    assert (about["status"], about["error"], about["memory"]) == ("stopped", "", None)


def test_a_page_that_cannot_be_written_is_no_secret(workspace: Workspace) -> None:
    folder = workspace.run_folder("run")
    folder.report.mkdir()
    with pytest.raises(ProblemError, match="E0534"):
        workspace.start("run")
    workspace.write(FAILING)
    folder = workspace.run_folder("other")
    folder.report.mkdir()
    with pytest.raises(ProblemError, match="E0550"):
        workspace.start("other")


def test_of_several_processes_only_the_first_writes(workspace: Workspace) -> None:
    silent = RunFolder(workspace.run_folder("run").path, writes=False)
    with reported(workspace.job(), silent, None, print) as watch:
        assert watch is print
    assert list(silent.path.iterdir()) == []


def test_the_writer_takes_a_bounded_share_of_the_time(workspace: Workspace) -> None:
    folder = workspace.run_folder("run")
    folder.write_settings(workspace.job().settings)
    writer = ReportWriter(workspace.job().spec, folder, None)
    assert writer._write() >= PAUSE
    assert writer._write(taken=2.0) >= 2.0 / SHARE


# --- what a folder holds -------------------------------------------------------------------------


def test_a_run_without_a_description_is_shown_as_it_is(tmp_path: Path) -> None:
    records = [step(1, loss=2.0), step(2, loss=None), step(3, loss=1.0, accuracy=0.5)]
    summary = summary_of(written(tmp_path / "old", *records))
    (run,) = data_of(run_page(summary))["runs"]
    assert (run["about"], run["step"], run["best_step"]) == (None, 3, None)
    assert [(each["x"], each["y"]) for each in run["curves"]] == [([1, 3], [2, 1]), ([3], [0.5])]
    assert summary.speed is None


@pytest.mark.parametrize(
    ("best", "step_of_it"),
    [(None, 30), ("lowest loss", 30), ("highest accuracy", 20), ("lowest accuracy", 10),
     ("highest loss", 10), ("lowest error", None)],
)  # fmt: skip
def test_the_best_evaluation_is_the_one_whose_weights_are_kept(
    best: str | None, step_of_it: int | None, tmp_path: Path
) -> None:
    """The first of equal ones; one that is not finite is never the best."""
    values = ((10, 3.0, 0.1), (20, 2.0, 0.7), (30, 1.0, 0.7), (40, 1.0, 0.5), (50, None, None))
    records = [
        {"kind": "held_out", "step": step, "epoch": 0, "loss": loss, "accuracy": accuracy}
        for step, loss, accuracy in values
    ]
    settings = {"epochs": 3} if best is None else {"best": best}
    summary = summary_of(written(tmp_path / "run", *records, settings=settings))
    assert summary.best_step == step_of_it
    found = {each.name: each.best for each in summary.measures}
    at = {step: (loss, accuracy) for step, loss, accuracy in values}
    expected = (None, None) if step_of_it is None else at[step_of_it]
    assert (found["loss"], found["accuracy"]) == expected


def test_a_best_that_is_none_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", step(1, loss=3.0), settings={"best": "loss"})
    with pytest.raises(ProblemError) as caught:
        summary_of(folder)
    problem = caught.value.problem
    assert isinstance(problem, DamagedRun)
    assert problem.reason.startswith("`best` must be lowest or highest")


def test_the_speed_is_the_median_of_those_that_are_known(tmp_path: Path) -> None:
    speeds = (900.0, 1.0, None, 7.0, 2.0)
    records = [
        step(number, loss=1.0, steps_per_second=each) for number, each in enumerate(speeds, 1)
    ]
    assert summary_of(written(tmp_path / "run", *records)).speed == 2.0
    assert summary_of(written(tmp_path / "one", *records[:1])).speed is None


def test_records_are_read_as_they_are_added(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(step(1, loss=3.0)) + '\n{"kind": "st')
    records = RunRecords(path)
    records.read()
    with path.open("a") as file:
        file.write('ep", "step": 2, "epoch": 0, "loss": 2.5, "note": "text", "is": true}\n')
    records.read()
    (curve,) = records.curves
    assert (list(curve.steps), list(curve.values), records.last_step) == ([1, 2], [3, 2.5], 2)
    other = tmp_path / "other"
    other.write_text(json.dumps(step(1, loss=3.0)) + "\n")
    other.replace(path)
    records.read()
    assert (len(records.curves[0].steps), records.last_step) == (1, 1)
    assert records.curve("epoch", "loss") is None
    with path.open("a") as file:
        file.write("".join(json.dumps(step(number, loss=1.0)) + "\n" for number in (5, 4)))
    records.read()
    assert records.last_step == 5
    path.write_text(json.dumps(step(2, loss=4.0)) + "\n")  # shorter, and yet the same file
    records.read()
    assert (records.curves[0].values.tolist(), records.last_step) == ([4.0], 2)
    other.write_text(json.dumps(step(1, loss=3.0)) + "\nno json\n")
    other.replace(path)
    with pytest.raises(ProblemError, match=r"E0621.*line 2"):
        records.read()


ENORMOUS = 10**400


@pytest.mark.parametrize(
    "line",
    [
        "no json", "[]", '{"kind": "step"}', '{"step": 3}', '{"kind": 3, "step": 3}',
        '{"kind": "step", "step": 3.5}', "[" * 9999, '{"kind": "step", "step": -5, "loss": 3}',
        f'{{"kind": "step", "step": 3, "loss": {ENORMOUS}}}',
        f'{{"kind": "step", "step": {ENORMOUS}, "loss": 3}}',
    ],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: str) -> None:
    folder = written(tmp_path / "run", step(1, loss=3.0))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(ProblemError, match=r"E0621.*line 2"):
        summary_of(folder)


@pytest.mark.parametrize("name", ["settings.json", "run.json"])
@pytest.mark.parametrize("text", ["", "{", "[1]", '{"train": 3}'])
def test_a_damaged_description_is_refused(tmp_path: Path, name: str, text: str) -> None:
    folder = written(tmp_path / "run", step(1, loss=3.0))
    (folder / name).write_text(text)
    if (name, text) == ("settings.json", '{"train": 3}'):
        assert summary_of(folder).settings == {"train": "3"}
        return
    with pytest.raises(ProblemError, match="E0621"):
        summary_of(folder)


def test_a_description_of_no_time_is_refused(workspace: Workspace) -> None:
    path = workspace.start("run", steps=1).description
    for seconds in ("NaN", "Infinity", "-1", "1e300"):
        found = json.loads(path.read_text()) | {"seconds": float(seconds)}
        path.write_text(json.dumps(found))
        with pytest.raises(ProblemError, match="E0621"):
            summary_of(path.parent)


@pytest.mark.parametrize("missing", ["settings.json", "metrics.jsonl"])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, missing: str) -> None:
    folder = written(tmp_path / "run", step(1, loss=3.0))
    (folder / missing).unlink()
    with pytest.raises(ProblemError, match=f"E0620.*{missing}"):
        summary_of(folder)


def test_a_run_whose_process_is_gone_is_lost(workspace: Workspace) -> None:
    folder = workspace.start("run")
    text = folder.description.read_text().replace('"finished"', '"running"')
    folder.description.write_text(text)
    with locked(folder.path):
        found = summary_of(folder.path).description
        assert found is not None
        assert found.status is Status.RUNNING
    found = summary_of(folder.path).description
    assert found is not None
    assert found.status is Status.LOST


# --- the page ------------------------------------------------------------------------------------

NASTY = "</script><script>alert(1)</script>&\"'\u2028<!--"


def test_no_text_of_a_run_becomes_markup(tmp_path: Path) -> None:
    settings = {NASTY: NASTY, "optimizer": {NASTY: [NASTY]}}
    records = [step(1, **{NASTY: 1.0}), {"kind": NASTY, "step": 2, "epoch": 0, "loss": 1.0}]
    folder = written(tmp_path / "a<b>&c", *records, settings=settings)
    for page in (run_page(summary_of(folder)), comparison_page([summary_of(folder)] * 2)):
        assert "alert(1)</script>" not in page
        assert page.count("<script") == page.count("</script>") == 2
        assert "<title>a&lt;b&gt;&amp;c" in page
        run = data_of(page)["runs"][0]
        assert run["settings"][0] == [NASTY, NASTY]
        assert {each["kind"] for each in run["curves"]} == {"step", NASTY}


def test_the_page_reads_nothing_but_itself(tmp_path: Path) -> None:
    page = run_page(summary_of(written(tmp_path / "run", step(1, loss=3.0))))
    assert set(re.findall(r"https?://[^\s\"']+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=", page.replace("img-src", ""))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_thousands_of_points_become_means_and_ranges() -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=100_003)
    curve = Curve("step", "loss")
    for number, value in enumerate(values, 1):
        curve.steps.append(number)
        curve.values.append(value)
    found = thinned(curve, MOST)
    assert len(found["x"]) == len(found["y"]) == len(found["low"]) == len(found["high"]) == MOST
    assert min(found["low"]) == pytest.approx(values.min(), rel=1e-5)
    assert max(found["high"]) == pytest.approx(values.max(), rel=1e-5)
    assert np.mean(found["y"]) == pytest.approx(values.mean(), abs=1e-4)
    assert found["x"] == sorted(found["x"])
    few = thinned(curve, 200_000)
    assert (len(few["y"]), few["low"]) == (len(values), [])


def test_a_point_has_six_digits() -> None:
    curve = Curve("step", "loss", array("d", [1, 2, 3]), array("d", [1 / 3, 2e-9 / 3, 1e9 / 3]))
    assert thinned(curve, 3)["y"] == [0.333333, 6.66667e-10, 3.33333e8]


def test_a_page_of_many_long_curves_stays_below_a_megabyte(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    names = [f"metric_{number}" for number in range(20)]
    records = [
        step(number, **dict(zip(names, generator.normal(size=20), strict=True)))
        for number in range(1, 3_000)
    ]
    page = run_page(summary_of(written(tmp_path / "run", *records)))
    assert len(page.encode()) < 1_000_000


def test_several_runs_share_the_points_of_a_page(tmp_path: Path) -> None:
    records = [step(number, loss=1 / number) for number in range(1, 1_001)]
    for count in (1, 25):
        summary = summary_of(written(tmp_path / "run", *records))
        runs = data_of(comparison_page([summary] * count))["runs"]
        share = max(FEWEST, min(MOST, POINTS // count))
        assert {len(each["y"]) for run in runs for each in run["curves"]} == {min(1_000, share)}


def test_a_page_of_many_curves_draws_the_fewest_points_of_each(tmp_path: Path) -> None:
    assert run_data(summary_of(written(tmp_path / "none")))["curves"] == []
    names = [f"m{number}" for number in range(POINTS // FEWEST + 1)]
    records = [step(number, **dict.fromkeys(names, 1.0)) for number in range(1, FEWEST + 2)]
    found = run_data(summary_of(written(tmp_path / "many", *records)))["curves"]
    assert {len(each["y"]) for each in cast("list[CurveData]", found)} == {FEWEST}


@pytest.mark.parametrize("more", [0, 1])
def test_parameters_that_are_not_listed_are_counted(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    folder = workspace.start("run", "epochs=1").path
    about = summary_of(folder).description
    assert about is not None
    count = len(about.parameters)
    monkeypatch.setattr(page_data, "LISTED", count - more)
    found = cast("dict[str, Any]", run_data(summary_of(folder))["parameters"])
    assert (len(found["rows"]), found["left_out"]) == (count - more, more)
    monkeypatch.setattr(page_data, "LISTED", count + 1)
    assert cast("dict[str, Any]", run_data(summary_of(folder))["parameters"])["left_out"] == 0


def test_a_backend_that_does_not_say_what_a_step_takes_is_silent(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert memory_of(workspace.job().spec, CPU)
    monkeypatch.setattr(ReferenceBackend, "memory", lambda *_: None)
    assert memory_of(workspace.job().spec, CPU) is None


def test_labels_tell_runs_apart(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "fit-1", tmp_path / "b" / "fit-1"]
    for folder in folders:
        folder.parent.mkdir()
        written(folder, step(1, loss=3.0))
    both = [summary_of(each) for each in folders]
    assert labels(both) == ("a/fit-1", "b/fit-1")
    assert labels(both[:1]) == ("fit-1",)
    assert labels([both[0]] * 2) == ("fit-1", "fit-1")


@pytest.mark.parametrize("count", [9, 10, 11, 20, 25])
def test_a_curve_is_thinned_where_it_has_more_points_than_are_drawn(count: int) -> None:
    curve = Curve("step", "loss")
    for number in range(count):
        curve.steps.append(3 * number + 1)
        curve.values.append(float(number * number))
    found = thinned(curve, 10)
    if count <= 10:
        assert (found["x"], found["low"], found["high"]) == (curve.steps.tolist(), [], [])
        return
    edges = [number * count // 10 for number in range(11)]
    parts = [range(*ends) for ends in pairwise(edges)]
    assert found["x"] == [round(np.mean([3 * n + 1 for n in part])) for part in parts]
    assert found["y"] == pytest.approx([np.mean([n * n for n in part]) for part in parts], rel=1e-5)
    assert found["low"] == [part[0] ** 2 for part in parts]
    assert found["high"] == [part[-1] ** 2 for part in parts]


@pytest.mark.parametrize("content", [b"", b"[]", b"1", b"{", b"\xff", b'{"a":' * 100_000])
def test_settings_that_are_damaged_are_told(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(content)
    with pytest.raises(ProblemError, match=r"settings\.json"):
        read_settings(tmp_path / "settings.json")


def test_settings_that_are_enormous_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "settings.json").write_bytes(b" " * ((1 << 20) + 1))
    monkeypatch.setattr(run_summary, "LARGEST", 1)
    with pytest.raises(ProblemError, match=r"settings\.json"):
        read_settings(tmp_path / "settings.json")
    with pytest.raises(ProblemError, match=r"none\.json"):
        read_settings(tmp_path / "none.json")
