"""Which conditions, bounds, operands and loops no test sees matter.

    python scripts/conditions.py [--of PATH ...] [PYTEST OPTION ...]

Runs the tests with modules that tell what they see (`scripts/condition_points.py`), and prints each
point where a mistake would change nothing that was seen: a condition that was always true, an
operand of `and` that never decided alone, a bound that was never met, a union that added nothing.
A point that was seen is not yet tested: mutants (`scripts/mutation.py`) say whether a result was
compared. With all tests it takes about three times as long as they do.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import groupby
from pathlib import Path

from condition_points import Point, watched

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("meganeura_dsl", "runtime/meganeura_runtime")


def points_of(paths: list[str]) -> tuple[list[Point], dict[str, int]]:
    """The points of all modules below some paths, and the number of the first of each module."""
    points: list[Point] = []
    firsts: dict[str, int] = {}
    for path in paths:
        whole = ROOT / path
        for module in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
            firsts[str(module)] = len(points)
            points += watched(module, str(module.relative_to(ROOT)), len(points))[1]
    return points, firsts


def main() -> None:
    """Run the tests and print what they did not see."""
    paths: list[str] = []
    options = sys.argv[1:]
    while options[:1] == ["--of"]:
        paths.append(options[1])
        options = options[2:]
    points, firsts = points_of(paths or list(SOURCES))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "firsts.json").write_text(json.dumps(firsts))
        (folder / "seen").write_bytes(bytes(len(points)))
        hook = str(ROOT / "scripts" / "watch_conditions")
        path = os.pathsep.join(filter(None, (hook, os.environ.get("PYTHONPATH"))))
        watching = {"PYTHONPATH": path, "MEGANEURA_WATCH_CONDITIONS": name}
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **watching}
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        ended = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        seen = (folder / "seen").read_bytes()
    unseen = [(point, said) for point in points if (said := point.unseen(seen[point.number]))]
    for file, group in groupby(unseen, key=lambda each: each[0].file):
        print(f"\n{file}")
        for point, said in group:
            print(f"  {point.line} {point.function}: `{point.text}`: {said}")
    kinds = Counter(point.kind.value for point, _ in unseen)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"\n{len(unseen):,} of {len(points):,} points were not seen to matter: {counts}")
    sys.exit(ended.returncode)


if __name__ == "__main__":
    main()
