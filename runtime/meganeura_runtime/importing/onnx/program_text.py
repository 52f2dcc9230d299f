"""The whole program as canonical text."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_runtime.importing.onnx.names import Names
from meganeura_runtime.importing.onnx.size_text import SizeScope
from meganeura_runtime.importing.onnx.structure import Body, Repeat
from meganeura_runtime.importing.onnx.translation import Translation
from meganeura_runtime.importing.onnx.writer import BodyWriter, condition_text, type_text


@dataclass(frozen=True)
class ProgramNames:
    """What the block and the model are called."""

    block: str
    model: str


def names_of(path: Path) -> ProgramNames:
    """Names like that of the file: `yolo-v8.onnx` has the block `YoloV8` and the model `yolo_v8`."""
    names = Names()
    model = names.give(path.stem.lower(), "model")
    words = [each for each in model.split("_") if each]
    return ProgramNames(names.give("".join(each.capitalize() for each in words), "Net"), model)


def program_text(translation: Translation, body: Body, names: ProgramNames, origin: str) -> str:
    """The program, formatted."""
    build = translation.build
    sizes = SizeScope(build.size_names)
    first = {str(each.words[0]) for each in build.stored.values()}
    taken = frozenset(first | build.size_names | Names().taken)
    inputs = {value.id: name for _, name, value in translation.inputs}
    header = ", ".join(
        f"{name}: {type_text(value.type, sizes)}" for _, name, value in translation.inputs
    )
    results = ", ".join(type_text(value.type, sizes) for _, value in translation.outputs)
    facts = [condition_text(each, sizes) for each in build.facts.stated]
    where = f"\n    where {', '.join(facts)}" if facts else ""
    blocks = [_block(each, taken, build.size_names) for each in _repeats(body)]
    lines = BodyWriter(body, inputs, sizes, taken).lines()
    text = "\n".join(
        [
            f"# {origin}",
            "",
            *blocks,
            f"block {names.block}()({header}) -> {results}{where}:",
            *(f"  {line}" for line in lines),
            "",
            f"model {names.model} = {names.block}()",
            "",
        ]
    )
    return formatted(text)


def _repeats(body: Body) -> Sequence[Repeat]:
    return [each for each in body.steps if isinstance(each, Repeat)]


def _block(repeat: Repeat, taken: frozenset[str], symbols: frozenset[str]) -> str:
    raise NotImplementedError


def formatted(text: str) -> str:
    """The text as `meganeura fmt` writes it; as it is, if it cannot be parsed."""
    source, sink = Source("program.mgn", text), Sink()
    module = parse(source, sink)
    return text if sink.has_errors else format_module(module, find_comments(source))
