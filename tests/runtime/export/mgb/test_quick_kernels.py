"""A page compiles its kernels before it answers, so that small ones are wanted."""

from meganeura_dsl import pipeline
from meganeura_dsl.transforms.egraph.optimize import optimize
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.export.mgb.compile import portable_plan


def kernels(n: int, size: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of a page, and those that the same graph has on a device of the same limits."""
    sizes = {"n": n, "h": size, "w": size}
    elaborated = pipeline.elaborate_model(pipeline.load("digits_cnn"), sizes=sizes)
    graph = optimize(elaborated.graph, mode="infer").graph
    return portable_plan(graph).kernels, plan_graph(graph, PORTABLE).kernels


def test_kernels_of_small_products_have_no_tiles_and_do_little_else() -> None:
    quick, usual = kernels(1, 8)
    assert 3 * max(map(len, quick)) < 2 * max(map(len, usual))
    assert 3 * sum(map(len, quick)) < 2 * sum(map(len, usual))


def test_kernels_of_large_products_are_the_usual_ones() -> None:
    quick, usual = kernels(16, 64)
    assert quick == usual
