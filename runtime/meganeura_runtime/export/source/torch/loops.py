"""Lists of layers as one statement, and loops over layers in place of loops over numbers."""

import re

from meganeura_runtime.export.source.text import (
    Compound,
    Create,
    Line,
    Statement,
    python_name,
    texts,
    words_of,
)
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter


def with_lists(statements: list[Statement], writer: TorchWriter) -> list[Statement]:
    """Lists of layers that are filled where they are made, as one statement."""
    found: list[Statement] = []
    at = 0
    while at < len(statements):
        each = statements[at]
        if isinstance(each, Compound):
            each.body = with_lists(each.body, writer)
            each.otherwise = with_lists(each.otherwise, writer)
        if isinstance(each, Create) and each.value == "nn.ModuleList()":
            items: list[str] = []
            following = at + 1
            while following < len(statements):
                item = statements[following]
                if not (
                    isinstance(item, Create)
                    and item.path[:-1] == each.path
                    and not item.then
                    and item.kind == "module"
                ):
                    break
                items.append(item.value)
                following += 1
            after = statements[following] if following < len(statements) else None
            loop = _filling(after, each) if not items else None
            if loop is not None:
                each.value = f"nn.ModuleList({loop})"
                at += 1
            elif items:
                each.value = f"nn.ModuleList([{', '.join(items)}])"
                at = following - 1
        found.append(each)
        at += 1
    return found


def _filling(statement: Statement | None, made: Create) -> str | None:
    """`Layer(d) for i in range(layers)`, if that is all that a loop does."""
    if not isinstance(statement, Compound) or not statement.head.startswith("for "):
        return None
    if len(statement.body) != 1 or not isinstance(item := statement.body[0], Create):
        return None
    if item.path[:-1] != made.path or item.then or item.kind != "module":
        return None
    variable, _, values = statement.head.removeprefix("for ").partition(" in ")
    if variable not in words_of(item.value):
        variable = "_"
    return f"{item.value} for {variable} in {values}"


def over_layers(statements: list[Statement], writer: TorchWriter) -> list[Statement]:
    """Loops over numbers that only index layers, as loops over the layers."""
    for each in statements:
        if not isinstance(each, Compound):
            continue
        each.body = over_layers(each.body, writer)
        each.otherwise = over_layers(each.otherwise, writer)
        found = re.fullmatch(r"for (\w+) in range\(([\w.]+)\)", each.head)
        if found is None:
            continue
        variable = found[1]
        inside = [text for _, text in texts(each.body)]
        picks = {
            match
            for text in inside
            for match in re.findall(rf"(self(?:\.\w+)*)\[{variable}\]", text)
        }
        rest = " ".join(re.sub(rf"self(?:\.\w+)*\[{variable}\]", "", text) for text in inside)
        if len(picks) != 1 or variable in words_of(rest) or not _is_filled(picks, writer, found[2]):
            continue
        (layers,) = picks
        name = python_name(_singular(layers.rpartition(".")[2]), writer.source.reserved)
        if any(name in words_of(text) for text in inside):
            continue
        each.head = f"for {name} in {layers}"
        for statement, _ in list(texts(each.body)):
            if isinstance(statement, Line):
                statement.text = statement.text.replace(f"{layers}[{variable}]", name)
            elif isinstance(statement, Compound):
                statement.head = statement.head.replace(f"{layers}[{variable}]", name)
    return statements


def _is_filled(picks: set[str], writer: TorchWriter, count: str) -> bool:
    """Returns True where a list has a layer for each iteration, in each application."""
    (layers,) = picks
    words = tuple(layers.split(".")[1:])
    name = count.removeprefix("self.")
    for each in writer.instances:
        inside = {
            label[len(words)]
            for label in each.order
            if label[: len(words)] == words and len(label) > len(words)
        }
        number = int(name) if name.isdigit() else each.signature.get(name)
        if number != len(inside):
            return False
    return True


def _singular(name: str) -> str:
    if name == "self":
        return "layer"
    if name.endswith("s") and len(name) > 2:
        return name[:-1]
    return "layer" if len(name) <= 2 else name
