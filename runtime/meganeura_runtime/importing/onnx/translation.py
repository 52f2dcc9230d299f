"""An ONNX graph as statements of a program, node by node.

What depends on constants and sizes alone is computed on the way, over symbols. An op without an
entry in the table is replaced by the function that ONNX defines it by, if there is one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TensorShapeProto,
    TypeProto,
    ValueInfoProto,
    defs,
    helper,
)
from onnx import TensorProto as Proto

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, within
from meganeura_dsl.symbolic.size import Size, dim
from meganeura_runtime.importing.onnx.builder import Builder, UnsayableError
from meganeura_runtime.importing.onnx.code import Tensor
from meganeura_runtime.importing.onnx.draws import Draws, is_draw, require_unread
from meganeura_runtime.importing.onnx.folding import folded
from meganeura_runtime.importing.onnx.import_problems import NoForm
from meganeura_runtime.importing.onnx.loops import (
    is_true,
    linear_recurrence,
    loop_rounds,
    scan_rounds,
    scanned,
)
from meganeura_runtime.importing.onnx.modules import Modules, folded_from
from meganeura_runtime.importing.onnx.names import Names, Paths
from meganeura_runtime.importing.onnx.node import Known, Node, Value, element_of
from meganeura_runtime.importing.onnx.norm_patterns import NormPatterns
from meganeura_runtime.importing.onnx.onnx_file import (
    DEEPEST,
    MOST_AXES,
    MOST_NODES,
    OnnxFile,
    type_name,
)
from meganeura_runtime.importing.onnx.ops.norms import layer_of_norm
from meganeura_runtime.importing.onnx.ops.table import TABLE
from meganeura_runtime.importing.onnx.schemas import require_conforming
from meganeura_runtime.importing.onnx.sequences import SEQUENCES, sequence_op
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.importing.onnx.trained import constant_names

ELEMENT: Mapping[int, DType] = {
    Proto.FLOAT: DType.F32,
    Proto.FLOAT16: DType.F16,
    Proto.INT32: DType.I32,
    Proto.INT64: DType.I32,
    Proto.UINT32: DType.U32,
    Proto.BOOL: DType.BOOL,
}
"""The element types that are read; 64-bit whole numbers become i32, as in the language."""
OLDEST_OPSET = 7
BRANCHES = ("then_branch", "else_branch")
"""The graphs of an `If`."""
WORK = 400_000_000
"""Steps of arithmetic on sizes, in units of `work_budget`."""


@dataclass
class Translation:
    """The translation of an ONNX graph."""

    build: Builder
    inputs: list[tuple[str, str, Tensor]]
    """The name in the file, the name in the program, the value."""
    outputs: list[tuple[str, Tensor]]
    given: Mapping[str, Known]
    """The inputs that are given as numbers."""
    draws: bool = False
    """True if it draws random numbers, from the input `COUNTER` of the file."""


@dataclass
class _Scope:
    """One graph or function: what its names mean, and its opset."""

    values: dict[str, Value | None]
    opset: int
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, AttributeProto])
    label: str = ""
    sequences: dict[str, Sequence[Value]] = field(default_factory=dict[str, Sequence[Value]])
    """The sequences of tensors among its names."""
    is_round: bool = False
    """True if each iteration of a loop runs it."""


def translate(
    file: OnnxFile, sizes: Mapping[str, int], stated: Stated | None = None, work: int = WORK
) -> Translation:
    """The statements of a model, where some symbolic sizes are given as numbers.

    `work` is how many steps of arithmetic on sizes it may take. Raises `ProblemError`.
    """
    try:
        with within(Budget(work)):
            return _Translator(file, sizes, stated or Stated()).run()
    except OutOfWorkError:
        raise file.fault("its sizes take too long to work out") from None
    except RecursionError:
        raise file.fault("it is nested too deeply") from None


class _Translator:
    def __init__(self, file: OnnxFile, sizes: Mapping[str, int], stated: Stated) -> None:
        self.file = file
        self.stated = stated
        self.constants = constant_names(file.model.graph, stated)
        self.sizes = sizes
        self.opsets = {each.domain: each.version for each in file.model.opset_import}
        self.functions = {(each.domain, each.name): each for each in file.model.functions}
        self.names = Names()
        self.paths = Paths()
        self.build = Builder()
        self.given: dict[str, Known] = {}
        self.count = 0
        self.readers: dict[str, list[NodeProto]] = {}
        self.absorbed: set[int] = set()
        """Nodes of the graph that became part of those before them."""
        self.modules = Modules({}, {}, self.constants)
        self.makers: dict[str, NodeProto] = {}
        self.sites: Counter[str] = Counter()
        self.draws = Draws()

    def run(self) -> Translation:
        opset = self.opsets.get("", self.opsets.get("ai.onnx", 0))
        if self.opsets and not self.opsets.keys() & {"", "ai.onnx"}:
            names = ", ".join(f"`{each}`" for each in sorted(self.opsets))
            raise self.file.fault(f"all its ops are of {names}, which is not read")
        if not OLDEST_OPSET <= opset <= defs.onnx_opset_version():
            newest = defs.onnx_opset_version()
            raise self.file.fault(f"its opset is {opset}, and {OLDEST_OPSET} to {newest} are read")
        graph = self.file.model.graph
        scope = _Scope({}, opset)
        self._initializers(graph, scope)
        self.modules = Modules(folded_from(graph), dict(scope.values), self.constants)
        inputs = [each for each in graph.input if each.name not in scope.values]
        size_names = self._size_names(inputs)
        self.build.size_names = frozenset(size_names.values())
        draws = any(is_draw(each.domain, each.op_type) for each in graph.node)
        taken: list[tuple[str, str, Tensor]] = []
        for each in inputs:
            if each.name in scope.values:
                raise self.file.fault(f"two inputs are called `{each.name}`")
            given = self._given(each)
            if given is not None:
                self.given[each.name] = given
                scope.values[each.name] = given
                continue
            of = self._input_type(each, size_names)
            value = self.build.fresh(of.dtype, of.shape)
            scope.values[each.name] = value
            if each.name == COUNTER and draws:
                self.build.counters.add(value.id)
            else:
                taken.append((each.name, self.names.give(each.name, "x"), value))
        self._nodes(graph.node, scope, 0)
        outputs = [(each.name, self._output(each.name, scope)) for each in graph.output]
        if not outputs:
            raise self.file.fault("it has no outputs")
        try:
            require_unread(self.build, [value for _, value in outputs])
        except UnsayableError as error:
            raise ProblemError(NoForm("input", COUNTER, str(error))) from None
        return Translation(self.build, taken, outputs, self.given, draws)

    def _output(self, name: str, scope: _Scope) -> Tensor:
        value = scope.values.get(name)
        if value is None:
            raise self.file.fault(f"its output `{name}` is not defined")
        if isinstance(value, Tensor):
            return value
        node = Node(
            "Identity", name, [value], [name], {}, scope.opset, self.build, self.paths, self.sites,
            self.constants,
        )  # fmt: skip
        try:
            return node.written(value)
        except UnsayableError as error:
            raise ProblemError(NoForm("Identity", f"output `{name}`", str(error))) from None

    # --- what the graph starts from --------------------------------------------------------------

    def _initializers(self, graph: GraphProto, scope: _Scope) -> None:
        self.sites.update(_read_in(graph, 0))
        self.sites.update(each.name for each in graph.output for _ in range(2))
        for node in graph.node:
            self.makers.update((name, node) for name in node.output if name)
            for name in node.input:
                self.readers.setdefault(name, []).append(node)
        if len(graph.sparse_initializer):
            raise self.file.fault("it has sparse initializers, which are not read")
        for tensor in graph.initializer:
            if not tensor.name or tensor.name in scope.values:
                raise self.file.fault(f"an initializer is called `{tensor.name}`, as another is")
            scope.values[tensor.name] = self._known(tensor, tensor.name)
            self.paths.reserve(tensor.name)

    def _known(self, tensor: Proto, name: str) -> Known:
        array = self.file.array(tensor)
        return Known(array, element_of(array.dtype), name)

    def _size_names(self, inputs: Sequence[ValueInfoProto]) -> dict[str, str]:
        """The names of sizes: those of `dim_param`, and one for each size that has none."""
        found: dict[str, str] = {}
        for each in inputs:
            for axis, size in enumerate(each.type.tensor_type.shape.dim):
                if is_open(size):
                    key = size_key(each, axis, size)
                    if key not in found and key not in self.sizes:
                        default = "n" if axis == 0 else f"s{axis}"
                        found[key] = self.names.give(size.dim_param.strip("?"), default)
        return found

    def _given(self, info: ValueInfoProto) -> Known | None:
        """An input of one whole number, if that is given."""
        tensor = info.type.tensor_type
        if info.name not in self.sizes or not is_switch(info):
            return None
        array = np.full([1] * len(tensor.shape.dim), self.sizes[info.name], np.int64)
        return Known(array, ELEMENT[tensor.elem_type])

    def _input_type(self, info: ValueInfoProto, names: Mapping[str, str]) -> TensorType:
        kind = info.type.WhichOneof("value")
        if kind != "tensor_type":
            found = str(kind or "nothing").removesuffix("_type").replace("_", " ")
            raise ProblemError(NoForm("input", info.name, f"it is a {found} and not a tensor"))
        tensor = info.type.tensor_type
        if tensor.elem_type not in ELEMENT:
            reason = f"its elements are {type_name(tensor.elem_type)}"
            raise ProblemError(NoForm("input", info.name, reason))
        if not tensor.HasField("shape"):
            raise ProblemError(NoForm("input", info.name, "the number of its axes is not said"))
        if len(tensor.shape.dim) > MOST_AXES:
            raise ProblemError(NoForm("input", info.name, f"it has more than {MOST_AXES} axes"))
        shape: list[Size] = []
        for axis, size in enumerate(tensor.shape.dim):
            key = size_key(info, axis, size)
            if not is_open(size):
                shape.append(size.dim_value)
            else:
                shape.append(self.sizes[key] if key in self.sizes else dim(names[key]))
        if any(isinstance(size, int) and size < 1 for size in shape):
            raise ProblemError(NoForm("input", info.name, "it has no elements"))
        return TensorType(ELEMENT[tensor.elem_type], tuple(shape))

    # --- nodes -----------------------------------------------------------------------------------

    def _nodes(self, nodes: Sequence[NodeProto], scope: _Scope, depth: int) -> None:
        if depth > DEEPEST:
            raise self.file.fault(f"functions are nested more than {DEEPEST} deep")
        for node in nodes:
            self.count += 1
            if self.count > MOST_NODES:
                raise self.file.fault(f"it has more than {MOST_NODES:,} nodes, functions included")
            self._node(node, scope, depth)

    def _follower(
        self, proto: NodeProto, scope: _Scope, depth: int
    ) -> tuple[NodeProto, Known] | None:
        """The addition of a constant that alone reads the result of a node of the graph."""
        name = proto.output[0] if proto.output else ""
        readers = self.readers.get(name, []) if depth == 0 else []
        if len(readers) != 1 or readers[0].op_type != "Add" or self.sites[name] != 1:
            return None
        found = scope.values.get(next((each for each in readers[0].input if each != name), ""))
        found = self.modules.named(readers[0], found)
        return (readers[0], found) if isinstance(found, Known) else None

    def _node(self, proto: NodeProto, scope: _Scope, depth: int) -> None:
        if id(proto) in self.absorbed:
            return
        label = f"{scope.label}{proto.name or ', '.join(proto.output) or proto.op_type}"
        try:
            results = self._results(proto, scope, depth, label)
        except UnsayableError as error:
            raise ProblemError(NoForm(proto.op_type, label[:200], str(error))) from None
        except (OverflowError, MemoryError, FloatingPointError) as error:
            reason = f"its constants cannot be computed ({type(error).__name__})"
            raise ProblemError(NoForm(proto.op_type, label[:200], reason)) from None
        except (ValueError, IndexError) as error:  # of rows that should be equally long
            reason = f"its operands and attributes do not fit: {str(error)[:120]}"
            raise ProblemError(NoForm(proto.op_type, label[:200], reason)) from None
        if len(results) < sum(map(bool, proto.output)):
            reason = f"result {len(results)} of it is not read"
            raise ProblemError(NoForm(proto.op_type, label[:200], reason))
        for name, value in zip(proto.output, results, strict=False):
            if name:
                scope.values[name] = value

    def _results(
        self, proto: NodeProto, scope: _Scope, depth: int, label: str
    ) -> Sequence[Value | None]:
        inputs = [self._operand(name, proto.op_type, scope) for name in proto.input]
        inputs = [self.modules.named(proto, each) for each in inputs]
        while inputs and inputs[-1] is None and proto.input[len(inputs) - 1] not in scope.sequences:
            inputs.pop()
        if is_draw(proto.domain, proto.op_type):
            return self.draws.read(self._node_of(proto, inputs, scope, label))
        local = self.functions.get((proto.domain, proto.op_type))
        if local is not None:
            return self._function(local, proto, inputs, scope, depth, label)
        if proto.domain not in ("", "ai.onnx"):
            raise UnsayableError(f"the domain `{proto.domain[:80]}` is not read")
        given = [
            name in scope.sequences or value is not None
            for name, value in zip(proto.input, inputs, strict=False)
        ]
        require_conforming(proto, [each or None for each in given], scope.opset)
        if proto.op_type == "If":
            return self._branch(proto, inputs, scope, depth, label)
        if proto.op_type in ("Scan", "Loop"):
            return self._loop(proto, inputs, scope, depth, label)
        node = self._node_of(proto, inputs, scope, label)
        if node.op in SEQUENCES:
            return self._sequence(node, proto, scope)
        follower = self._follower(proto, scope, depth) if node.op == "MatMul" else None
        if follower is not None:
            node.follower = follower[1]
        known = folded(node)
        if known is not None:
            return known
        norm = self._norm(proto, node, scope) if node.op == "Mul" and depth == 0 else None
        if norm is not None:
            return [norm]
        entry = TABLE.get(proto.op_type)
        before = len(self.build.statements)
        if entry is not None:
            built = entry(node)
            if follower is not None and node.is_absorbed and built is not None:
                self.absorbed.add(id(follower[0]))
                scope.values[follower[0].output[0]] = built[0]
            if built is not None:
                return built
        self.build.drop_from(before)
        body = self._definition(proto, inputs, scope)
        if body is None:
            raise UnsayableError(
                "it is not among the ops that are read"
                if entry is None
                else "not with these attributes"
            )
        return self._function(body, proto, inputs, scope, depth, label)

    def _norm(self, proto: NodeProto, node: Node, scope: _Scope) -> Tensor | None:
        """The layer that a product with a weight is the last or the last but one node of."""
        weights = [each for each in node.inputs if isinstance(each, Known)]
        if len(weights) != 1 or not node.is_own(weights[0]) or weights[0].rank != 1:
            return None
        other = proto.input[0] if node.inputs[1] is weights[0] else proto.input[1]
        patterns = NormPatterns(self.makers, scope.values, lambda each: _axes(each, scope))
        found = patterns.normalized(other)
        if found is None or found.x.shape[-1] != weights[0].shape[0]:
            return None
        if not found.is_centered:
            return layer_of_norm(node, "rms_norm", found.x, found.eps, weights)
        follower = self._follower(proto, scope, 0)
        bias = follower[1] if follower is not None else None
        if bias is None or not node.is_own(bias) or bias.shape != weights[0].shape:
            return None
        built = layer_of_norm(node, "layer_norm", found.x, found.eps, [*weights, bias])
        if built is not None and follower is not None:
            self.absorbed.add(id(follower[0]))
            scope.values[follower[0].output[0]] = built
        return built

    def _sequence(self, node: Node, proto: NodeProto, scope: _Scope) -> Sequence[Value | None]:
        """The tensor that is read of a sequence; a sequence is remembered by its name."""
        found = sequence_op(node, proto.input, scope.sequences)
        if isinstance(found, Tensor | Known):
            return [found]
        scope.sequences[proto.output[0]] = found
        return [None]

    def _node_of(
        self,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        scope: _Scope,
        label: str,
        leave_out: str = "",
    ) -> Node:
        """A node with its attributes, except for one of them."""
        given = [each for each in proto.attribute if each.name != leave_out]
        attributes = {each.name: self._attribute(each, scope) for each in given}
        return Node(
            proto.op_type, label, inputs, list(proto.output),
            {name: value for name, value in attributes.items() if value is not None},
            scope.opset, self.build, self.paths, self.sites, self.constants, self.stated.tracked,
            scope.is_round,
        )  # fmt: skip

    def _input(self, name: str, scope: _Scope) -> Value | None:
        if not name:
            return None
        if name not in scope.values:
            raise UnsayableError(f"`{name[:80]}` is not defined before it")
        return scope.values[name]

    def _operand(self, name: str, op: str, scope: _Scope) -> Value | None:
        """An operand of a node, a sequence being one of none but the ops that read it."""
        if name in scope.sequences and op not in SEQUENCES:
            raise UnsayableError(f"`{name[:80]}` is a sequence of tensors")
        return self._input(name, scope)

    def _attribute(self, attribute: AttributeProto, scope: _Scope) -> Any:  # noqa: ANN401 - of any type
        if attribute.ref_attr_name:
            found = scope.attributes.get(attribute.ref_attr_name)
            if found is None:
                return None
            attribute = found
        match attribute.type:
            case AttributeProto.INT:
                return attribute.i
            case AttributeProto.FLOAT:
                return attribute.f
            case AttributeProto.STRING:
                return attribute.s.decode("utf-8", "replace")
            case AttributeProto.INTS:
                return list(attribute.ints)
            case AttributeProto.FLOATS:
                return list(attribute.floats)
            case AttributeProto.TENSOR:
                return self._known(attribute.t, "")
            case AttributeProto.STRINGS:
                return [each.decode("utf-8", "replace") for each in attribute.strings]
            case _:
                raise UnsayableError(f"its attribute `{attribute.name[:80]}` is not read")

    def _branch(
        self,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        scope: _Scope,
        depth: int,
        label: str,
    ) -> Sequence[Value | None]:
        """The branch of an `If` whose condition is known."""
        condition = inputs[0] if inputs else None
        graphs = {each.name: each.g for each in proto.attribute}
        absent = [name for name in BRANCHES if name not in graphs]
        if absent:
            raise UnsayableError(f"it has no `{absent[0]}`")
        if isinstance(condition, Tensor):
            node = Node(
                "If", label, inputs, list(proto.output), {}, scope.opset, self.build, self.paths,
                self.sites, self.constants,
            )  # fmt: skip
            return self._both(node, condition, [graphs[each] for each in BRANCHES], scope, depth)
        if condition is None or condition.array.size != 1 or condition.is_symbolic:
            raise UnsayableError("which branch is taken depends on data")
        wanted = BRANCHES[0] if condition.array.reshape(-1)[0] else BRANCHES[1]
        return self._inside(graphs[wanted], scope, depth, label, {})

    def _both(
        self,
        node: Node,
        condition: Tensor,
        graphs: Sequence[GraphProto],
        scope: _Scope,
        depth: int,
    ) -> Sequence[Value | None]:
        """Returns the results of an `If` that data decides.

        `where` selects between both branches.
        """
        build = self.build
        condition = build.reshape(condition, ())
        pairs = zip(
            *(self._inside(each, scope, depth, node.name, {}) for each in graphs), strict=True
        )
        found: list[Value | None] = []
        for pair in pairs:
            then, otherwise = (
                each if isinstance(each, Tensor) else node.written(each)
                for each in pair
                if each is not None
            )
            if then.dtype is not otherwise.dtype or not build.same_shape(
                then.shape, otherwise.shape
            ):
                types = f"{then.type} and {otherwise.type}"
                raise UnsayableError(f"data decides whether it gives {types}")
            found.append(build.where(condition, then, otherwise))
        return found

    def _loop(
        self,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        scope: _Scope,
        depth: int,
        label: str,
    ) -> Sequence[Value | None]:
        """The results of a `Scan`, or of a `Loop` whose iterations are counted before it begins."""
        graph = next((each.g for each in proto.attribute if each.name == "body"), None)
        if graph is None:
            raise UnsayableError("it has no `body`")
        node = self._node_of(proto, inputs, scope, label, leave_out="body")
        is_loop = proto.op_type == "Loop"
        rounds = (loop_rounds if is_loop else scan_rounds)(node, len(graph.output) - is_loop)
        known = None if is_loop else linear_recurrence(self.build, rounds, graph)
        if known is not None:
            return known

        def body(given: Sequence[Value]) -> list[Tensor]:
            first = (
                [given[0], Known(np.ones((), bool), DType.BOOL), *given[1:]] if is_loop else given
            )
            if len(first) != len(graph.input):
                raise UnsayableError("its body has other operands than it says")
            names = (each.name for each in graph.input)
            given_names = dict(zip(names, first, strict=True))
            found = self._inside(graph, replace(scope, is_round=True), depth, label, given_names)
            if is_loop and (found[0] is None or not is_true(found[0])):
                raise UnsayableError("when it ends depends on data")
            return [
                each if isinstance(each, Tensor) else node.written(each)
                for each in found[is_loop:]
                if each is not None
            ]

        return scanned(self.build, rounds, body, counts=is_loop)

    def _inside(
        self,
        graph: GraphProto,
        scope: _Scope,
        depth: int,
        label: str,
        given: Mapping[str, Value],
    ) -> Sequence[Value | None]:
        """The outputs of a graph of a node, which reads what is around it and what it is given."""
        inner = replace(
            scope, values=dict(scope.values), label=f"{label}/", sequences=dict(scope.sequences)
        )
        for tensor in graph.initializer:
            inner.values[tensor.name] = self._known(tensor, "")
        inner.values.update(given)
        self._nodes(graph.node, inner, depth + 1)
        return [self._input(each.name, inner) for each in graph.output]

    # --- functions -------------------------------------------------------------------------------

    def _function(
        self,
        function: FunctionProto,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        scope: _Scope,
        depth: int,
        label: str,
    ) -> Sequence[Value | None]:
        """The results of a function for these operands."""
        values: dict[str, Value | None] = dict.fromkeys(function.input)
        values.update(zip(function.input, inputs, strict=False))
        given = {each.name: each for each in function.attribute_proto}
        for each in proto.attribute:
            outer = scope.attributes.get(each.ref_attr_name) if each.ref_attr_name else each
            if outer is not None:
                given[each.name] = outer
        opsets = {each.domain: each.version for each in function.opset_import}
        opset = opsets.get("", scope.opset)
        inner = _Scope(values, opset, given, f"{label}/", is_round=scope.is_round)
        self._nodes(function.node, inner, depth + 1)
        wanted = [*proto.output, *[""] * len(function.output)]
        return [
            self._input(name, inner) if used else None
            for name, used in zip(function.output, wanted, strict=False)
        ]

    def _definition(
        self, proto: NodeProto, inputs: Sequence[Value | None], scope: _Scope
    ) -> FunctionProto | None:
        """The function that ONNX defines an op by, for operands of these types."""
        try:
            schema = defs.get_schema(proto.op_type, scope.opset, "")
        except defs.SchemaError:
            raise UnsayableError("ONNX has no such op in this opset") from None
        plain_node = NodeProto()
        plain_node.CopyFrom(proto)
        del plain_node.attribute[:]
        for each in proto.attribute:
            outer = scope.attributes.get(each.ref_attr_name) if each.ref_attr_name else each
            if outer is not None:
                copied = plain_node.attribute.add()
                copied.CopyFrom(outer)
                copied.name = each.name
        function = _defined(schema, plain_node, scope.opset, inputs)
        if function is None:
            return None
        built = FunctionProto()
        built.CopyFrom(function)
        known = {each.name for each in plain_node.attribute}
        for name, attribute in schema.attributes.items():
            if name not in known and attribute.default_value.name:
                built.attribute_proto.append(attribute.default_value)
        return built


def _defined(
    schema: Any,  # noqa: ANN401 - its stub lacks all of this
    node: NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
) -> FunctionProto | None:
    """The function of an op, which may depend on its operands; None if it has none."""
    if schema.has_function:
        return schema.function_body
    versions: list[int] = schema.context_dependent_function_opset_versions
    version = max((each for each in versions if each <= opset), default=None)
    if version is None:
        return None
    function = FunctionProto()
    function.ParseFromString(
        schema.get_context_dependent_function_with_opset_version(
            version, node.SerializeToString(), [_type_proto(each) for each in inputs]
        )
    )
    return function


def _axes(proto: NodeProto, scope: _Scope) -> Sequence[int] | None:
    """The axes of a reduction, as far as they are known."""
    found = next((list(each.ints) for each in proto.attribute if each.name == "axes"), None)
    value = scope.values.get(proto.input[1]) if len(proto.input) > 1 else None
    if found is None and isinstance(value, Known) and not value.is_symbolic:
        return [int(each) for each in value.array.reshape(-1)]
    return found


def _read_in(graph: GraphProto, depth: int) -> Iterator[str]:
    """The names that nodes of a graph read, those in graphs of nodes included."""
    for node in graph.node:
        yield from node.input
        for each in node.attribute if depth < DEEPEST else ():
            if each.type == AttributeProto.GRAPH:
                yield from _read_in(each.g, depth + 1)


def is_open(size: TensorShapeProto.Dimension) -> bool:
    """True if a size is a symbol; some exporters write -1 for one."""
    return not size.HasField("dim_value") or size.dim_value == -1


def size_key(info: ValueInfoProto, axis: int, size: TensorShapeProto.Dimension) -> str:
    """Returns the name of an open size: the file's, or one of its input and axis."""
    return size.dim_param if size.dim_param.strip("?") else f"{info.name}:{axis}"


def is_switch(info: ValueInfoProto) -> bool:
    """True if an input is one whole number or truth value, which may be given for good."""
    tensor = info.type.tensor_type
    is_whole = tensor.elem_type in (Proto.INT32, Proto.INT64, Proto.BOOL)
    return is_whole and all(size.dim_value == 1 for size in tensor.shape.dim)


def open_names(inputs: Sequence[ValueInfoProto]) -> set[str]:
    """Returns the names that may be given as numbers.

    Open sizes, and inputs of one whole number.
    """
    sizes = {
        size_key(each, axis, size)
        for each in inputs
        for axis, size in enumerate(each.type.tensor_type.shape.dim)
        if is_open(size)
    }
    return sizes | {each.name for each in inputs if is_switch(each)}


def _type_proto(value: Value | None) -> bytes:
    """The type of an operand, for functions that depend on it."""
    if value is None:
        return TypeProto().SerializeToString()
    element = next(number for number, of in ELEMENT.items() if of is value.dtype)
    if isinstance(value, Known) and value.array.dtype in (np.dtype(object), np.dtype(np.int64)):
        element = Proto.INT64
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return helper.make_tensor_type_proto(element, shape).SerializeToString()
