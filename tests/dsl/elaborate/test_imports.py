"""What a file leads to by its imports."""

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.pipeline import check

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
