"""The comparison with other frameworks, at sizes that take no time: ours, the tables, failures."""

import argparse
import json
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers import worker
from benchmarks.peers.__main__ import main
from benchmarks.peers.case import LOSSES, Case, Material, Model, cases, material, random_inputs
from benchmarks.peers.contender import QUICK, Absent, Running, difference, median_ms
from benchmarks.peers.ours import Ours
from benchmarks.peers.table import Table
from meganeura_dsl.ir.interpreter import Interpreter

DIGITS = Model(
    "digits_cnn",
    "digits_cnn",
    """(x: [batch, 1, 8, 8], y: [batch, 10]):
  minimize mse(x |> digits_cnn, y)
""",
    {"h": 8, "w": 8},
    (2,),
)


def test_the_table_has_twelve_cases_and_names_them() -> None:
    names = [case.name for case in cases(small=False)]
    assert len(set(names)) == len(names) == 12
    assert [case.name for case in cases(small=False, only="t18, 32")] == [
        "resnet18, 32, infer",
        "resnet18, 32, train",
    ]


def test_everybody_gets_the_same_weights_and_inputs() -> None:
    case = Case(DIGITS, 2, trains=False)
    one, other = material(case), material(case)
    for name, array in one.weights.items():
        np.testing.assert_array_equal(array, other.weights[name])
    assert list(one.inputs) == ["image"]
    np.testing.assert_array_equal(one.inputs["image"], random_inputs(one.graph)["image"])


@pytest.mark.adapter
@pytest.mark.parametrize("trains", [False, True])
def test_ours_gives_what_the_reference_gives(*, trains: bool) -> None:
    case = Case(DIGITS, 2, trains=trains)
    one = material(case)
    expected = Interpreter(one.graph).run({**one.weights, **one.inputs}).outputs
    contender = Ours("wgpu")
    with contender.run(one) as running:
        assert tuple(running.steps) == contender.columns(trains=trains)
        first = running.outputs[0] if trains else running.outputs
        assert difference(np.asarray(first), next(iter(expected.values()))) < 1e-4
        assert running.outputs.shape == ((LOSSES,) if trains else (2, 10))
        for step in running.steps.values():
            assert median_ms(step, running.wait, QUICK) > 0
        assert all(figure() > 0 for figure in running.figures.values())


def test_a_difference_is_relative_to_the_largest_and_never_hides_what_is_no_number() -> None:
    assert difference(np.array([1.0, 9.0]), np.array([1.0, 10.0])) == pytest.approx(0.1)
    assert difference(np.array([np.nan]), np.array([1.0])) == np.inf
    assert difference(np.ones(2), np.ones(3)) == np.inf


def test_ratios_appear_where_both_sides_have_numbers() -> None:
    table = Table()
    table.put("a", "ours", 2.0)
    table.put("a", "eager", 8.0)
    assert "ours / best strict" not in table.row("a")
    table.put("a", "compiled", 4.0)
    assert table.row("a")["ours / best strict"] == 0.5
    assert "| a | 2 | 8 | 4 | 0.5 | 0.5 |" in table.markdown()


def test_what_is_missing_is_a_dash_with_its_reason_below() -> None:
    table = Table()
    table.expect(["a", "b"])
    table.put("b", "ours", 1.0)
    table.put("a", "ours", 2.0)
    table.put("a", "JAX", 2.5)
    table.miss("b", "JAX", "it is not there")
    shown = table.markdown()
    assert shown.index("| a | 2 | 2.5 | 0.8 |") < shown.index("| b | 1 | - | - |")
    assert "- JAX has no number for b: it is not there" in shown


def test_whoever_computes_something_else_is_named() -> None:
    table = Table()
    table.put("a", "JAX: difference", 0.5)
    table.put("a", "TF32 compiled: difference", 0.5)
    assert "- a: JAX is 5.0e-01 away from ours" in table.markdown()
    assert "TF32 compiled is" not in table.markdown()


class _Fails:
    """A contender that cannot run, or breaks while it is timed."""

    name = "JAX"

    def __init__(self, error: Exception, *, at_once: bool) -> None:
        self._error = error
        self._at_once = at_once

    def columns(self, *, trains: bool) -> tuple[str, ...]:
        return () if trains else (self.name,)

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        if self._at_once:
            raise self._error
        yield Running(np.zeros(1), {self.name: self._fail}, lambda: one)

    def _fail(self) -> None:
        raise self._error


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Absent("no such device"), "no such device"),
        (ImportError("No module named 'jax'"), "cannot be imported: No module named 'jax'"),
        (RuntimeError("out of memory\nand more"), "RuntimeError: out of memory"),
    ],
)
def test_a_failure_is_a_reason_and_no_crash(
    *,
    at_once: bool,
    error: Exception,
    reason: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = tuple(Case(DIGITS, 2, trains=trains) for trains in (False, True))
    monkeypatch.setattr(worker, "cases", lambda **_: both)
    monkeypatch.setattr(worker, "CONTENDERS", {"JAX": lambda _: _Fails(error, at_once=at_once)})
    chosen = [case.name for case in both]
    options = argparse.Namespace(small=True, cases=chosen, contenders=["JAX"], folder=tmp_path)
    with ExitStack() as stack:
        one = worker.Worker(options, stack)
        one.prepare()
        one.measure()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith(worker.MARK)]
    found = [message for line in lines if "reason" in (message := json.loads(line[1:]))]
    assert found == [{"case": chosen[0], "contender": "JAX", "reason": reason}]


def test_the_command_goes_on_without_a_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "table.json"
    words = ["--small", "--only", "resnet18, 2, infer", "--contenders", "ours"]
    main([*words, "--device", "wgpu:99", "--json", str(written)])
    (missing,) = json.loads(written.read_text())["missing"]["ours"]
    assert missing.startswith("there is no adapter 99") or "no adapter was found" in missing
    assert f"- ours has no number for any case: {missing}" in capsys.readouterr().out
