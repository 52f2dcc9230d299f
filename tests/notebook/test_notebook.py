"""Notebooks: the magic, what is shown of programs, models, runs and problems, and live curves."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import pytest
from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

import meganeura
from meganeura.notebook import live_run
from meganeura.notebook.curves import MOST_POINTS, charts
from meganeura_dsl.diagnostics import problem
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_runtime.train.events import Evaluated, Event, Finished, Logged, Started, Stepped

PROGRAM = """\
block Net(d)(x: [n, 2]) -> [n, d]:
  return x |> fc: linear(d) # <&>

model net = Net(3)

train fit(x: [batch, 2], y: i32[batch]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  run:
    batch     = 2
    epochs    = 2
    optimizer = sgd(lr=0.1)
"""
WRONG = "block F()(x: [n, c], s: [n]) -> [n, c]:\n  y = x * s\n  return y\n"


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """A shell of IPython in which the extension is loaded."""
    InteractiveShell.clear_instance()
    found = InteractiveShell.instance(colors="nocolor")
    found.run_line_magic("load_ext", "meganeura")
    yield found
    InteractiveShell.clear_instance()


def elements(html: str) -> ET.Element:
    """The parsed HTML, which is XML too: each tag is closed, and no text is a tag."""
    return ET.fromstring(f"<div>{html.replace('&middot;', '')}</div>")  # noqa: S314 - our own


class Shown(Protocol):
    """A value that a notebook shows as HTML."""

    def _repr_html_(self) -> str: ...


def text_of(content: Shown) -> str:
    """The text of the HTML of a value."""
    html = content._repr_html_()
    return "".join(elements(html).itertext())


def shown_error(done: ExecutionResult) -> str:
    error = done.error_in_exec
    assert isinstance(error, ProblemError | ProblemsError)
    return "\n".join(error._render_traceback_())


def test_a_cell_is_a_program(shell: InteractiveShell) -> None:
    done = shell.run_cell(f"%%mgn net\n{PROGRAM}")
    assert shell.user_ns["net"] is done.result
    assert repr(done.result) == "<Program cell.mgn: models net; train fit>"
    shell.run_cell(f"%%mgn\n{PROGRAM}")
    assert shell.user_ns["program"].models == ("net",)


def test_a_cell_that_does_not_hold_is_no_variable(shell: InteractiveShell) -> None:
    text = shown_error(shell.run_cell(f"%%mgn wrong\n{WRONG}"))
    assert all(part in text for part in ("E0301", "\x1b[1;31m^ x: [n, c]"))
    assert "of the cell" not in text, "the line of the magic says nothing"
    assert "wrong" not in shell.user_ns
    for name in ("a b", "1st", "for"):
        failed = shell.run_cell(f"%%mgn {name}\n{PROGRAM}").error_in_exec
        assert type(failed).__name__ == "UsageError"


def test_a_mistake_names_the_line_of_its_cell(
    shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run_cell(f"%%mgn net\n{PROGRAM}")
    monkeypatch.setattr(problem, "_CELL", re.compile("^<ipython-input|^Cell"))
    text = shown_error(shell.run_cell("x = 1\nnet.model(seed=0).run({'x': [[1.0] * 19]})"))
    assert all(part in text for part in ("E0561", "[1, 19]", "f32[n, 2]"))
    assert text.endswith("in line 2 of the cell: net.model(seed=0).run({'x': [[1.0] * 19]})")


def test_programs_models_and_checks_are_shown(tmp_path: Path) -> None:
    program = meganeura.loads(PROGRAM)
    assert PROGRAM.rstrip() in text_of(program)
    said = text_of(program.model(seed=0))
    assert all(part in said for part in ("f32[n, 2]", "9 weights", "linear"))
    (tmp_path / "f.mgn").write_text(WRONG)
    found = meganeura.check(tmp_path / "f.mgn")
    assert text_of(found).split() == repr(found).split()
    assert all(part in repr(found) for part in ("E0301", "y = x * s", "f.mgn: 1 error"))


def test_a_text_imports_beside_its_name(tmp_path: Path) -> None:
    (tmp_path / "one.mgn").write_text("block One()(x: [n]) -> [n] = x\n")
    text = "from one import One\n\nmodel m = One()\n"
    assert meganeura.loads(text, str(tmp_path / "cell.mgn")).models == ("m",)
    with pytest.raises(ProblemsError, match="<text>:1"):
        meganeura.loads(text)


def test_a_run_shows_itself_while_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    def show(content: live_run.LiveRun) -> SimpleNamespace:
        shown.append(text_of(content))
        return SimpleNamespace(update=show)

    monkeypatch.setattr(live_run, "_shown", show)
    monkeypatch.setattr("meganeura.program.live_run", live_run.LiveRun)
    program = meganeura.loads(PROGRAM)
    data = {"x": [[0.0, 1.0]] * 4, "y": [0, 1, 2, 0]}
    run = program.train(data=data, validation=data, out=tmp_path / "a", device="cpu")
    assert all(part in shown[-1] for part in ("finished", "step 4 of 4", "held out: loss"))
    count = len(shown)
    program.train(data=data, out=tmp_path / "b", device="cpu", live=False)
    assert len(shown) == count
    assert all(part in text_of(run) for part in (str(run.report), "held out", "step 4"))
    (run.folder / "metrics.jsonl").unlink()
    assert "step 4" not in text_of(run), "there are no curves, and no error"


def test_a_run_that_ends_before_its_last_step_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run, "_shown", lambda _: SimpleNamespace(update=lambda _: None))
    shown = live_run.LiveRun()
    events: list[Event] = [
        Started("fit", 1, 9, 9, 9, 0, 1, 1),
        Stepped(3, 0),
        Logged(3, 0, float("nan"), {"<b>": 1.0}, 0.1, 1.0, 1.0),
        Evaluated(3, 0, 2.0, {}, best=True),
        Finished(3, 1.0, interrupted=True),
    ]
    for event in events:
        shown(event)
    assert repr(shown) == "fit: stopped, step 3 of 9"
    assert "<b>▬ training 1" in text_of(shown)


def test_no_run_is_shown_outside_of_notebooks() -> None:
    assert live_run.live_run() is None


def test_a_long_curve_is_thinned_to_its_last_point() -> None:
    points = [(step, 1.0 / step) for step in range(1, 10_001)]
    drawn = elements(charts({"loss": {"step": points}, "none": {"step": [(1, float("inf"))]}}))
    _, line = drawn.findall(".//polyline")
    places = line.attrib["points"].split()
    assert len(places) <= MOST_POINTS + 1
    assert places[-1].split(",")[0] == "312.0"
    assert charts({"loss": {"step": []}}) == ""
