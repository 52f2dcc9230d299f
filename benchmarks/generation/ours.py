"""This repository: a generator, and how long its steps are."""

from collections.abc import Iterator

import meganeura
from benchmarks.generation.case import Case, per_call, per_token
from meganeura_dsl.elaborate.declarations.generation import TokenStep
from meganeura_dsl.ir.index_checks import with_checks
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.pipeline import elaborate_tokens, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_runtime.backends.compile_cache import cached_inference
from meganeura_runtime.backends.registry import choose_device, model_of

Row = tuple[str, str]
SHOWN = 18
"""Kinds of kernels of a profile."""


def rows(case: Case, device: str, *, profiled: bool) -> Iterator[Row]:
    """Yields the measurements as they are made: the tokens first."""
    model = meganeura.load(case.model).model(case.model)
    shapes = {each.name: concrete_shape(each.type.shape) for each in model.parameters}
    model.values = dict(case.weights(shapes))
    with model.generator(case.capacity, device=device) as generator:
        tokens = [int(token[0]) for token in generator.tokens(case.ids, case.compared)]
        yield "tokens", " ".join(map(str, tokens))

        def start() -> Iterator[object]:
            return generator.tokens(case.ids, case.timed)

        yield "decode", f"{per_token(case, start, lambda: None):.3f}"
        first = per_call(lambda: next(iter(generator.tokens(case.ids, 1))))
        yield "prefill", f"{first:.3f}"
    if profiled:
        for tokens in (1, case.prompt):
            yield from _profile(case, device, tokens)


def _profile(case: Case, device: str, count: int) -> Iterator[Row]:
    """The kernels of a step, the longest first."""
    chosen = choose_device(device)
    step = TokenStep(case.capacity, count)
    made = elaborate_tokens(load(case.model), case.model, {}, step)
    graph = with_checks(made.elaboration.graph)
    options = RewriteOptions(device=model_of(device))
    profile = chosen.profile(cached_inference(graph, options, "train").graph)
    if profile is None:
        return
    host = sum(profile.host.values())
    calls = sum(row.calls for row in profile.rows)
    text = f"{profile.step * 1e3:.3f} ms a step, host {host * 1e3:.3f}"
    yield f"profile of {count}", f"{text}, {calls} kernels {profile.kernels * 1e3:.3f}"
    for row in profile.rows[:SHOWN]:
        share = profile.roofline(row)
        name = f"{row.calls:4} x {row.seconds / row.calls * 1e6:7.2f} us {share:4.0%}"
        yield name, row.name
