"""All that the checker and the graph builder say of a program, as text that can be compared.

Run as a file, it reads programs from its input and prints the findings of each, one JSON value a
line. It imports nothing but `meganeura_dsl`, so that any checkout of it can be asked:
`scripts/same_programs.py` compares two.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import meganeura_dsl
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.program import Program, loader_beside

Findings = dict[str, object]
"""Reports, bindings by line, proved blocks, held expectations, parameters and graphs."""
SIZE = 4
"""Each free size of a `train` block."""


def findings(text: str, path: str) -> Findings:
    """Returns what a check says of a program and, if nothing is wrong, its graphs."""
    source, loader = Source(Path(path).name, text), loader_beside(Path(path))
    result = pipeline.check(source, loader)
    found: Findings = {
        "reports": [_without_checkout(repr(each)) for each in result.reports],
        "bindings": {f"{line} {name}": type_ for (line, name), type_ in result.bindings.items()},
        "proved": list(result.proved),
        "holds": result.holds,
        "parameters": {},
        "graphs": {},
    }
    if result.fine:
        graphs = {name: _graph(elaborate) for name, elaborate in _elaborations(result.program)}
        found["parameters"] = {name: parameters for name, (parameters, _) in graphs.items()}
        found["graphs"] = {name: text for name, (_, text) in graphs.items()}
    return found


def _elaborations(program: Program) -> Iterator[tuple[str, Callable[[], Elaboration]]]:
    """Yields all models and trainings of a program, for evaluation and for training."""
    for training in (False, True):
        word = "training" if training else "evaluation"
        for name in program.models:
            yield (
                f"model {name} in {word}",
                lambda name=name, training=training: pipeline.elaborate_model(
                    program, name, training=training
                ),
            )
        for name in program.trains:
            yield (
                f"train {name} in {word}",
                lambda name=name, training=training: pipeline.elaborate_train(
                    program,
                    name,
                    sizes=dict.fromkeys(pipeline.free_sizes(program, name), SIZE),
                    training=training,
                ),
            )


def _graph(elaborate: Callable[[], Elaboration]) -> tuple[list[str], str]:
    """Returns the parameters of a graph and its text, or the report of its refusal."""
    try:
        made = elaborate()
    except ProblemError as error:
        return [], _without_checkout(repr(error.problem.report()))
    parameters = [
        f"{each.name}: {each.kind} {each.type} {each.stored} {each.initializer} {each.begins_as}"
        f" {each.location.path} {each.location.span.start}"
        for each in (*made.parameters, *made.caches)
    ]
    parameters.append(f"own: {' '.join(made.own)}")
    notes = [_without_checkout(repr(each.report())) for each in made.notes]
    return [*parameters, *notes], format_graph(made.graph)


def _without_checkout(text: str) -> str:
    """Returns a text without the folders of the checkouts that are asked and that ask."""
    for file in (meganeura_dsl.__file__, Path(__file__).parent):
        text = text.replace(str(Path(file).resolve().parents[1]), "")
    return text


def main() -> None:
    """Print the findings of each program that is read."""
    for line in sys.stdin:
        text, path = json.loads(line)
        try:
            found = findings(text, path)
        except Exception as error:  # noqa: BLE001 - a crash is a finding as well
            found = {"crash": f"{type(error).__name__}: {error}"}
        sys.stdout.write(f"{json.dumps(found)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
