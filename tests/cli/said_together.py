"""The output of commands that are given two options, as of `said.py`: they wait for the night.

`python -m tests.cli.said_together` writes `said_together.snap` anew, and with a folder all that is
said into it; read the difference before you keep it.
"""

import os

from tests.cli.said import PAIRED, PAIRED_BY_DAY, pairs, said
from tests.snapshots import Snapshot

SNAPSHOT = Snapshot("tests.cli.said_together", lambda: said(pairs(PAIRED - PAIRED_BY_DAY)), ())

if __name__ == "__main__":
    os.environ["MEGANEURA_VERIFY"] = "1"
    SNAPSHOT.main()
