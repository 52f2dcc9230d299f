# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors"]
# ///
"""Builds stdlib_models/data/waves.safetensors, the heights and shifts of sine waves.

The same bytes come out each time. The file is committed; this script is its provenance.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save

WAVES = Path(__file__).parents[1] / "stdlib_models" / "data" / "waves.safetensors"
COUNTS = {"train": 2000, "test": 500}

# One entry only: safetensors writes several in no fixed order.
ABOUT = (
    "Waves height * sin(x - shift), heights uniform from 0.1 to 5 and shifts from 0 to pi, as in "
    "C. Finn, P. Abbeel, S. Levine (2017), Model-Agnostic Meta-Learning for Fast Adaptation of "
    "Deep Networks, section 5.1. Stored by scripts/build_waves.py."
)


def main() -> None:
    """Write the file and say what is in it."""
    generator = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {}
    for split, count in COUNTS.items():
        for name, low, high in (("height", 0.1, 5.0), ("shift", 0.0, np.pi)):
            tensors[f"{split}.{name}"] = generator.uniform(low, high, count).astype(np.float32)
    content = save(tensors, {"about": ABOUT})
    WAVES.write_bytes(content)
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")
    print(f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
