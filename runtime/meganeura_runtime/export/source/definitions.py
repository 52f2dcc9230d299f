"""A block that is written, as the text of a class or a function."""

import keyword
import re
from collections.abc import Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.containers import with_containers
from meganeura_runtime.export.source.followed_widths import augmented, without_dead_stores
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.literals import literal, plain_default
from meganeura_runtime.export.source.loops import over_layers, with_lists
from meganeura_runtime.export.source.text import (
    ATOM,
    Compound,
    Create,
    Line,
    Statement,
    texts,
    with_last_returned,
    without_unread,
    words_of,
)
from meganeura_runtime.export.source.unit import Unit


def write_class(unit: Unit, writer: BlockWriter, base: str | None) -> None:
    """Writes a block with weights as a class."""
    forward = with_last_returned(without_unread(writer.forward[0]))
    used = {word for _, text in texts(forward) for word in re.findall(r"self\.(\w+)", text)}
    attributes = {
        each.name: writer.attribute(each.name)
        for each in unit.block.parameters
        if writer.attribute(each.name) in used
    }
    variables = [each.variable for each in writer.follow.carried.values()]
    stored = without_dead_stores(writer.init[0], variables)
    made = [*with_containers(stored, writer.paths.kinds), *writer.late]
    init = without_unread(made, writer.base_text)
    read = words_of(writer.base_text).union(*(words_of(text) for _, text in texts(init)))
    unit.sizes = [
        name for name, kind in writer.env.items() if kind == "size" and writer.local(name) in read
    ]
    unit.configuration = [
        each.name
        for each in unit.block.parameters
        if each.name not in unit.late
        and (each.name in attributes or writer.local(each.name) in read)
    ]
    given = set[str]().union(*(words_of(text) for _, text in texts(forward)))
    unit.late_read = [name for name in unit.late if writer.local(name) in given]
    container = {"list": "nn.ModuleList", "dict": "nn.ModuleDict"}.get(
        writer.paths.kinds.get((), "")
    )
    lines = [f"class {unit.name}({base or container or 'nn.Module'}):"]
    lines += _docstring(unit, 4)
    parameters = ["self", *map(writer.local, unit.sizes), *_parameters(unit, writer)]
    lines += ["", *laid_out(f"def __init__({', '.join(parameters)}):", 4)]
    lines += laid_out(f"super().__init__({writer.base_text}" if base else "super().__init__()", 8)
    lines += [
        f"        self.{attribute} = {writer.local(name)}" for name, attribute in attributes.items()
    ]
    lines += _body(with_lists(init, writer), 8, writer)
    names = [*(each.name for each in unit.inputs), *unit.late_read]
    inputs = ", ".join(["self", *map(writer.local, names)])
    lines += ["", f"    def forward({inputs}):"]
    lines += _sizes_of_inputs(unit, writer, forward, 8)
    lines += _body(over_layers(forward, writer), 8, writer)
    unit.lines = lines


def write_function(unit: Unit, writer: BlockWriter) -> None:
    """Writes a block without weights as a function."""
    forward = with_last_returned(without_unread(writer.forward[0]))
    sizes = _sizes_of_inputs(unit, writer, forward, 4)
    read = set[str]().union(*(words_of(text) for _, text in texts(forward)))
    unit.configuration = [
        each.name for each in unit.block.parameters if writer.local(each.name) in read
    ]
    inputs = [writer.local(each.name) for each in unit.inputs]
    parameters = [*inputs, *_parameters(unit, writer)]
    lines = laid_out(f"def {unit.name}({', '.join(parameters)}):", 0)
    lines += _docstring(unit, 4)
    lines += sizes
    unit.lines = [*lines, *_body(forward, 4, writer)]


def _parameters(unit: Unit, writer: BlockWriter) -> list[str]:
    """The configuration as parameters; one without a default behind others is given by name."""
    parameters = [each for each in unit.block.parameters if each.name in unit.configuration]
    found: list[str] = []
    by_name: list[str] = []
    has_default = False
    for each in parameters:
        name, default = writer.local(each.name), plain_default(each)
        if default is not None:
            found.append(f"{name}={literal(default[0])}")
            has_default = True
        elif has_default:
            by_name.append(name)
            unit.keywords.add(each.name)
        else:
            found.append(name)
    if unit.training and not unit.owns:
        by_name.append("training")
    return [*found, *(["*"] if by_name else []), *by_name]


def _docstring(unit: Unit, indent: int) -> list[str]:
    """Returns a docstring: the comment above the block, and the types that were proved."""
    block = unit.block
    source = block.span.source.text
    above = source[: block.span.start].splitlines()
    comment: list[str] = []
    while above and above[-1].startswith("#") and not above[-1].startswith("# ---"):
        comment.insert(0, above.pop().removeprefix("#").strip())
    types = ", ".join(
        f"{each.name}: {' '.join(each.type.span.text.split())}" for each in unit.inputs
    )
    results = (
        ", ".join(" ".join(each.span.text.split()) for each in block.results)
        if block.results is not None
        else ""
    )
    signature = f"{types} -> {results}" if results and types else results or types
    pad = " " * indent
    comment = [line.replace("\\", "\\\\").replace('"""', "'''") for line in comment]
    if comment and comment[0].startswith(("The same", "As ")):
        comment = []
    if not comment:
        whole = f'{pad}"""{signature}"""'
        if len(whole) <= 100:
            return [whole]
        return [
            f'{pad}"""{line}' if not at else f"{pad}{line}"
            for at, line in enumerate(_wrapped(signature, 92))
        ] + [f'{pad}"""']
    lines = [line for text in [" ".join(comment)] for line in _wrapped(text, 96 - indent - 3)]
    return [
        f'{pad}"""{lines[0]}',
        *(f"{pad}{line}" for line in lines[1:]),
        "",
        *(f"{pad}{line}" for line in _wrapped(signature, 96 - indent)),
        f'{pad}"""',
    ]


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _sizes_of_inputs(
    unit: Unit, writer: BlockWriter, forward: Sequence[Statement], indent: int
) -> list[str]:
    """Statements that read the sizes of the inputs that the body names."""
    read = set[str]().union(*(words_of(text) for _, text in texts(forward)))
    left = {
        name
        for name, kind in writer.signature_kinds.items()
        if kind == "size" and writer.local(name) in read
    }
    lines: list[str] = []
    for item in unit.inputs:
        entries = item.type.shape.entries
        name = writer.local(item.name)
        plain = {each.text for each in entries if isinstance(each, ast.Name)} & left
        has_rest = any(isinstance(each, ast.Rest) for each in entries)
        if len(plain) > 1 and not has_rest:
            targets = [
                writer.local(each.text)
                if isinstance(each, ast.Name) and each.text in plain
                else "_"
                for each in entries
            ]
            lines.append(f"{' ' * indent}{', '.join(targets)} = {name}.shape")
            left -= plain
            continue
        rest_at = next((at for at, each in enumerate(entries) if isinstance(each, ast.Rest)), None)
        for at, entry in enumerate(entries):
            place = at if rest_at is None or at < rest_at else at - len(entries)
            if isinstance(entry, ast.Name) and entry.text in left:
                lines.append(f"{' ' * indent}{writer.local(entry.text)} = {name}.shape[{place}]")
                left.discard(entry.text)
    for item in unit.inputs:
        entries = item.type.shape.entries
        rest_at = next((at for at, each in enumerate(entries) if isinstance(each, ast.Rest)), None)
        for at, entry in enumerate(entries):
            place = at if rest_at is None or at < rest_at else at - len(entries)
            match entry:
                case ast.Binary(operator="*", left=factor, right=ast.Name(text=text)) if (
                    text in left
                ):
                    number = writer.static(factor, "forward").within(ATOM)
                    shape = f"{writer.local(item.name)}.shape[{place}]"
                    lines.append(f"{' ' * indent}{writer.local(text)} = {shape} // {number}")
                    left.discard(text)
                case _:
                    pass
    if left:
        name = min(left)
        values = {str(each.signature[name]) for each in unit.instances}
        if len(values) == 1 and (value := values.pop()).isdigit():
            return [*lines, f"{' ' * indent}{writer.local(name)} = {value}"]
        raise refusal(
            f"`{unit.block.name.text}`", f"no input has the size `{name}`", unit.block.name.span
        )
    return lines


def _body(statements: Sequence[Statement], indent: int, writer: BlockWriter) -> list[str]:
    lines: list[str] = []
    for each in statements:
        match each:
            case Line(text=text, binds=binds):
                is_number = all(writer.env.get(name) == "static" for name in binds)
                lines += laid_out(augmented(text) if is_number else text, indent)
            case Create():
                lines += [
                    line for text in _created(each, writer) for line in laid_out(text, indent)
                ]
            case Compound(head=head, body=body, otherwise=otherwise):
                lines += laid_out(f"{head}:", indent)
                lines += _body(body, indent + 4, writer)
                if otherwise:
                    lines.append(" " * indent + "else:")
                    lines += _body(otherwise, indent + 4, writer)
    return lines


def _created(create: Create, writer: BlockWriter) -> list[str]:
    """The statements that make a layer, a parameter or a state."""
    around = writer.paths.access(create.parts[:-1], create.path)
    last = create.parts[-1]
    kind = writer.paths.kinds.get(create.path[:-1], "module")
    target = writer.paths.access(create.parts, create.path)
    is_word = last.kind == "word" and (kind != "dict" or len(create.path) == 1)
    name = f'"{last.text}"' if last.kind == "word" else f'f"{last.text}"'
    if create.kind == "buffer":
        if last.kind == "index":
            raise refusal("a state", "its path ends with a number", None)
        made = f"{around}.register_buffer({name}, {create.value})"
    elif create.kind == "parameter" and (not is_word or keyword.iskeyword(last.text)):
        if last.kind == "index":
            raise refusal("a parameter", "its path ends with a number", None)
        made = f"{around}.register_parameter({name}, {create.value})"
    elif last.kind == "index" and kind == "list":
        made = f"{around}.append({create.value})"
    elif last.kind == "computed" or keyword.iskeyword(last.text):
        made = f"{around}.add_module({name}, {create.value})"
    else:
        made = f"{target} = {create.value}"
    return [made, *(each.replace("{}", target) for each in create.then)]
