"""Tables as columns of numbers, texts as sequences of tokens."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from meganeura_dsl.diagnostics.problem import Problem, ProblemError
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.run_settings import ReaderOptions
from meganeura_dsl.symbolic.size import dim
from meganeura_runtime.io.data import tables, texts
from meganeura_runtime.io.data.data_problems import DataShape, DataType
from meganeura_runtime.io.data.dataset import Dataset, InputSpec, match_data
from meganeura_runtime.io.data.folder_problems import BadColumn, WrongReader
from meganeura_runtime.io.data.readers import Reader
from meganeura_runtime.io.data.source_problems import UnlikeShards
from meganeura_runtime.io.files.file_problems import NoSuchFile, NotFinite, UnreadableFile
from tests.effort import effort

BATCH = dim("batch")
POINTS = InputSpec(
    {"x": TensorType(DType.F32, (BATCH, 2)), "y": TensorType(DType.I32, (BATCH,))}, {"batch": 2}
)
IDS = InputSpec({"ids": TensorType(DType.I32, (BATCH, 5))}, {"batch": 2})
WIDE = ReaderOptions(columns={"x": ["width", "height"], "y": ["kind"]})
UNKNOWN = "[unk]"
CSV = "name,height,width,kind\nrose,1.5,2,0\naster,2.5,3,1\nlily,-1,4,1\n"


def read(path: Path, wanted: InputSpec, reading: ReaderOptions | None = None) -> Dataset:
    said = reading or ReaderOptions()
    preprocess = None if said.preprocess is None else Path(said.preprocess)
    tokenizer = None if said.tokenizer is None else Path(said.tokenizer)
    tensors = Reader(wanted, said, 0, preprocess, tokenizer).tensors(path)
    return match_data(tensors, wanted, path)


def refused(path: Path, wanted: InputSpec, reading: ReaderOptions | None = None) -> Problem:
    with pytest.raises(ProblemError) as caught:
        read(path, wanted, reading)
    caught.value.problem.report()
    return caught.value.problem


@pytest.mark.parametrize("suffix", ["csv", "tsv", "TSV", "parquet"])
def test_columns_feed_inputs(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"points.{suffix}"
    if suffix == "parquet":
        columns = {"height": [1.5, 2.5, -1.0], "width": [2, 3, 4], "kind": [0, 1, 1]}
        pyarrow.parquet.write_table(pa.table(columns), path)
    else:
        path.write_text(CSV.replace(",", "\t") if suffix != "csv" else CSV)
    fed = read(path, POINTS, WIDE).train.take(slice(0, 3))
    assert fed["x"].tolist() == [[2, 1.5], [3, 2.5], [4, -1]]
    assert fed["y"].tolist() == [0, 1, 1]


def test_a_process_may_end_as_soon_as_a_table_is_read(tmp_path: Path) -> None:
    """No thread of pyarrow wants the interpreter then, as one would that releases a file."""
    pyarrow.parquet.write_table(pa.table({"width": [1.0, None] * 20}), tmp_path / "x.parquet")
    text = (
        "import sys; from pathlib import Path; from meganeura_runtime.io.data import tables; "
        "tables._read(Path(sys.argv[1]), ['width']); sys.exit(2)"
    )
    command = [sys.executable, "-c", text, str(tmp_path / "x.parquet")]
    running = [subprocess.Popen(command) for _ in range(effort(1, 2))]
    assert {each.wait() for each in running} == {2}


def test_shards_of_a_table_are_joined(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"points-{number}.csv").write_text(CSV)
    assert read(tmp_path / "points-*.csv", POINTS, WIDE).train.examples == 6


def test_a_column_of_the_name_of_the_input_feeds_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("y,x\n1,2\n3,4\n")
    one = InputSpec({"y": TensorType(DType.I32, (BATCH,))}, {"batch": 1})
    assert read(tmp_path / "a.csv", one).train.take(slice(0, 2))["y"].tolist() == [1, 3]
    assert isinstance(refused(tmp_path / "a.csv", POINTS), DataShape)
    named = replace(one, tensors={"y": "x"})
    assert read(tmp_path / "a.csv", named).train.take(slice(0, 2))["y"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("text", "columns", "kind"),
    [
        (CSV, {"x": ["width", "depth"], "y": ["kind"]}, BadColumn),
        (CSV, {"x": ["width", "name"], "y": ["kind"]}, BadColumn),
        (CSV, {"z": ["width"]}, BadColumn),
        (CSV.replace("name", "width"), {"x": ["width", "height"], "y": ["kind"]}, BadColumn),
        (CSV.replace("2.5", ""), {"x": ["width", "height"], "y": ["kind"]}, BadColumn),
        (CSV.replace("2.5", "nan"), {"x": ["width", "height"], "y": ["kind"]}, BadColumn),
        (CSV.replace("2.5", "inf"), {"x": ["width", "height"], "y": ["kind"]}, NotFinite),
        (CSV, {"x": ["width", "height"], "y": ["height"]}, DataType),
        (CSV, {"x": [], "y": ["kind"]}, BadColumn),
        (CSV, {"x": ["width", "height"], "y": []}, BadColumn),
        ("a,b\n1,2,3\n", {"x": ["a", "b"], "y": ["a"]}, UnreadableFile),
        ("", {"x": ["a", "b"], "y": ["a"]}, UnreadableFile),
    ],
)
def test_what_is_no_number_is_refused(
    tmp_path: Path, text: str, columns: dict[str, list[str]], kind: type[Problem]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert isinstance(refused(tmp_path / "a.csv", POINTS, ReaderOptions(columns=columns)), kind)


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"kind": list(range(1000))}), path)
    content = path.read_bytes()
    for damaged in (
        content[:-100],
        b"PAR1" + content[200:],
        content[:4] + bytes(100) + content[104:],
    ):
        path.write_bytes(damaged)
        assert isinstance(refused(path, POINTS, WIDE), UnreadableFile | BadColumn)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_larger_than_memory_should_be_is_refused(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a Parquet file the columns count that are read, and of another its bytes."""
    path = tmp_path / f"points.{suffix}"
    path.write_text(CSV)
    if suffix == "parquet":
        columns = {name: [1] * 100 for name in ("height", "width", "kind", "name")}
        pyarrow.parquet.write_table(pa.table(columns), path)
    size = 8 * 100 * 3 if suffix == "parquet" else len(CSV)
    monkeypatch.setattr(tables, "LARGEST_UNPACKED", size)
    assert read(path, POINTS, WIDE).train.examples == (100 if suffix == "parquet" else 3)
    monkeypatch.setattr(tables, "LARGEST_UNPACKED", size - 1)
    problem = refused(path, POINTS, WIDE)
    assert isinstance(problem, UnreadableFile)
    assert problem.reason.startswith(f"it takes {size:,} bytes of memory")


def test_what_a_column_lacks_is_told_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = ("name", "height", "width", "kind")
    for columns, name, reason, known in (
        ({"z": ["width"]}, "z", "there is no such input, only x, y", ()),
        ({**WIDE.columns, "y": ["depth"]}, "y", "it has no column `depth`", names),
        ({**WIDE.columns, "y": []}, "y", "no column is named for it", ()),
        (WIDE.columns, "x", "it has no rows", names),
        (WIDE.columns, "x", "`height` has 1 empty cells", names),
        (
            {**WIDE.columns, "x": ["width", "name"]},
            "x",
            "`name` holds string, and no numbers",
            names,
        ),
    ):
        text = CSV.replace("2.5", "") if "empty" in reason else CSV
        path.write_text(text.splitlines(keepends=True)[0] if "rows" in reason else text)
        problem = refused(path, POINTS, ReaderOptions(columns=columns))
        assert isinstance(problem, BadColumn)
        said = [each.title for each in problem.report().remarks]
        assert said == ["because", "its columns"][: 1 + bool(known)]
        assert (problem.name, problem.reason, problem.columns) == (name, reason, known)


@pytest.mark.parametrize("names", [("width", "height"), ("width", "width", "kind")])
def test_an_input_of_one_number_takes_one_column(tmp_path: Path, names: tuple[str, ...]) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    one = InputSpec({"y": TensorType(DType.F32, (BATCH,))}, {"batch": 1})
    problem = refused(tmp_path / "a.csv", one, ReaderOptions(columns={"y": [*names]}))
    assert isinstance(problem, BadColumn)
    assert problem.name == "y"
    assert all(f"`{each}`" in problem.reason for each in names)
    assert problem.advice == f"name one of them, or give `y` an axis of {len(names)}"
    read(tmp_path / "a.csv", one, ReaderOptions(columns={"y": ["width"]}))


def test_whole_numbers_beside_the_fractions_of_other_tables_are_fractions(tmp_path: Path) -> None:
    for number, first in enumerate(("1", "2.5", "3")):
        (tmp_path / f"a-{number}.csv").write_text(f"x,y\n{first},7\n4,8\n")
    inputs = {name: TensorType(DType.F32, (BATCH,)) for name in ("x", "y")}
    fed = read(tmp_path / "a-*.csv", InputSpec(inputs, {"batch": 1})).train.take(slice(0, 6))
    assert fed["x"].tolist() == [1, 4, 2.5, 4, 3, 4]
    assert fed["y"].tolist() == [7, 8, 7, 8, 7, 8]
    ids = InputSpec({"x": TensorType(DType.I32, (BATCH,))}, {"batch": 1})
    problem = refused(tmp_path / "a-*.csv", ids)
    assert isinstance(problem, UnlikeShards)
    assert problem.file.name == "a-1.csv"


def test_weights_may_be_whole_numbers_in_one_table_and_fractions_in_another(tmp_path: Path) -> None:
    for number, weights in enumerate(((1, 2), (0.25, 1))):
        rows = "".join(f"{each},{each}\n" for each in weights)
        (tmp_path / f"a-{number}.csv").write_text(f"x,weight\n{rows}")
    one = InputSpec({"x": TensorType(DType.F32, (BATCH,))}, {"batch": 1})
    found = Reader(one, ReaderOptions(), 0, more=("weight",)).tensors(tmp_path / "a-*.csv")
    assert found["weight"].bits.tolist() == [1, 2, 0.25, 1]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_that_say_how_often_examples_are_drawn_are_read_too(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_text("x,weight,name\n1,0.5,a\n2,0,b\n")
    if suffix == "parquet":
        pyarrow.parquet.write_table(
            pa.table({"x": [1, 2], "weight": [0.5, 0.0], "name": ["a", "b"]}), path
        )
    one = InputSpec({"x": TensorType(DType.F32, (BATCH,))}, {"batch": 1})
    found = Reader(one, ReaderOptions(), 0, more=("weight", "x", "other")).tensors(path)
    assert {name: each.bits.tolist() for name, each in found.items()} == {
        "x": [1, 2],
        "weight": [0.5, 0],
    }
    with pytest.raises(ProblemError) as caught:
        Reader(one, ReaderOptions(), 0, more=("name",)).tensors(path)
    assert isinstance(caught.value.problem, BadColumn)


def test_a_parquet_file_tells_all_columns_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    columns = ("name", "height", "width")
    pyarrow.parquet.write_table(pa.table({name: [1, 2] for name in columns}), path)
    for asked in (("width", "depth"), ("depth", "length")):
        problem = refused(path, POINTS, ReaderOptions(columns={"x": [*asked], "y": ["height"]}))
        assert isinstance(problem, BadColumn)
        missing = next(each for each in asked if each not in columns)
        assert problem.reason == f"it has no column `{missing}`"
        assert problem.columns == columns


def test_columns_are_those_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"")
    problem = refused(tmp_path / "a.npz", POINTS, WIDE)
    assert isinstance(problem, WrongReader)
    assert problem.reason == "a table is a .csv, .tsv or .parquet file"


@pytest.mark.parametrize("name", ["points[1].csv", "points?.csv", "[ab]/points.csv"])
def test_a_file_that_is_there_is_no_pattern(name: str, tmp_path: Path) -> None:
    for folder, first in ((name, 5), ("points1.csv", 7), ("a/points.csv", 9)):
        (tmp_path / folder).parent.mkdir(exist_ok=True)
        (tmp_path / folder).write_text(f"height,width,kind\n{first},2,0\n")
    dataset = read(tmp_path / name, POINTS, WIDE)
    assert dataset.train.take(slice(0, 1))["x"].tolist() == [[2, 5]]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.npz"])
@pytest.mark.parametrize(
    "reading",
    [
        ReaderOptions(crop=0.5),
        ReaderOptions(mean=[0.5]),
        ReaderOptions(std=[0.5]),
        ReaderOptions(resample="bilinear"),
        ReaderOptions(preprocess="preprocessor_config.json"),
    ],
)
def test_a_file_is_not_read_as_images(name: str, reading: ReaderOptions, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x,y\n1,2\n")
    problem = refused(tmp_path / name, IDS if name == "a.txt" else POINTS, reading)
    assert isinstance(problem, WrongReader)
    assert problem.reason == "images lie in a folder of folders, each a class"


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.npz", "a"])
def test_a_file_that_is_gone_is_named(name: str, tmp_path: Path) -> None:
    assert isinstance(refused(tmp_path / name, IDS), NoSuchFile)


@pytest.mark.parametrize(
    "wanted",
    [
        TensorType(DType.F32, (BATCH, 5)),
        TensorType(DType.I32, (BATCH,)),
        TensorType(DType.I32, (BATCH, 5, 2)),
    ],
)
def test_a_text_feeds_rows_of_integers(wanted: TensorType, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("to be or not to be")
    problem = refused(tmp_path / "a.txt", InputSpec({"x": wanted}, {"batch": 1}))
    assert isinstance(problem, WrongReader)
    assert problem.reason.endswith(f"the inputs are x: {wanted}")


def test_a_text_is_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("to be or nöt to be".encode())
    split = read(tmp_path / "a.txt", IDS).train
    assert split.examples == 3  # of 19 bytes the last four are left out
    named = read(tmp_path / "a.txt", replace(IDS, tensors={"ids": "words"})).train
    assert np.array_equal(named.take(slice(0, 3))["ids"], split.take(slice(0, 3))["ids"])
    assert (
        bytes(split.take(slice(0, 3))["ids"].reshape(-1).tolist()) == "to be or nöt t".encode()[:15]
    )


def test_texts_shorter_than_a_sequence_are_counted(tmp_path: Path) -> None:
    for name, length in (("a", 11), ("b", 4), ("c", 0), ("d", 5)):
        (tmp_path / f"{name}.txt").write_text("x" * length)
    dataset = read(tmp_path / "*.txt", IDS)
    assert dataset.train.examples == 3
    assert {file.name for file in dataset.empty_files} == {"b.txt", "c.txt"}
    assert not read(tmp_path / "[ad].txt", IDS).empty_files
    for name in ("b.txt", "[bc].txt"):
        problem = refused(tmp_path / name, IDS)
        assert isinstance(problem, WrongReader)
        assert problem.reason == "no text of it has the 5 tokens of a sequence"


def test_a_table_is_no_text_though_a_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    reader = Reader(POINTS, WIDE, 0, tokenizer=tmp_path / "tokenizer.json")
    assert reader.tensors(tmp_path / "a.csv")["x"].shape == (3, 2)


def test_a_text_is_tokens_of_a_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {word: number for number, word in enumerate([UNKNOWN, "to", "be", "or", "not"])}
    tokenizer = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text("to be or not\nto be to see\nor to be")
    said = ReaderOptions(tokenizer=str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.md").write_bytes((tmp_path / "a.txt").read_bytes())
    for name in ("a.txt", "a.md"):
        fed = read(tmp_path / name, IDS, said).train.take(slice(0, 2))
        assert fed["ids"].tolist() == [[1, 2, 3, 4, 1], [2, 1, 0, 3, 1]]
    size = (tmp_path / "a.txt").stat().st_size
    monkeypatch.setattr(texts, "LARGEST_UNPACKED", 4 * size)
    assert read(tmp_path / "a.txt", IDS, said).train.examples == 2
    monkeypatch.setattr(texts, "LARGEST_UNPACKED", 4 * size - 1)
    problem = refused(tmp_path / "a.txt", IDS, said)
    assert isinstance(problem, UnreadableFile)
    assert problem.reason == "it is too long: cut it into several"
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    assert isinstance(refused(tmp_path / "b.txt", IDS, said), UnreadableFile)
    (tmp_path / "tokenizer.json").write_text("{}")
    assert isinstance(refused(tmp_path / "a.txt", IDS, said), UnreadableFile)
    assert isinstance(refused(tmp_path / "a.txt", POINTS), WrongReader)


def test_a_tokenizer_puts_nothing_around_a_text_that_is_trained_on(tmp_path: Path) -> None:
    words = {UNKNOWN: 0, "to": 1, "be": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single=f"{UNKNOWN} $A {UNKNOWN}", special_tokens=[(UNKNOWN, 0)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text("to be be to be")
    said = ReaderOptions(tokenizer=str(tmp_path / "tokenizer.json"))
    assert read(tmp_path / "a.txt", IDS, said).train.take(slice(0, 1))["ids"].tolist() == [
        [1, 2, 2, 1, 2]
    ]


def test_long_texts_are_cut_at_line_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meganeura_runtime.io.data.texts.PIECE", 10)
    words = {word: number for number, word in enumerate([UNKNOWN, *(f"w{n}" for n in range(50))])}
    tokenizer = Tokenizer(WordLevel(words, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "a.txt").write_text("\n".join(f"w{n}" for n in range(50)))
    said = ReaderOptions(tokenizer=str(tmp_path / "tokenizer.json"))
    fed = read(tmp_path / "a.txt", IDS, said).train.take(slice(0, 10))
    assert fed["ids"].reshape(-1).tolist() == list(range(1, 51))
    monkeypatch.setattr("meganeura_runtime.io.data.texts.LONGEST_LINE", 3)
    assert isinstance(refused(tmp_path / "a.txt", IDS, said), UnreadableFile)
