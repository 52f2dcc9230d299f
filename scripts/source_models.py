"""Every standard model as source of JAX or PyTorch, beside the reference, in double precision.

    python scripts/source_models.py jax|torch|back [PART_OF_A_NAME]

A model is tried with 4 examples at the smallest sizes that it takes, of 1, 2, 4 and so on; large
ones are narrower than published. Its outputs, gradients and states are compared in evaluation
and, unless it draws, in training. For each the largest differences are printed, in units of the
largest element of a tensor. The exit code says whether all are within 1e-6, and gradients within
1e-5. With `back`, the source of PyTorch is exported by `torch.export` and imported again, and the
graphs are compared.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.types import EXAMPLES, example_sizes
from tests.beside import Differences
from tests.kinds import KINDS

BATCH = 4
"""Examples; with one or two, the statistics of a batch norm amplify rounding without bounds."""
LARGEST = 64
"""The largest size that is tried."""
REFUSED = {"maml:adapted": "E0598", "rwkv_tiny": "E0598"}
"""The models that have no form as source, one of them in PyTorch, and the code of the refusal."""

Compared = Callable[[pipeline.Program, Mapping[str, int], str, Mapping[str, StaticValue]], str]
"""Compares a model of a program, at sizes and in a configuration; says what it found."""


def main() -> int:
    """Try all models, or some."""
    parser = argparse.ArgumentParser()
    parser.add_argument("to", choices=("jax", "torch", "back"))
    parser.add_argument("part", nargs="?", default="")
    given = parser.parse_args()
    compared = {"jax": _jax, "torch": _torch, "back": _back}[given.to]()
    tried = wrong = 0
    for name in KINDS:
        if given.part not in name:
            continue
        started = time.perf_counter()
        said = _compared(name, compared)
        tried += 1
        wrong += "WRONG" in said
        print(f"{name}: {said} ({time.perf_counter() - started:.1f} s)", flush=True)
    print(f"{tried} models, {wrong} wrong")
    return int(wrong > 0)


def _jax() -> Compared:
    from tests.written_jax import assert_agrees

    return lambda program, sizes, name, config: _said(assert_agrees(program, sizes, name, config))


def _torch() -> Compared:
    from tests.parity.written import assert_agrees, double_precision, written

    def compared(
        program: pipeline.Program,
        sizes: Mapping[str, int],
        name: str,
        config: Mapping[str, StaticValue],
    ) -> str:
        with double_precision():
            return _said(assert_agrees(written(program, name, config), sizes, name, config))

    return compared


def _said(found: Differences) -> str:
    if not found.modes:
        return "is not compared, as it draws random numbers"
    return f"outputs {found.outputs:.1e}, gradients {found.gradients:.1e}"


def _back() -> Compared:
    from tests.parity.written import read_again, written

    def compared(
        program: pipeline.Program,
        sizes: Mapping[str, int],
        name: str,
        config: Mapping[str, StaticValue],
    ) -> str:
        read = read_again(written(program, name, config), sizes, name, config)
        graph = "the same graph" if read.other is None else f"another graph: {read.other}"
        return f"within {read.difference:.1e}, {graph}"

    return compared


def _compared(name: str, compared: Compared) -> str:
    program, config = pipeline.load(name), KINDS[name]
    model = name.rpartition(":")[2]
    model = model if model in program.module.models else next(iter(program.module.models))
    symbolic = pipeline.elaborate_model(program, model, config=config)
    sizes = {
        each: BATCH if size == EXAMPLES else 1
        for each, size in example_sizes(symbolic.inputs.values()).items()
    }
    while True:
        try:
            found = compared(program, sizes, model, config)
        except ProblemError as error:
            if REFUSED.get(name) == error.problem.code:
                return f"is refused, {error.problem.code}"
            if not sizes or max(sizes.values()) >= LARGEST:
                return f"WRONG {' '.join(str(error).split())[:200]}"
            sizes = {each: 2 * size for each, size in sizes.items()}
        except Exception as error:  # noqa: BLE001 - of PyTorch or JAX too
            return f"WRONG {type(error).__name__}: {str(error)[:200]} at {sizes}"
        else:
            at = ", ".join(f"{each}={size}" for each, size in sizes.items())
            return f"{found} at {at}" if at else found


if __name__ == "__main__":
    sys.exit(main())
