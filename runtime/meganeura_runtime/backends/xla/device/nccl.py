"""Configuration of NCCL, which sums arrays over several GPUs."""

import os

from meganeura_runtime.backends.xla.config.measured_choices import UNMIXED_COLLECTIVES


def configure() -> None:
    """Set NCCL's variables of the environment, before its first use; those already set stay.

    A CUDA graph has all collectives of a step or none (`compiler_options.py`), and a step ends
    before the next begins, so that none runs beside a graph.
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-graph-mixing-support
    """
    if UNMIXED_COLLECTIVES.is_on:
        for name, value in UNMIXED_COLLECTIVES.value.items():
            os.environ.setdefault(name, str(value))
