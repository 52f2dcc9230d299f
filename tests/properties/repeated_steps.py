"""A `repeat` around a whole step moves weights and states as so many steps do."""

import re

import numpy as np

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.scope.linker import Linker
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.graph import Array, Graph
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.reserved_names import STATES
from meganeura_dsl.pipeline import Program, elaborate_train
from meganeura_dsl.transforms.optimizers.optimizers import Adam
from meganeura_dsl.transforms.training_step import TrainingSettings, training_step
from tests.properties.graph_sizes import is_small

TIMES, BATCH = 3, 2
SETTINGS = TrainingSettings(Adam(0.05, eps=1e-2), clip_norm=1.0)
CLOSE = 1e-8
METRIC = re.compile(r"metric (?P<name>\w+) = (?P<value>.*)")


def repeated(text: str) -> str:
    """A program with one `train` block, the last, whose statements but declarations are repeated.

    Its metrics are means over the iterations.
    """
    blocks, head, body = re.split(r"^(train .*:)\n", text, maxsplit=1, flags=re.MULTILINE)
    before: list[str] = []
    inside: list[str] = []
    behind: list[str] = []
    for line in body.split("\n"):
        measured = METRIC.fullmatch(line.strip())
        if line.strip().startswith(("layer ", "param ")):
            before.append(line)
        elif measured:
            inside.append(f"    {measured['name']}_of[k] = {measured['value']}")
            behind.append(f"  metric {measured['name']} = mean({measured['name']}_of)")
        elif line.strip():
            inside.append(f"  {line}")
    lines = (*before, f"  repeat k in 0..{TIMES}:", *inside, *behind, "")
    return f"{blocks}{head}\n" + "\n".join(lines)


def repeats_as_steps(text: str, name: str, seed: int) -> int:
    """Hold the repeated form of a `train` block to so many steps of it; 1 if they were compared.

    Raises `AssertionError`.
    """
    once, again = _step(text, name), _step(repeated(text), name)
    if not is_small(again):
        return 0
    feeds = RandomInputs(seed).feeds(again)
    feeds |= {each: 0 * array for each, array in feeds.items() if each.startswith(STATES)}
    known = {leaf: feeds.get(leaf, np.zeros(())) for leaf in Interpreter(once).leaves}
    outputs: dict[str, list[Array]] = {}
    for _ in range(TIMES):
        done = Interpreter(once, Precision.DOUBLE).run(known)
        known |= done.updates
        for each, array in done.outputs.items():
            outputs.setdefault(each, []).append(array)
    whole = Interpreter(again, Precision.DOUBLE).run(feeds)
    for each, array in whole.updates.items():
        if each in known:
            assert np.allclose(array, known[each], CLOSE, CLOSE, equal_nan=True), each
    for each, arrays in outputs.items():
        found, mean = whole.outputs[each], np.mean(arrays, 0)
        assert np.allclose(found, mean, CLOSE, CLOSE, equal_nan=True), f"{each} of a step"
    return 1


def _step(text: str, name: str) -> Graph:
    source = Source("random.mgn", text)
    result = pipeline.check(source, lambda _: None)
    assert result.fine, [each.headline for each in result.reports]
    module = Linker(lambda _: None, Sink()).link(source)
    program = Program(module)
    forward = elaborate_train(program, name, sizes={"batch": BATCH}, training=True).graph
    return training_step(forward, SETTINGS)
