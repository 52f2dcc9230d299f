"""Detection of launchers that start several processes, which JAX can connect."""

import os
from collections.abc import Callable, Mapping

SEVERAL: Mapping[str, Callable[[str], bool]] = {
    "SLURM_STEP_NUM_TASKS": lambda tasks: tasks != "1",
    "OMPI_COMM_WORLD_SIZE": lambda size: size != "1",
    "TPU_WORKER_HOSTNAMES": lambda names: "," in names,
    "MEGASCALE_COORDINATOR_ADDRESS": bool,
}
"""Variables of Slurm, Open MPI and Cloud TPU, and tests of their values for several processes."""


def is_launched() -> bool:
    """Returns True if this process is one of several."""
    return any(
        name in os.environ and is_several(os.environ[name]) for name, is_several in SEVERAL.items()
    )
