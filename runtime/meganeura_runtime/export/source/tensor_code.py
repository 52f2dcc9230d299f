"""Expressions whose values are tensors."""

from meganeura_dsl.syntax import ast
from meganeura_runtime.export.source.block_writer import BlockWriter
from meganeura_runtime.export.source.functions.elementwise import pair
from meganeura_runtime.export.source.layers import apply
from meganeura_runtime.export.source.observed import refuse
from meganeura_runtime.export.source.text import (
    ANY,
    ATOM,
    OR,
    SIGN,
    Code,
    Compound,
    PathPart,
    Statement,
    call,
    slice_text,
)


def expression(writer: BlockWriter, node: ast.Expression) -> Code:
    """The text of a tensor or of several; of anything else, its value."""
    if not writer.seen.is_data(node):
        return writer.static(node, "forward")
    fill = writer.fill(node)
    if fill is not None:
        return fill
    if node in writer.known_codes:
        return writer.known_codes[node]
    match node:
        case ast.Name(text=text):
            if writer.env.get(text) == "local":
                return Code(writer.local(text))
            if writer.env.get(text) in ("static", "size", "config"):
                return writer.static(node, "forward")
            return Code(writer.access([PathPart("word", text)], (text,)))
        case ast.Attribute(base=base, name=name) if name in writer.seen.result_names(base):
            place = writer.seen.result_names(base).index(name)
            return Code(f"{writer.expression(base).within(ATOM)}[{place}]")
        case ast.Attribute() | ast.Spliced():
            return _parameter(writer, node)
        case ast.Unary(operator="not", operand=operand):
            return Code(f"~{writer.expression(operand).within(SIGN)}", SIGN)
        case ast.Unary(operand=operand):
            return Code(f"-{writer.expression(operand).within(SIGN)}", SIGN)
        case ast.Binary():
            return pair(writer, node)
        case ast.Conditional():
            return _either(writer, node)
        case ast.Subscript(base=base, entries=entries):
            if not writer.seen.is_data(base):
                return _parameter(writer, node)
            texts = ", ".join(entry_text(writer, each) for each in entries)
            return Code(f"{writer.expression(base).within(ATOM)}[{texts}]")
        case ast.ListOf(items=items):
            return Code(f"[{', '.join(str(writer.expression(each)) for each in items)}]")
        case ast.Pipe(source=source, layer=layer):
            return apply(writer, layer, source)
        case ast.Call():
            return apply(writer, node, None)
        case _:
            raise refuse(node, "no tensor is written so")


def tensor(writer: BlockWriter, node: ast.Expression) -> Code:
    """The text of a tensor; of a number, the tensor that it is."""
    if writer.seen.is_data(node):
        return writer.expression(node)
    return writer.number(call("float", writer.static(node, "forward")))


def whole(writer: BlockWriter, node: ast.Expression) -> Code:
    """The text of a tensor; an optional one that was not given is made."""
    number = writer.fill(node) if writer.seen.is_data(node) else None
    if number is None:
        return writer.tensor(node)
    item = next(
        (i for i in writer.block.inputs if isinstance(node, ast.Name) and i.name == node.text),
        None,
    )
    if item is None:
        raise refuse(node, "an optional tensor that was not given")
    sizes = [
        writer.static(entry, "forward")
        for entry in item.type.shape.entries
        if not isinstance(entry, ast.Rest)
    ]
    if len(sizes) != len(item.type.shape.entries):
        raise refuse(node, "an optional tensor of any rank that was not given")
    return writer.full(sizes, number)


def _either(writer: BlockWriter, node: ast.Conditional) -> Code:
    chosen = writer.seen.choice(node)
    if chosen is not None:
        return writer.expression(node.then if chosen else node.otherwise)
    condition = writer.static(node.condition, "forward")
    inner: list[list[Statement]] = []
    texts: list[Code] = []
    for part in (node.then, node.otherwise):
        writer.init.append([])
        texts.append(writer.expression(part))
        inner.append(writer.init.pop())
    if any(inner):
        head = f"if {writer.static(node.condition, 'init')}"
        writer.init[-1].append(Compound(head, inner[0], inner[1]))
    then, otherwise = texts
    text = f"{then.within(OR)} if {condition.within(OR)} else {otherwise.within(ANY)}"
    return Code(text, ANY)


def entry_text(writer: BlockWriter, entry: ast.Entry) -> str:
    """An index, a range or `...` in brackets."""
    match entry:
        case ast.EllipsisEntry():
            return "..."
        case ast.Range(start=start, stop=stop):
            if any(each is not None and writer.seen.is_data(each) for each in (start, stop)):
                raise refuse(entry, "a part that data places")
            return slice_text(
                [
                    "" if each is None else str(writer.static(each, "forward"))
                    for each in (start, stop)
                ]
            )
        case _:
            return str(writer.expression(entry))


def _parameter(writer: BlockWriter, node: ast.Expression) -> Code:
    """A parameter by its path: `transformer.wte.weight`, `weight_hh_l{k}`."""
    steps: list[PathPart] = []
    key: list[str] = []

    def visit(part: ast.Expression) -> None:
        match part:
            case ast.Name(text=text):
                steps.append(PathPart("word", text))
                key.append(text)
            case ast.Attribute(base=base, name=name):
                visit(base)
                steps.append(PathPart("word", name))
                key.append(name)
            case ast.Spliced(base=base, value=value):
                visit(base)
                last = steps.pop()
                steps.append(
                    PathPart("computed", f"{last.text}{{{writer.static(value, 'forward')}}}")
                )
                key[-1] += f"{{{value.span.text}}}"
            case ast.Subscript(base=base, entries=(entry,)) if not isinstance(
                entry, ast.Range | ast.EllipsisEntry
            ):
                visit(base)
                steps.append(PathPart("index", str(writer.static(entry, "forward"))))
                key.append(f"[{entry.span.text}]")
            case _:
                raise refuse(node, "it is no path")

    visit(node)
    return Code(writer.access(steps, tuple(key)))
