"""A program is proved before anything is made of it, whatever is to be made and whoever asks."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import typer

import meganeura as api
from meganeura.cli.app import command_line
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.support.disk_cache import user_cache
from tests.cli.command import Command

ROOT = Path(__file__).parents[2]

ARGUMENTS = {
    "abi": ["{}:net"],
    "build": ["{}:fit"],
    "deploy": ["{}:net", "--weights", "w.safetensors", "-o", "o.safetensors"],
    "explain-opt": ["{}:net"],
    "export": ["{}:net", "--random-weights", "0", "-o", "o.onnx"],
    "fit": ["{}:fit", "--device", "cpu"],
    "generate": ["{}:net", "--random-weights", "0", "--prompt", "x"],
    "graph": ["{}:net", "-o", "net.dot"],
    "gradcheck": ["{}", "--examples", "1"],
    "profile": ["{}:net", "--device", "cpu"],
    "run": ["{}:net", "--random-weights", "0", "--input", "x.npy"],
    "shapes": ["{}:net"],
    "evaluate": ["{}:fit", "--weights", "w.safetensors", "--device", "cpu"],
    "predict": ["{}:net", "p.png", "--weights", "w.safetensors", "--device", "cpu"],
    "quantize": ["{}:net", "--weights", "w.safetensors", "-o", "o.safetensors"],
    "summary": ["{}:net"],
    "train": ["{}:fit", "--device", "cpu", "--set", "epochs=1"],
    "tune": ["{}:net"],
    "weights check": ["{}:net", "w.safetensors"],
}
"""The arguments with which each command is given a program."""

MAKES_NOTHING = {
    "cache",
    "check",
    "compare",
    "devices",
    "docs",
    "explain",
    "fmt",
    "import",
    "lsp",
    "report",
    "weights get",
    "weights list",
}
"""Commands that make nothing of a program; `check` is what the others are held against."""

RESNET = (ROOT / "stdlib_models" / "resnet.mgn").read_text()
BASIC_BLOCK = RESNET[RESNET.index("def down") : RESNET.index("block Bottleneck")]
SOUND = f"""{BASIC_BLOCK}
block Net(classes)(image: [n, 4, h, w]) -> [n, classes]:
  return image |> layer1: BasicBlock(4) |> mean(2, 3) |> fc: linear(classes)

model net = Net(10)
model other = Net(5)

expect other has 8 params

train fit(image: [batch, 4, 8, 8], label: i32[batch])
    where batch >= 2:
  minimize cross_entropy(image |> net, label)
  run:
    data      = "images.safetensors"
    batch     = 32
    epochs    = 8
    optimizer = sgd(lr=0.05)
"""
BROKEN = SOUND.replace("stride != 1 or ", "")
FALSE = SOUND.replace("has 8 params", "has 9 params")
"""An expectation that fails of a model that no command of this page asks for."""


def verbs(of: typer.Typer | None = None, before: str = "") -> Iterator[str]:
    """Every command there is."""
    of = of or command_line()
    for each in of.registered_commands:
        assert each.callback is not None
        yield before + (each.name or each.callback.__name__.replace("_", "-"))
    for group in of.registered_groups:
        assert group.typer_instance is not None
        yield from verbs(group.typer_instance, f"{before}{group.name} ")


def reports(text: str) -> str:
    """Returns the reports of `check`, without its summary."""
    return text[: text.rindex("\n\n")]


def test_every_command_is_known_here() -> None:
    assert set(verbs()) == ARGUMENTS.keys() | MAKES_NOTHING


@cache
def told_by_check(text: str) -> str:
    """Returns the output of `check` for a text in the file `net.mgn`."""
    result = pipeline.check(Source("net.mgn", text), pipeline.loader_beside(Path("net.mgn")))
    assert not result.fine
    return "\n\n".join(render(report) for report in result.reports)


@pytest.mark.parametrize("verb", sorted(set(verbs()) - MAKES_NOTHING))
@pytest.mark.parametrize("text", [BROKEN, FALSE], ids=["refuted", "false expectation"])
def test_every_command_refuses_what_check_refuses(
    meganeura: Command, text: str, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mgn").write_text(text)
    told = told_by_check(text)
    assert ("E0301" if text == BROKEN else "E0401") in told
    found = meganeura(*verb.split(), *(each.format("net.mgn") for each in ARGUMENTS[verb]))
    assert (found.code, found.out) == (1, "")
    assert found.err.strip() == told.strip()
    assert [path.name for path in tmp_path.iterdir()] == ["net.mgn"]


def test_check_itself_says_the_same(
    meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.mgn").write_text(BROKEN)
    checked = meganeura("check", "net.mgn")
    assert checked.code == 1
    assert reports(checked.out).strip() == meganeura("abi", "net.mgn").err.strip()


def test_one_block_is_not_checked_alone(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(BROKEN)
    found = meganeura("gradcheck", str(file), "--block", "BasicBlock", "--examples", "1")
    assert (found.code, found.out) == (1, "")
    assert "E0301" in found.err


@pytest.mark.parametrize("text", [BROKEN, FALSE], ids=["refuted", "false expectation"])
def test_python_is_refused_as_well(text: str, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(text)
    with pytest.raises(ProblemsError) as refusal:
        api.load(f"{file}:net")
    said = [problem.report() for problem in refusal.value.problems]
    assert [render(each) for each in said] == [
        render(each) for each in api.check(str(file)).reports
    ]


def test_a_refuted_block_of_another_file_refuses_who_uses_it(tmp_path: Path) -> None:
    broken = BASIC_BLOCK.replace("stride != 1 or ", "")
    (tmp_path / "blocks.mgn").write_text(f"{broken}\nblock Fine()(x: [n]) -> [n] = x\n")
    user = tmp_path / "user.mgn"
    user.write_text(
        "from blocks import BasicBlock\n"
        "block Net()(x: [n, 4, h, w]) -> [n, 4, h, w]:\n  return x |> a: BasicBlock(4)\n"
        "model net = Net()\n"
    )
    with pytest.raises(ProblemsError, match=r"E0301(.|\n)*blocks\.mgn:"):
        api.load(str(user))
    user.write_text("from blocks import BasicBlock\nmodel net = BasicBlock(c=4)\n")
    with pytest.raises((ProblemError, ProblemsError), match="E0301"):
        api.load(str(user))
    user.write_text("from blocks import Fine\nmodel net = Fine()\n")
    assert api.load(str(user)).models == ("net",)


def test_what_is_sound_is_refused_by_none(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(SOUND)
    assert api.check(str(file)).reports == ()
    assert api.load(str(file)).models == ("net", "other")


def test_what_only_some_models_prove_runs_and_is_noted(meganeura: Command, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM)
    shown = meganeura("abi", str(file))
    assert shown.code == 0
    assert shown.err.startswith("note[N0001]: `Mlp` is checked in each model that uses it")
    assert "N0001" not in shown.out
    assert [note.code for note in api.load(str(file)).notes] == ["N0001"]
    assert api.load("digits_mlp").notes == ()


def test_a_standard_program_is_noted_where_it_is_asked_for(meganeura: Command) -> None:
    assert meganeura("abi", "resnet18").err == ""
    assert {note.code for note in api.load("resnet18").notes} == {"N0001"}


# --- what is remembered --------------------------------------------------------------------------

MLP = "block Mlp(widths)(x: [n, 8]) -> [n, widths[0]]:\n  return x |> fc: linear(widths[0])\n"
PROGRAM = f"{MLP}model net = Mlp([4])\n"
WRONG = "model none = Mlp([])\n"
"""A model that is refused."""


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were proved."""
    made: list[str] = []
    run = pipeline.Checker.run

    def counted(checker: pipeline.Checker) -> pipeline.CheckResult:
        made.append(checker.module.source.name)
        return run(checker)

    monkeypatch.setattr(pipeline.Checker, "run", counted)
    monkeypatch.setattr("meganeura_dsl.proof_cache._in_memory", {})
    monkeypatch.setattr("meganeura_dsl.proof_cache.user_cache", user_cache)
    return made


@pytest.fixture
def processes(proofs: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The same, where each program is loaded as if in its own process."""
    monkeypatch.setattr("meganeura_dsl.proof_cache._in_memory", Forgetful())
    return proofs


class Forgetful(dict[str, bytes]):
    """A memory that holds nothing."""

    def __setitem__(self, key: str, value: bytes) -> None:
        pass


def test_a_proof_is_made_once_for_each_content(
    processes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    in_turn(processes, tmp_path, monkeypatch)


def test_so_it_is_within_a_process_that_keeps_nothing_on_disk(
    proofs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_turn(proofs, tmp_path, monkeypatch)
    assert {path.name for path in tmp_path.iterdir()} == {"net.mgn", "part.mgn"}


def in_turn(proofs: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is loaded again and again, and changed now and then."""
    (folder / "part.mgn").write_text(MLP)
    file = folder / "net.mgn"
    file.write_text("from part import Mlp\n" + PROGRAM.removeprefix(MLP))
    for _ in range(2):
        api.load(str(file))
    assert len(proofs) == 1
    (folder / "part.mgn").write_text(f"{MLP}# changed\n")
    api.load(str(file))
    assert len(proofs) == 2
    file.write_text(PROGRAM)
    first, again = api.load(str(file)).notes, api.load(str(file)).notes
    assert len(proofs) == 3
    assert [render(note) for note in first] == [render(note) for note in again] != []
    monkeypatch.setattr("meganeura_dsl.proof_cache.front_end", lambda: "another compiler")
    api.load(str(file))
    assert len(proofs) == 4


def test_a_process_keeps_a_bounded_number_of_proofs(
    proofs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meganeura_dsl.proof_cache.MOST_IN_MEMORY", 2)
    file = tmp_path / "net.mgn"
    for made, number in enumerate((1, 2, 3, 1), start=1):
        file.write_text(f"{PROGRAM}# {number}\n")
        for _ in range(2):
            api.load(str(file))
        assert len(proofs) == made


def test_what_check_proved_is_not_proved_again(
    processes: list[str], meganeura: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM)
    assert meganeura("check", str(file)).code == 0
    assert meganeura("abi", str(file)).code == 0
    assert len(processes) == 1
    assert "1 file" in meganeura("cache").out
    assert meganeura("cache", "--clear").out.startswith("removed 1 file")
    assert meganeura("abi", str(file)).code == 0
    assert len(processes) == 2


def test_nothing_is_remembered_where_it_is_off_or_fails(
    processes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM)
    for _ in range(2):
        api.load(str(file))
    assert len(processes) == 2
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    file.write_text(f"{PROGRAM}expect net has 3 params\n")
    for _ in range(2):
        with pytest.raises(ProblemsError):
            api.load(str(file))
    assert len(processes) == 4


@pytest.mark.parametrize("cache", ["cache", "off"])
@pytest.mark.parametrize("checked", ["net.mgn", "net.mgn:net", "net.mgn:none"])
def test_a_check_leaves_no_proof_of_what_it_refuses_or_passes_over(
    proofs: list[str], checked: str, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One model of the file is fine, the other is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEGANEURA_CACHE", cache)
    Path("net.mgn").write_text(PROGRAM + WRONG)
    assert not pipeline.check_file(checked).fine
    for target in ("net.mgn:net", "net.mgn"):
        with pytest.raises(ProblemsError):
            api.load(target)
    assert len(proofs) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["net.mgn"]


NOTE = (
    b'[{"code": "N", "severity": "note", "headline": "", "topic": "", "label": [%s, ""], '
    b'"remarks": [], "help": null, "path": ""}]'
)
DAMAGED = [b"[", b"1", b"[{}]", b'[{"code": 1}]', NOTE % b"[9, 0, 0]", NOTE % b"[0, 5, 1]"]


@pytest.mark.parametrize("content", DAMAGED)
def test_what_makes_no_sense_is_proved_again(
    content: bytes, processes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEGANEURA_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM)
    monkeypatch.setattr("meganeura_dsl.support.disk_cache.DiskCache.find", lambda *_: content)
    api.load(str(file))
    assert len(processes) == 1
