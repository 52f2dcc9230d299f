"""The certificate of the optimizations of a run: graphs, and the chains that lead between them."""

# Values of rules are numbers, texts or tuples of them: patterns tell them apart.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from meganeura_verify.runs import FORMAT, digest
from meganeura_verify.terms import Value

from meganeura_dsl import __version__
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.transforms.egraph.certificates.chain_search import ChainSearch, Step
from meganeura_dsl.transforms.egraph.certificates.graph_record import (
    graph_record,
    inference_record,
)
from meganeura_dsl.transforms.egraph.certificates.guide import guide_of, rules_text
from meganeura_dsl.transforms.egraph.optimized import Optimized
from meganeura_dsl.transforms.egraph.rules.rule_sets import Mode

Json = Any


class NoChainError(Exception):
    """The instances that were looked for do not lead from the graph to what was chosen."""


def certificate(optimizations: Iterable[Optimized], texts: Iterable[Source]) -> Json:
    """The certificate of some optimizations, each after those of its loops' bodies.

    `texts` are those of the program, its own first. Raises `NoChainError`.
    """
    runs: list[Json] = []
    for each in optimizations:
        _add(each, runs)
    content = rules_text().encode()
    return {
        "format": FORMAT,
        "compiler": __version__,
        "texts": [
            [Path(each.name).name, hashlib.sha256(each.text.encode()).hexdigest()] for each in texts
        ],
        "rules": hashlib.sha256(content).hexdigest(),
        "runs": runs,
    }


def steps_in(made: Json) -> int:
    """The number of steps of a certificate."""
    return sum(len(run["steps"]) for run in made["runs"])


def certificate_text(made: Json) -> str:
    """A certificate as the text of a file: JSON on one line."""
    return json.dumps(made, separators=(",", ":")) + "\n"


def _add(optimized: Optimized, runs: list[Json]) -> None:
    evidence, mode = optimized.evidence, optimized.report.mode
    bodies: list[Json] = []
    for body, inner in evidence.bodies:
        _add(inner, runs)
        first, second = digest(graph_record(body)), digest(graph_record(inner.graph))
        bodies.append({"before": first, "after": second, "run": len(runs) - 1})
    before = graph_record(evidence.before)
    after = graph_record(optimized.graph)
    if mode == "infer":
        after = inference_record(optimized.graph, optimized.load)
    equal = {each["before"]: each["after"] for each in bodies}
    explored = graph_record(evidence.explored) if evidence.bodies else before
    guide = guide_of(evidence.explored, explored, evidence.saturated, cast("Mode", mode))
    chain = ChainSearch(before, after, equal, guide).run()
    if chain is None:
        raise NoChainError(f"no chain of rules was found for the graph of mode `{mode}`")
    steps = [_step(each) for each in chain.steps]
    runs.append({"mode": mode, "before": before, "bodies": bodies, "steps": steps, "after": after})


def _step(step: Step) -> Json:
    bound = {name: _data(value) for name, value in step.bound.items()}
    return {"rule": step.rule.name, "bound": bound}


def _data(value: Value) -> Json:
    match value:
        case ("node", number):
            return {"node": number}
        case ("nodes", numbers):
            return {"nodes": list(numbers)}
        case ("type", dtype, shape):
            return {"type": [dtype, list(shape)]}
        case ("body", text):
            return {"body": text}
        case tuple():
            return list(value)
        case _:
            return value
