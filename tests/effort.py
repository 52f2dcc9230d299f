"""The number of examples: few in every run of the suite, many at night."""

import os
from typing import TypeVar

_Effort = TypeVar("_Effort")


def effort(usual: _Effort, nightly: _Effort) -> _Effort:
    """A number of attempts, or the cases tried; `make nightly` sets `MEGANEURA_NIGHTLY`."""
    return nightly if os.environ.get("MEGANEURA_NIGHTLY") == "1" else usual
