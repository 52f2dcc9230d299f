"""Fuzz one reader: `python -m fuzz.fuzz READER [libFuzzer options, such as -runs=1000000]`.

With atheris (`pip install atheris`) the search is guided by coverage. Without it,
`--blind COUNT [--workers N] [--first SEED] [--seconds S] [--keep FOLDER]` makes random mutants,
each determined by its seed; those that fail are written into the folder. A case that fails belongs
into `tests/fuzz/found/READER/` with its cure.
"""

import sys
import tempfile
from importlib import import_module
from pathlib import Path

READER_ARGUMENT = 1
LONGEST = {"program": 768, "graph": 2048}
"""Bytes of an input; those of other readers may have more."""


def main() -> int:
    """Fuzz the reader of the command line."""
    reader = sys.argv[READER_ARGUMENT]
    if "--blind" in sys.argv:
        from fuzz.blind import fuzz_blindly

        return fuzz_blindly(reader, sys.argv[READER_ARGUMENT + 1 :])
    return fuzz_guided(reader, sys.argv[READER_ARGUMENT + 1 :])


def fuzz_guided(reader: str, options: list[str]) -> int:
    """Coverage decides which mutants are kept."""
    atheris = import_module("atheris")

    with atheris.instrument_imports(include=["meganeura_dsl", "meganeura_runtime"]):
        from fuzz.corpus import fuzzing_corpus
        from fuzz.readers import READERS

    folder = Path(tempfile.mkdtemp(prefix=f"meganeura-{reader}-"))
    for index, data in enumerate(fuzzing_corpus(reader)):
        (folder / str(index)).write_bytes(data)
    longest, read = f"-max_len={LONGEST.get(reader, 4096)}", READERS[reader]

    def one(data: bytes) -> None:
        read(data)

    atheris.Setup([sys.argv[0], str(folder), longest, *options], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
