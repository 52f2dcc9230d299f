"""What NCCL is told, which adds the arrays of several GPUs."""

import os

NOT_MIXED = {"NCCL_GRAPH_MIXING_SUPPORT": "0"}
"""Collectives of a CUDA graph do not wait for others, as none run beside it.

By itself NCCL puts an event before and behind each collective of a graph, for those that something
else may have launched. Each step ends before the next begins, and all of its collectives are in its
one graph, or none (`compiler_options.py`). A training step of ResNet-50, 128 images on each of two
H200, has 100 of them and takes 20.02 ms instead of 20.28.
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-graph-mixing-support
"""


def configure() -> None:
    """Tell NCCL, before it first adds something; what the environment says already stays."""
    for name, value in NOT_MIXED.items():
        os.environ.setdefault(name, value)
