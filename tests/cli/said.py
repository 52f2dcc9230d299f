"""The output of commands about one small program, by their options.

`said.snap` has of some commands the exit code, what they say on each stream and which files they
write, and a checksum of that of all. Times and speeds are left out. The options of a command are
given alone and two together, so that one that is passed over, or lost beside another, is seen.
`said_together.py` has most of the latter.

`python -m tests.cli.said` writes the file anew, and with a folder all that is said into it; read
the difference before you keep it.
"""

import io
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import chain, combinations
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from safetensors.numpy import save_file

from meganeura.cli.app import run
from tests.snapshots import Snapshot, Text

PROGRAM = """\
block Net(hidden, classes, slope=0.5)(x: [n, 6]) -> [n, classes]:
  h = x |> fc1: linear(hidden) |> norm: batch_norm |> relu
  return slope * h |> fc2: linear(classes)

model net = Net(hidden=4, classes=3)
model wide = Net(hidden=8, classes=3)

train fit(x: [batch, 6], y: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    data      = "points.safetensors"
    batch     = 4
    epochs    = 2
    optimizer = sgd(lr=0.1)
    log_every = 1
"""
SMALL = """\
train small(x: [batch, 6]):
  minimize mean(x |> fc: linear(2))
  run:
    batch     = 2
    steps     = 1
    optimizer = sgd(lr=0.1)
"""
LONG = """\
block Long(classes)(x: [n, 64]) -> [n, classes]:
  return x |> fc: linear(classes)

model long = Long(classes=3)
"""
WRONG = "block Net(d)(x: [n, d]) -> [n, d]:\n  h =  x +\n  return y\n"
REFUTED = "block Net(d)(x: [n, d]) -> [n, 2]:\n  unused = x\n  return x\n"
COMMANDS: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {
    ("check",): (
        *(("wrong.mgn",), ("refuted.mgn",), ("none.mgn",), ("--json",), ("--short",)),
        *(("--format", each) for each in ("sarif", "github", "text", "yaml")),
        *(("--limits", each) for each in ("webgpu-default", "nothing")),
        *(("small.mgn", "--limits", "webgpu-default"), ("loose.mgn", "--fix")),
        *(("--unsafe",), ("loose.mgn", "--fix", "--unsafe")),
        *(("--certificate", "p.json"), ("--certificate", "p.txt"), ("--force",)),
        ("refuted.mgn", "--certificate", "p.json"),
    ),
    ("shapes",): (("p.mgn:wide",), ("p.mgn:fit",), ("p.mgn:other",), ("refuted.mgn",)),
    ("abi",): (
        *(("p.mgn:net",), ("p.mgn:wide",), ("--json",), ("p.mgn",)),
        *(("p.mgn:net", "--set", each) for each in ("hidden=5", "nothing=5")),
    ),
    ("fmt", "--check"): (("p.mgn",), ("wrong.mgn",), ("loose.mgn",), ("none.mgn",)),
    ("build", "p.mgn:net"): (
        *(("--mode", each) for each in ("infer", "train", "generate")),
        *(("--size", each) for each in ("n=2", "m=2", "n=0")),
        *(("--emit", each) for each in ("ast", "graph", "optimized", "nothing", "after:fold")),
        *(("--set", each) for each in ("slope=2", "hidden=5", "batch=2", "n=3")),
        *(("--report",), ("--json",), ("--no-opt",), ("--disable-rule", "none")),
        *(("--split",), ("--with-data",), ("--white", "255"), ("--precision", "bf16")),
        *(("--set", "n=0"), ("--set", "n=-1"), ("--set", "n=1.5"), ("--weights", "w.safetensors")),
        *(("--labels", "labels.txt"), ("--tokenizer", "x.json"), ("--no-tuned",)),
        *(("-o", "net.txt"), ("--device", "none"), ("--device", "webgpu")),
        *(("--allow-unexpected", "more*"), ("--force",)),
    ),
    ("build", "p.mgn:fit"): (
        *(("--mode", "infer"), ("--size", "batch=3"), ("--emit", "graph"), ("--json",)),
        *(("--set", "batch=2"), ("--set", "optimizer=adam(lr=0.1)"), ("--no-opt",)),
        *(("--certificate", "x.json"), ("--certificate", "x.txt")),
    ),
    ("explain-opt", "p.mgn:net"): (
        *(("--json",), ("--no-opt",), ("--set", "n=4"), ("--set", "n=0")),
        *(("--set", "hidden=2"), ("--disable-rule", "none"), ("--disable-rule", "relu")),
        *(("--svg", "x.svg"), ("--svg", "x.html"), ("--svg", "x.png"), ("--device", "none")),
        *(("--certificate", "x.json"), ("--certificate", "x.txt"), ("--force",)),
    ),
    ("explain-opt", "p.mgn:fit", "--mode", "train"): (("--json",), ("--set", "batch=2")),
    ("fit", "p.mgn:fit", "--device", "cpu"): (
        *(("--memory", "1MiB"), ("--memory", "1"), ("--memory", "much"), ("--json",)),
        *(("--set", "batch=9"), ("--set", "devices=2"), ("--no-opt",), ("--no-tuned",)),
        *(("--set", "batch=0"), ("--disable-rule", "relu")),
    ),
    ("weights", "check", "p.mgn:net"): (
        *((each,) for each in ("w.safetensors", "other.safetensors", "named.safetensors")),
        *(("--allow-missing", "fc2.*"), ("--allow-unexpected", "more*"), ("--json",)),
        *(("--rename", r"t\.(.*)=\1"), ("--prefix", "t."), ("--set", "hidden=3")),
    ),
    ("quantize", "long.mgn", "--weights", "long.safetensors", "-o", "q.safetensors"): (
        *(("--bits", each) for each in ("4", "8", "2")),
        *(("--group", "16"), ("--group", "0"), ("--keep", "fc*"), ("--keep", "none")),
        *(("--data", "none.npz"), ("--device", "cpu"), ("--set", "classes=5")),
        *(("--rename", "t"), ("--prefix", "t."), ("--allow-unexpected", "more*"), ("--force",)),
        ("p.mgn:net",),
    ),
    ("run", "p.mgn:net", "--device", "cpu"): (
        *(("--weights", "w.safetensors"), ("--random-weights", "1"), ("--seed", "2")),
        *(("--input", "x.npy"), ("--input", "x=wide.npy"), ("--input", "y=x.npy")),
        *(("--top", "2"), ("--labels", "labels.txt"), ("-o", "y.npy"), ("-o", "y.safetensors")),
        *(("--no-opt",), ("--set", "hidden=5"), ("--set", "n=2"), ("--set", "n=0")),
        *(("--allow-missing", "fc2.*"), ("--allow-unexpected", "more*"), ("--prefix", "t.")),
        *(("--rename", r"t\.(.*)=\1"), ("--rename", "t"), ("--disable-rule", "relu")),
        *(("--precision", "bf16"), ("--no-tuned",), ("--profile", "t.json"), ("--seconds", "2")),
        *(("--image-size", "8"), ("--crop", "0.5"), ("--mean", "1,2"), ("--std", "0")),
        *(("--resample", "cubic"), ("--top", "0"), ("--force",)),
        *(("--show", "fc*"), ("--show", "nothing")),
    ),
    ("summary", "p.mgn:net"): (
        *(("--depth", "1"), ("--depth", "0"), ("--set", "hidden=5"), ("--set", "n=3")),
    ),
    ("graph", "p.mgn:net"): (
        *(("-o", "net.dot"), ("-o", "net.html"), ("-o", "net.txt"), ("--force",)),
        *(("--depth", "1"), ("--colour", "flops"), ("--set", "n=3")),
    ),
    ("weights", "get", "hf:me/none", "--offline"): (
        *(("-o", "got"), ("--model", "p.mgn:net"), ("--set", "hidden=5"), ("--force",)),
    ),
    ("evaluate", "p.mgn:fit", "--device", "cpu"): (
        *(("--weights", "w.safetensors"), ("--data", "none.npz"), ("--json",), ("--no-opt",)),
        *(("--set", "batch=0"), ("--set", "batch=2"), ("--allow-missing", "fc2.*")),
        *(("--allow-unexpected", "more*"), ("--rename", r"t\.(.*)=\1"), ("--prefix", "t.")),
    ),
    ("predict", "p.mgn:net", "x.npy", "--device", "cpu"): (
        *(("--weights", "w.safetensors"), ("-o", "y.csv"), ("-o", "y.txt"), ("--force",)),
        *(("--labels", "labels.txt"), ("--batch", "0"), ("--image-size", "8"), ("--no-opt",)),
        *(("--allow-missing", "fc2.*"), ("--allow-unexpected", "more*"), ("--prefix", "t.")),
        *(("--rename", r"t\.(.*)=\1"), ("--set", "hidden=5"), ("--disable-rule", "relu")),
        *(("--precision", "bf16"), ("--no-tuned",)),
    ),
    ("export", "p.mgn:net", "-o", "net.onnx"): (
        *(("--weights", "w.safetensors"), ("--random-weights", "1"), ("--fold-batch-norm",)),
        *(("--opset", "18"), ("--opset", "3"), ("--set", "hidden=5")),
        *(("--allow-unexpected", "more*"), ("--force",)),
    ),
    ("export", "p.mgn:net", "--to", "torch", "-o", "net.py"): (
        *(("--set", "hidden=5"), ("--weights", "w.safetensors"), ("--fold-batch-norm",)),
        *(("--opset", "18"), ("--force",)),
    ),
    ("export", "p.mgn:net", "--to", "jax", "-o", "net.py"): (
        *(("--set", "hidden=5"), ("--weights", "w.safetensors")),
    ),
    ("train", "p.mgn:fit", "--device", "cpu", "--out", "run"): (
        *(("--certificate", "x.txt"), ("--certificate", "x.json", "--no-opt"), ("--force",)),
        *(("--set", "epochs=1"), ("--set", "batch=0"), ("--seed", "0"), ("--no-opt",)),
        *(("--weights", "w.safetensors"), ("--allow-missing", "fc1.*"), ("--detect-anomaly",)),
        *(("--log", "csv"), ("--log", "none"), ("--resume", "run"), ("--no-tuned",)),
        *(("--allow-unexpected", "more*"), ("--rename", r"t\.(.*)=\1"), ("--prefix", "t.")),
        *(("--disable-rule", "relu"), ("--profile", "t.json"), ("--set", "batch=1.5")),
        *(("--set", "devices=3"), ("--set", "steps=1"), ("--set", "no=1"), ("--seed", "-1")),
        *(("--coordinator", "here:1"), ("--hosts", "2"), ("--host", "1")),
    ),
    ("gradcheck", "p.mgn", "--examples", "2"): (
        *(("--block", "Net"), ("--block", "No"), ("--seed", "1"), ("--kinks",)),
        *(("--device", "cpu"), ("--device", "none"), ("--examples", "0")),
    ),
    ("docs",): (("e0301",), ("grammar",), ("traning",), ("convolve",)),
    ("explain",): (("E0301",), ("e0301",), ("E9999",), ("norm",)),
    ("import", "net.onnx"): (
        ("-o", "imported.mgn"),
        ("--set", "hidden=2"),
        ("--example", "x: f32[n]"),
        ("--force",),
    ),
    ("cache",): (("--clear",),),
    ("report",): (
        ("run0",),
        ("run0", "--terminal"),
        ("run0", "-o", "r.html"),
        ("nowhere",),
        ("run0", "--force"),
    ),
    ("compare",): (
        ("run0",),
        ("run0", "run1"),
        ("run0", "run1", "-o", "c.html"),
        ("run0", "run1", "--force"),
    ),
}
"""The words a command begins with, and what may follow them."""
WITH = {
    "check": ("p.mgn",),
    "run": ("--input", "x.npy", "--random-weights", "1"),
    "train": ("--set", "epochs=1"),
    "build": ("--mode", "infer", "--size", "n=2", "--emit", "optimized"),
    "export": ("--random-weights", "1"),
}
"""Further arguments for an option alone, so that the command gets as far as to it."""
SHOWN = (
    *("check: check wrong.mgn", "check: check p.mgn refuted.mgn", "shapes: shapes p.mgn:wide"),
    *("abi: abi p.mgn:net", "build: build p.mgn:net --emit optimized"),
    "build: build p.mgn:net --set n=1.5",
    "explain-opt: explain-opt p.mgn:net --set n=4",
    "fit: fit p.mgn:fit --device cpu --memory 1MiB",
    *(f"weights: weights check p.mgn:net {file}.safetensors" for file in ("w", "other", "named")),
    "run: run p.mgn:net --device cpu --input x.npy --random-weights 1 --top 2",
    "run: run p.mgn:net --device cpu --input x.npy --random-weights 1 --input x=wide.npy",
    "train: train p.mgn:fit --device cpu --out run --set epochs=1 --set batch=1.5",
    "gradcheck: gradcheck p.mgn --examples 2 --block Net",
    "explain: explain E9999",
    "compare: compare run0 run1",
)
"""The commands of which all that they say is shown."""
ELSEWHERE = {"deploy", "devices", "generate", "lsp", "profile", "tune"}
"""Commands that need an adapter or large weights, tell of the machine, or serve an editor."""
PAIRED = {"check", "weights", "run", "build", "explain-opt"}
"""Commands whose options are given two together as well, one pair of so many."""
PAIRED_BY_DAY = {"run", "weights"}
"""Those of them that take the most kinds of options, and little time."""
EACH = 4
UNTIMED = re.compile(
    r"\d[\d.,]*\s*(ms|µs|us|s|ns|examples/s|steps/s|MB|kB|GB)\b|\d+:\d\d(:\d\d)?"
    r'|"(encode|saturate|read|extract|decode)": [\d.e-]+'
    r"|(?<=compiled: )\d+(?= files?, )|(?<=removed )\d+(?= files?, )"
    r"|(?<=off by at most )[\d.e+-]+( \([^)]+\))?"
)
"""Times and sizes; how many files a cache has, which lacks what other tests have proved; and how
far sums deviate, which depends on the processor's vectors."""
NOTES = re.compile(r"note\[N0002\].*?note\[N0004\].*?\n\n", re.DOTALL)
"""Notes about the program, which are whole in the output of `check`."""
TIMED_LINE = re.compile(r"^.*(busy for|per second|[▁▂▃▄▅▆▇█]).*\n", re.MULTILINE)
"""Lines of speeds, and curves, of which one is of speeds."""
WRITTEN = (".npy", ".onnx", ".svg", ".csv", ".safetensors")


Stamp = tuple[str, int, int, int]
"""The name, the number, the size and the time of a file."""


def commands() -> Iterator[tuple[str, ...]]:
    """All that is called with one option at most."""
    for words, options in COMMANDS.items():
        yield words
        further = WITH.get(words[0], ())
        for option in options:
            yield (*words, *option)
            if further:
                yield (*words, *further, *option)


def pairs(names: Collection[str]) -> Iterator[tuple[str, ...]]:
    """All that is called with two options, of the commands of these names."""
    for words, options in COMMANDS.items():
        if words[0] in names:
            for one, other in [*combinations(options, 2)][::EACH]:
                yield (*words, *WITH.get(words[0], ()), *one, *other)


def texts() -> Iterator[Text]:
    """Yields the texts of `said.snap`."""
    return said(chain(commands(), pairs(PAIRED_BY_DAY)))


def said(called: Iterable[tuple[str, ...]]) -> Iterator[Text]:
    """Yields for each of some commands its status, its output and the new files."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("NO_COLOR", "1")
        patch.setenv("COLUMNS", "100")
        patch.setenv("MEGANEURA_CACHE", str(Path(folder) / "cache"))
        patch.delenv("MEGANEURA_TRACEBACK", raising=False)
        place = Path(folder).resolve() / "programs"
        place.mkdir()
        with chdir(place):
            _prepare(place)
            sums: dict[Stamp, str] = {}
            before = _written(place, sums)
            for words in called:
                patch.setattr("meganeura_runtime.backends.registry._begun", dict[str, object]())
                code, out, err = _called(words, str(place.parent))
                now = _written(place, sums)
                new, before = sorted(now - before), now
                files = "".join(f"[file] {name} {sum_}\n" for name, sum_ in new)
                err = NOTES.sub("[notes of p.mgn]\n", err)
                text = f"[status {code}]\n{out}{'[errors]' if err else ''}\n{err}{files}"
                yield Text(words[0], " ".join(words), text)


def _called(words: Sequence[str], folder: str) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    for each in (out, err):
        each.seek(0)
    said = (each.read().replace(folder, "") for each in (out, err))
    first, second = (UNTIMED.sub("T", TIMED_LINE.sub("", each)) for each in said)
    return code, first, second


def _written(place: Path, sums: dict[Stamp, str]) -> set[tuple[str, str]]:
    """The files in the folder, those that are the same in every run with what they hold.

    `sums` has the checksums of the files that were read before.
    """
    found: set[tuple[str, str]] = set()
    for folder, _, files in os.walk(place):
        for path in (Path(folder, file) for file in files):
            name, sum_ = path.relative_to(place).as_posix(), ""
            if path.suffix in WRITTEN:
                state = path.stat()
                stamp = (name, state.st_ino, state.st_size, state.st_mtime_ns)
                if stamp not in sums:
                    sums[stamp] = f"{crc32(path.read_bytes()):08x}"
                sum_ = sums[stamp]
            found.add((name, sum_))
    return found


def _prepare(place: Path) -> None:
    """The program with its data, weights, inputs and two runs."""
    (place / "p.mgn").write_text(f"{PROGRAM}\n{SMALL}")
    (place / "wrong.mgn").write_text(WRONG)
    (place / "refuted.mgn").write_text(REFUTED)
    (place / "loose.mgn").write_text("block  A()(x:[n])->[n]:\n    return   x\n")
    (place / "small.mgn").write_text(PROGRAM.partition("train fit")[0] + SMALL)
    (place / "long.mgn").write_text(LONG)
    (place / "labels.txt").write_text("cat\ndog\nhorse\n")
    random = np.random.default_rng(0)
    x = random.normal(size=(9, 6)).astype(np.float32)
    data = {"train.x": x, "train.y": np.arange(9, dtype=np.int32) % 3}
    save_file(data | {name.replace("train", "test"): each for name, each in data.items()},
              place / "points.safetensors")  # fmt: skip
    np.save(place / "x.npy", x[:2])
    np.save(place / "wide.npy", np.ones((2, 7), np.float32))
    for name in ("run0", "run1"):
        _called(("train", "p.mgn:fit", "--device", "cpu", "--out", name), "")
    weights = {
        "fc1.weight": (4, 6), "fc1.bias": (4,), "fc2.weight": (3, 4), "fc2.bias": (3,),
        "norm.weight": (4,), "norm.bias": (4,), "norm.running_mean": (4,),
        "norm.running_var": (4,),
    }  # fmt: skip
    arrays = {
        name: random.uniform(size=shape).astype(np.float32) for name, shape in weights.items()
    }
    counter = {"norm.num_batches_tracked": np.zeros((), np.int64)}
    save_file(arrays | counter, place / "w.safetensors")
    less = {name: each for name, each in arrays.items() if "fc2" not in name}
    long = {"fc.weight": np.arange(192).reshape(3, 64) / np.float32(192)}
    save_file({**long, "fc.bias": np.zeros(3, np.float32)}, place / "long.safetensors")
    save_file({**less, "more.one": np.zeros(2, np.float32)}, place / "other.safetensors")
    save_file({f"t.{name}": each for name, each in arrays.items()}, place / "named.safetensors")


SNAPSHOT = Snapshot("tests.cli.said", texts, SHOWN)

if __name__ == "__main__":
    os.environ["MEGANEURA_VERIFY"] = "1"
    SNAPSHOT.main()
