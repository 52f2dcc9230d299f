"""Files that the imports of a file lead to."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import Severity, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.pipeline import Program, check, check_file, elaborate_model

DEPTH = 8


def file(depth: int) -> Source:
    """A file of eight blocks, each of which applies one of the next file, if there is one."""
    text = [f"from file{depth + 1} import {', '.join(names(depth + 1))}"] if depth < DEPTH else []
    for own, below in zip(names(depth), names(depth + 1), strict=True):
        result = f"x |> {below}" if depth < DEPTH else "x * 2"
        text += [f"block {own}()(x: [n]) -> [n]:", f"  return {result}", ""]
    return Source(f"file{depth}.mgn", "\n".join(text))


def names(depth: int) -> list[str]:
    return [f"{letter}_of_{depth}" for letter in "abcdefgh"]


def load(name: tuple[str, ...]) -> Source:
    return file(int(name[-1].removeprefix("file")))


def test_each_file_is_visited_once_however_many_names_lead_to_it() -> None:
    sink = Sink()
    sources = Linker(load, sink).link(file(0)).sources()
    assert not sink.has_errors
    assert [source.name for source, _ in sources] == [f"file{at}.mgn" for at in range(DEPTH + 1)]
    for depth, (_, found) in enumerate(sources[:-1], 1):
        assert found == tuple((name, depth) for name in names(depth))


def test_a_block_behind_many_files_is_checked() -> None:
    assert check(file(0), load).reports == ()


DECLARED = {
    "def": "def {}(k) = k + 1\n",
    "block": "block {}()(x: [n]) -> [n] = x\n",
    "model": "block b()(x: [n]) -> [n] = x\nmodel {} = b()\n",
    "train": "train {}(x: [n, 3]):\n  minimize sum(x |> l: linear(1))\n",
}


@pytest.mark.parametrize("second", DECLARED)
@pytest.mark.parametrize("first", DECLARED)
def test_a_name_is_declared_once_whatever_is_declared(first: str, second: str) -> None:
    before = DECLARED[first].replace("b()", "b1()").format("same")
    behind = DECLARED[second].replace("b()", "b2()")
    text = before + behind.format("same")
    reports = check(Source("net.mgn", text), lambda _: None).reports
    (report,) = (each for each in reports if each.severity is Severity.ERROR)
    assert (report.code, report.headline) == ("E0213", "`same` is declared twice")
    assert report.label is not None
    assert report.label.span.start == text.rindex(" same") + 1
    assert [each.span and each.span.start for each in report.remarks] == [text.index(" same") + 1]
    assert check(Source("net.mgn", before + behind.format("other")), lambda _: None).fine


WIDER = """\
block linear(c)(x: [n, d]) -> [n, c]:
  param w: [d, c + {}] = ones
  return (x @ w)[:, :c]
"""
NAMED = {
    "of the library": ("", [(4, 3), (4,)]),
    "imported": ("from wide import linear\n", [(3, 5)]),
    "imported again": ("from wide import linear\n" * 2, [(3, 5)]),
    "of the file": (f"from wide import linear\n{WIDER.format(3)}", [(3, 7)]),
}


FILES = {
    "wide": WIDER.format(1),
    "long": WIDER.format(2),
    "two": "from wide import linear\nfrom long import linear\n"
    "block Net()(x: [n, 3]) -> [n, 4] = x |> fc: linear(4)\n",
}


def find(words: tuple[str, ...]) -> Source | None:
    return Source(f"{words[-1]}.mgn", FILES[words[-1]])


@pytest.mark.parametrize("name", NAMED)
def test_a_name_means_what_is_nearest(name: str) -> None:
    text, shapes = NAMED[name]
    text += "block Net()(x: [n, 3]) -> [n, 4] = x |> fc: linear(4)\nmodel net = Net()\n"
    sink = Sink()
    module = Linker(find, sink).link(Source("net.mgn", text))
    assert not sink.has_errors
    found = elaborate_model(Program(module), "net").parameters
    assert [each.type.shape for each in found] == shapes


TWO = {
    "one line each": ("from wide import linear\nfrom long import linear\n", 1, 2),
    "behind others": (
        "from wide import linear\nfrom wide import linear\nfrom long import linear",
        1,
        3,
    ),
    "and of the file": (
        f"from long import linear\nfrom wide import linear\n{WIDER.format(3)}",
        1,
        2,
    ),
}


@pytest.mark.parametrize("name", TWO)
def test_a_name_of_two_files_is_refused_where_it_is_imported_again(name: str) -> None:
    text, first, second = TWO[name]
    (report,) = check(Source("net.mgn", text), find).reports
    assert (report.code, report.headline) == ("E0232", "`linear` is imported from two files")
    assert report.label is not None
    assert (report.label.span.line, report.label.span.text) == (second, "linear")
    assert [each.span and each.span.line for each in report.remarks] == [first]


def test_a_name_of_two_files_is_refused_in_a_file_that_is_imported() -> None:
    reports = check(Source("net.mgn", "from two import Net\n"), find).reports
    assert [each.code for each in reports] == ["E0232"]


@pytest.mark.parametrize("imported", ["", "from loss import mse\n"])
def test_what_is_imported_from_the_library_is_the_library_s(imported: str, tmp_path: Path) -> None:
    path = tmp_path / "net.mgn"
    path.write_text(
        f"{imported}train fit(x: [batch, 4], y: [batch]):\n  minimize mse(x |> fc: linear(1), y)\n"
    )
    told = [each for each in check_file(str(path)).reports if each.severity is Severity.ERROR]
    assert [each.code for each in told] == ["E0503"]


def test_an_own_file_that_is_called_as_one_of_the_library_is_imported(tmp_path: Path) -> None:
    (tmp_path / "loss.mgn").write_text("block mse()(x: [n], y: [n]) -> [] = sum(x - y)\n")
    path = tmp_path / "net.mgn"
    path.write_text(
        "from loss import mse\nblock A()(x: [n], y: [n, 1]) -> [] = mse(x, y)\nmodel a = A()\n"
    )
    assert [each.code for each in check_file(str(path)).reports] == ["E0302"]
