"""`scripts/mutation.py` plants its mutants, and tests notice them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_mutant_is_planted_and_noticed() -> None:
    command = (sys.executable, "scripts/mutation.py", "is_zero:", "--jobs", "1")
    files = ("--of", "meganeura_dsl/symbolic/prover/entailment.py")
    tests = ("--tests", "tests/dsl/symbolic/test_edges.py", "tests/dsl/symbolic/test_facts.py")
    done = subprocess.run(
        [*command, *files, *tests], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "not planted" not in done.stdout
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("| `all`")]
    _, _, tried, killed, *_ = row.split("|")
    assert int(tried) >= int(killed) > 0
