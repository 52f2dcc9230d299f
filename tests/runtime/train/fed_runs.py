"""Inputs of runs: from which files, in which order, and those that are refused.

`fed_runs.txt` has of each case of data, in files and from Python, the lengths of the run, the sums
of what each step of two epochs is fed and of what is held out, and the fingerprints; or the
message.

`python -m tests.runtime.train.fed_runs` writes the file anew; read the difference before you keep
it.
"""

import csv
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from zlib import crc32

import numpy as np
from safetensors.numpy import save_file

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.diagnostics.terminal import render
from meganeura_runtime.io.tensors.stored_tensor import Array
from meganeura_runtime.train.data.run_data import PythonData
from meganeura_runtime.train.loop.evaluation import held_batches
from meganeura_runtime.train.loop.feeder import Feeder
from meganeura_runtime.train.spec.train_job import TrainJob, prepare

FILE = Path(__file__).with_suffix(".txt")
POINTS = """\
train fit(x: [batch, 2], y: i32[batch]):
  minimize cross_entropy(x |> fc: linear(3), y)
  run:
    data    = "a.safetensors"
    batch   = 4
    workers = 0
"""
LINKS = """\
train fit(x: [nodes * 2, 3], to: i32[nodes], scale: whole [3]):
  near = gather(x * expand(scale, [c] -> [nodes * 2, c]), to)
  minimize mean(near * near)
  run:
    data  = "a.npz"
    nodes = 3
"""
Files = Mapping[str, Mapping[str, Array]]


def points(count: int, first: int = 0, **more: Array) -> dict[str, Array]:
    """Examples, of which no two are equal."""
    numbers = np.arange(first, first + count)
    x = np.stack([numbers, -numbers], 1).astype(np.float32)
    return {"x": x, "y": (numbers % 3).astype(np.int32), **more}


def below(**splits: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of several splits in one file."""
    return {f"{split}.{name}": each for split, of in splits.items() for name, each in of.items()}


SPLIT = below(train=points(11), test=points(5, 20))
WEIGHTS = np.arange(11, dtype=np.float32)
LINK = {
    "x": np.arange(48, dtype=np.float32).reshape(16, 3),
    "to": np.array([5, 0, 3, 2, 1, 4, 0, 0], np.int64),
    "scale": np.ones(3, np.float32),
}
ONE: dict[str, tuple[Files, tuple[str, ...]]] = {
    "examples": ({"a": points(11)}, ()),
    "a last batch": ({"a": SPLIT}, ("drop_last=false", "epochs=2")),
    "a last batch, added up": ({"a": SPLIT}, ("drop_last=false", "accumulate=2", "epochs=3")),
    "in order": ({"a": SPLIT}, ("shuffle=false", "batch=3", "seed=5")),
    "as many as a batch": ({"a": points(4)}, ()),
    "fewer than a batch": ({"a": points(3)}, ()),
    "fewer than a batch, all of them": ({"a": points(3)}, ("drop_last=false",)),
    "none": ({"a": points(0)}, ("drop_last=false",)),
    "short epochs": ({"a": SPLIT}, ("steps_per_epoch=5", "epochs=2")),
    "steps": ({"a": SPLIT}, ("steps=3", "steps_per_epoch=2", "batch=1")),
    "a share": ({"a": points(11)}, ("validation=0.3", "seed=2")),
    "a small share": ({"a": points(11)}, ("validation=0.01",)),
    "nearly all": ({"a": points(5)}, ("validation=0.9",)),
    "a file": ({"a": points(9), "b": points(3, 30)}, ("validation=b.safetensors",)),
    "a file with splits": (
        {"a": points(9), "b": below(train=points(4, 60), test=points(3, 30))},
        ("validation=b.safetensors",),
    ),
    "a file and a split": ({"a": SPLIT, "b": points(3, 30)}, ("validation=b.safetensors",)),
    "shards": ({"a3": points(5, 6), "a1": points(3), "a2": points(3, 3)}, ("data=a*",)),
    "shards of other types": (
        {"a1": points(3), "a2": {**points(3), "y": np.zeros(3, np.int64)}},
        ("data=a*",),
    ),
    "shards of other names": ({"a1": points(3), "a2": points(3, z=WEIGHTS)}, ("data=a*",)),
    "no shards": ({"a": points(3)}, ("data=b*",)),
    "weights": ({"a": points(11, w=WEIGHTS)}, ("sampling_weights=w", "epochs=2")),
    "weights, a share": ({"a": points(11, w=WEIGHTS)}, ("sampling_weights=w", "validation=0.3")),
    "balance": ({"a": points(11)}, ("balance=y", "drop_last=false")),
    "both": ({"a": points(11, w=WEIGHTS)}, ("balance=y", "sampling_weights=w")),
    "weights of others": ({"a": points(11, w=WEIGHTS[:4])}, ("sampling_weights=w",)),
    "no weights": ({"a": points(11)}, ("sampling_weights=w",)),
    "other names": (
        {"a": {"p": points(6)["x"], "y": points(6)["y"]}},
        ('data=file("a.safetensors", x="p")',),
    ),
    "names of nothing": ({"a": points(6)}, ('data=file("a.safetensors", z="x")',)),
    "a name of nothing": (
        {"a": {"p": points(6)["x"], "y": points(6)["y"]}},
        ('data=file("a.safetensors", x="p", z="y")',),
    ),
    "missing": ({"a": {"x": points(6)["x"]}}, ()),
    "counts": ({"a": {**points(6), "y": points(7)["y"]}}, ()),
    "turned": ({"a": {**points(6), "x": points(6)["x"].T.copy()}}, ()),
    "more axes": ({"a": {**points(6), "y": points(6)["y"][:, None]}}, ()),
    "wide": ({"a": {**points(6), "x": points(6)["x"][:, [0, 1, 0]]}}, ()),
    "floats for integers": ({"a": {**points(6), "y": points(6)["x"][:, 0].copy()}}, ()),
    "integers for floats": (
        {"a": {**points(6), "x": np.arange(12, dtype=np.uint8).reshape(6, 2)}},
        (),
    ),
    "halves": ({"a": {**points(6), "x": points(6)["x"].astype(np.float16)}}, ()),
    "doubles": ({"a": {**points(6), "x": points(6)["x"].astype(np.float64)}}, ()),
    "not finite": ({"a": {**points(6), "x": np.full((6, 2), np.inf, np.float32)}}, ()),
    "large": ({"a": {**points(6), "y": np.full(6, 2**31, np.int64)}}, ()),
    "a table": ({"a.csv": points(9)}, ('data=table("a.csv", x=["x0", "x1"], y="y")',)),
    "tabs": ({"a.TSV": points(9)}, ('data=table("a.TSV", x=["x1", "x0"], y="y")',)),
    "no column": ({"a.csv": points(9)}, ('data=table("a.csv", x=["x0", "z"], y="y")',)),
    "one column": ({"a.csv": points(9)}, ('data=table("a.csv", x="x0", y="y")',)),
    "columns first": (
        {"a.npz": {"x": np.asfortranarray(points(6)["x"]), "y": points(6)["y"]}},
        ("data=a.npz",),
    ),
    "a folder": ({"a/x.npy": points(6), "a/y.npy": points(6)}, ("data=a",)),
    "columns first, a folder": (
        {"a/x.npy": {"x": np.asfortranarray(points(6)["x"])}, "a/y.npy": points(6)},
        ("data=a",),
    ),
    "no axes": ({"a": {**points(6), "y": np.array(1, np.int32)}}, ()),
    "no such metric": ({"a": SPLIT}, ("best=lowest y",)),
    "a schedule that follows": ({"a": SPLIT}, ("schedule=plateau", "epochs=2")),
    "a schedule that follows nothing": ({"a": points(6)}, ("schedule=plateau",)),
    "until it is no better": ({"a": points(6)}, ("stop_after=1",)),
    "no file": ({}, ()),
}  # fmt: skip
TWO: dict[str, tuple[Files, tuple[str, ...]]] = {
    "rows": ({"a.npz": LINK}, ()),
    "rows, a share": ({"a.npz": LINK}, ("validation=0.25", "drop_last=false")),
    "half a row": ({"a.npz": {**LINK, "x": LINK["x"][:15]}}, ()),
    "rows of others": ({"a.npz": {**LINK, "x": LINK["x"][:14]}}, ()),
    "beyond": ({"a.npz": {**LINK, "to": LINK["to"] + 1}}, ()),
    "below": ({"a.npz": {**LINK, "to": LINK["to"] - 1}}, ()),
    "more that is whole": ({"a.npz": {**LINK, "scale": np.ones(4, np.float32)}}, ()),
}
FROM_FILES = {POINTS: ONE, LINKS: TWO}


def batches(*counts: int, **more: Array) -> list[dict[str, Array]]:
    """Batches of so many examples, which go on from each other."""
    return [points(count, sum(counts[:place]), **more) for place, count in enumerate(counts)]


ROWS = points(9)
LINKED = {name: LINK[name] for name in ("scale", "to", "x")}
PARTS = [{**LINK, "x": LINK["x"][:6], "to": LINK["to"][at : at + 3]} for at in (0, 3)]
FROM_PYTHON: dict[str, tuple[str, object, object, tuple[str, ...]]] = {
    "arrays": (POINTS, points(9, z=WEIGHTS), points(2, 20), ()),
    "arrays of other names": (POINTS, {"y": WEIGHTS}, None, ()),
    "examples": (POINTS, list(zip(ROWS["x"], ROWS["y"], strict=True)), None, ()),
    "examples by name": (
        POINTS,
        [{"y": y, "x": x, "z": 0} for x, y in zip(ROWS["x"], ROWS["y"], strict=True)],
        None,
        ("drop_last=false",),
    ),
    "examples of three parts": (POINTS, [(x, 0, 0) for x in ROWS["x"]], None, ()),
    "examples of one part": (POINTS, [(x,) for x in ROWS["x"]], None, ()),
    "no examples": (POINTS, [], None, ()),
    "a number": (POINTS, 3, None, ()),
    "a text": (POINTS, "digits", None, ()),
    "an array": (POINTS, ROWS["x"], None, ()),
    "examples that are nothing": (POINTS, [3, 4], None, ()),
    "batches": (POINTS, batches(4, 4), points(3, 20), ("steps_per_epoch=2", "epochs=2")),
    "batches without a length": (POINTS, iter(batches(4, 4, 4)), None, ()),
    "batches that are tuples": (POINTS, [(b["x"], b["y"]) for b in batches(4, 4, 4)], None, ()),
    "a batch that is small": (POINTS, batches(4, 3, 4), None, ("steps_per_epoch=2",)),
    "the last batch": (POINTS, batches(4, 4, 1), None, ("steps_per_epoch=3", "drop_last=false")),
    "a batch that is large": (POINTS, batches(4, 5), None, ("steps_per_epoch=2",)),
    "too few": (POINTS, batches(4, 4), None, ("steps_per_epoch=3",)),
    "a share": (POINTS, batches(4, 4), None, ("steps_per_epoch=2", "validation=0.5")),
    "weights": (POINTS, batches(4, 4, w=WEIGHTS), None, ("steps_per_epoch=2", "balance=y")),
    "drawn by weights": (
        POINTS,
        batches(4, 4, w=WEIGHTS),
        None,
        ("steps_per_epoch=2", "sampling_weights=w"),
    ),
    "what is held out as batches": (POINTS, points(8), batches(4, 3), ()),
    "what is held out as batches, of which smaller ones would be even": (
        POINTS,
        points(8),
        batches(4, 2),
        (),
    ),
    "indices": (LINKS, PARTS, None, ("steps_per_epoch=2",)),
    "indices beyond": (
        LINKS,
        [{**each, "to": each["to"] + 1} for each in PARTS],
        None,
        ("steps_per_epoch=2",),
    ),
    "whole arrays": (LINKS, LINKED, None, ()),
}


def described() -> Iterator[str]:
    """All lines of the file."""
    for text, cases in FROM_FILES.items():
        for name, (files, overrides) in cases.items():
            yield f"# {name}: {' '.join(overrides)}".rstrip(": ")
            yield from _of(text, files, PythonData(), overrides)
    for name, (text, train, held_out, overrides) in FROM_PYTHON.items():
        yield f"# from Python, {name}: {' '.join(overrides)}".rstrip(": ")
        yield from _of(text, {}, PythonData(train, held_out), overrides)


def _of(text: str, files: Files, data: PythonData, overrides: Sequence[str]) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        for file, tensors in files.items():
            _write(Path(file), tensors)
        Path("fit.mgn").write_text(text)
        for line in _fed(overrides, data):
            yield line.replace(folder, "").rstrip()


def _write(path: Path, tensors: Mapping[str, Array]) -> None:
    path.parent.mkdir(exist_ok=True)
    match path.suffix.lower():
        case ".npz":
            np.savez(path, allow_pickle=False, **tensors)
        case ".npy":
            np.save(path, tensors[path.stem])
        case ".csv" | ".tsv" as kind:
            with path.open("w", newline="") as file:
                writer = csv.writer(file, delimiter="\t" if kind == ".tsv" else ",")
                writer.writerow(["x0", "x1", "y"])
                writer.writerows([*x, y] for x, y in zip(tensors["x"], tensors["y"], strict=True))
        case _:
            save_file(dict(tensors), path.with_suffix(".safetensors"))


def _fed(overrides: Sequence[str], data: PythonData) -> Iterator[str]:
    try:
        program = pipeline.load("fit.mgn")
        yield from _steps(prepare(program, "fit", Path(), overrides, data=data))
    except ProblemError as error:
        yield render(error.problem.report())
    except ProblemsError as error:
        yield from (render(each.report()) for each in error.problems)


def _steps(job: TrainJob) -> Iterator[str]:
    yield (
        f"{job.steps} steps, {job.epochs} epochs of {job.steps_per_epoch}, {job.steps_per_pass} in"
        f" a pass, {job.left_out} left out, {job.length}"
    )
    feeder = Feeder(job)
    for step in range(2 * job.steps_per_pass + 1):
        ends = job.is_last_of_its_size(step)
        examples, part = job.examples_of(step), job.spec.part_at(step).name
        sums = _sums(feeder.feeds(step))
        again = "" if sums == _sums(feeder.feeds(step)) else ", and something else the second time"
        yield f"{step}: {examples} {part} {ends} {sums}{again}"
    yield f"from step 1 on: {_sums(Feeder(job).feeds(1))}"
    for batch in () if job.dataset.test is None else held_batches(job.spec, job.dataset.test):
        sizes, own = dict(batch.sizes), range(batch.examples)
        yield f"held out: {batch.examples} {sizes} {_sums(batch.take(own))}"
    for one in job.fingerprints:
        yield f"{one.tensor}: {one.examples} {one.type} {one.digest[:8]}"


def _sums(feeds: Mapping[str, Array]) -> str:
    return " ".join(
        f"{name} {each.dtype}{list(each.shape)} {crc32(np.ascontiguousarray(each).tobytes()):08x}"
        for name, each in sorted(feeds.items())
    )


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
