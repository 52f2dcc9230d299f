"""Plant known mistakes, one at a time, in a copy of the sources, and demand that a test objects.

    python scripts/plant_bugs.py [NAME ...]

The mistakes are those of `scripts/plants`. A planted one that no test notices, neither by day nor
with the cases of the night, is an error of the tests; one whose text is no longer in the source has
to be planted again. `docs/testing.md` has the
table, which is printed at the end.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from plants import PLANTS, Plant

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("meganeura", "meganeura_dsl", "runtime", "stdlib_models", "grammar", "tests", "fuzz",
          "docs", "scripts", "pyproject.toml")  # fmt: skip


def main() -> int:
    """Plant the mistakes that are named, or all."""
    wanted = sys.argv[1:]
    chosen = [plant for plant in PLANTS if not wanted or plant.name in wanted]
    with tempfile.TemporaryDirectory(prefix="meganeura-plant-") as folder:
        field = Path(folder)
        _copy_to(field)
        anyway = failing(field, dict.fromkeys(test for plant in chosen for test in plant.tests))
        if anyway:
            print(f"{anyway} fails without any mistake")
            return 1
        objections = {plant: objection(field, plant) for plant in chosen}
    print("| mistake | planted in | objects |\n|---|---|---|")
    for plant, test in objections.items():
        print(f"| {plant.name} | `{plant.file}` | {f'`{test}`' if test else '**nobody**'} |")
    noticed = sum(map(bool, objections.values()))
    print(f"{noticed} of {len(chosen)} mistakes were noticed")
    return 0 if noticed == len(chosen) else 1


def objection(field: Path, plant: Plant) -> str:
    """A test that fails while the mistake is in the copy, or nothing.

    The cases of the night are tried where those of the day do not notice it.
    """
    file = field / plant.file
    source = file.read_text(encoding="utf-8")
    if source.count(plant.right) != 1:
        print(f"GONE     {plant.name}: {plant.file} has not one `{plant.right}`", flush=True)
        return ""
    _write(file, source.replace(plant.right, plant.wrong))
    by_day = failing(field, plant.tests)
    found = by_day or failing(field, plant.tests, nightly=True)
    _write(file, source)
    said = "noticed" if by_day else "AT NIGHT" if found else "MISSED"
    print(f"{said:8} {plant.name}: {found}", flush=True)
    return found


def failing(field: Path, tests: Iterable[str], *, nightly: bool = False) -> str:
    """The first test that fails in the copy, or nothing; by day there may be none to run."""
    command = (sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests)
    path = os.pathsep.join((str(field), str(field / "runtime")))
    environment = {**os.environ, "PYTHONPATH": path, "MEGANEURA_CACHE": "off"}
    environment["MEGANEURA_NIGHTLY"] = "1" if nightly else ""
    done = subprocess.run(
        command, cwd=field, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and not nightly:
        return ""
    if done.returncode not in (0, 1):
        sys.exit(f"the tests did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return lines[0].split(" - ")[0].removeprefix("FAILED ") if done.returncode else ""


def _copy_to(field: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, field / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, field / name)


def _write(file: Path, text: str) -> None:
    """Write a source such that no compiled one passes for it, however quickly things go."""
    shutil.rmtree(file.parent / "__pycache__", ignore_errors=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
