"""Damage to models of ONNX that leaves them readable: the bytes of most mutants parse.

What changes is an op, an attribute, an operand, a size, an element type, or the place of a node, so
that it is the reading of the graph that is tried and not the parser of protobufs.
"""

from collections.abc import Sequence
from random import Random

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from fuzz.mutate import mutate
from meganeura_runtime.importing.onnx.ops.table import TABLE

OPS = (*sorted(TABLE), "Shape", "Size", "Constant", "ConstantOfShape", "If", "Loop", "Scan", "Celu")
NUMBERS = (-(1 << 63), -(1 << 31), -3, -2, -1, 0, 1, 2, 3, 4, 7, 255, 1 << 31, (1 << 63) - 1)
REALS = (-1e30, -1.0, 0.0, 0.5, 1.0, 3.0, 1e30, float("inf"), float("nan"))
ATTRIBUTES = (
    "axis", "axes", "keepdims", "perm", "to", "kernel_shape", "strides", "pads", "dilations",
    "group", "alpha", "beta", "mode", "start", "end", "batch_dims", "split", "num_outputs", "shape",
    "equation", "largest", "exclusive", "reverse", "num_scan_inputs", "scan_input_axes", "epsilon",
)  # fmt: skip
ELEMENTS = (1, 2, 3, 6, 7, 9, 10, 11, 12, 16, 99)


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
    for _ in range(random.randint(1, 4)):
        _damage(random, _graph(random, model.graph))
    if random.random() < 0.05:
        model.opset_import[0].version = random.randint(0, 30)
    return model.SerializeToString()


def _graph(random: Random, graph: GraphProto) -> GraphProto:
    """The graph, or one within it."""
    inner = [each.g for node in graph.node for each in node.attribute if each.HasField("g")]
    return _graph(random, random.choice(inner)) if inner and random.random() < 0.5 else graph


def _damage(random: Random, graph: GraphProto) -> None:
    if not graph.node:
        return
    node = random.choice(graph.node)
    names = [name for each in graph.node for name in (*each.input, *each.output)]
    names += [each.name for each in (*graph.initializer, *graph.input)]
    match random.randint(0, 9):
        case 0:
            node.op_type = random.choice(OPS)
        case 1 if node.input:
            node.input[random.randrange(len(node.input))] = random.choice((*names, ""))
        case 2:
            node.input.append(random.choice((*names, "")))
        case 3 if node.input:
            del node.input[-1]
        case 4:
            _attribute(random, node)
        case 5 if graph.initializer:
            _tensor(random, random.choice(graph.initializer))
        case 6 if graph.input:
            _value(random, random.choice(graph.input))
        case 7:
            copied = graph.node.add()
            copied.CopyFrom(node)
            copied.output[:] = [f"{each}'" for each in node.output]
            graph.output[0].name = random.choice((*copied.output, *names)) if graph.output else ""
        case 8:
            graph.node.remove(node)
        case _:
            node.output.append(random.choice((*names, "", "new")))


def _attribute(random: Random, node: NodeProto) -> None:
    """An attribute gets other numbers, another type, or is a new one."""
    if not node.attribute or random.random() < 0.4:
        attribute = node.attribute.add()
        attribute.name = random.choice(ATTRIBUTES)
    else:
        attribute = random.choice(node.attribute)
    if attribute.HasField("g"):
        return
    attribute.ClearField("ints")
    match random.randint(0, 4):
        case 0:
            attribute.type, attribute.f = AttributeProto.FLOAT, random.choice(REALS)
        case 1:
            attribute.type, attribute.s = AttributeProto.STRING, random.choice((b"SAME_UPPER", b""))
        case 2 | 3:
            attribute.type = AttributeProto.INTS
            attribute.ints.extend(random.choice(NUMBERS) for _ in range(random.randint(0, 5)))
        case _:
            attribute.type, attribute.i = AttributeProto.INT, random.choice(NUMBERS)


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
