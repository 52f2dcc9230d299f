"""Gradients of attention that read the weights of the forward pass, instead of recomputing them.

A kernel without a matrix of scores recomputes each weight from the logarithm of its row. XLA has
the matrix in memory: for logarithms it reads the scores once for their maxima, once for sums and
once for weights, and the gradient reads them too. Without logarithms one kernel computes weights
from scores, and the gradient reads the weights.
"""

from collections.abc import Sequence

from meganeura_dsl.ir.graph import Application, Builder, Graph, Value, rebuild
from meganeura_dsl.ir.ops.fused.attention import Attention, AttentionGradient

NAMES = (*AttentionGradient.operands.required, *AttentionGradient.operands.optional)
ROWS = NAMES.index("rows")
READ = [NAMES.index(name) for name in ("q", "k", "v", "mask")]
"""Operands of the gradient that are operands of the attention."""


def reuse_attention_weights(graph: Graph) -> Graph:
    """Returns the graph with gradients of attention expanded by the attention's own weights."""
    build = Builder()
    found: dict[Application, tuple[Value, ...]] = {}

    def change(value: Value, operands: tuple[Value, ...]) -> Value:
        op = value.op
        if not isinstance(op, AttentionGradient) or not _is_of_attention(op, value.operands):
            return build.reapply(value, *operands)
        if value.application not in found:
            found[value.application] = _by_weights(build, op, operands)
        return found[value.application][value.index]

    return rebuild(graph, build, change)


def _is_of_attention(gradient: AttentionGradient, operands: Sequence[Value]) -> bool:
    """True if a gradient belongs to an attention with the same scores."""
    rows = operands[ROWS]
    read = tuple(operands[each] for each in READ if each < len(operands))
    return (
        isinstance(rows.op, Attention)
        and rows.index == 1
        and rows.op.form == gradient.form
        and rows.operands == read
    )


def _by_weights(
    build: Builder, gradient: AttentionGradient, operands: Sequence[Value]
) -> tuple[Value, ...]:
    q, k, *_ = operands
    mask = operands[len(AttentionGradient.operands.required) :]
    whole = Attention(*gradient.form)
    weights = whole.weights_value(build, whole.scores_value(build, q, k, *mask))
    return gradient.expand_by(build, operands, weights)
