"""Results of settings, alone and two together, in the program and on the command line.

`combined.txt` has an entry for each text of `TEXTS`: what it changes where nothing else is said,
and checksums of what it gives where other sizes are open, where it stands in the program, and on
the command line above each text of `BELOW` in the program. Of what is accepted that is what differs
from the defaults, learning rates and which parameters belong together; of what is refused the
messages.

`python -m tests.dsl.settings.combined` writes the file anew; read the difference before you keep
it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from meganeura_dsl.diagnostics.problem import Problem, ProblemError, ProblemsError
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.ir.initializers import Zeros
from meganeura_dsl.ir.ops.primitive.leaf import Kind
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.parameter_groups import (
    group_problems,
    parameter_groups,
    scheduled_parameters,
)
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.setting_values import RawSettings, with_overrides
from meganeura_dsl.transforms.optimizers.schedules import RunLength
from meganeura_runtime.backends.registry import DEVICE_NAMES

FILE = Path(__file__).with_suffix(".txt")
DATA = "data=digits"
TEXTS = (
    'data=file("x.npz", x="a")', "data.x=b", 'data=table("t.csv", x=["a", "b"], y="c")',
    'data=images("i", crop=0.5)', 'data=text("t.txt", tokenizer="t.json")',
    'data=images("i", "j")', 'data=text("t.txt", crop=0.5)', 'data=file(x="a")',
    'data=images("i", crop=7)', 'data=images("i", x=1, y=2)', 'data=images("i", resample="box")',
    'data=images("i", resample="cubic")', 'data=images("i", mean="x")', 'data=file("x.npz", x=1)',
    'data=table("t.csv", x=[1])', "data=", "x=digits", "validation=0.25", "validation=held.npz",
    "validation=1", 'validation=table("v.csv", x="a")', 'device=file("x")', "device=0.5",
    "best=0.5",
    'data=table("t.csv", x=["a", 1])', 'optimizer["*.weight"]=sgd(lr=-1)',
    'schedule["*"]=linear(warmup=-1)', 'schedule["*"]=linear', 'schedule["head.*"]=cosine',
    "batch=4",
    "batch=0", "steps=9", "steps=0", "epochs=3", "epochs=0", "steps_per_epoch=4",
    "optimizer=sgd(momentum=0.5)", "optimizer=adamw(decay=0.1)", "optimizer=adam(lr=0.25)",
    "optimizer.lr=0.5", "optimizer.beta1=0.5", "optimizer.momentum=0.25", "optimizer=none",
    "optimizer=muon", 'optimizer["*.weight"]=sgd(lr=2)', 'optimizer["*.weight"]=adam(lr=2)',
    'optimizer["head.*"]=none', 'optimizer["head.*"]=none(lr=1)',
    'optimizer["body.*"]=frozen', 'optimizer["body.*"]=frozen(lr=1)', 'optimizer["head.*"].lr=3',
    'optimizer["[hb]*[!t]"]=muon', 'optimizer["none.*"]=sgd',
    'every["head.*"]=2', 'every["none.*"]=2', 'schedule["none.*"]=cosine',
    'every["*"]=0', "every=2", 'epochs["*"]=2', "schedule=cosine",
    "schedule=linear(warmup=2)", "schedule=step(every=1, gamma=0.5)", "schedule.warmup=4",
    "accumulate=1", "accumulate=5", "accumulate=100", "drop_last=false", "best=highest accuracy",
    "best=lowest x", "best=least loss", "stop_after=1", "stop_after=none", "ema=0.5", "ema=1",
    "seed=4294967296",
    "log_every=0", 'log=["wandb"]', 'log=["x"]', "device=cpu", "workers=257",
    "shuffle=false", "clip_value=0.5", "gradient_norm=true",
    "balance=y", "sampling_weights=w", "eval_every=2", "save_every=0", "memory=8GiB", "memory=8",
    "memory=x", "optimize=false", 'log=["tensorboard", "wandb"]', "devices=2", "sharding=fsdp",
    "precision=bf16", "precision=f64", "not_finite=skip", 'disabled_rules=["a"]', "clip_norm=0",
    "seed=1\ndef f() = 2", "seed = -1", "seed", "seed=[1", "unknown=1", "optimizer=sgd(1)",
    'data=file("x.npz", x=["a"])', 'schedule["*"]=frozen', "validation=0.0",
)  # fmt: skip
BELOW = (
    'data=file("x.npz", x="a")', "steps=9", "epochs=3", "optimizer=sgd(momentum=0.5)",
    "optimizer=adam(lr=0.25)", 'optimizer["*.weight"]=sgd(lr=2)', 'optimizer["head.*"]=none',
    "schedule=linear(warmup=2)", "schedule=cosine", "accumulate=5",
    'schedule["*.weight"]=constant(warmup=3)',
)  # fmt: skip
FREE = (("batch",), ("batch", "steps"), ("batch", "data"), ())
"""Sizes that the inputs leave open; some have the names of settings."""
PLACE = Location(Span(Source("net.mgn", ""), 0, 0))
TENSORS: tuple[tuple[str, tuple[int, ...], Kind], ...] = (
    ("head.weight", (4, 2), "param"), ("head.bias", (2,), "param"), ("head.seen", (), "state"),
    ("body.weight", (2, 2), "param"), ("body.bias", (2,), "param"), ("weight", (3,), "frozen"),
)  # fmt: skip
PARAMETERS = tuple(
    ParameterInfo(name, TensorType(DType.F32, shape), kind, "f32", Zeros(), PLACE)
    for name, shape, kind in TENSORS
)


def described() -> Iterator[str]:
    """All lines of the file."""
    for text in TEXTS:
        alone = [_outcome([DATA, "batch=2"], [text], free) for free in FREE]
        given = [
            _outcome([DATA, text], [], ("batch",)),
            _outcome([DATA, "batch=2", text], [], ("batch",)),
            _outcome([text, "batch=2"], [], ()),
            _outcome(["batch=2"], [text], ("batch",)),
            _outcome([DATA, "batch=2", "epochs=3"], [text], ("batch", "steps")),
        ]
        pairs = [_outcome([DATA, "batch=2", other], [text], ("batch",)) for other in BELOW]
        sums = " ".join(f"{_sum(each)}" for each in (*alone[1:], *given, "\n".join(pairs)))
        yield f"{text}\n{alone[0]}\n    {sums}"


def _outcome(written: Sequence[str], overrides: Sequence[str], free: Sequence[str]) -> str:
    try:
        lines = _settings(written, overrides, free)
    except ProblemError as error:
        lines = _shown([error.problem])
    except ProblemsError as error:
        lines = _shown(error.problems)
    return "\n".join(f"    {line}".rstrip() for line in lines)


def _settings(
    written: Sequence[str], overrides: Sequence[str], free: Sequence[str]
) -> Sequence[str]:
    raw = _in_program(written)
    settings = resolve_settings(raw, overrides, free, DEVICE_NAMES, needs_data=True)
    problems = [*group_problems(settings, raw, PARAMETERS)]
    if problems:
        return _shown(problems)
    changed = settings.model_dump(exclude_defaults=True)
    rates = [settings.learning_rate(step, RunLength(40, 10)) for step in (0, 1, 3, 9, 10, 39)]
    groups = [
        f"{each.key}: {[one.name for one in each.parameters]}"
        for each in parameter_groups(settings, PARAMETERS)
    ]
    groups += [
        f"{glob}: {[one.name for one in found]}"
        for glob, found in scheduled_parameters(settings, PARAMETERS).items()
    ]
    best = settings.best_metric
    return [str(changed), str(best), " ".join(f"{rate:.6g}" for rate in rates), *groups]


def _shown(problems: Sequence[Problem]) -> Sequence[str]:
    """All lines but those that list every setting there is."""
    lines = "\n".join(render(each.report()) for each in problems).split("\n")
    return [line for line in lines if "validation, sampling_weights" not in line]


def _in_program(texts: Sequence[str]) -> RawSettings:
    """The settings as a program has them, a line each."""
    source = Source("fit.mgn", "\n".join(texts))
    found = with_overrides({}, texts)
    return {
        name: replace(setting, span=Span(source, start, start + len(setting.span.text)))
        for name, setting in found.items()
        for start in [source.text.index(setting.span.text)]
    }


def _sum(text: str) -> str:
    return f"{crc32(text.encode()):08x}"


if __name__ == "__main__":
    FILE.write_text("\n".join(described()) + "\n")
