"""A loop whose body is a separate graph: each iteration computes on what the one before it left.

    carry[t + 1], collected[t] = body(t, carry[t], sliced[t], captured)

The form is that of `jax.lax.scan`: a body is compiled once, whatever the number of iterations.
"""

from dataclasses import dataclass

from meganeura_dsl.ir.graph import Builder, Op, Value
from meganeura_dsl.ir.ops.primitive.loop import Loop
from meganeura_dsl.ir.ops.primitive.loop_gradient import LoopGradient

__all__ = ["Scan"]


@dataclass(frozen=True)
class Scan(Loop):
    """A body run once for each slice, in order."""

    def pullback(
        self, build: Builder, out: tuple[Value, ...], cotangent: tuple[Value | None, ...]
    ) -> tuple[Value | None, ...]:
        return LoopGradient(self, build, out, cotangent).run()


OPS: tuple[type[Op], ...] = (Scan,)
