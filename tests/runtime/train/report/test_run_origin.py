"""The command, the program and the repository of a run, as its page tells them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

import meganeura
from meganeura_dsl.diagnostics.source import Source
from meganeura_runtime.train.report.run_origin import (
    MOST_TEXT,
    Repository,
    repository_of,
    texts_of,
)
from meganeura_runtime.train.report.run_summary import summary_of
from meganeura_runtime.train.spec.resume import RunOptions
from tests.runtime.runs import Workspace

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")
    command = ("git", "-C", str(folder), *who, *words)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(shutil.which("git") is None, reason="git makes the repository")
def test_the_state_is_that_which_git_tells(tmp_path: Path) -> None:
    inner = tmp_path / "deep" / "er"
    inner.mkdir(parents=True)
    for name in ("a", "deep/b", "deep/er/c"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert repository_of(inner) == Repository(commit=commit, branch="main", changed=0)
    (tmp_path / "untracked").write_text("u")
    written = (tmp_path / "a").stat().st_mtime_ns
    (tmp_path / "a").write_text("c")  # of the same size and time: it is not read
    os.utime(tmp_path / "a", ns=(written, written))
    assert repository_of(inner) == Repository(commit=commit, branch="main", changed=0)
    (tmp_path / "a").write_text("a")
    os.utime(tmp_path / "a", (1, 1))  # touched, and the same text
    assert repository_of(inner) == Repository(commit=commit, branch="main", changed=0)
    (tmp_path / "a").write_text("b")  # of the same size
    (tmp_path / "deep" / "b").unlink()
    assert repository_of(inner) == Repository(commit=commit, branch="main", changed=2)
    git(tmp_path, "worktree", "add", "-b", "other", str(tmp_path / "second"))
    assert repository_of(tmp_path / "second") == Repository(
        commit=commit, branch="other", changed=0
    )
    git(tmp_path, "pack-refs", "--all")
    git(tmp_path, "checkout", "--detach")
    assert repository_of(inner) == Repository(commit=commit, changed=2)


def test_a_repository_that_is_damaged_is_none_and_its_index_is_not_needed(tmp_path: Path) -> None:
    assert repository_of(tmp_path) is None or repository_of(Path("/")) is None
    made = tmp_path / ".git"
    made.mkdir()
    assert repository_of(tmp_path) is None
    (made / "HEAD").write_text("ref: refs/heads/main\n")
    assert repository_of(tmp_path) is None
    (made / "HEAD").write_text(f"{COMMIT}\n")
    for index in (None, b"", b"DIRC", b"DIRC\0\0\0\2\0\0\0\1", b"DIRC\0\0\0\4\0\0\0\0"):
        if index is not None:
            (made / "index").write_bytes(index)
        assert repository_of(tmp_path) == Repository(commit=COMMIT)


def test_texts_that_are_too_long_are_counted() -> None:
    sources = [Source("a", "a"), Source("b", "b" * MOST_TEXT), Source("c", "c")]
    texts, left_out = texts_of(sources)
    assert ([each.name for each in texts], left_out) == (["a", "c"], 1)


def test_a_run_keeps_its_commands_and_its_program(workspace: Workspace) -> None:
    folder = workspace.start("run", options=RunOptions(command="meganeura train fit.mgn"), steps=7)
    about = summary_of(folder.path).description
    assert about is not None
    assert about.origin.commands == ("meganeura train fit.mgn",)
    (text,) = about.origin.texts
    assert text.text == (workspace.folder / "fit.mgn").read_text()
    assert about.origin.version == meganeura.__version__
    workspace.resume("run")
    about = summary_of(folder.path).description
    assert about is not None
    assert about.origin.commands == ("meganeura train fit.mgn",)


def test_files_of_the_package_are_no_part_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "own.mgn").write_text(
        "block Own()(x: [n, 4]) -> [n, 2]:\n  return x |> fc: linear(2)\n"
    )
    (tmp_path / "net.mgn").write_text(
        "from own import Own\nfrom resnet import resnet18\n"
        "model a = Own()\nmodel b = resnet18(classes=2)\n"
    )
    program = meganeura.load(str(tmp_path / "net.mgn"))
    names = [Path(each.name).name for each in program._program.sources]
    assert names == ["net.mgn", "own.mgn"]
