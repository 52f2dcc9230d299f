"""Plant known mistakes, one at a time, in a copy of the sources, and demand that a test objects.

    python scripts/plant_bugs.py [NAME ...]

Each mistake was once made in earnest, here or in other compilers for neural networks. A planted
one that no test notices is an error of the tests; one whose text is no longer in the source has to
be planted anew. `docs/testing.md` has the table.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("meganeura", "meganeura_dsl", "runtime", "stdlib_models", "grammar", "tests", "fuzz",
          "docs", "scripts", "pyproject.toml")  # fmt: skip


@dataclass(frozen=True)
class Plant:
    """A mistake: what replaces what in a file, and the tests of which one has to fail."""

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


BLOCKS = "tests/dsl/gradcheck/test_standard_blocks.py::test_layers"
RESUME = "tests/runtime/test_resume.py"
GRAPHS = "tests/runtime/plan/test_random_graphs.py"

PLANTS = (
    Plant(
        "a sum drops the coefficient after it",
        "meganeura_dsl/ops/broadcast.py",
        "(build.add(Broadcast(x.type.shape, others(self.axes, x.type.rank)), cotangent),)",
        "(full(build, x.type, 1),)",
        (f"{BLOCKS}[<mse>]",),
    ),
    Plant(
        "the gradient of softmax sums the wrong axis",
        "meganeura_dsl/ops/fused/softmax.py",
        "y * (cotangent - np.sum(cotangent * y, axis=self.axis, keepdims=True))",
        "y * (cotangent - np.sum(cotangent * y, axis=0, keepdims=True))",
        ("tests/dsl/ops",),
    ),
    Plant(
        "log-softmax computes softmax",
        "stdlib_models/nn.mgn",
        "return shifted - insert_axis(log(sum(exp(shifted), axis)), axis, classes)",
        "return exp(shifted) / insert_axis(sum(exp(shifted), axis), axis, classes)",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "cross-entropy sums over the batch",
        "stdlib_models/loss.mgn",
        "return -mean(sum(labels * log_softmax(logits), -1))",
        "return -sum(sum(labels * log_softmax(logits), -1))",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "binary cross-entropy overflows",
        "stdlib_models/loss.mgn",
        "relu(logits) - logits * target + log(1 + exp(-abs(logits)))",
        "log(1 + exp(logits)) - logits * target",
        ("tests/stdlib_models/test_behaviour.py",),
    ),
    Plant(
        "gelu is its approximation",
        "stdlib_models/nn.mgn",
        "= 0.5 * x * (1 + erf(x * 2 ** -0.5))",
        "= x * sigmoid(1.702 * x)",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "the slope of erf belongs to another function",
        "meganeura_dsl/ops/elementwise.py",
        "full(build, x.type, DERIVATIVE_AT_ZERO)",
        "full(build, x.type, 1.128)",
        (f"{BLOCKS}[<gelu>]",),
    ),
    Plant(
        "the last of tied maxima wins",
        "meganeura_dsl/ops/pool.py",
        "(candidate > best)",
        "(candidate >= best)",
        ("tests/dsl/test_autodiff.py", "tests/parity/test_ops.py"),
    ),
    Plant(
        "a parameter without use gets a scalar gradient",
        "meganeura_dsl/autodiff.py",
        "else full(build, value.type, 0)",
        "else build.add(Constant(0.0, value.type.dtype))",
        ("tests/dsl/test_autodiff.py",),
    ),
    Plant(
        "a spread keeps the gradient of one axis",
        "meganeura_dsl/ops/broadcast.py",
        "Sum(others(self.axes, len(self.shape)))",
        "Sum(others(self.axes, len(self.shape))[:1])",
        (f"{BLOCKS}[<batch_norm>]",),
    ),
    Plant(
        "a variance is the difference of two large numbers",
        "meganeura_dsl/check/builtin_math.py",
        "return tensors.reduce_mean(frame, span, call.add(ops.Mul(), centered, centered), axes)",
        "whole = tensors.reduce_mean(frame, span, call.add(ops.Mul(), value, value), axes)\n"
        "    return call.add(ops.Sub(), whole, call.add(ops.Mul(), mean, mean))",
        ("tests/parity/test_layers.py",),
    ),
    Plant(
        "indices are divided through a rounded reciprocal",
        "runtime/meganeura_runtime/kernels/writer.py",
        'return f"{self._factor(numerator)} / {divisor}u"',
        'return f"u32(f32({self._factor(numerator)}) * (1.0 / {divisor}.0))"',
        ("tests/runtime/kernels",),
    ),
    Plant(
        "rotary positions all begin at zero",
        "stdlib_models/nn.mgn",
        "angle = expand(f32(iota(s)), [s] -> [s, half]) * rate",
        "angle = expand(0 * f32(iota(s)), [s] -> [s, half]) * rate",
        ("tests/parity/test_layers.py", "tests/stdlib_models/test_behaviour.py"),
    ),
    Plant(
        "a table used twice keeps one gradient",
        "meganeura_dsl/autodiff.py",
        "total = part if known is None else build.add(Add(), known, part)",
        "total = part",
        (f"{BLOCKS}[<silu>]",),
    ),
    Plant(
        "nothing runs",
        "runtime/meganeura_runtime/session/gpu.py",
        "self.device.submit(self._launches, self._copies)",
        "self.device.submit([], self._copies)",
        (GRAPHS,),
    ),
    Plant(
        "an output that is read inside is fused away",
        "runtime/meganeura_runtime/plan/store.py",
        "stored = {value.id for value in graph.roots}",
        "stored = {value.id for value in graph.updates.values()}",
        ("tests/runtime/plan",),
    ),
    Plant(
        "parameters in training are folded",
        "meganeura_dsl/optimize/explore.py",
        '(_constants(graph) if mode == "infer" else ())',
        "_constants(graph)",
        ("tests/dsl/optimize/test_conditions.py",),
    ),
    Plant(
        "memory is given away while it is still read",
        "runtime/meganeura_runtime/plan/memory.py",
        "return self.first <= other.last and other.first <= self.last",
        "return self.first < other.last and other.first < self.last",
        (GRAPHS, "tests/runtime/plan/test_memory.py"),
    ),
    Plant(
        "what is written to a parameter may have any shape",
        "runtime/meganeura_runtime/session/base.py",
        "array.shape != expected.shape or ",
        "",
        ("tests/runtime/session",),
    ),
    Plant(
        "the hash of a program forgets attributes",
        "runtime/meganeura_runtime/train/job.py",
        'line.partition("  # ")[0] for line',
        'line.partition("(")[0] for line',
        (RESUME,),
    ),
    Plant(
        "pipelines are shared by kernels that begin alike",
        "runtime/meganeura_runtime/device.py",
        "pipeline = self._pipelines.get(text)\n        if pipeline is None:",
        "pipeline = next((p for t, p in self._pipelines.items() if t[:300] == text[:300]), None)\n"
        "        if pipeline is None:",
        (GRAPHS, "tests/runtime/kernels"),
    ),
    Plant(
        "the clip counts one tensor",
        "meganeura_dsl/training.py",
        "reduce(lambda a, b: build.add(Add(), a, b), squares)",
        "reduce(lambda a, _: a, squares)",
        ("tests/dsl/test_training.py",),
    ),
    Plant(
        "a restored run forgets its moments",
        "runtime/meganeura_runtime/train/loop.py",
        "self.session.load(resumption.kept)",
        "first = self.job.initial_values()\n"
        "        moments = {name: each for name, each in first.items() if 'exp_avg' in name}\n"
        "        self.session.load({**resumption.kept, **moments})",
        (RESUME,),
    ),
    Plant(
        "a restored run repeats its epoch",
        "runtime/meganeura_runtime/train/loop.py",
        "self.step - epoch * self.job.steps_per_epoch, self.job.steps_per_epoch",
        "0, self.job.steps_per_epoch",
        (RESUME,),
    ),
    Plant(
        "a checkpoint is written in place",
        "runtime/meganeura_runtime/tensors/atomic.py",
        'partial = path.with_name(f".{path.name}.{os.getpid()}.partial")',
        "partial = path",
        (RESUME,),
    ),
    Plant(
        "a model need not meet the `where` of its block",
        "meganeura_dsl/check/models.py",
        "if not assumed.is_contradictory:",
        "if True:",
        ("tests/test_spec.py",),
    ),
    Plant(
        "a size of 1 is stretched",
        "meganeura_dsl/ops/rules.py",
        "    facts.require_same_shape(left.shape, right.shape,",
        "    if 1 in left.shape or 1 in right.shape:\n        return\n"
        "    facts.require_same_shape(left.shape, right.shape,",
        ("tests/dsl/ops", "tests/properties"),
    ),
    Plant(
        "the rate of a schedule is one step late",
        "runtime/meganeura_runtime/train/feeder.py",
        "rate = learning_rate(job.settings, step, job.steps)",
        "rate = learning_rate(job.settings, max(0, step - 1), job.steps)",
        ("tests/runtime/test_train.py",),
    ),
)


def main() -> int:
    """Plant the mistakes that are named, or all."""
    wanted = sys.argv[1:]
    chosen = [plant for plant in PLANTS if not wanted or plant.name in wanted]
    missed = [plant.name for plant in chosen if not is_noticed(plant)]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mistakes were noticed")
    return 1 if missed else 0


def is_noticed(plant: Plant) -> bool:
    """Whether a test fails once the mistake is planted; the copy is thrown away."""
    source = (ROOT / plant.file).read_text(encoding="utf-8")
    if source.count(plant.right) < 1:
        print(f"GONE     {plant.name}: {plant.file} has no `{plant.right}`", flush=True)
        return False
    with tempfile.TemporaryDirectory(prefix="meganeura-plant-") as folder:
        copy = Path(folder)
        _copy_to(copy)
        (copy / plant.file).write_text(source.replace(plant.right, plant.wrong), encoding="utf-8")
        failing = _failing(copy, plant.tests)
    print(f"{'noticed' if failing else 'MISSED '}  {plant.name}: {failing}", flush=True)
    return bool(failing)


def _copy_to(copy: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, copy / name)


def _failing(copy: Path, tests: tuple[str, ...]) -> str:
    """The first test that fails in the copy, or nothing."""
    command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
    path = os.pathsep.join((str(copy), str(copy / "runtime")))
    done = subprocess.run(
        command,
        cwd=copy,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0] if lines and done.returncode == 1 else ""


if __name__ == "__main__":
    sys.exit(main())
