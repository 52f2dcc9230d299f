"""The damaged inputs of each reader, each determined by a seed."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from fuzz.json_mutants import json_mutant
from fuzz.mutate import mutate
from fuzz.onnx_mutants import onnx_mutant

MUTATORS: Mapping[str, Callable[[Random, Sequence[bytes]], bytes]] = {
    "onnx": onnx_mutant,
    "qdq": onnx_mutant,
    "artefact": json_mutant,
    "run": json_mutant,
}
"""Readers whose inputs have a structure that is worth keeping."""


def mutant(reader: str, seed: int, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs of a reader, damaged."""
    return MUTATORS.get(reader, mutate)(Random(seed), inputs)
