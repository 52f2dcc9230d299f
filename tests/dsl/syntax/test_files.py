"""Reading a file gives its text, or a problem that says what is wrong with the file."""

from pathlib import Path

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, Report
from meganeura_dsl.syntax.parser.parser import LARGEST
from meganeura_dsl.syntax.parser.source_files import decode, read_source
from tests.dsl.syntax.trees import PROGRAMS, place, program


def report_of(path: Path) -> Report:
    with pytest.raises(ProblemError) as caught:
        read_source(path)
    return caught.value.problem.report()


def test_read() -> None:
    path = PROGRAMS / "resnet.mgn"
    source = read_source(path)
    assert (source.name, source.text) == (str(path), program("resnet"))
    assert read_source(path, "resnet").name == "resnet"


def test_line_breaks_and_letters_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.mgn"
    path.write_bytes("# größe\r\ndef f() = 1".encode())
    assert read_source(path).text == "# größe\r\ndef f() = 1"


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.mgn"
    path.write_bytes(b"\xef\xbb\xbfdef f() = 1\n")
    assert read_source(path).text == "def f() = 1\n"


def test_missing(tmp_path: Path) -> None:
    report = report_of(tmp_path / "no.mgn")
    assert report.code == "E0119"
    assert report.headline.endswith("no.mgn`: there is no such file")
    assert report.label is None


def test_folder(tmp_path: Path) -> None:
    assert report_of(tmp_path).headline.endswith("this is a folder")


def test_no_path() -> None:
    assert report_of(Path("a\0b")).headline.endswith("this is no path")


def test_path_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert report_of(tmp_path / "a" / "b.mgn").headline.endswith(": not a directory")


@pytest.mark.parametrize(
    ("data", "expected", "label"),
    [
        (b"def f() = 1\n# caf\xe9\n", (2, 6), "byte 0xe9 at offset 17"),
        ("é".encode() + b"\xff", (1, 2), "byte 0xff at offset 2"),
        (b"\xef\xbb\xbf\xff", (1, 1), "byte 0xff at offset 3"),
        ("def \N{REPLACEMENT CHARACTER}\n".encode() + b"\xc3", (2, 1), "byte 0xc3 at offset 8"),
    ],
)
def test_not_utf8(data: bytes, expected: tuple[int, int], label: str) -> None:
    with pytest.raises(ProblemError) as caught:
        decode(data, "a.mgn")
    report = caught.value.problem.report()
    assert report.label is not None
    assert (report.code, place(report.label.span)[:2]) == ("E0118", expected)
    assert report.label.text == label


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "a.mgn"
    path.write_bytes(b"#" * (LARGEST + 1))
    assert report_of(path).code == "E0117"
    path.write_bytes(b"#" * LARGEST)
    assert len(read_source(path).text) == LARGEST
