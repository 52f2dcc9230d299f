"""Files whose pieces are compared with checksums when they are first read, and never again."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import chain
from pathlib import Path
from threading import get_ident
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import meganeura
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.files.file_problems import DamagedFile
from meganeura_runtime.io.tensors import checksums, verified_pieces
from meganeura_runtime.io.tensors.checksums import KEY, MARK, PIECES, runs_of_pieces
from meganeura_runtime.io.tensors.file_array import InFile
from meganeura_runtime.io.tensors.joined_array import joined
from meganeura_runtime.io.tensors.open_file import OpenFile
from meganeura_runtime.io.tensors.safetensors_file import open_tensors, write_tensors
from meganeura_runtime.io.tensors.verified_pieces import (
    RUN,
    WORTH_THREADS,
    VerifiedPieces,
    for_each_run,
)
from tests.folded import each_of

RANDOM = np.random.default_rng(0)
PIECE = 16 << 10
ROWS = RANDOM.integers(0, 255, (192, PIECE), np.uint8)
"""Rows of a piece each, three runs in all."""
ODD = RANDOM.normal(size=(700, 625)).astype(np.float32)
"""Rows of 2,500 bytes: pieces end inside of rows, and the last piece is short."""


class Counted:
    """Bytes that were read of files, and pieces that were summed, since it was made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self.sums = 0
        read, sum_ = OpenFile._read, verified_pieces.crc32

        def counted_read(file: OpenFile, memory: memoryview, offset: int) -> int:
            count = read(file, memory, offset)
            self.bytes += count
            return count

        def counted_sum(content: memoryview) -> int:
            self.sums += 1
            return sum_(content)

        patch.setattr(OpenFile, "_read", counted_read)
        patch.setattr(verified_pieces, "crc32", counted_sum)


def streamed(path: Path, name: str = "x") -> InFile:
    """A tensor of a file, as one that is too large for memory is read."""
    content = open_tensors(path, piecewise=True)[0][name].content
    assert isinstance(content, InFile)
    return replace(content, is_held=False)


def written(folder: Path, values: np.ndarray, name: str = "x.safetensors") -> Path:
    write_tensors(folder / name, {"x": values, "small": np.arange(3)}, {"who": "test"})
    return folder / name


def flip(path: Path, at: int) -> None:
    """Change a bit of a byte of the tensor at the end of a file."""
    content = bytearray(path.read_bytes())
    content[at] ^= 4
    path.write_bytes(content)


def refused(path: Path, call: Callable[[], object]) -> str:
    with pytest.raises(ProblemError) as caught:
        call()
    problem = caught.value.problem
    assert isinstance(problem, DamagedFile)
    assert problem.file == path
    return problem.damaged


@pytest.mark.parametrize("step", [1, 7, 64, 100, 192])
def test_in_order_each_byte_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    for values in (ROWS, ODD):
        content = streamed(written(tmp_path, values))
        with monkeypatch.context() as patch:
            counted = Counted(patch)
            for at in range(0, len(values), step):
                rows = slice(at, min(at + step, len(values)))
                found = content[rows] if at % 2 else content[np.arange(rows.start, rows.stop)]
                np.testing.assert_array_equal(found.view(values.dtype), values[rows])
        assert (counted.bytes, counted.sums) == (values.nbytes, -(-values.nbytes // PIECE))


def test_in_any_order_each_piece_is_summed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are pieces are read once too; others at most twice: with a neighbour, and alone."""
    for values, most in ((ROWS, 1), (ODD, 2)):
        content = streamed(written(tmp_path, values))
        with monkeypatch.context() as patch:
            counted = Counted(patch)
            for rows in np.array_split(RANDOM.permutation(len(values)), 20):
                np.testing.assert_array_equal(content[rows].view(values.dtype), values[rows])
        assert counted.bytes <= most * values.nbytes
        assert counted.sums == -(-values.nbytes // PIECE)
        with monkeypatch.context() as patch:
            counted = Counted(patch)
            content[RANDOM.permutation(len(values))]
        assert (counted.bytes, counted.sums) == (values.nbytes, 0)


def test_several_readers_sum_each_piece_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, counted = streamed(written(tmp_path, ODD)), Counted(monkeypatch)
    orders = [np.random.default_rng(seed).permutation(len(ODD)) for seed in range(4)]

    def read(order: np.ndarray) -> bool:
        return all(
            np.array_equal(content[rows].view(np.float32), ODD[rows])
            for rows in np.array_split(order, 30)
        )

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(read, orders))
    assert counted.sums == -(-ODD.nbytes // PIECE)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    size=st.integers(1, 90),
    fills=st.lists(st.lists(st.tuples(st.integers(0, 89), st.integers(0, 40)), max_size=3)),
)
def test_what_is_filled_is_what_the_file_has(
    tmp_path: Path, size: int, fills: list[list[tuple[int, int]]]
) -> None:
    """In pieces of 8 bytes, from the third byte of a file on."""
    content = RANDOM.bytes(size)
    (tmp_path / "x").write_bytes(b"abc" + content)
    sums = np.array([crc32(content[at : at + 8]) for at in range(0, size, 8)], np.uint32)
    pieces = VerifiedPieces(OpenFile(tmp_path / "x"), "x", 3, size, 1, 8, sums)
    for fill in fills:
        wanted = [
            (start % size, memoryview(bytearray(min(count, size - start % size))))
            for start, count in fill
        ]
        pieces.fill(wanted)
        for start, memory in wanted:
            assert bytes(memory) == content[start : start + len(memory)]


@pytest.mark.parametrize("piece", [0, 1, 63, 64, 106])
def test_a_bad_piece_is_named_when_it_is_read(tmp_path: Path, piece: int) -> None:
    path = written(tmp_path, ODD)
    start = path.stat().st_size - ODD.nbytes
    first, last = piece * PIECE, min((piece + 1) * PIECE, ODD.nbytes) - 1
    flip(path, start + last)
    row, end = first // 2500, last // 2500
    text = f"`x`, in bytes {first:,} to {last:,} (rows {row:,} to {end:,}),"
    assert refused(path, lambda: open_tensors(path)) == "`x`"
    content = streamed(path)
    others = np.array([each for each in range(700) if not row <= each <= end])
    np.testing.assert_array_equal(content[others].view(np.float32), ODD[others])
    for rows in (slice(row, row + 1), np.array([3, end]), slice(0, 700)):
        assert refused(path, lambda rows=rows: content[rows]) == text
    assert refused(path, content.all) == text


def test_every_flip_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, ODD)
    start = path.stat().st_size - ODD.nbytes
    for at in RANDOM.integers(0, ODD.nbytes, 40).tolist():
        flip(path, start + at)
        row = at // 2500
        assert "`x`, in bytes" in refused(path, lambda row=row: streamed(path)[row : row + 1])
        flip(path, start + at)
    flip(path, start - 1)  # of the other tensor, which is one piece
    streamed(path).all()
    assert refused(path, streamed(path, "small").all) == "`small`"


def test_shards_have_one_last_piece_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [written(tmp_path, part, f"{n}.safetensors") for n, part in enumerate((ODD, ODD[:501]))]
    parts = [streamed(path) for path in paths]
    both, counted = joined(parts, paths), Counted(monkeypatch)
    whole = np.concatenate([ODD, ODD[:501]])
    for at in range(0, len(whole), 64):
        rows = np.arange(at, min(at + 64, len(whole)))
        np.testing.assert_array_equal(both[rows].view(np.float32), whole[rows])
    assert counted.bytes == whole.nbytes
    lasts = [part.pieces.last for part in parts if part.pieces is not None]
    assert lasts[0] is lasts[1]
    assert lasts[0].held is None


# --- what a file says ----------------------------------------------------------------------------


def entry_of(values: np.ndarray, texts: Iterable[str]) -> str:
    """The entry of a file of one tensor `x`, as it was before there were pieces."""
    content = values.tobytes()
    runs = [crc32(content[at : at + RUN]) for at in range(0, len(content), RUN)]
    of_tensor = f"{crc32(np.array(runs, '<u4').tobytes()):08x}"
    shape = ", ".join(map(str, values.shape))
    header = 0
    for text in chain(("", *texts), ("", "x", f"f32[{shape}]"), ("", of_tensor)):
        header = crc32(text.encode(), crc32(b"%d:" % len(text), header))
    return f"{MARK} {header:08x} {of_tensor}"


def test_a_file_without_pieces_is_compared_when_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "old.safetensors"
    save_file({"x": ODD}, path, {"who": "test", KEY: entry_of(ODD, ["who", "test"])})
    counted = Counted(monkeypatch)
    content = streamed(path)
    assert counted.bytes >= ODD.nbytes
    assert content.pieces is None
    np.testing.assert_array_equal(content.all().view(np.float32), ODD)
    flip(path, path.stat().st_size - 9)
    assert refused(path, lambda: streamed(path)) == "`x`"


@pytest.mark.parametrize("size", [WORTH_THREADS - 1, WORTH_THREADS])
def test_what_comes_of_runs_is_in_their_order(size: int) -> None:
    """The order is the same with threads and without."""
    threads = set[int]()

    def work(run: int) -> int:
        threads.add(get_ident())
        return 2 * run

    assert for_each_run(work, range(20), size) == list(range(0, 40, 2))
    assert (get_ident() in threads) == (size < WORTH_THREADS)


def test_the_sums_of_tensors_are_those_there_were_before(tmp_path: Path) -> None:
    """So programs that know nothing of pieces read these files, and compare them."""
    path = tmp_path / "x.safetensors"
    write_tensors(path, {"x": ODD}, {"who": "test"})
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    metadata = header["__metadata__"]
    size, digits = metadata[PIECES].split(" ")
    assert int(size) == PIECE
    assert len(digits) == 8 * -(-ODD.nbytes // PIECE)
    assert metadata[KEY] == entry_of(ODD, [PIECES, metadata[PIECES], "who", "test"])
    assert open_tensors(path)[1] == {"who": "test"}
    again = tmp_path / "again.safetensors"
    write_tensors(again, {"x": ODD}, {"who": "test"})
    assert again.read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
        lambda text: text[:-8],
        lambda text: text + " 00000000",
        lambda text: text.replace("16384", "16383", 1),
        lambda text: text.replace("16384", "32768", 1),
        lambda text: text.replace("16384", "many", 1),
        lambda _: "",
    ],
)
def test_sums_of_pieces_that_are_no_such_are_refused(
    tmp_path: Path, change: Callable[[str], str]
) -> None:
    """Also where the sum of the header says that they are right, as anybody can compute it."""
    path = written(tmp_path, ODD)
    header = checksums._sum_of_header
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    entries = json.loads(content[8 : 8 + length])
    metadata = entries.pop("__metadata__")
    metadata[PIECES] = change(metadata[PIECES])
    sums = metadata[KEY].split(" ")
    types = {"x": "f32[700, 625]", "small": "i64[3]"}
    sums[1] = f"{header(metadata, types, sums[2:]):08x}"
    metadata[KEY] = " ".join(sums)
    save_file(load_file(path), path, metadata)
    assert refused(path, lambda: open_tensors(path, piecewise=True)) == "its header"
    assert refused(path, lambda: open_tensors(path)) == "its header"


@each_of("piece", [1 << 14, 1 << 16, 1 << 20])
@each_of("runs", [1, 2])
@each_of("rest", [1, (1 << 14) - 1, 1 << 16, (1 << 19) + 5, 1 << 20])
def test_sums_of_runs_follow_from_those_of_pieces(piece: int, runs: int, rest: int) -> None:
    content = RANDOM.bytes(runs * RUN + rest)
    sums = [crc32(content[at : at + piece]) for at in range(0, len(content), piece)]
    wanted = [crc32(content[at : at + RUN]) for at in range(0, len(content), RUN)]
    assert runs_of_pieces(np.array(sums, np.uint32), piece, len(content)).tolist() == wanted


@pytest.mark.parametrize("size", [RUN - 1, RUN, RUN + 1])
def test_a_tensor_that_is_longer_than_a_run_has_pieces(tmp_path: Path, size: int) -> None:
    """Beside one that has them in any case, and another that never has."""
    path = tmp_path / "x.safetensors"
    tensors = {"a": ODD, "x": np.resize(ROWS, size), "z": np.arange(3)}
    write_tensors(path, tensors, {})
    with safe_open(path, "np") as content:
        metadata = content.metadata()
    _, *digits = metadata[PIECES].split(" ")
    several = [ODD.nbytes, size] if size > RUN else [ODD.nbytes]
    assert [len(each) for each in digits] == [8 * -(-each // PIECE) for each in several]
    whole = [crc32(tensors["x"][at : at + RUN].tobytes()) for at in range(0, size, RUN)]
    sum_of_x = crc32(np.array(whole, "<u4").tobytes()) if len(whole) > 1 else whole[0]
    assert metadata[KEY].split(" ")[3] == f"{sum_of_x:08x}"
    for piecewise in (False, True):
        content = open_tensors(path, piecewise=piecewise)[0]["x"].content
        np.testing.assert_array_equal(content.all(), tensors["x"])
    flip(path, path.stat().st_size - 24 - 1)
    assert refused(path, lambda: open_tensors(path)) == "`x`"
    refused(path, lambda: streamed(path).all())


@pytest.mark.parametrize(
    ("gigabytes", "piece", "most"), [(10, 1 << 14, 5e6), (100, 1 << 17, 9e6), (2000, 1 << 20, 16e6)]
)
def test_the_header_stays_small(gigabytes: int, piece: int, most: float) -> None:
    size = gigabytes * 10**9
    assert checksums._piece_size({"x": size, "small": 12}) == piece
    assert 8 * size / piece < most


def test_pieces_are_as_small_as_the_header_allows() -> None:
    most = checksums.MOST_PIECES
    for size in (1 << 14, 1 << 17):
        assert checksums._piece_size({"x": size * most, "run": RUN}) == size
        assert checksums._piece_size({"x": size * most + 1}) == 2 * size
        assert checksums._piece_size({"x": size * most - RUN, "more": RUN + 1}) == 2 * size
    assert checksums._piece_size({"x": RUN * most * 2}) == RUN


# --- in a run ------------------------------------------------------------------------------------

PROGRAM = """\
train fit(x: [batch, 625]):
  minimize mean((x |> fc: linear(1)) ** 2)
  run:
    data   = "part-*.safetensors"
    batch  = 50
    epochs = 2
"""


def large(folder: Path, monkeypatch: pytest.MonkeyPatch) -> meganeura.Program:
    """A program whose data is taken for larger than memory."""
    monkeypatch.setattr("meganeura_runtime.io.data.dataset.READ_FIRST", 1 << 20)
    monkeypatch.setattr("meganeura_runtime.io.tensors.joined_array.HELD", 1 << 20)
    for number in range(2):
        write_tensors(folder / f"part-{number}.safetensors", {"x": ODD + number}, {})
    (folder / "fit.mgn").write_text(PROGRAM)
    return meganeura.load(folder / "fit.mgn")


def test_a_run_is_fed_as_from_memory_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = large(tmp_path, monkeypatch)
    counted = Counted(monkeypatch)
    log = {"log_every": 1}
    whole = program.train(device="cpu", settings=log, validation=0.1, out=tmp_path / "whole")
    assert counted.sums == 2 * -(-ODD.nbytes // PIECE)
    given = {"x": np.concatenate([ODD, ODD + 1])}
    same = program.train(data=given, device="cpu", settings=log, validation=0.1)
    assert whole.losses == same.losses
    assert whole.held_out == same.held_out
    program.train(
        device="cpu", settings={**log, "epochs": 1}, validation=0.1, out=tmp_path / "runs"
    )
    went_on = program.train(device="cpu", settings={"epochs": 2}, resume=tmp_path / "runs")
    assert went_on.weights is not None
    assert whole.weights is not None
    assert went_on.weights.read_bytes() == whole.weights.read_bytes()


def test_no_step_uses_a_bad_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows by which the data is known lie elsewhere, so the run begins."""
    program = large(tmp_path, monkeypatch)
    monkeypatch.setattr("meganeura_runtime.train.data.data_fingerprint.SAMPLED_ROWS", 4)
    path = tmp_path / "part-1.safetensors"
    flip(path, path.stat().st_size - ODD.nbytes + 2500 * 100)  # example 800 of all
    options = {"shuffle": False, "log_every": 1}
    with pytest.raises(ProblemError, match="E0542"):
        program.train(device="cpu", settings=options, out=tmp_path / "run")
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(line).get("step", 0) for line in lines]
    assert 0 < max(steps) <= 800 // 50
