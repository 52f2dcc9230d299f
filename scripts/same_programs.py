"""Compare what two checkouts say of many programs: for changes that must not change anything.

    python scripts/same_programs.py OLD NEW [--programs COUNT] [--first SEED] [--only PART]

The programs are the standard files, each `.mgn` file and each program of a spec page under `tests`,
and COUNT random programs and mutants. Of each program are compared: reports, types by line and
name, what was proved and holds, and for each model and training parameters and graph. A graph whose
text differs is accepted if all its outputs and updates are the same expressions. The exit code says
whether anything differs.
"""

import json
import os
import re
import subprocess
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from meganeura_dsl.resources import standard_models
from tests.properties import findings
from tests.properties.candidates import candidate
from tests.properties.same_findings import differences, reworded_graphs

ROOT = Path(__file__).resolve().parents[1]
EVERY = 500
"""Programs between two lines of progress."""
SHOWN = 20
"""Differences that are printed whole."""
_FENCED = re.compile(r"^```mgn\n(.*?)^```$", re.MULTILINE | re.DOTALL)
Named = tuple[str, str, Path]
"""A name to print, the text of a program, and the path that its imports start from."""


def main() -> int:
    """Compare the findings of two checkouts."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--programs", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="programs whose names contain this")
    given = parser.parse_args()
    old, new = _start(given.old), _start(given.new)
    seen: Counter[str] = Counter()
    for name, text, path in programs(given.first, given.programs):
        if given.only not in name:
            continue
        before, after = _both(old, new, json.dumps((text, str(path))))
        found = differences(before, after)
        seen["programs"] += 1
        seen["without graphs"] += not before.get("graphs")
        seen["graphs"] += len(cast("dict[str, str]", before.get("graphs", {})))
        seen["graphs with other text"] += len(reworded_graphs(before, after))
        seen["DIFFERENT"] += bool(found)
        if found and seen["DIFFERENT"] <= SHOWN:
            print(f"{name} differs in {', '.join(found)}")
            for each in found:
                print(f"  {_first_difference(before.get(each), after.get(each))}", flush=True)
        if seen["programs"] % EVERY == 0:
            print(dict(seen), flush=True)
    print(dict(seen))
    return 1 if seen["DIFFERENT"] else 0


def programs(first: int, count: int) -> Iterator[Named]:
    """Yields the standard programs, those under `tests`, and `count` random ones."""
    for path in sorted(Path(str(standard_models())).glob("*.mgn")):
        yield path.name, path.read_text(encoding="utf-8"), path
    for path in sorted((ROOT / "tests").rglob("*.mgn")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"), path
    for path in sorted((ROOT / "tests" / "spec").rglob("*.md")):
        for number, text in enumerate(_FENCED.findall(path.read_text(encoding="utf-8"))):
            yield f"{path.relative_to(ROOT)}:{number}", text, path.with_suffix(".mgn")
    for seed in range(first, first + count):
        yield f"seed {seed}", candidate(seed), Path("random.mgn")


def _start(checkout: Path) -> subprocess.Popen[str]:
    """Starts a process that finds with the compiler of a checkout."""
    root = checkout.resolve()
    if not (root / "meganeura_dsl").is_dir():
        raise SystemExit(f"{checkout} is no checkout of this repository")
    return subprocess.Popen(
        [sys.executable, findings.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "PYTHONHASHSEED": "0"},
    )


def _both(
    old: subprocess.Popen[str], new: subprocess.Popen[str], question: str
) -> tuple[dict[str, object], dict[str, object]]:
    """Returns the findings of both processes, which work at the same time."""
    for process in (old, new):
        assert process.stdin is not None
        process.stdin.write(f"{question}\n")
        process.stdin.flush()
    answers: list[dict[str, object]] = []
    for process in (old, new):
        assert process.stdout is not None
        answers.append(json.loads(process.stdout.readline()))
    return answers[0], answers[1]


def _first_difference(old: object, new: object) -> str:
    """Returns the first lines of two findings that differ."""
    before, after = (json.dumps(each, indent=1).splitlines() for each in (old, new))
    pairs = zip([*before, "(end)"], [*after, "(end)"], strict=False)
    one, other = next((a, b) for a, b in pairs if a != b)
    return f"{one.strip()[:300]}\n  {other.strip()[:300]}"


if __name__ == "__main__":
    sys.exit(main())
