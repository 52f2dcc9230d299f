"""A model with caches gives of a sequence in parts what it gives of it at once."""

from collections.abc import Mapping
from random import Random

import numpy as np

from meganeura_dsl.elaborate.declarations.models import elaborate_model
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.gradcheck.random_inputs import RandomInputs
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.ops import Parameter
from meganeura_dsl.ir.ops.type_rules import concrete_shape
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.syntax import ast

ROWS = 2
CLOSE = 1e-9


class Decoder:
    """A model of inputs `x: [n, s, d]` and `position`, and its caches."""

    def __init__(self, module: LinkedModule, model: ast.Model, seed: int, width: int) -> None:
        self._module = module
        self._model = model
        self._seed = seed
        self._steps: dict[int, Interpreter] = {}
        self._x = RandomInputs(seed)
        self.width = width
        self.caches: dict[str, Array] = {}

    def _step(self, length: int) -> Interpreter:
        """Returns the step that reads so many tokens at a time."""
        if length not in self._steps:
            sizes = {"n": ROWS, "s": length}
            made = elaborate_model(
                self._module, self._model, config={}, sizes=sizes, training=False
            )
            self._steps[length] = Interpreter(made.graph, Precision.DOUBLE)
        return self._steps[length]

    def read(self, parts: tuple[int, ...]) -> Array:
        """Returns the results for a sequence in parts of these lengths, from empty caches."""
        sequence = TensorType(DType.F32, (ROWS, sum(parts), self.width))
        x = self._x.tensor("x", sequence)
        caches: dict[str, Array] = {}
        found: list[Array] = []
        position = 0
        for length in parts:
            step = self._step(length)
            given = {
                "x": x[:, position : position + length],
                "position": np.asarray(position, np.int32),
            }
            results = step.run(self._feeds(step, given, caches))
            caches |= results.updates
            found.append(results.outputs["output"])
            position += length
        self.caches = caches
        return np.concatenate(found, axis=1)

    def _feeds(
        self, step: Interpreter, given: Mapping[str, Array], caches: Mapping[str, Array]
    ) -> dict[str, Array]:
        feeds: dict[str, Array] = {}
        for name, leaf in step.leaves.items():
            if isinstance(leaf.op, Parameter) and leaf.op.kind == "cache":
                feeds[name] = caches.get(name, np.zeros(concrete_shape(leaf.type.shape)))
            else:
                feeds[name] = given[name] if name in given else self._x.tensor(name, leaf.type)
        return feeds


def reads_in_parts(module: LinkedModule, name: str, random: Random) -> int:
    """Compare a model's readings of a sequence, if it is one with caches; how many were.

    Raises `AssertionError` where they differ.
    """
    model = module.models[name]
    symbolic = elaborate_model(module, model, config={}, sizes=None, training=False)
    capacity = next(
        (each.value.value for each in model.call.arguments if isinstance(each.value, ast.Integer)),
        0,
    )
    x = symbolic.inputs.get("x")
    is_sequence = x is not None and x.rank == 3 and isinstance(x.shape[2], int)
    if not symbolic.caches or not capacity or not is_sequence:
        return 0
    assert x is not None
    width = x.shape[2]
    assert isinstance(width, int)
    decoder = Decoder(module, model, random.randrange(1000), width)
    whole = decoder.read((capacity,))
    left = decoder.caches
    for parts in ((1,) * capacity, _parts(random, capacity)):
        found = decoder.read(parts)
        assert np.allclose(found, whole, CLOSE, CLOSE), f"{name} in {parts}: {found} and {whole}"
        for cache, array in decoder.caches.items():
            assert np.allclose(array, left[cache], CLOSE, CLOSE), f"{cache} after {parts}"
    return 2


def _parts(random: Random, of: int) -> tuple[int, ...]:
    """A few lengths that add up."""
    first = random.randint(1, of - 1)
    return (
        (first, *(1 for _ in range(of - first))) if random.random() < 0.5 else (first, of - first)
    )
