"""Conditions of resuming: other data, another program, other settings are refused."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.settings.run_settings import SETTINGS
from meganeura_dsl.transforms.optimizers.schedules import Linear
from meganeura_runtime.io.checkpoint import read_checkpoint, write_checkpoint
from meganeura_runtime.io.data.data_problems import ForeignData
from meganeura_runtime.io.tensors.safetensors_file import write_tensors
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.records.run_folder import RunFolder
from meganeura_runtime.train.spec.resume import resume_job
from meganeura_runtime.train.spec.run_request import RunRequest
from meganeura_runtime.train.spec.train_job import TrainJob
from meganeura_runtime.train.training_problems import DataChanged
from tests.runtime.runs import Workspace, contents
from tests.runtime.train.resumed import assert_same_run, refused


def points(workspace: Workspace) -> dict[str, Array]:
    return {**load_file(workspace.folder / "points.safetensors")}


def rewritten(workspace: Workspace, **changes: Array | None) -> None:
    """Replace tensors of the data; two underscores stand for a dot."""
    named = {name.replace("__", "."): each for name, each in changes.items()}
    kept = {**points(workspace), **named}
    save_file(
        {name: each for name, each in kept.items() if each is not None},
        workspace.folder / "points.safetensors",
    )


def data_changed(workspace: Workspace) -> DataChanged:
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    assert isinstance(caught.value.problem, DataChanged)
    caught.value.problem.report()
    return caught.value.problem


def test_one_other_number_is_other_data(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    before = {path: path.read_bytes() for path in folder.path.iterdir()}
    x = points(workspace)["train.x"]
    x[-1, -1] += 1
    rewritten(workspace, train__x=x)
    [(name, then, now)] = data_changed(workspace).changed
    assert name == "train.x"
    assert then[:-12] == now[:-12] == "f32[22, 6], 22 examples, "
    assert then != now
    assert {path: path.read_bytes() for path in folder.path.iterdir()} == before


def test_other_weights_of_examples_are_other_data(workspace: Workspace) -> None:
    """No input has them, and they decide which examples a step is fed."""
    rewritten(workspace, often=np.arange(22, dtype=np.float32))
    folder = workspace.start("run", "sampling_weights=often", steps=7)
    before = folder.checkpoint.read_bytes()
    rewritten(workspace, often=np.arange(22, 0, -1, dtype=np.float32))
    [(name, then, now)] = data_changed(workspace).changed
    assert (name, then[:22], now[:22]) == ("train weights", *["f64[22], 22 examples, "] * 2)
    assert folder.checkpoint.read_bytes() == before
    tensors, progress = read_checkpoint(folder.checkpoint)
    known = tuple(each for each in progress.data if each.tensor != name)
    persistent = {name: each.bits for name, each in tensors.items()}
    write_checkpoint(folder.checkpoint, persistent, progress.model_copy(update={"data": known}))
    workspace.resume("run")  # earlier versions did not say them


def test_more_examples_are_other_data(workspace: Workspace) -> None:
    """An epoch would have more steps than the checkpoint counted."""
    workspace.start("run", "epochs=1")
    more = points(workspace)
    x, y = (np.concatenate([more[f"train.{name}"]] * 3) for name in ("x", "y"))
    rewritten(workspace, train__x=x, train__y=y)
    told = data_changed(workspace).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y"]
    assert "66 examples" in told[0][2]


def test_held_out_examples_are_data_too(workspace: Workspace) -> None:
    workspace.start("run", steps=7)
    rewritten(workspace, test__x=None, test__y=None)
    assert [(name, now) for name, _, now in data_changed(workspace).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_examples_held_out_that_were_not_there_are_other_data(workspace: Workspace) -> None:
    held_out = {f"test__{name}": points(workspace)[f"test.{name}"] for name in ("x", "y")}
    rewritten(workspace, test__x=None, test__y=None)
    workspace.start("run", steps=7)
    rewritten(workspace, **held_out)
    assert [(name, then) for name, then, _ in data_changed(workspace).changed] == [
        ("test.x", ""), ("test.y", ""),
    ]  # fmt: skip


def test_a_type_is_part_of_the_data(workspace: Workspace) -> None:
    workspace.start("run", steps=7)
    rewritten(workspace, train__y=points(workspace)["train.y"].astype(np.int64))
    [(_, then, now)] = data_changed(workspace).changed
    assert (then[:3], now[:3]) == ("i32", "i64")


def test_data_may_be_elsewhere_and_in_another_format(workspace: Workspace) -> None:
    whole = workspace.start("whole", f"data={workspace.folder / 'points.safetensors'}")
    workspace.start("run", steps=7)
    moved = workspace.folder / "moved.npz"
    arrays = {name: np.asfortranarray(each) for name, each in points(workspace).items()}
    np.savez(moved, allow_pickle=False, **arrays)
    (workspace.folder / "points.safetensors").unlink()
    with pytest.raises(ProblemError, match="E0520"):
        workspace.resume("run")
    folder = workspace.resume("run", f"data={moved}")
    for name in ("weights", "best", "checkpoint"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


def test_a_tensor_longer_than_a_chunk_is_seen_whole(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = workspace.job().fingerprints
    monkeypatch.setattr("meganeura_runtime.io.tensors.stored_tensor.CHUNK_BYTES", 50)
    assert workspace.job().fingerprints == told


def test_a_checkpoint_that_contradicts_itself_is_refused(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    changes: list[dict[str, object]] = [{"data": ()}, {"position": 4}, {"epoch": 3}, {"step": 2}]
    for change in changes:
        wrong = progress.model_copy(update=change)
        write_tensors(folder.checkpoint, arrays, {"meganeura": wrong.model_dump_json()})
        refused(workspace)


def test_what_a_step_depends_on_was_decided_when_the_run_began(workspace: Workspace) -> None:
    workspace.start("run", steps=3)
    problem = refused(workspace, "batch=2")
    assert "`batch`" in problem.reason
    assert "epochs" in problem.changeable


def test_the_settings_of_the_command_line_stay(workspace: Workspace) -> None:
    whole = workspace.start("whole", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3")
    workspace.start("run", "optimizer=sgd(lr=0.1, momentum=0.5)", "seed=3", steps=6)
    assert_same_run(workspace.resume("run"), whole)


def test_data_of_the_command_line_is_found_again(workspace: Workspace) -> None:
    data = f"data={workspace.folder / 'points.safetensors'}"
    whole = workspace.start("whole", data)
    workspace.start("run", data, steps=6)
    assert_same_run(workspace.resume("run"), whole)


def elsewhere(workspace: Workspace) -> Path:
    """The data, outside of the program's folder and of all runs."""
    path = workspace.folder.parent / f"{workspace.folder.name}.safetensors"
    path.write_bytes((workspace.folder / "points.safetensors").read_bytes())
    return path


def test_a_checkpoint_names_no_data_elsewhere_unless_the_command_line_does(
    workspace: Workspace,
) -> None:
    data = elsewhere(workspace)
    whole = workspace.start("whole", f"data={data}")
    workspace.start("run", f"data={data}", steps=6)
    with pytest.raises(ProblemError) as caught:
        workspace.resume("run")
    assert isinstance(caught.value.problem, ForeignData)
    assert str(data) in str(caught.value.problem.report())
    assert_same_run(workspace.resume("run", f"data={data}"), whole)


def test_data_may_lie_in_the_folder_of_its_run(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("kept")
    data = elsewhere(workspace).rename(place / "points.safetensors")
    workspace.start(str(place), f"data={data}", "epochs=1", steps=2)
    assert read_checkpoint(workspace.resume(str(place)).checkpoint)[1].step == 5


def test_data_of_another_length_is_another_run(workspace: Workspace) -> None:
    workspace.start("run", steps=6)
    x, y = np.zeros((9, 6), np.float32), np.zeros(9, np.int32)
    save_file({"train.x": x, "train.y": y}, workspace.folder / "points.safetensors")
    told = data_changed(workspace).changed
    assert [name for name, _, _ in told] == ["train.x", "train.y", "test.x", "test.y"]
    assert ["9 examples" in now for _, _, now in told] == [True, True, False, False]


def test_data_that_ships_with_the_models_is_found_again(workspace: Workspace) -> None:
    """By its name, which is that of no file."""
    text = (workspace.folder / "fit.mgn").read_text()
    inputs = ("[batch, 6], y: i32[batch]", "[batch, 1, 8, 8], y: i32[batch]")
    text = text.replace(*inputs).replace(
        "h = x |>", "h = rearrange(x, [n, c, a, b] -> [n, c * a * b]) |>"
    )
    workspace.write(text.replace("linear(3)", "linear(10)").replace("= 4\n", "= 400\n", 1))
    named = 'data=file("digits", x="image", y="label")'
    whole = workspace.start("whole", named, "epochs=1")
    workspace.start("run", named, "epochs=1", steps=2)
    assert_same_run(workspace.resume("run"), whole)


def test_columns_of_a_table_may_be_named_anew(workspace: Workspace) -> None:
    """With the data: those that the run began with are of another file."""
    values = points(workspace)
    columns = [f"x{number}" for number in range(6)]
    for name, order in (("one", columns), ("two", columns[::-1])):
        lines = [",".join(["y", *order])]
        rows = zip(values["train.x"].tolist(), values["train.y"].tolist(), strict=True)
        for x, y in rows:
            lines.append(",".join(map(repr, [y, *(x if name == "one" else x[::-1])])))
        (workspace.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")

    def table(name: str, order: list[str]) -> str:
        listed = ", ".join(f'"{each}"' for each in order)
        return f'data=table("{workspace.folder / name}.csv", x=[{listed}], y="y")'

    one = table("one", columns)
    whole = workspace.start("whole", one)
    workspace.start("run", one, steps=6)
    workspace.start("other", one, steps=6)
    (workspace.folder / "two.csv").write_text(
        (workspace.folder / "two.csv").read_text().replace("x", "z")
    )
    with pytest.raises(ProblemError, match="E0613"):
        workspace.resume("other", table("two", columns))
    moved = [f"z{number}" for number in range(6)]
    assert contents(workspace.resume("run", table("two", moved)).weights) == contents(whole.weights)


def test_names_of_tensors_are_kept(workspace: Workspace) -> None:
    tensors = load_file(workspace.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, workspace.folder / "renamed.safetensors")
    data = f'data=file("{workspace.folder / "renamed.safetensors"}", x="points")'
    whole = workspace.start("whole", data)
    assert whole.settings.read_text().count('"x": "points"') == 1
    workspace.start("run", data, steps=6)
    workspace.start("moved", data, steps=6)
    assert_same_run(workspace.resume("run"), whole)
    moved = (workspace.folder / "renamed.safetensors").rename(
        workspace.folder / "elsewhere.safetensors"
    )
    folder = workspace.resume("moved", f"data={moved}")
    assert contents(folder.weights) == contents(whole.weights)


def test_data_that_was_moved_may_have_other_names(workspace: Workspace, whole: RunFolder) -> None:
    workspace.start("run", steps=6)
    tensors = load_file(workspace.folder / "points.safetensors")
    renamed = {name.replace("x", "points"): each for name, each in tensors.items()}
    save_file(renamed, workspace.folder / "renamed.safetensors")
    data = f'data=file("{workspace.folder / "renamed.safetensors"}", x="points")'
    folder = workspace.resume("run", data)
    for name in ("weights", "best"):
        assert contents(getattr(folder, name)) == contents(getattr(whole, name)), name


def test_another_program_is_another_run(workspace: Workspace) -> None:
    workspace.start("run", steps=3)
    written = (workspace.folder / "fit.mgn").read_text()
    for old, new in (("gelu", "relu"), ("dropout(0.25)", "dropout(0.3)"), ("fc2", "fc3")):
        workspace.write(written.replace(old, new))
        assert "has changed" in refused(workspace).reason, new


def test_a_folder_without_a_checkpoint_is_told(workspace: Workspace) -> None:
    workspace.run_folder("run")
    assert "no checkpoint" in refused(workspace).reason


@pytest.mark.parametrize("change", ["missing", "more", "shape", "type"])
def test_a_checkpoint_of_other_tensors_is_refused(workspace: Workspace, change: str) -> None:
    folder = workspace.start("run", steps=3)
    tensors, progress = read_checkpoint(folder.checkpoint)
    arrays = {name: each.bits.copy() for name, each in tensors.items()}
    if change == "missing":
        del arrays["fc1.bias"]
    elif change == "more":
        arrays["fc9.bias"] = arrays["fc1.bias"]
    elif change == "type":
        arrays["fc1.bias"] = arrays["fc1.bias"].view(np.int32)
    else:
        arrays["fc1.bias"] = arrays["fc1.bias"][:3]
    write_tensors(folder.checkpoint, arrays, {"meganeura": progress.model_dump_json()})
    refused(workspace)


ANEW = {
    "epochs": 5, "steps": 9, "best": "lowest loss", "stop_after": 3, "log_every": 1,
    "eval_every": 2, "eval_every_steps": 7, "sample_prompt": None, "sample_tokens": 3,
    "save_every": 2, "device": "cpu", "devices": 1,
    "sharding": "fsdp", "precision": "f32", "workers": 1, "log": [], "validation": None,
}  # fmt: skip
"""Settings that a resumed run may change, as they change no formula of a step."""
DECIDED = (
    "optimizer=sgd(lr=0.1)", "batch=2", "seed=1", "shuffle=false", "ema=0.9",
    "clip_norm=1.0", "accumulate=2", "not_finite=skip", "drop_last=false", "steps_per_epoch=3",
    "sampling_weights=y", "balance=y", "clip_value=0.5", "gradient_norm=true", "memory=8GiB",
    "optimize=false", "disabled_rules=[]",
)  # fmt: skip


def test_only_what_changes_no_formula_may_be_given_anew(workspace: Workspace) -> None:
    folder = workspace.start("run", steps=7)
    program = pipeline.load(str(workspace.folder / "fit.mgn"))

    def resumed(override: str) -> TrainJob:
        return resume_job(RunRequest(program, "fit", workspace.folder, (override,)), folder)[0]

    known = (
        {*ANEW, "data", "schedule"},
        {override.partition("=")[0] for override in DECIDED} - {"batch"},
    )
    assert set[str]().union(*known) == {*SETTINGS}, "a new setting is one or the other"
    for name, value in ANEW.items():
        settings = resumed(f"{name}={'none' if value is None else value}").settings
        assert getattr(settings, name) == value
    settings = resumed(f"data={workspace.folder / 'points.safetensors'}").settings
    assert Path(settings.data) == workspace.folder / "points.safetensors"
    assert resumed("schedule=linear(final=0.5)").settings.schedule == Linear(final=0.5)
    for override in DECIDED:
        with pytest.raises(ProblemError, match=f"`{override.partition('=')[0]}` was decided"):
            resumed(override)
