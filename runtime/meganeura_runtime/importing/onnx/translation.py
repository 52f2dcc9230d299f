"""An ONNX graph as statements of a program, node by node.

What depends on constants and sizes alone is computed on the way, over symbols. An op without an
entry in the table is replaced by the function that ONNX defines it by, if there is one.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, defs
from onnx import TensorProto as Proto

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.reserved_names import COUNTER
from meganeura_dsl.ir.types import DType
from meganeura_dsl.limits.work_budget import Budget, OutOfWorkError, within
from meganeura_runtime.importing.onnx.attributes import (
    attribute_value,
    resolved_attribute,
    resolved_attributes,
)
from meganeura_runtime.importing.onnx.branches import selected
from meganeura_runtime.importing.onnx.builder import Builder
from meganeura_runtime.importing.onnx.code import Tensor, Words
from meganeura_runtime.importing.onnx.draws import Draws, is_draw, require_unread
from meganeura_runtime.importing.onnx.folding import folded
from meganeura_runtime.importing.onnx.function_bodies import function_body
from meganeura_runtime.importing.onnx.graph_inputs import (
    given_input,
    input_limits,
    input_type,
    size_names,
)
from meganeura_runtime.importing.onnx.graph_links import GraphLinks, names_read
from meganeura_runtime.importing.onnx.import_problems import NoForm, UnsupportedNodeError
from meganeura_runtime.importing.onnx.loops import (
    is_true,
    linear_recurrence,
    loop_iterations,
    scan_iterations,
    scanned,
)
from meganeura_runtime.importing.onnx.modules import Modules, folded_from
from meganeura_runtime.importing.onnx.names import Names, Paths
from meganeura_runtime.importing.onnx.node import Known, Node, Value, element_of
from meganeura_runtime.importing.onnx.norm_patterns import NormPatterns
from meganeura_runtime.importing.onnx.onnx_file import DEEPEST, MOST_NODES, OnnxFile
from meganeura_runtime.importing.onnx.ops.norms import layer_of_norm
from meganeura_runtime.importing.onnx.ops.table import TABLE, contributed
from meganeura_runtime.importing.onnx.schemas import require_conforming
from meganeura_runtime.importing.onnx.sequences import SEQUENCES, sequence_op
from meganeura_runtime.importing.onnx.small_integers import SMALL, is_wide, small_results
from meganeura_runtime.importing.onnx.stated import Stated
from meganeura_runtime.importing.onnx.stated_conditions import state_conditions
from meganeura_runtime.importing.onnx.trained import constant_names, parameter_names, stated_by

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
    in_loop: bool = False
    """True if each iteration of a loop runs it."""
    links: GraphLinks = field(default_factory=GraphLinks)
    """Its nodes, if it is a graph."""


def translate(
    file: OnnxFile, sizes: Mapping[str, int], stated: Stated | None = None, work: int = WORK
) -> Translation:
    """The statements of a model, where some symbolic sizes are given as numbers.

    `work` is how many steps of arithmetic on sizes it may take. Raises `ProblemError`.
    """
    try:
        with within(Budget(work)):
            translator = _Translator(file, sizes, stated or Stated(), ())
            found, crowded = translator.run(), translator.paths.crowded
            if crowded:  # rather a layer less than another name
                found = _Translator(file, sizes, stated or Stated(), crowded).run()
            return found
    except OutOfWorkError:
        raise file.fault("its sizes take too long to work out") from None
    except RecursionError:
        raise file.fault("it is nested too deeply") from None


class _Translator:
    def __init__(
        self, file: OnnxFile, sizes: Mapping[str, int], stated: Stated, apart: Collection[Words]
    ) -> None:
        self.file = file
        self.stated = stated_by(file.model, stated)
        self.constants = constant_names(file.model.graph, self.stated)
        self.parameters = parameter_names(file.model.graph, self.stated) - self.constants
        self.sizes = sizes
        self.opsets = {each.domain: each.version for each in file.model.opset_import}
        self.functions = {(each.domain, each.name): each for each in file.model.functions}
        self.names = Names()
        self.paths = Paths(apart)
        self.build = Builder()
        self.given: dict[str, Known] = {}
        self.count = 0
        self.absorbed: set[int] = set()
        """Nodes that became part of those before them."""
        self.modules = Modules({}, {}, self.constants)
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
        scope = _Scope({}, opset, links=GraphLinks().inside(graph))
        self._initializers(graph, scope)
        self.modules = Modules(folded_from(graph), dict(scope.values), self.constants)
        inputs = [each for each in graph.input if each.name not in scope.values]
        open_sizes = size_names(inputs, self.sizes, self.names)
        self.build.size_names = frozenset(open_sizes.values())
        draws = any(is_draw(each.domain, each.op_type) for each in graph.node)
        taken: list[tuple[str, str, Tensor]] = []
        for each in inputs:
            if each.name in scope.values:
                raise self.file.fault(f"two inputs are called `{each.name}`")
            given = given_input(each, self.sizes)
            if given is not None:
                self.given[each.name] = given
                scope.values[each.name] = given
                continue
            of = input_type(each, self.sizes, open_sizes)
            value = self.build.fresh(of.dtype, of.shape)
            scope.values[each.name] = value
            self.build.limits |= input_limits(each, value)
            if each.name == COUNTER and draws:
                self.build.counters.add(value.id)
            else:
                taken.append((each.name, self.names.give(each.name, "x"), value))
        state_conditions(self.file, self.build, self.stated.conditions, open_sizes, self.sizes)
        self._nodes(graph.node, scope, 0)
        outputs = [(each.name, self._output(each.name, scope)) for each in graph.output]
        if not outputs:
            raise self.file.fault("it has no outputs")
        try:
            require_unread(self.build, [value for _, value in outputs])
        except UnsupportedNodeError as error:
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
        except UnsupportedNodeError as error:
            raise ProblemError(NoForm("Identity", f"output `{name}`", str(error))) from None

    # --- what the graph starts from --------------------------------------------------------------

    def _initializers(self, graph: GraphProto, scope: _Scope) -> None:
        self.sites.update(names_read(graph))
        self.sites.update(each.name for each in graph.output for _ in range(2))
        if len(graph.sparse_initializer):
            raise self.file.fault("it has sparse initializers, which are not read")
        for tensor in graph.initializer:
            if not tensor.name or tensor.name in scope.values:
                raise self.file.fault(f"an initializer is called `{tensor.name}`, as another is")
            scope.values[tensor.name] = self._known(tensor, tensor.name)
            self.paths.reserve(tensor.name)

    def _known(self, tensor: Proto, name: str) -> Known:
        array = self.file.array(tensor)
        return Known(
            array, element_of(array.dtype), name, is_parameter=name in self.parameters,
            limits=SMALL.get(tensor.data_type),
        )  # fmt: skip

    # --- nodes -----------------------------------------------------------------------------------

    def _nodes(self, nodes: Sequence[NodeProto], scope: _Scope, depth: int) -> None:
        if depth > DEEPEST:
            raise self.file.fault(f"functions are nested more than {DEEPEST} deep")
        for node in nodes:
            self.count += 1
            if self.count > MOST_NODES:
                raise self.file.fault(f"it has more than {MOST_NODES:,} nodes, functions included")
            self._node(node, scope, depth)

    def _follower(self, proto: NodeProto, scope: _Scope) -> tuple[NodeProto, Known] | None:
        """The addition of a constant that alone reads the result of a node of a graph."""
        name = proto.output[0] if proto.output else ""
        addition = scope.links.addition(name)
        if addition is None or self.sites[name] != 1:
            return None
        found = scope.values.get(next((each for each in addition.input if each != name), ""))
        found = self.modules.named(addition, found)
        return (addition, found) if isinstance(found, Known) else None

    def _node(self, proto: NodeProto, scope: _Scope, depth: int) -> None:
        if id(proto) in self.absorbed:
            self.absorbed.discard(id(proto))  # the graph may be read once more
            return
        label = f"{scope.label}{proto.name or ', '.join(proto.output) or proto.op_type}"
        try:
            results = self._results(proto, scope, depth, label)
        except UnsupportedNodeError as error:
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
            node = self._node_of(proto, inputs, scope, label)
            return contributed(proto.domain, proto.op_type)(node) or ()
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
        return small_results(node, lambda node: self._of_op(proto, node, scope, depth, label))

    def _of_op(
        self, proto: NodeProto, node: Node, scope: _Scope, depth: int, label: str
    ) -> Sequence[Value | None]:
        """The results of an op of ONNX that has no graphs."""
        inputs = node.inputs
        follower = self._follower(proto, scope) if node.op == "MatMul" else None
        if follower is not None:
            node.follower = follower[1]
        known = folded(node)
        if known is not None:
            return known
        norm = self._norm(proto, node, scope) if node.op == "Mul" else None
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
        body = function_body(proto, inputs, scope.opset, scope.attributes)
        if body is None:
            raise UnsupportedNodeError(
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
        patterns = NormPatterns(scope.links.makers, scope.values)
        found = patterns.normalized(other)
        if found is None or found.x.shape[-1] != weights[0].shape[0]:
            return None
        if not found.is_centered:
            return layer_of_norm(node, "rms_norm", found.x, found.eps, weights)
        follower = self._follower(proto, scope)
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
            scope.in_loop,
        )  # fmt: skip

    def _input(self, name: str, scope: _Scope) -> Value | None:
        if not name:
            return None
        if name not in scope.values:
            raise UnsupportedNodeError(f"`{name[:80]}` is not defined before it")
        return scope.values[name]

    def _operand(self, name: str, op: str, scope: _Scope) -> Value | None:
        """An operand of a node, a sequence being one of none but the ops that read it."""
        if name in scope.sequences and op not in SEQUENCES:
            raise UnsupportedNodeError(f"`{name[:80]}` is a sequence of tensors")
        return self._input(name, scope)

    def _attribute(self, attribute: AttributeProto, scope: _Scope) -> Any:  # noqa: ANN401 - of any type
        found = resolved_attribute(attribute, scope.attributes)
        return None if found is None else attribute_value(found, lambda each: self._known(each, ""))

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
            raise UnsupportedNodeError(f"it has no `{absent[0]}`")
        if isinstance(condition, Tensor):
            node = Node(
                "If", label, inputs, list(proto.output), {}, scope.opset, self.build, self.paths,
                self.sites, self.constants,
            )  # fmt: skip
            condition = self.build.reshape(condition, ())
            both = [self._inside(graphs[each], scope, depth, label, {}) for each in BRANCHES]
            return selected(node, condition, *both)
        if condition is None or condition.array.size != 1 or condition.is_symbolic:
            raise UnsupportedNodeError("which branch is taken depends on data")
        wanted = BRANCHES[0] if condition.array.reshape(-1)[0] else BRANCHES[1]
        return self._inside(graphs[wanted], scope, depth, label, {})

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
            raise UnsupportedNodeError("it has no `body`")
        node = self._node_of(proto, inputs, scope, label, leave_out="body")
        is_loop = proto.op_type == "Loop"
        iterations = (loop_iterations if is_loop else scan_iterations)(
            node, len(graph.output) - is_loop
        )
        known = None if is_loop else linear_recurrence(self.build, iterations, graph)
        if known is not None:
            return known

        def body(given: Sequence[Value]) -> list[Tensor]:
            first = (
                [given[0], Known(np.ones((), bool), DType.BOOL), *given[1:]] if is_loop else given
            )
            if len(first) != len(graph.input):
                raise UnsupportedNodeError("its body has other operands than it says")
            names = (each.name for each in graph.input)
            given_names = dict(zip(names, first, strict=True))
            found = self._inside(graph, replace(scope, in_loop=True), depth, label, given_names)
            if is_loop and (found[0] is None or not is_true(found[0])):
                raise UnsupportedNodeError("when it ends depends on data")
            return [
                each if isinstance(each, Tensor) else node.written(each)
                for each in found[is_loop:]
                if each is not None and is_wide(self.build, each)
            ]

        return scanned(self.build, iterations, body, counts=is_loop)

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
            scope, values=dict(scope.values), label=f"{label}/", sequences=dict(scope.sequences),
            links=scope.links.inside(graph),
        )  # fmt: skip
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
        given |= resolved_attributes(proto, scope.attributes)
        opsets = {each.domain: each.version for each in function.opset_import}
        opset = opsets.get("", scope.opset)
        inner = _Scope(values, opset, given, f"{label}/", in_loop=scope.in_loop)
        self._nodes(function.node, inner, depth + 1)
        wanted = [*proto.output, *[""] * len(function.output)]
        return [
            self._input(name, inner) if used else None
            for name, used in zip(function.output, wanted, strict=False)
        ]
