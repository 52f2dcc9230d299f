"""The passes between an optimized graph and its lowering, in the order in which they run.

A pass is a function from a graph to a graph that means the same. To add one, write it in a file of
its own, name it in `PASSES` with what it needs, and give it a golden file in
`tests/runtime/backends/xla/passes/goldens`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_runtime.backends.verify_passes import verify_after
from meganeura_runtime.backends.xla.config.measured_choices import (
    ATTENTION_WEIGHTS,
    CUDNN_ATTENTION,
    FLATTEN_NORM_ROWS,
    MATMUL_EPILOGUE,
    ONE_PASS_VARIANCE,
    RELU_BACKWARD_FROM_OUTPUT,
    AnyChoice,
)
from meganeura_runtime.backends.xla.passes.expand_unsupported import expand_unsupported
from meganeura_runtime.backends.xla.passes.flatten_norm_rows import flatten_norm_rows
from meganeura_runtime.backends.xla.passes.fuse_attention import fuse_attention
from meganeura_runtime.backends.xla.passes.fuse_matmul_epilogue import fuse_matmul_epilogue
from meganeura_runtime.backends.xla.passes.one_pass_variance import one_pass_variance
from meganeura_runtime.backends.xla.passes.relu_backward_from_output import (
    relu_backward_from_output,
)
from meganeura_runtime.backends.xla.passes.reuse_attention_weights import reuse_attention_weights

Platform = Literal["cpu", "gpu"]
F32, TF32, BF16 = ComputePrecision.F32, ComputePrecision.TF32, ComputePrecision.BF16
ALL = (F32, TF32, BF16)


@dataclass(frozen=True)
class PassTarget:
    """The devices that a graph is compiled for, and their precision."""

    precision: ComputePrecision
    platform: str
    """The platform in JAX's words: `cpu` or `gpu`."""


@dataclass(frozen=True)
class Pass:
    """A rewrite and the conditions under which it runs."""

    rewrite: Callable[[Graph], Graph]
    precisions: tuple[ComputePrecision, ...] = ALL
    platforms: tuple[Platform, ...] = ("cpu", "gpu")
    only_inference: bool = False
    """The pass leaves graphs alone that update parameters."""
    choice: AnyChoice | None = None
    """The measurement that the pass exists for."""

    @property
    def name(self) -> str:
        """The name of the pass as `build --emit after:NAME` takes it."""
        return self.rewrite.__name__.replace("_", "-")

    def runs(self, graph: Graph, target: PassTarget) -> bool:
        """True if the pass applies to a graph on a target."""
        return (
            target.precision in self.precisions
            and target.platform in self.platforms
            and not (self.only_inference and graph.updates)
            and (self.choice is None or self.choice.is_on)
        )

    @property
    def needs(self) -> str:
        """The conditions in words: `bf16, gpu, inference`."""
        parts = [*map(str, self.precisions)] if len(self.precisions) < len(ALL) else []
        joined = [" or ".join(parts)] if parts else []
        joined += self.platforms if len(self.platforms) == 1 else []
        joined += ["inference"] if self.only_inference else []
        return ", ".join(joined)


PASSES: tuple[Pass, ...] = (
    Pass(fuse_attention, (BF16,), ("gpu",), choice=CUDNN_ATTENTION),
    Pass(fuse_matmul_epilogue, (BF16,), ("gpu",), only_inference=True, choice=MATMUL_EPILOGUE),
    Pass(reuse_attention_weights, (F32, TF32), choice=ATTENTION_WEIGHTS),
    Pass(expand_unsupported),
    Pass(one_pass_variance, (BF16,), choice=ONE_PASS_VARIANCE),
    Pass(relu_backward_from_output, (BF16,), choice=RELU_BACKWARD_FROM_OUTPUT),
    Pass(flatten_norm_rows, (BF16,), ("gpu",), only_inference=True, choice=FLATTEN_NORM_ROWS),
)


def run_passes(graph: Graph, target: PassTarget) -> Graph:
    """Returns the graph after all passes, in ops that the lowering table has.

    Raises `ProblemError` for an op that is not supported.
    """
    for _, after in after_each(graph, target):
        graph = after
    return graph


def after_each(graph: Graph, target: PassTarget) -> Iterator[tuple[Pass, Graph]]:
    """Yields each pass that runs, with the graph after it; see `verify_after` for `PassError`."""
    for each in PASSES:
        if each.runs(graph, target):
            graph = each.rewrite(graph)
            verify_after(each.name, graph)
            yield each, graph
