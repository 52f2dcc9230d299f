"""How much is tried: a little in every run of the suite, a lot at night."""

import os


def effort(usual: int, nightly: int) -> int:
    """A number of attempts; `make nightly` sets `MEGANEURA_NIGHTLY`."""
    return nightly if os.environ.get("MEGANEURA_NIGHTLY") == "1" else usual
