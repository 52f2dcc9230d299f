# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors"]
# ///
"""Builds stdlib_models/data/burgers.safetensors, points of a solution of Burgers' equation.

The same bytes come out each time. The file is committed; this script is its provenance.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save

BURGERS = Path(__file__).parents[1] / "stdlib_models" / "data" / "burgers.safetensors"
VISCOSITY = 0.1 / np.pi
POINTS = {"train": 2048, "test": 1024}
REACH, NODES = 16.0, 4001
"""The quadrature takes these many nodes up to so many standard widths of the heat kernel."""

# One entry only: safetensors writes several in no fixed order.
ABOUT = (
    "u(x, t) of u_t + u u_x = (0.1 / pi) u_xx with u(x, 0) = -sin(pi x) and u(-1, t) = u(1, t) = 0 "
    "at random points of -1 < x < 1 and 0 < t < 1, by the transformation of Cole (1951) and Hopf "
    "(1950). Stored by scripts/build_burgers.py."
)


def solution(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Returns u at points [n] in double precision, by quadrature over the heat kernel."""
    node = np.linspace(-REACH, REACH, NODES)
    place = x[:, None] - np.sqrt(4 * VISCOSITY * t)[:, None] * node
    exponent = -np.cos(np.pi * place) / (2 * np.pi * VISCOSITY) - node**2
    weight = np.exp(exponent - exponent.max(1, keepdims=True))
    return -(weight * np.sin(np.pi * place)).sum(1) / weight.sum(1)


def main() -> None:
    """Write the file and say what is in it."""
    generator = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {}
    for split, count in POINTS.items():
        x = generator.uniform(-1, 1, count).astype(np.float32)
        t = generator.uniform(0, 1, count).astype(np.float32)
        u = solution(x.astype(np.float64), t.astype(np.float64))
        tensors |= {f"{split}.x": x, f"{split}.t": t, f"{split}.u": u.astype(np.float32)}
    content = save(tensors, {"about": ABOUT})
    BURGERS.write_bytes(content)
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")
    print(f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
