"""The damaged inputs of each reader, each determined by a seed."""

from collections.abc import Callable, Mapping, Sequence
from random import Random

from fuzz.mutate import mutate
from fuzz.onnx_mutants import onnx_mutant

MUTATORS: Mapping[str, Callable[[Random, Sequence[bytes]], bytes]] = {"onnx": onnx_mutant}
"""Readers whose inputs have a structure that is worth keeping."""


def mutant(reader: str, seed: int, inputs: Sequence[bytes]) -> bytes:
    """One of the inputs of a reader, damaged."""
    return MUTATORS.get(reader, mutate)(Random(seed), inputs)
