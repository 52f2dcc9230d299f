"""Work that a process with one command omits."""

import os
import subprocess
import sys

import pytest

from meganeura_dsl.startup.tricks import VARIABLE

SCRIPT = """\
import atexit
from meganeura_dsl.startup.process import end_process, prepare_process

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("found")

prepare_process()
atexit.register(print, "at exit")
Cycle()
end_process(3)
"""


@pytest.mark.parametrize(("without", "said"), [("", "at exit\n"), ("gc", "at exit\nfound\n")])
def test_cycles_are_not_searched_for_at_the_end(without: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, VARIABLE: without},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, said, "")
