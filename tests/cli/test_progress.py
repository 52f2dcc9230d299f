"""Progress: plain lines where output is kept, a bar where somebody looks."""

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from meganeura.cli.ui.narration import clock
from meganeura.cli.ui.progress import Lines, display
from meganeura.cli.ui.progress_bar import ProgressBar
from meganeura_dsl.ir.outputs import Statistic
from meganeura_runtime.train.events import (
    Compiled,
    Compiling,
    EpochEnded,
    Evaluated,
    Event,
    Finished,
    Group,
    Logged,
    Sampled,
    Saved,
    Started,
    Stepped,
)

EVENTS: tuple[Event, ...] = (
    Started("fit", 2, 50, 100, 1437, 360, 4, 4810),
    Compiling(84),
    Compiled(84, 2.06),
    Stepped(1, 0),
    Logged(1, 0, 2.31234, {"accuracy": 0.125}, 0.002, 30.0, 960.0),
    Stepped(50, 0),
    Logged(50, 0, 0.5, {"accuracy": 0.875}, 0.002, 25.0, 800.0),
    EpochEnded(50, 0, 50, 0.75, 2.2),
    Evaluated(50, 0, 0.25, {"accuracy": 0.9}, best=True),
    Saved(Path("runs/fit-1/checkpoint.safetensors")),
    Stepped(100, 1),
    Logged(100, 1, 0.1, {"accuracy": 1.0}, 0.002, 2.5, 80.0),
    Evaluated(100, 1, 0.3, {"accuracy": 0.89}, best=False),
    Finished(100, 4.0, interrupted=False),
)


def test_what_the_program_shows_stands_below_its_step() -> None:
    stream = StringIO()
    shown = display(stream)
    numbers = {"mean": 0.5, "deviation": 1.0, "from": -2.0, "to": 3.0}
    metrics = {"accuracy": 0.125}
    for name, share in (("h", 0.0), ("after norm", 0.25), ("q", 1.0)):
        found = {**numbers, "not finite": share}
        metrics |= {Statistic(name, kind): each for kind, each in found.items()}
    shown.watch(Logged(1, 0, 2.5, metrics, 0.002, 30.0, 960.0))
    assert stream.getvalue().splitlines() == [
        "step 1  loss 2.5  accuracy 0.125",
        "  h           mean 0.5  deviation 1  from -2 to 3",
        "  after norm  mean 0.5  deviation 1  from -2 to 3  25.00% NOT FINITE",
        "  q           100.00% NOT FINITE",
    ]


def test_lines_tell_what_was_measured_and_how_long_it_will_take() -> None:
    stream = StringIO()
    shown = display(stream)
    assert isinstance(shown, Lines)
    for event in EVENTS:
        shown.watch(event)
    shown.close()
    assert stream.getvalue().splitlines() == [
        "training fit: 4 params, 4,810 weights, 1,437 examples, 360 held out",
        "compiling 84 kernels ... 2.1 s",
        "epoch 1/2  step   1/100  loss 2.312  accuracy 0.125",
        "epoch 1/2  step  50/100  loss 0.5  accuracy 0.875  25 steps/s, 800 examples/s  0:02 left",
        "epoch 1: mean loss 0.75 over 50 steps in 0:02",
        "held out after epoch 1: loss 0.25  accuracy 0.9  (best so far)",
        "epoch 2/2  step 100/100  loss 0.1  accuracy 1  2.5 steps/s, 80 examples/s  0:00 left",
        "held out after epoch 2: loss 0.3  accuracy 0.89",
    ]


def test_the_bar_shows_where_the_run_is_and_keeps_evaluations_above_it() -> None:
    stream = StringIO()
    console = Console(file=stream, force_terminal=True, width=110, legacy_windows=False)
    shown = ProgressBar(console)
    for event in EVENTS:
        shown.watch(event)
    text = stream.getvalue()
    assert "training fit: 4 params" in text
    assert "compiling 84 kernels" in text
    assert "compiled 84 kernels in 2.1 s" in text
    assert "epoch 1: mean loss 0.75 over 50 steps in 0:02" in text
    assert "held out after epoch 1: loss 0.25  accuracy 0.9  (best so far)" in text
    last = text[text.rindex("epoch ") :]
    for part in ("2/2", "step 100/100", "loss 0.1", "2.5 steps/s, 80 examples/s"):
        assert part in last


def test_a_sample_is_shown_below_its_step_and_controls_nothing() -> None:
    stream = StringIO()
    Lines(stream).watch(Sampled(1200, 3, "[b]to", " be\n\x1b[31mred\r"))
    text = "sample after step 1,200:\n  [b]to be\n  \\x1b[31mred\\r\n"
    assert stream.getvalue() == text
    drawn = StringIO()
    bar = ProgressBar(Console(file=drawn, width=80))
    bar.watch(Sampled(1200, 3, "[b]to", " be\n\x1b[31mred\r"))
    assert drawn.getvalue() == text


def test_the_bar_is_cleared_up_when_the_run_breaks_off() -> None:
    stream = StringIO()
    shown = ProgressBar(Console(file=stream, force_terminal=True))
    shown.watch(EVENTS[0])
    shown.close()
    assert stream.getvalue().endswith("\x1b[?25h"), "the cursor is shown again"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0:00"), (7, "0:07"), (754, "12:34"), (3723, "1:02:03")]
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("examples", "left_out", "last_batch", "line"),
    [
        (33, 1, 0, "1 example is left out of each epoch; drop_last=false trains on it"),
        (39, 7, 0, "7 examples are left out of each epoch; drop_last=false trains on them"),
        (39, 0, 7, "the last of them on 7 examples"),
    ],
)
def test_a_remainder_is_announced(examples: int, left_out: int, last_batch: int, line: str) -> None:
    stream = StringIO()
    started = Started("fit", 2, 4, 8, examples, 0, 4, 4810, (), 8, left_out, last_batch)
    display(stream).watch(started)
    assert stream.getvalue().splitlines()[1:] == [
        f"  {examples} examples, batches of 8: 4 steps an epoch, {line}"
    ]


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (1, "  1 file is shorter than one example, and left out"),
        (1200, "  1,200 files are shorter than one example, and left out"),
    ],
)
def test_files_without_an_example_are_announced(files: int, line: str) -> None:
    stream = StringIO()
    display(stream).watch(Started("fit", 2, 50, 100, 1437, 360, 7, 4810, empty_files=files))
    assert stream.getvalue().splitlines()[1:] == [line]


@pytest.mark.parametrize(
    ("names", "line"),
    [
        (("a.w",), "  no gradient reaches a.w; left as they are"),
        (tuple("abcdef"), "  no gradient reaches a, b, c, d and 2 more; left as they are"),
    ],
)
def test_parameters_that_stay_are_named(names: tuple[str, ...], line: str) -> None:
    stream = StringIO()
    display(stream).watch(Started("fit", 2, 50, 100, 1437, 360, 7, 4810, names))
    assert stream.getvalue().splitlines()[1] == line


def test_parameters_with_optimizers_of_their_own_are_listed() -> None:
    stream = StringIO()
    groups = (Group("optimizer = adam()", 2, 4640), Group('optimizer["*.bias"] = frozen', 1, 10))
    started = Started("fit", 2, 50, 100, 1437, 360, 7, 4810, groups=groups)
    display(stream).watch(started)
    assert stream.getvalue().splitlines()[1:] == [
        "  optimizer = adam(): 2 params, 4,640 weights",
        '  optimizer["*.bias"] = frozen: 1 param, 10 weights',
    ]
