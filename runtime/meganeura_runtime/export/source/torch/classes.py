"""A block with weights, as the text of a class."""

import keyword
import re

from meganeura_runtime.export.source.definitions import (
    body_lines,
    docstring,
    parameters_of,
    sizes_of_inputs,
)
from meganeura_runtime.export.source.form_problems import refusal
from meganeura_runtime.export.source.layout import laid_out
from meganeura_runtime.export.source.text import (
    Create,
    texts,
    with_last_returned,
    without_unread,
    words_of,
)
from meganeura_runtime.export.source.torch.containers import with_containers
from meganeura_runtime.export.source.torch.followed_widths import without_dead_stores
from meganeura_runtime.export.source.torch.loops import over_layers, with_lists
from meganeura_runtime.export.source.torch.torch_writer import TorchWriter
from meganeura_runtime.export.source.unit import Unit


def write_class(unit: Unit, writer: TorchWriter) -> None:
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
    lines = [f"class {unit.name}({unit.base or container or 'nn.Module'}):"]
    lines += docstring(unit, 4)
    parameters = ["self", *map(writer.local, unit.sizes), *parameters_of(unit, writer)]
    lines += ["", *laid_out(f"def __init__({', '.join(parameters)}):", 4)]
    lines += laid_out(
        f"super().__init__({writer.base_text}" if unit.base else "super().__init__()", 8
    )
    lines += [
        f"        self.{attribute} = {writer.local(name)}" for name, attribute in attributes.items()
    ]
    lines += body_lines(with_lists(init, writer), 8, writer)
    names = [*(each.name for each in unit.inputs), *unit.late_read]
    inputs = ", ".join(["self", *map(writer.local, names)])
    lines += ["", f"    def forward({inputs}):"]
    lines += sizes_of_inputs(unit, writer, forward, 8)
    lines += body_lines(over_layers(forward, writer), 8, writer)
    unit.lines = lines


def created(create: Create, writer: TorchWriter) -> list[str]:
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
