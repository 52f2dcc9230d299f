"""Short names of kernels: `conv 3x3 64->64 @56x56 + bias + relu`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from meganeura_dsl.ir.graph import Leaf, Op, Value
from meganeura_dsl.ir.ops import Add, Compare, Erf, Maximum, Sqrt, Where
from meganeura_dsl.ir.ops.primitive.broadcast import Broadcast, is_zero
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_runtime.backends.timing.op_names import kind_of, sizes_of, spaced, times
from meganeura_runtime.backends.webgpu.analysis.recompute_cost import is_free
from meganeura_runtime.backends.webgpu.codegen.kernels.kernel import Work
from meganeura_runtime.backends.webgpu.ops.lowered import SplitKPartial, plain

MOST_WORDS = 4
"""Words about what follows a sum; more of them would say less."""
UPDATE = "update"
SIGNS: Mapping[type[Op], str] = {Erf: "gelu", Sqrt: "norm"}
"""Ops that tell what a formula is."""
SILENT = ("compare", "stop gradient")
ARITHMETIC = (*SILENT, "add", "sub", "mul", "div", "neg", "where", "cast")
"""Words that say nothing beside others."""


@dataclass(frozen=True, slots=True)
class KernelName:
    """The kind of a kernel, its sizes, and its epilogue."""

    kind: str
    sizes: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        shown = self.words[:MOST_WORDS]
        more = ("...",) if len(self.words) > MOST_WORDS else ()
        return " + ".join([f"{self.kind} {self.sizes}".rstrip(), *shown, *more])


def kernel_name(work: Work, computed: Sequence[Value], updates: Collection[int]) -> KernelName:
    """Returns the name of a kernel that computes these values, in this order.

    `updates` are the values that replace parameters and states.
    """
    words = tuple(dict.fromkeys(_words(work, computed, updates)))
    if work.anchors:
        kinds = dict.fromkeys(kind_of(plain(anchor)[0]) for anchor in work.anchors)
        return KernelName("+".join(kinds), _sizes(work.anchors[0]), words)
    sizes = times(concrete_shape(work.stores[0].type.shape))
    if words == (UPDATE,):
        return KernelName(UPDATE, sizes, ())
    return KernelName("map", sizes, words)


def op_name(value: Value) -> str:
    """Returns the name of one op that is run by itself."""
    return f"{kind_of(plain(value)[0])} {_sizes(value)}".rstrip()


def _sizes(anchor: Value) -> str:
    op, of = plain(anchor)
    sizes = sizes_of(op, [operand.type for operand in anchor.operands], of)
    return f"{sizes} in {anchor.op.parts} parts" if isinstance(anchor.op, SplitKPartial) else sizes


# --- what follows --------------------------------------------------------------------------------


def _words(work: Work, computed: Sequence[Value], updates: Collection[int]) -> Iterable[str]:
    """Yields words for the use of the anchors, or, without any, of the operands."""
    if any(value.id in updates for value in work.stores):
        return [UPDATE]
    found = _following(work.anchors, computed) if work.anchors else computed
    words = [_word(value) for value in found if not is_free(value.op)]
    specific = [word for word in words if word not in ARITHMETIC]
    return specific or [word for word in words if word not in SILENT]


def _following(anchors: Sequence[Value], computed: Sequence[Value]) -> list[Value]:
    """The values that are computed from the anchors."""
    found = {anchor.id for anchor in anchors}
    following: list[Value] = []
    for value in computed:
        if value.id not in found and any(operand.id in found for operand in value.operands):
            found.add(value.id)
            following.append(value)
    return following


def _word(value: Value) -> str:
    if _is_bias(value):
        return "bias"
    if _is_relu(value):
        return "relu"
    return SIGNS.get(type(value.op), spaced(type(value.op).__name__))


def _is_bias(value: Value) -> bool:
    """The sum of something and a parameter that is repeated."""
    return isinstance(value.op, Add) and any(
        isinstance(each.op, Broadcast) and isinstance(each.operands[0].op, Leaf)
        for each in value.operands
    )


def _is_relu(value: Value) -> bool:
    """max(x, 0), or x where it is not below 0."""
    match value.op:
        case Maximum():
            return any(map(is_zero, value.operands))
        case Where():
            condition, *branches = value.operands
            compared = isinstance(condition.op, Compare) and condition.operands[0] in branches
            return compared and any(map(is_zero, branches))
        case _:
            return False
