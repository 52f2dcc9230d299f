"""Random programs and mutants from stage to stage, in a line each.

`texts.txt` has texts as they were once drawn, each with what is said of it: the codes of its
messages and a checksum of them as they are shown, and for what is accepted checksums of its layout
and, of each block and model with sizes, of its graph, of the rewritten one, of a training step and
of its plans. Whatever changes one of them is seen there, whether or not it was meant. That the
graphs and gradients are right is judged in `test_programs`.

`python -m tests.properties.texts` writes what is said anew; read the difference before you keep it.
With `--draw` it draws other texts, of the language as it is now.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from random import Random
from zlib import crc32

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError, Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.elaborate.scope.undecided import UndecidableError
from meganeura_dsl.gradcheck.cases import Case, choose_case
from meganeura_dsl.gradcheck.random_sizes import DeadEndError
from meganeura_dsl.gradcheck.subjects import block_subject
from meganeura_dsl.ir.graph import Graph, continued
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.syntax.formatter.formatter import find_comments, format_module
from meganeura_dsl.syntax.parser.parser import parse
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import (
    TrainingSettings,
    optimized_training_step,
    training_step,
)
from meganeura_runtime.backends.errors import LimitError
from meganeura_runtime.backends.webgpu.config.limits import PORTABLE, DeviceLimits, Style, Target
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from tests.gradients import weighted_loss
from tests.literate import pages, read
from tests.plans.golden import text_of
from tests.plans.models import report_lines
from tests.properties.mutants import mutant
from tests.properties.programs import program

FILE = Path(__file__).with_suffix(".txt")
BETWEEN = "\n====\n"
SAID = "\n=>\n"
ACCEPTED = 6
"""Programs of the file; besides them there are mutants."""
MOST_OF_A_CODE = 4
"""So many of the texts begin with the same message."""
MUTANTS = 600
"""So many are looked at for those, besides one of each short example of the specification."""
LONGEST_EXAMPLE = 600
LARGEST_SIZE = 40
LIBRARY_LINE = re.compile(r"(?<=nn\.mgn|ss\.mgn):\d+")
"""A line of the standard library."""
ADAPTERS = (
    Target(PORTABLE),
    Target(DeviceLimits(lanes=8), Style.SOFTWARE_VULKAN),
    Target(replace(PORTABLE, storage_buffers=5, workgroups=2, invocations=64)),
)
"""A GPU, a software adapter, and one that allows little."""


def sections() -> Iterator[tuple[str, str]]:
    """Each text of the file, and what is said of it there."""
    for section in FILE.read_text().split(BETWEEN):
        text, _, said = section.partition(SAID)
        yield text, said.strip("\n")


def said_of(text: str) -> str:
    """Returns the lines of the file beneath a text."""
    return "\n".join(_described(text))


def _described(text: str) -> Iterator[str]:
    source = Source("random.mgn", text)
    result = pipeline.check(source, lambda _: None)
    messages = [LIBRARY_LINE.sub("", render(each, colour=False)) for each in result.reports]
    codes = " ".join(sorted(report.code or "note" for report in result.reports))
    yield f"{'fine' if result.fine else 'refused'} {_sum(*messages)} {codes}".rstrip()
    tree = parse(source, Sink())
    if not result.fine:
        return
    yield f"formatted {_sum(format_module(tree, find_comments(source)))}"
    module = Linker(lambda _: None, Sink()).link(source)
    for name in result.proved:
        try:
            case = choose_case(Random(0).choice, block_subject(module, module.blocks[name]))
        except (DeadEndError, UndecidableError):
            yield f"{name}: no case"
            continue
        yield from _case(name, case)


def _case(name: str, case: Case) -> Iterator[str]:
    sizes = " ".join(f"{size}={number}" for size, number in sorted(case.sizes.items()))
    yield f"{name} {case.snippet} {sizes}".rstrip()
    if max(case.sizes.values(), default=0) > LARGEST_SIZE:
        return
    try:
        graph = case.elaborate().graph
    except ProblemError as error:
        yield f"  {error.problem.report().code}"
        return
    yield f"  as written {_graph(graph)}"
    rewritten = RewriteOptions().optimize(graph, "infer")
    yield f"  rewritten {_graph(rewritten.graph)}, loaded {_graph(rewritten.load)}"
    yield from (f"    {line}" for line in report_lines(rewritten.report))
    yield f"  planned {_plans(rewritten.graph)}"
    floats = [value for value in graph.outputs.values() if value.type.dtype.is_float]
    if not floats:
        return
    build, graph = continued(graph)
    graph = build.graph({"loss": weighted_loss(build, [*graph.outputs.values()])}, graph.updates)
    settings = TrainingSettings(Adam(1e-3), clip_norm=1.0)
    step = optimized_training_step(graph, settings, RewriteOptions())
    yield f"  a step {_graph(training_step(graph, settings))}, rewritten {_graph(step.graph)}"
    for each in step.optimizations:
        yield from (f"    {line}" for line in report_lines(each.report))
    yield f"  planned {_plans(step.graph)}"


def _graph(graph: Graph) -> str:
    return f"{_sum(format_graph(graph, origins=False))} of {len(graph.values)}"


def _plans(graph: Graph) -> str:
    return ", ".join(_plan(graph, target) for target in ADAPTERS)


def _plan(graph: Graph, target: Target) -> str:
    try:
        plan = plan_graph(graph, target.limits, target.style)
    except LimitError:
        return "too large"
    return f"{_sum(text_of(plan))} of {len(plan.dispatches)}"


def _sum(*texts: str) -> str:
    return f"{crc32(chr(0).join(texts).encode()):08x}"


def _draw() -> Iterator[str]:
    """Programs that are accepted, then mutants that are refused for different reasons."""
    programs = (program(Random(seed)) for seed in count())
    yield from islice((text for text in programs if "  planned" in said_of(text)), ACCEPTED)
    random = Random(0)
    mutants = [mutant(random, program(random)) for _ in range(MUTANTS)]
    yield from _refused(mutants, MOST_OF_A_CODE)
    examples = [each.source.text for page in pages() for each in read(page).programs]
    short = [each for each in examples if len(each) < LONGEST_EXAMPLE]
    yield from _refused([mutant(random, each) for each in short], MOST_OF_A_CODE // 2)


def _refused(texts: Sequence[str], most: int) -> Iterator[str]:
    """Those that are refused, so many for each code that is the first."""
    counted: Counter[str] = Counter()
    for text in texts:
        outcome, *codes = next(_described(text)).split(" ")
        first = codes[1] if len(codes) > 1 else ""
        counted[first] += 1
        if outcome == "refused" and counted[first] <= most:
            yield text


def main(words: Sequence[str]) -> None:
    """Write the file."""
    texts = _draw() if "--draw" in words else [text for text, _ in sections()]
    FILE.write_text(BETWEEN.join(f"{text}{SAID}{said_of(text)}" for text in texts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
