"""Damage to models of ONNX that leaves them readable: the bytes of most mutants parse.

What changes is an op, an attribute, an operand, a size, an element type, or the place of a node, so
that it is the reading of the graph that is tried and not the parser of protobufs. Most changes keep
to what ONNX says of an op, since a node with an operand too many is refused before it is looked at.
"""

from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    defs,
)

from fuzz.mutate import mutate
from meganeura_runtime.importing.onnx.ops.table import TABLE

NEWEST = defs.onnx_opset_version()
OPS = (*sorted(TABLE), "Shape", "Size", "Constant", "ConstantOfShape", "If", "Loop", "Scan", "Celu")
NUMBERS = (-(1 << 63), -(1 << 31), -3, -2, -1, 0, 1, 2, 3, 4, 7, 255, 1 << 31, (1 << 63) - 1)
REALS = (-1e30, -1.0, 0.0, 0.5, 1.0, 3.0, 1e30, float("inf"), float("nan"))
WORDS = (
    b"", b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET", b"constant", b"reflect", b"edge",
    b"wrap", b"nearest", b"linear", b"cubic", b"asymmetric", b"align_corners", b"half_pixel",
    b"floor", b"add", b"mul", b"max", b"min", b"DCR", b"CRD", b"tanh", b"none", b"reverse",
    b"bidirectional", b"ij,jk->ik", b"...ii->...i", b"ab,ab->", b"i->ii", b"sum", b"mean", b"\xff",
)  # fmt: skip
ELEMENTS = (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 16, 21, 22, 26, 99)


def onnx_mutant(random: Random, inputs: Sequence[bytes]) -> bytes:
    """One of the models, changed in one to four places; one of four times its bytes are."""
    data = random.choice(inputs)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # noqa: BLE001 - a case that was once found, of any bytes
        return mutate(random, inputs)
    if random.random() < 0.25 or not model.graph.node:
        return mutate(random, inputs)
    opset = model.opset_import[0].version if model.opset_import else NEWEST
    for _ in range(random.randint(1, 4)):
        _damage(random, _graph(random, model.graph), min(opset, NEWEST))
    if random.random() < 0.05:
        model.opset_import[0].version = random.randint(0, 30)
    return model.SerializeToString()


def _graph(random: Random, graph: GraphProto) -> GraphProto:
    """The graph, or one within it."""
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return _graph(random, random.choice(inner)) if inner and random.random() < 0.5 else graph


def _damage(random: Random, graph: GraphProto, opset: int) -> None:
    if not graph.node:
        return
    node = random.choice(graph.node)
    names = [name for each in graph.node for name in (*each.input, *each.output)]
    names += [each.name for each in (*graph.initializer, *graph.input)]
    match random.randint(0, 12):
        case 0:
            node.op_type = random.choice(_like(node) if random.random() < 0.8 else OPS)
        case 1 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice((*names, ""))
        case 2 if random.random() < 0.3:
            node.input.append(random.choice((*names, "")))
        case 3 if node.input and random.random() < 0.3:
            del node.input[-1]
        case 4 | 5:
            _attribute(random, node, opset)
        case 6 | 7 if graph.initializer:
            _tensor(random, random.choice(graph.initializer))
        case 8 | 9 if graph.input:
            _value(random, random.choice(graph.input))
        case 10:
            copied = graph.node.add()
            copied.CopyFrom(node)
            copied.output[:] = [f"{each}'" for each in node.output]
            _read(random, graph, (*copied.output, *names))
        case 11:
            _add(random, graph, names, opset)
        case 12 if len(graph.node) > 1:
            graph.node.remove(node)
        case _ if random.random() < 0.1:
            node.output.append(random.choice((*names, "", "new")))
        case _:
            _attribute(random, node, opset)


def _read(random: Random, graph: GraphProto, names: Sequence[str]) -> None:
    """An output of the graph is another value."""
    if graph.output:
        random.choice(graph.output).name = random.choice(names)


def _add(random: Random, graph: GraphProto, names: Sequence[str], opset: int) -> None:
    """A node at the end, which reads what there is and is what the graph gives."""
    op = random.choice(OPS)
    least, most, results = _counts(op)
    node = graph.node.add()
    node.op_type = op
    node.input.extend(
        random.choice(names) for _ in range(random.randint(least, min(most, least + 2)))
    )
    node.output.extend(f"{op}{index}" for index in range(results))
    if random.random() < 0.5:
        _attribute(random, node, opset)
    _read(random, graph, node.output)


@cache
def _counts(op: str) -> tuple[int, int, int]:
    """The least and the most operands of an op, and the least results it has."""
    schema = defs.get_schema(op, NEWEST, "")
    return schema.min_input, schema.max_input, max(1, schema.min_output)


def _like(node: NodeProto) -> list[str]:
    """The ops that may have as many operands and results as a node."""
    return _with_counts(len(node.input), len(node.output)) or [node.op_type]


@cache
def _with_counts(operands: int, results: int) -> list[str]:
    return [
        op
        for op, (least, most, fewest) in ((op, _counts(op)) for op in OPS)
        if least <= operands <= most and fewest <= results
    ]


@cache
def _attributes(op: str, opset: int) -> list[tuple[str, Any]]:
    """The attributes of an op and their types; none of an op that there is not."""
    try:
        schema: Any = defs.get_schema(op, opset, "")
    except defs.SchemaError:
        return []
    return [(name, int(each.type.value)) for name, each in schema.attributes.items()]


def _attribute(random: Random, node: NodeProto, opset: int) -> None:
    """An attribute gets another value, rarely of another type, or is a new one."""
    known = _attributes(node.op_type, opset)
    if node.attribute and (not known or random.random() < 0.6):
        attribute = random.choice(node.attribute)
        kind = attribute.type
    else:
        name, kind = random.choice(known) if known else ("axis", AttributeProto.INT)
        attribute = next((each for each in node.attribute if each.name == name), None)
        if attribute is None:
            attribute = node.attribute.add()
            attribute.name = name
    if attribute.HasField("g"):
        return
    if random.random() < 0.05:
        kind = random.choice((AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS))
    attribute.type = kind
    match kind:
        case AttributeProto.FLOAT:
            attribute.f = random.choice(REALS)
        case AttributeProto.STRING:
            attribute.s = random.choice(WORDS)
        case AttributeProto.INTS:
            numbers = [random.choice(NUMBERS) for _ in range(random.randint(0, 5))]
            kept = list(attribute.ints)
            if kept and random.random() < 0.5:
                kept[random.randrange(len(kept))] = random.choice(NUMBERS)
                numbers = kept
            attribute.ints[:] = numbers
        case AttributeProto.FLOATS:
            attribute.floats[:] = [random.choice(REALS) for _ in range(random.randint(0, 4))]
        case AttributeProto.INT:
            attribute.i = random.choice(NUMBERS)
        case AttributeProto.TENSOR:
            _tensor(random, attribute.t)
        case _:
            pass


def _tensor(random: Random, tensor: TensorProto) -> None:
    """Other sizes of as many bytes, another element type, or other numbers."""
    match random.randint(0, 3):
        case 0:
            tensor.data_type = random.choice(ELEMENTS)
        case 1 if tensor.dims:
            tensor.dims[random.randrange(len(tensor.dims))] = random.choice(NUMBERS)
        case 2:
            tensor.dims[:] = random.sample(list(tensor.dims), len(tensor.dims))
        case _ if tensor.raw_data:
            data = bytearray(tensor.raw_data)
            data[random.randrange(len(data))] = random.choice((0, 1, 127, 255))
            tensor.raw_data = bytes(data)
        case _:
            pass


def _value(random: Random, info: ValueInfoProto) -> None:
    """An input of another type or other sizes."""
    tensor = info.type.tensor_type
    if random.random() < 0.3:
        tensor.elem_type = random.choice(ELEMENTS)
        return
    if random.random() < 0.2:
        tensor.shape.dim.add().dim_param = random.choice("nst")
    if not tensor.shape.dim:
        return
    size = random.choice(tensor.shape.dim)
    if random.random() < 0.5:
        size.dim_value = random.choice(NUMBERS)
    else:
        size.dim_param = random.choice(("n", "s", "h", "for", "1", "?", "x y", ""))
