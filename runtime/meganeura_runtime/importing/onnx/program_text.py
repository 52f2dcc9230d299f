"""The whole program as canonical text."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.symbolic.polynomial import variables_of
from meganeura_dsl.symbolic.size import Dim, dim
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_runtime.importing.onnx.code import Statement, Tensor, Words
from meganeura_runtime.importing.onnx.names import Names, identifier
from meganeura_runtime.importing.onnx.size_text import SizeScope
from meganeura_runtime.importing.onnx.statements import Stored
from meganeura_runtime.importing.onnx.structure import Body, Repeat
from meganeura_runtime.importing.onnx.translation import Translation
from meganeura_runtime.importing.onnx.writer import POOL, BodyWriter, condition_text, type_text

SHORTEST = 3
"""Characters of a path's last word that is worth being the name of a block."""


@dataclass(frozen=True)
class ProgramNames:
    """The names of the block and the model."""

    block: str
    model: str


def names_of(path: Path) -> ProgramNames:
    """Names like the file's: `yolo-v8.onnx` has the block `YoloV8` and the model `yolo_v8`."""
    names = Names()
    model = names.give(path.stem.lower(), "model")
    return ProgramNames(names.give(_capitalized(model), "Net"), model)


def _capitalized(name: str) -> str:
    return "".join(each.capitalize() for each in name.split("_") if each)


@dataclass(frozen=True)
class ProgramText:
    """Writes one program."""

    translation: Translation
    body: Body
    names: ProgramNames
    origin: str
    """The comment above it."""
    with_facts: bool = False
    """True if blocks state what the program states of sizes that they know."""

    def text(self) -> str:
        """The program, formatted; raises `UnnamedSizeError` for a block that lacks a size."""
        build, repeats = self.translation.build, list(_repeats(self.body))
        sizes = SizeScope(build.size_names)
        names = Names({self.names.block, self.names.model, *build.helpers})
        blocks = {each.results[0].id: names.give(_title(each.prefix), "Block") for each in repeats}
        read = {each for step in self.body.steps for each in _read(step)} | {*self.body.results}
        inputs = {
            value.id: name if value.id in read else f"_{name}"
            for _, name, value in self.translation.inputs
        }
        given = [value for _, _, value in self.translation.inputs]
        header = ", ".join(f"{inputs[each.id]}: {type_text(each.type, sizes)}" for each in given)
        results = ", ".join(type_text(each.type, sizes) for _, each in self.translation.outputs)
        facts = [condition_text(each, sizes) for each in build.stated]
        where = f"\n    where {', '.join(facts)}" if facts else ""
        lines = BodyWriter(self.body, inputs, sizes, self._taken, blocks).lines()
        text = "\n".join(
            [
                f"# {self.origin}",
                "",
                *build.helpers.values(),
                *(line for each in repeats[::-1] for line in self._block(each, blocks)),
                f"block {self.names.block}()({header}) -> {results}{where}:",
                *(f"  {line}" for line in lines),
                "",
                f"model {self.names.model} = {self.names.block}()",
                "",
            ]
        )
        return formatted(text)

    @property
    def _taken(self) -> frozenset[str]:
        build = self.translation.build
        first = {str(each.words[0]) for each in build.stored.values()}
        return frozenset(first | build.size_names | Names().taken | {"i"})

    def _block(self, repeat: Repeat, blocks: Mapping[int, str]) -> list[str]:
        """The block of a repetition, which knows the sizes that its operands show."""
        build, path = self.translation.build, repeat.path
        sizes = self._scope(repeat.inputs)
        own = {str(each) for words in _below(path, build.stored.values()) for each in words[:1]}
        taken = self._taken | own | set(sizes.named.values())
        pool = (each for each in POOL if each not in taken)
        inputs = {each.id: name for each, name in zip(repeat.inputs, pool, strict=False)}
        header = ", ".join(
            f"{inputs[each.id]}: {type_text(each.type, sizes)}" for each in repeat.inputs
        )
        results = ", ".join(type_text(each.type, sizes) for each in repeat.results)
        facts = [
            condition_text(each, sizes)
            for each in (build.stated if self.with_facts else ())
            if (variables_of(each.left) | variables_of(each.right)) <= sizes.symbols
        ]
        where = f"\n    where {', '.join(facts)}" if facts else ""
        name = blocks[repeat.results[0].id]
        lines = BodyWriter(repeat.body, inputs, sizes, taken, blocks, path).lines()
        return [
            f"block {name}()({header}) -> {results}{where}:",
            *(f"  {each}" for each in lines),
            "",
        ]

    def _scope(self, inputs: tuple[Tensor, ...]) -> SizeScope:
        """Names for the sizes of operands: their own if they are symbols, else new ones."""
        names = Names(self.translation.build.size_names)
        symbols: set[str] = set()
        named: dict[Dim, str] = {}
        for each in inputs:
            for size in each.shape:
                if isinstance(size, Dim):
                    (first, *rest) = sorted(size.variables())
                    if not rest and size == dim(first):
                        symbols.add(first)
                    elif size not in named:
                        named[size] = names.give(f"{identifier(first, 's')}1", "s1")
        return SizeScope(frozenset(symbols), named)


def _repeats(body: Body) -> Iterator[Repeat]:
    """All repetitions, an outer one before those in it."""
    for each in body.steps:
        if isinstance(each, Repeat):
            yield each
            yield from _repeats(each.body)


def _read(step: Statement | Repeat) -> Iterator[int]:
    """The values that a step reads."""
    yield from (*step.starts, *step.shared) if isinstance(step, Repeat) else step.operands


def _title(prefix: Words) -> str:
    """The name of a block for a path: `encoder.layers` has blocks called `Layer`."""
    words = [each for each in prefix if isinstance(each, str)]
    last = next((each for each in reversed(words) if len(each) >= SHORTEST), "layer")
    return _capitalized(last.removesuffix("s") if len(last) > SHORTEST else last)


def _below(path: Words, stored: Iterable[Stored]) -> Iterator[Words]:
    """The paths of parameters below a path, without it."""
    for each in stored:
        if each.words[: len(path)] == path:
            yield each.words[len(path) :]


def formatted(text: str) -> str:
    """The text as `meganeura fmt` writes it; as it is, if it cannot be parsed."""
    source, sink = Source("program.mgn", text), Sink()
    module = parse(source, sink)
    return text if sink.has_errors else format_module(module, find_comments(source))
