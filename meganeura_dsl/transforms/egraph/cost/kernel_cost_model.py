"""The cost of ops as a plan runs them.

A planner gives products and reductions a kernel each. Elementwise work and moves of elements are
done where their result is read, or in the kernel that makes their operand; they touch memory only
if a product reads them, or the caller does. So

    a kernel        a launch, its operands and its result
    kept            what a product reads, or the caller: its result, and its operands but one that
                    is at hand; a launch only if no kernel makes that one
    anything else   its arithmetic; who reads it, reads its operands

A kernel with several results costs a launch and its operands once, and each of them as a result.

What will be differentiated is another matter: each op has a gradient, made of more ops, and keeps
an operand for it. There each op counts as a kernel.
"""

from collections.abc import Iterable, Sequence

from meganeura_dsl.ir.cost_model import Cost, DeviceModel
from meganeura_dsl.ir.graph import Op
from meganeura_dsl.ir.ops import Broadcast
from meganeura_dsl.ir.traits import ANCHORS, NOTHING, PRODUCTS, Trait
from meganeura_dsl.ir.types import TensorType, element_count, size_in_bytes
from meganeura_dsl.transforms.egraph.encoding.egraph_snapshot import EGraphSnapshot, Node

FARTHEST = 3
"""Tensors that are read for one at most: a plan writes it sooner."""
OP = 1e-9
"""Extra seconds of each op, so that the shortest of equally good graphs is chosen."""
STORED = 1e-9
"""The price of reading a derived tensor rather than a parameter as it is, in seconds."""


class FusionModel:
    """The applications that are kernels of their own, and the cost of each beside the others."""

    def __init__(
        self,
        nodes: Sequence[Node],
        types: Sequence[TensorType],
        roots: Iterable[int],
        *,
        apart: bool = False,
    ) -> None:
        """`types` are those of the classes that the nodes own; `apart` makes each op a kernel."""
        self._nodes = nodes
        # Types that are one object are one kind: to compare them takes longer than to count twice.
        self._types = list({id(of): of for of in types}.values())
        kinds = {id(of): number for number, of in enumerate(self._types)}
        self._kinds = [kinds[id(of)] for of in types]
        counts, sizes = (list(map(each, self._types)) for each in (element_count, size_in_bytes))
        self._elements = [counts[kind] for kind in self._kinds]
        self._bytes = [sizes[kind] for kind in self._kinds]
        ops = {type(node.op) for node in nodes}
        self._is_kernel = {op: _is_kernel(op, apart=apart) for op in ops}
        in_memory = {op for op in ops if self._is_kernel[op] or op.operands == NOTHING}
        self._materialized = self._in_memory(roots)
        self._joined = self._after_kernels()
        self.stored = self._materialized | {
            node.owner for node in nodes if type(node.op) in in_memory
        }
        """The classes that are in memory."""
        self._read = self._read_bytes()
        self._known: dict[tuple[int, ...], Cost] = {}

    def costs(self) -> list[Cost]:
        """The cost of each node."""
        return list(map(self.cost, range(len(self._nodes))))

    def cost(self, number: int) -> Cost:
        """The cost of one node."""
        node = self._nodes[number]
        owner, operands = node.owner, node.operands
        role = 2 * (owner in self._materialized) + (owner in self._joined)
        key = (id(node.op), self._kinds[owner], self._read[owner], role, len(set(operands)))
        for operand in operands:
            key += (self._kinds[operand], self._read[operand])
        cost = self._known.get(key)
        if cost is None:
            cost = self._known[key] = self._cost(node)
        return cost

    def application_cost(self, number: int) -> Cost:
        """Returns the cost of a node and the other results of its application together."""
        node = self._nodes[number]
        reads = [self._read[operand] for operand in dict.fromkeys(node.operands)]
        return Cost(sum(reads), self._flops(node), 1)

    def _flops(self, node: Node) -> int:
        types = [self._types[self._kinds[operand]] for operand in node.operands]
        return node.op.flops(types, self._types[self._kinds[node.owner]])

    def _cost(self, node: Node) -> Cost:
        if costs_nothing(node.op):
            return Cost()
        if node.op.multiple_results:
            return Cost(self._bytes[node.owner])
        owner, operands = node.owner, dict.fromkeys(node.operands)
        reads = [self._read[operand] for operand in operands]
        work = self._flops(node)
        if self._is_kernel[type(node.op)]:
            return Cost(sum(reads) + self._bytes[owner], work, 1)
        if owner not in self._materialized:
            # What a reader of the class pays is the least of all its nodes.
            return Cost(max(0, sum(reads) - self._read[owner]), work, 0)
        if owner not in self._joined:
            return Cost(sum(reads) + self._bytes[owner], work, 1)
        return Cost(sum(reads) - max(reads) + self._bytes[owner], work, 0)

    def _read_bytes(self) -> list[int]:
        """The bytes it takes to read each class: what is not in memory is read through."""
        users: dict[int, list[Node]] = {}
        for node in self._nodes:
            if node.owner not in self.stored or isinstance(node.op, Broadcast):
                for operand in node.operands:
                    users.setdefault(operand, []).append(node)
        read = [FARTHEST * size for size in self._bytes]
        for number in self.stored:
            read[number] = self._bytes[number]
        changed = [number for number in self.stored if number in users]
        while changed:
            for user in users.get(changed.pop(), ()):
                through = sum([read[operand] for operand in set(user.operands)])
                if through < read[user.owner]:
                    read[user.owner] = through
                    changed.append(user.owner)
        return read

    def _in_memory(self, roots: Iterable[int]) -> set[int]:
        """The classes that products read, through views, and those that the caller does."""
        sources: dict[int, list[int]] = {}
        wanted = list(roots)
        for node in self._nodes:
            if Trait.VIEW in node.op.traits:
                sources.setdefault(node.owner, []).append(node.operands[0])
            elif not node.op.traits.isdisjoint(PRODUCTS):
                wanted += node.operands
        materialized: set[int] = set()
        while wanted:
            number = wanted.pop()
            if number not in materialized:
                materialized.add(number)
                wanted += sources.get(number, ())
        return materialized

    def _after_kernels(self) -> set[int]:
        """The classes that a kernel computes, or could also compute because their sizes agree."""
        users: dict[int, list[int]] = {}
        found: list[int] = []
        for node in self._nodes:
            if self._is_kernel[type(node.op)]:
                found.append(node.owner)
                continue
            for operand in node.operands:
                if self._elements[operand] == self._elements[node.owner]:
                    users.setdefault(operand, []).append(node.owner)
        joined: set[int] = set()
        while found:
            number = found.pop()
            if number not in joined:
                joined.add(number)
                found += users.get(number, ())
        return joined


def costs_nothing(op: Op | type[Op]) -> bool:
    """True if nothing is read, computed or written for an op: it reads nothing, or is a view."""
    return op.operands == NOTHING or Trait.VIEW in op.traits


def _is_kernel(op: type[Op], *, apart: bool) -> bool:
    if costs_nothing(op):
        return False
    return apart or op.multiple_results or not op.traits.isdisjoint(ANCHORS)


class OpCosts:
    """The seconds of the nodes of an e-graph, found when they are asked for: most are never.

    The numbers beyond them stand for the applications of which the nodes `applied` are results, one
    of each, and those beyond for what is stored.
    """

    def __init__(
        self,
        found: EGraphSnapshot,
        applied: Sequence[int],
        roots: Iterable[int],
        device: DeviceModel,
        *,
        apart: bool,
    ) -> None:
        self._nodes = found.nodes
        self._applied = applied
        self._kernels = FusionModel(found.nodes, found.types, roots, apart=apart)
        self._device = device

    def __getitem__(self, number: int, /) -> float:
        beyond = number - len(self._nodes)
        if beyond >= len(self._applied):
            return STORED
        if beyond >= 0:
            return self._kernels.application_cost(self._applied[beyond]).seconds(self._device)
        seconds = self._kernels.cost(number).seconds(self._device)
        return seconds + (OP if self._nodes[number].operands else 0.0)
