"""The measured choices: each is in the table, has an effect, and the command measures it."""

import pytest

from benchmarks.peers.models import LARGE, SMALL
from benchmarks.xla_choices import NAMES, case_of, main
from meganeura_runtime.backends.xla.config import measured_choices
from meganeura_runtime.backends.xla.config.measured_choices import CHOICES, Choice, disabled
from tests.runtime.backends.xla.command_lines import ROOT
from tests.shared_entries import cache_of_processes

COMMAND = (
    "--small --device xla:cpu --processes 1 --seconds 0.01 tanh-by-exponential unmixed-collectives"
)


def test_every_choice_is_in_the_table_once() -> None:
    found = [each for each in vars(measured_choices).values() if isinstance(each, Choice)]
    assert found == [*CHOICES]
    assert len(NAMES) == len(CHOICES)


def test_every_choice_can_be_measured() -> None:
    for choice in CHOICES:
        assert choice.workloads, choice.name
        for workload in choice.workloads:
            for small, models in ((True, SMALL), (False, LARGE)):
                assert case_of(workload, small=small).model in models


def test_figures_have_a_card_and_a_date() -> None:
    for choice in CHOICES:
        for figure in choice.figures:
            assert "NVIDIA" in figure.card
            assert figure.date.startswith("2026-")
        gains = [figure.without > (figure.chosen or 0) for figure in choice.figures]
        assert not gains or any(gains), choice.name


def test_a_choice_is_off_only_inside_of_the_block() -> None:
    first, second, *_ = CHOICES
    with disabled(first):
        assert (first.is_on, second.is_on) == (False, True)
    assert first.is_on


def test_a_name_of_no_choice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["split-sums"])
    assert "there is no choice split-sums; there are rounded-storage, " in capsys.readouterr().err


def test_the_command_measures_with_and_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "1")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("MEGANEURA_CACHE", cache_of_processes())
    main(COMMAND.split())
    head, row, other = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["choice", "workload", "without", "with"]
    assert row.startswith("tanh-by-exponential  gpt2-b4-train, bf16")
    assert "6.28 to 6.17 ms, NVIDIA H200, 2026-11-23" in row
    without, chosen, ratio = map(float, row.split()[3:6])
    assert ratio == pytest.approx(chosen / without, abs=0.01)
    assert "2 devices of the platform cpu are asked for; JAX has 1" in other
