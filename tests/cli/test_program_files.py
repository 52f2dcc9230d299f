"""Programs by folder and by standard input, annotations of a job, and the version of a language."""

import io
from pathlib import Path

import pytest

from meganeura.cli.driver.program_files import named_programs
from tests.cli.command import Command

FINE = "block Twice()(x: [n, d]) -> [n, d] = x + x\n"
LOOSE = "block Twice()(x: [n, d]) -> [n, d]  =  x+x\n"
WRONG = "block Twice()(x: [n, d]) -> [n, d] = x + y\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with programs in it, below it, and where none is looked for."""
    monkeypatch.chdir(tmp_path)
    for name in ("b.mgn", "inner/a.mgn", ".hidden/c.mgn", "env/lib/d.mgn", ".e.mgn", "notes.txt"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(LOOSE)
    Path("env/pyvenv.cfg").touch()
    Path("empty").mkdir()
    return tmp_path


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.usefixtures("folder")
def test_a_folder_stands_for_its_programs() -> None:
    assert named_programs([".", "b.mgn"]) == ["b.mgn", "inner/a.mgn"]
    Path("digits_cnn").mkdir()
    assert named_programs(["digits_cnn", "none.mgn", "-"]) == ["digits_cnn", "none.mgn", "-"]


@pytest.mark.usefixtures("folder")
def test_commands_take_folders(meganeura: Command) -> None:
    assert meganeura("fmt", "--check", ".").out == "would change b.mgn\nwould change inner/a.mgn\n"
    assert meganeura("fmt", "inner").out == "changed inner/a.mgn\n"
    assert Path("inner/a.mgn").read_text() == FINE
    assert [line.split(":")[0] for line in meganeura("check", ".").out.splitlines()] == [
        "b.mgn",
        "inner/a.mgn",
    ]
    for command in ("check", "fmt"):
        shown = meganeura(command, "empty")
        assert shown.code == 2
        assert "no file in `empty` ends in .mgn" in shown.err


def test_a_program_is_read_from_standard_input(
    meganeura: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, WRONG)
    shown = meganeura("check", "-", "--short")
    assert (shown.code, shown.out[:5]) == (1, "-:1:4")
    piped(monkeypatch, "from b import Twice\n" + FINE.replace("Twice", "Four"))
    assert meganeura("check", "-").out == "-: fine, 1 block proved for all sizes\n"
    piped(monkeypatch, LOOSE)
    assert meganeura("fmt", "-") == type(shown)(0, FINE, "")
    piped(monkeypatch, LOOSE)
    assert meganeura("fmt", "--check", "-").out == "would change -\n"
    refused = meganeura("check", "--fix", "-")
    assert refused.code == 2
    assert "it changes files" in refused.err
    assert not (folder / "-").exists()


@pytest.mark.usefixtures("folder")
def test_a_job_of_github_has_annotations_below_the_text(
    meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("wrong.mgn").write_text(WRONG)
    alone = meganeura("check", "wrong.mgn")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    shown = meganeura("check", "wrong.mgn")
    assert shown.out.startswith(alone.out)
    assert shown.out[len(alone.out) :].startswith("::error file=wrong.mgn,line=1,")
    assert meganeura("check", "wrong.mgn", "--short").out.count("::error") == 0


@pytest.mark.parametrize(
    ("first", "is_read"),
    [
        *(("# mgn 1", True), ("#mgn 01", True), ("# mgn one", True), ("# mgn 1 is next", True)),
        *(("# mgn 2", False), ("# mgn 0  ", False), ("# mgn 2 # new", False)),
        (f"# mgn {'9' * 5000}", False),
    ],
)
def test_the_first_line_states_the_version_of_the_language(
    first: str, *, is_read: bool, meganeura: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    piped(monkeypatch, f"{first}\n{FINE}")
    shown = meganeura("check", "-", "--short")
    assert shown.out.count("E0142") == (not is_read)
    assert shown.code == (not is_read)
    piped(monkeypatch, f"\n{first}\n{FINE}")
    assert meganeura("check", "-").code == 0, "another line is a comment"
