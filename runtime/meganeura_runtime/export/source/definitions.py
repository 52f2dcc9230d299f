"""A block that is written, as the text of a class or a function."""

from collections.abc import Sequence

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.literals import literal, plain_default
from meganeura_runtime.export.source.text import (
    ATOM,
    Compound,
    Create,
    Line,
    Statement,
    augmented,
    texts,
    with_last_returned,
    without_unread,
    words_of,
)
from meganeura_runtime.export.source.unit import Unit


def write_function(unit: Unit, writer: BlockWriter) -> None:
    """Writes a block as a function; one with weights takes them as `params`."""
    forward = with_last_returned(without_unread(writer.forward[0]))
    sizes = sizes_of_inputs(unit, writer, forward, 4)
    read = set[str]().union(*(words_of(text) for _, text in texts(forward)))
    unit.configuration = [
        each.name for each in unit.block.parameters if writer.local(each.name) in read
    ]
    inputs = [writer.local(each.name) for each in unit.inputs]
    parameters = [*(["params"] if unit.owns else []), *inputs, *parameters_of(unit, writer)]
    lines = laid_out(f"def {unit.name}({', '.join(parameters)}):", 0)
    lines += docstring(unit, 4)
    lines += sizes
    unit.lines = [*lines, *body_lines(forward, 4, writer)]


def parameters_of(unit: Unit, writer: BlockWriter) -> list[str]:
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
    if not writer.is_class:
        by_name += ["training"] if unit.training else []
        by_name += ["keys"] if unit.draws else []
    return [*found, *(["*"] if by_name else []), *by_name]


def docstring(unit: Unit, indent: int) -> list[str]:
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


def sizes_of_inputs(
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


def body_lines(statements: Sequence[Statement], indent: int, writer: BlockWriter) -> list[str]:
    """Statements as lines."""
    lines: list[str] = []
    for each in statements:
        match each:
            case Line(text=text, binds=binds):
                is_number = all(writer.env.get(name) == "static" for name in binds)
                lines += laid_out(augmented(text) if is_number else text, indent)
            case Create():
                lines += [line for text in writer.created(each) for line in laid_out(text, indent)]
            case Compound(head=head, body=body, otherwise=otherwise):
                lines += [""] if head.startswith("def ") and each is not statements[0] else []
                lines += laid_out(f"{head}:", indent)
                lines += body_lines(body, indent + 4, writer)
                if otherwise:
                    lines.append(" " * indent + "else:")
                    lines += body_lines(otherwise, indent + 4, writer)
                lines += [""] if head.startswith("def ") else []
    return lines
