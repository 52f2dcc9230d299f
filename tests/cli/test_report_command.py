"""`meganeura report` and `meganeura compare`: pages and texts made from the folders of runs."""

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.command import Command

SPEED = {"steps_per_second": 20.0, "learning_rate": 0.1}


def run(folder: Path, *, losses: tuple[float, ...], lr: float) -> Path:
    """The folder of a run of an evaluation for each loss."""
    folder.mkdir(parents=True)
    records: list[dict[str, object]] = []
    for number, loss in enumerate(losses, 1):
        place = {"step": 10 * number, "epoch": number - 1}
        records += [
            {"kind": "step", **place, "loss": 2 * loss, "accuracy": 1 - loss, **SPEED},
            {"kind": "epoch", **place, "loss": 1.5 * loss, "steps": 10, "seconds": 0.5},
            {"kind": "held_out", **place, "loss": loss, "accuracy": 1 - loss},
        ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    settings = {"epochs": len(losses), "seed": 0, "optimizer": {"kind": "sgd", "lr": lr}}
    (folder / "settings.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return run(tmp_path / "runs" / "fit-1", losses=(0.5, 0.25, 0.375), lr=0.1)


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return run(tmp_path / "runs" / "fit-2", losses=(0.5, 0.125), lr=0.2)


def test_the_page_is_written_into_the_folder(meganeura: Command, first: Path) -> None:
    shown = meganeura("report", str(first))
    assert (shown.code, shown.out, shown.err) == (0, f"{first / 'report.html'}\n", "")
    assert "<title>fit-1</title>" in (first / "report.html").read_text()


def test_or_where_it_is_wanted(meganeura: Command, first: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert meganeura("report", str(first), "-o", str(page)).code == 0
    assert page.is_file()
    assert not (first / "report.html").exists()


@pytest.mark.parametrize("name", ["metrics.jsonl", "settings.json", "link.jsonl"])
def test_a_file_of_the_run_is_no_place_for_its_page(
    meganeura: Command, first: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / "link.jsonl").symlink_to(first / "metrics.jsonl")
    before = (first / "metrics.jsonl").read_text()
    out = tmp_path / name if name == "link.jsonl" else first / name
    shown = meganeura("report", str(first), "-o", str(out))
    assert shown.code == 2
    assert "the name ends in .html" in shown.err
    assert (first / "metrics.jsonl").read_text() == before


def test_steps_in_any_order_are_drawn(meganeura: Command, first: Path) -> None:
    path = first / "metrics.jsonl"
    path.write_text("".join(f"{line}\n" for line in reversed(path.read_text().splitlines())))
    assert meganeura("report", str(first), "--terminal").code == 0


def test_in_a_terminal_curves_are_drawn(meganeura: Command, first: Path) -> None:
    shown = meganeura("report", str(first), "--terminal")
    assert (shown.code, shown.err) == (0, "")
    head, *drawn = shown.out.rstrip("\n").split("\n\n")
    assert head == "fit-1: 30 steps"
    (losses,) = [each for each in drawn if each.startswith("loss, held out")]
    title, *rows = losses.splitlines()
    assert title == "loss, held out: 0.5 to 0.375"
    assert len(rows) == 5
    assert rows[0].split() == ["0.5", "█" * len(rows[0].split()[1])]
    assert rows[-1].startswith("      0.25 █")
    assert not (first / "report.html").exists()


def test_a_steep_curve_is_drawn_by_its_logarithm(meganeura: Command, tmp_path: Path) -> None:
    shown = meganeura(
        "report", str(run(tmp_path / "r", losses=(1.0, 0.1, 0.01), lr=1.0)), "--terminal"
    )
    assert "loss, held out: 1 to 0.01, by its logarithm" in shown.out


def test_a_terminal_without_blocks_has_a_plain_sign(
    meganeura: Command, first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert meganeura("report", str(first), "--terminal").code == 0
    stream.seek(0)
    assert " #####" in stream.read()


def test_runs_are_compared_in_a_table_and_a_page(
    meganeura: Command, first: Path, second: Path
) -> None:
    shown = meganeura("compare", str(first), str(second))
    assert (shown.code, shown.err) == (0, "")
    rows = [line.rsplit(maxsplit=2) for line in shown.out.splitlines() if line.strip()]
    table = {tuple(row[:-2]): row[-2:] for row in rows[:-1]}
    assert table.pop(()) == ["fit-1", "fit-2"]
    assert {key[0].strip(): value for key, value in table.items()} == {
        "loss, held out, final": ["0.375", "0.125"],
        "loss, held out, at the best evaluation": ["0.25", "0.125"],
        "accuracy, held out, final": ["0.625", "0.875"],
        "accuracy, held out, at the best evaluation": ["0.75", "0.875"],
        "loss, epoch mean": ["0.5625", "0.1875"],
        "steps": ["30", "20"],
        "steps per second": ["20", "20"],
        "time": ["-", "-"],
        "status": ["-", "-"],
        "device": ["-", "-"],
        "epochs": ["3", "2"],
        "optimizer.lr": ["0.1", "0.2"],
    }
    page = first.parent / "compare.html"
    assert shown.out.splitlines()[-1] == str(page)
    assert '"label":"fit-2"' in page.read_text()


def test_the_page_of_a_comparison_goes_where_it_is_wanted(
    meganeura: Command, first: Path, second: Path, tmp_path: Path
) -> None:
    assert meganeura("compare", str(first), str(second), "-o", str(tmp_path / "c.html")).code == 0
    assert (tmp_path / "c.html").is_file()
    assert not (first.parent / "compare.html").exists()


def test_what_is_no_run_is_a_mistake_of_the_command_line(
    meganeura: Command, first: Path, tmp_path: Path
) -> None:
    for arguments in (["report", str(tmp_path)], ["compare", str(first), str(tmp_path)]):
        shown = meganeura(*arguments)
        assert (shown.code, shown.out) == (2, "")
        assert f"error[E0620]: `{tmp_path}` is not the folder of a run" in shown.err


def test_arguments_that_contradict_each_other_are_refused(meganeura: Command, first: Path) -> None:
    assert meganeura("compare", str(first)).code == 2
    assert meganeura("report", str(first), "--terminal", "-o", "x.html").code == 2
