# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors"]
# ///
"""Makes the data of a byte-level language model from a text: `text_bytes.py TEXT DATA.safetensors`.

`ids` is i32[windows, 65]: 65 bytes in a row, of which the first 64 are read and the last 64 are
predicted. A window starts at every eighth byte, and one reaches the end of the text.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from safetensors.numpy import save

LENGTH = 65
STRIDE = 8


def main() -> None:
    """Write the windows of one file to another."""
    text, target = (Path(argument) for argument in sys.argv[1:])
    every = sliding_window_view(np.frombuffer(text.read_bytes(), np.uint8), LENGTH)
    windows = every[(len(every) - 1) % STRIDE :: STRIDE].astype(np.int32)
    target.write_bytes(save({"ids": windows}))
    print(f"ids: i32 {list(windows.shape)}")


if __name__ == "__main__":
    main()
