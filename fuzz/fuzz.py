"""Fuzz one reader: `python -m fuzz.fuzz READER [libFuzzer options, such as -runs=1000000]`.

With atheris (`pip install atheris`) the search is guided by coverage. Without it, `--blind COUNT`
makes random mutants. A case that fails belongs into `tests/fuzz/found/READER/` with its cure.
"""

import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

READER_ARGUMENT, BLIND = 1, "--blind"
LONGEST = {"program": 768, "graph": 2048}
"""Bytes of an input; those of other readers may have more."""


def main() -> int:
    """Fuzz the reader of the command line."""
    reader = sys.argv[READER_ARGUMENT]
    if BLIND in sys.argv:
        return fuzz_blindly(reader, int(sys.argv[sys.argv.index(BLIND) + 1]))
    return fuzz_guided(reader, sys.argv[READER_ARGUMENT + 1 :])


def fuzz_guided(reader: str, options: list[str]) -> int:
    """Coverage decides which mutants are kept."""
    atheris = import_module("atheris")

    with atheris.instrument_imports(include=["meganeura_dsl", "meganeura_runtime"]):
        from fuzz.corpus import corpus
        from fuzz.readers import READERS

    folder = Path(tempfile.mkdtemp(prefix=f"meganeura-{reader}-"))
    for index, data in enumerate(corpus(reader)):
        (folder / str(index)).write_bytes(data)
    longest = f"-max_len={LONGEST.get(reader, 4096)}"
    atheris.Setup([sys.argv[0], str(folder), longest, *options], READERS[reader])
    atheris.Fuzz()
    return 0


def fuzz_blindly(reader: str, count: int) -> int:
    """Mutants one after the other; the slowest is told at the end."""
    from fuzz.corpus import corpus
    from fuzz.mutants import mutant
    from fuzz.readers import READERS

    inputs, read = corpus(reader), READERS[reader]
    slowest, failures = (0.0, 0), 0
    for seed in range(count):
        data = mutant(reader, seed, inputs)
        started = time.perf_counter()
        try:
            read(data)
        except Exception:  # noqa: BLE001 - whatever escapes is what is looked for
            failures += 1
            print(f"seed {seed}: {data[:400]!r}\n{traceback.format_exc(limit=-5)}", flush=True)
        slowest = max(slowest, (time.perf_counter() - started, seed))
    print(f"{reader}: {count:,} mutants, {failures} failures, slowest {slowest}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
