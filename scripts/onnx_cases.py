"""The cases of `onnx.backend.test` for nodes, read as programs and run by the reference backend.

    python scripts/onnx_cases.py [PART_OF_A_NAME] [--least COUNT] [--table]

Those are tried whose inputs and outputs have elements that are read. What a case feeds as a vector
or a number is a constant where the node cannot be read otherwise. A case passes, or is refused with
a reason; the exit code says whether one gave something else, or fewer passed than `--least`.
`--table` prints the ops with cases that are refused, as docs/yardsticks.md has them.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from onnx import ModelProto

from fuzz.onnx_node_cases import case_data, make_constant, node_cases
from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.ir.graph import Array
from meganeura_runtime.backends.base import leaf_types
from meganeura_runtime.export.reference_run import reference_run
from meganeura_runtime.importing.onnx.onnx_file import parsed_onnx
from meganeura_runtime.importing.onnx.proved import prove
from meganeura_runtime.importing.onnx.translation import Translation, translate
from meganeura_runtime.io.tensors.stored_tensor import NUMPY

LEAST = 900
"""Cases that have to pass."""
CLOSE, CLOSE_HALF = 1e-5, 1e-3
"""Absolute differences that are allowed, besides relative ones of 1e-3."""


def main() -> int:
    """Try all cases."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", default="")
    parser.add_argument("--least", type=int)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    least = given.least if given.least is not None else (0 if given.part else LEAST)
    counts: Counter[str] = Counter()
    by_op: dict[str, Counter[str]] = {}
    for case in node_cases(given.part):
        outcome = _outcome(case)
        counts[outcome.partition(":")[0]] += 1
        by_op.setdefault(_op_of(case), Counter())[outcome] += 1
        if not outcome.startswith("passes") and not given.table:
            print(f"{case.name}: {outcome}")
    if given.table:
        _print_table(by_op)
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))
    return int(counts["wrong"] > 0 or counts["passes"] < least)


def _op_of(case: Any) -> str:  # noqa: ANN401 - of a class that onnx does not type
    """The op that a case is about; of several nodes the last, which gives the result."""
    return case.model.graph.node[-1].op_type


def _print_table(by_op: Mapping[str, Counter[str]]) -> None:
    whole = [op for op, outcomes in sorted(by_op.items()) if set(outcomes) == {"passes"}]
    print(f"All cases of {len(whole)} ops pass: {', '.join(whole)}.\n")
    print("| op | cases | pass | why the others are refused |\n|---|---|---|---|")
    for op, outcomes in sorted(by_op.items()):
        if op not in whole:
            why = "; ".join(
                f"{outcome.partition(': ')[2].splitlines()[0]} ({count})"
                for outcome, count in outcomes.most_common()
                if outcome != "passes"
            )
            print(f"| {op} | {outcomes.total()} | {outcomes['passes']} | {why} |")


def _outcome(case: Any) -> str:  # noqa: ANN401 - of a class that onnx does not type
    given, wanted = case_data(case)
    for fixes in (False, True):
        feeds = dict(zip((each.name for each in case.model.graph.input), given, strict=True))
        model = ModelProto()
        model.CopyFrom(case.model)
        if fixes:
            make_constant(model, feeds)
        try:
            found = _run(model, feeds)
        except ProblemError as error:
            if fixes:
                return f"refused: {_reason(error, case)}"
            continue
        return _compared(found, wanted)
    raise AssertionError("one of two attempts returns")


def _reason(error: ProblemError, case: Any) -> str:  # noqa: ANN401 - of a class that onnx does not type
    """The cause that the message names, with the op where that is another than the case's."""
    report = error.problem.report()
    causes = [each.text for each in report.remarks if each.title == "because"]
    reason = causes[0].splitlines()[0] if causes else report.headline
    named = re.fullmatch(r"the language cannot say this `(\w+)`", report.headline)
    return f"{named[1]}: {reason}" if named and named[1] != _op_of(case) else reason


def _run(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.onnx"
        file = parsed_onnx(path, model.SerializeToString())
        translation = translate(file, {})
        program = prove(file, translation, path.with_suffix(".mgn")).program
    graph = pipeline.elaborate_model(program).graph
    stored = {name: each.values for name, each in translation.build.stored.items()}
    return list(
        reference_run(graph, stored, _named(translation, leaf_types(graph)[1], feeds)).values()
    )


def _named(
    translation: Translation, inputs: Collection[str], feeds: Mapping[str, Array]
) -> dict[str, Array]:
    """Returns inputs by the names of the program; one that nothing reads begins with `_`."""
    named: dict[str, Array] = {}
    for name, own, each in translation.inputs:
        array = feeds[name].astype(NUMPY[each.dtype])
        named[own if own in inputs else f"_{own}"] = array
    return named


def _compared(found: Sequence[Array], wanted: Sequence[Array]) -> str:
    for given, right in zip(found, wanted, strict=True):
        if given.shape != right.shape:
            return f"wrong: the shape is {given.shape}, not {right.shape}"
        close = CLOSE_HALF if right.dtype == np.float16 else CLOSE
        a, b = given.astype(np.float64), right.astype(np.float64)
        if not np.allclose(a, b, rtol=1e-3, atol=close, equal_nan=True):
            return f"wrong: it differs by {np.abs(a - b).max()}"
    return "passes"


if __name__ == "__main__":
    sys.exit(main())
