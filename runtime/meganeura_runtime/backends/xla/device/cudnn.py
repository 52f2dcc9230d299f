"""Creation of cuDNN's handles, which XLA does when a device first computes a convolution.

To make one takes memory of the device, which CUDA refuses while a CUDA graph is captured. A program
whose convolutions were timed as it was compiled has one, one that comes from the cache has not.
"""

from collections.abc import Iterable
from functools import cache

import jax
import numpy as np
from jax import lax

LAUNCHED_ALONE = {"xla_gpu_enable_command_buffer": ""}
"""Options without command buffers, so that nothing is captured."""
IMAGE, KERNEL = (1, 8, 8, 8), (8, 8, 3, 3)


def create_handles(devices: Iterable[jax.Device]) -> None:
    """Create the handle of each device; XLA raises if it cannot."""
    for device in devices:
        _create_handle(device)


@cache
def _create_handle(device: jax.Device) -> None:
    """Compute a small convolution, once in a process."""
    convolved = jax.jit(_convolved, compiler_options=LAUNCHED_ALONE)
    zeros = [jax.device_put(np.zeros(shape, np.float32), device) for shape in (IMAGE, KERNEL)]
    jax.block_until_ready(convolved(*zeros))


def _convolved(image: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv(image, kernel, (1, 1), "SAME")
