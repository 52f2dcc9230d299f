"""One open adapter for all tests; software Vulkan runs in the calling thread, where it is fastest.

Its environment is read when wgpu is first imported, which is after this file.
"""

import gc
import os
import tempfile
from collections.abc import Iterator

import pytest

os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.gettempdir())
os.environ.setdefault("LP_NUM_THREADS", "0")

from meganeura_runtime.backends.webgpu.device.device import Device, open_device
from meganeura_runtime.backends.webgpu.schedule import horizontal_fusion


@pytest.fixture(scope="session")
def device() -> Iterator[Device]:
    """The adapter that kernels run on; without one the tests that need it fail."""
    opened = open_device("wgpu")
    yield opened
    opened.close()


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel has its own dispatch, so that what one kernel does can be counted."""
    monkeypatch.setattr(horizontal_fusion, "MOST", 1)


@pytest.fixture
def own_garbage() -> None:
    """`gc.collect` and `gc.get_objects` look only at what the test makes from here on.

    A search through all that a worker holds takes 0.3 s and more.
    """
    gc.collect()
    gc.freeze()
