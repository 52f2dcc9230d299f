# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "safetensors"]
# ///
"""Builds stdlib_models/data/karate.safetensors, Zachary's karate club.

The same bytes come out each time. The file is committed; this script is its provenance.
"""

import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save

KARATE = Path(__file__).parents[1] / "stdlib_models" / "data" / "karate.safetensors"
FRIENDS = {
    0: (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31),
    1: (2, 3, 7, 13, 17, 19, 21, 30),
    2: (3, 7, 8, 9, 13, 27, 28, 32),
    3: (7, 12, 13),
    4: (6, 10),
    5: (6, 10, 16),
    6: (16,),
    8: (30, 32, 33),
    9: (33,),
    13: (33,),
    14: (32, 33),
    15: (32, 33),
    18: (32, 33),
    19: (33,),
    20: (32, 33),
    22: (32, 33),
    23: (25, 27, 29, 32, 33),
    24: (25, 27, 31),
    25: (31,),
    26: (29, 33),
    27: (33,),
    28: (31, 33),
    29: (32, 33),
    30: (32, 33),
    31: (32, 33),
    32: (33,),
}
"""The friends of each member among those with larger numbers."""
STAYED = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 16, 17, 19, 21)
"""Members that stayed with the instructor, member 0."""
MEMBERS = 34
LEADERS = (0, 33)
"""The two members whose side is known; those of all others are held out."""

# One entry only: safetensors writes several in no fixed order.
ABOUT = (
    "Zachary's karate club: 34 members, 78 pairs of friends, and the side that each took when the "
    "club split. W. W. Zachary (1977), An Information Flow Model for Conflict and Fission in Small "
    "Groups, Journal of Anthropological Research 33, 452-473. Stored by "
    "scripts/build_karate.py: each pair in both directions, a member known by number only."
)


def main() -> None:
    """Write the file and say what is in it."""
    pairs = np.array([(a, b) for a, others in FRIENDS.items() for b in others], np.int32)
    members = np.arange(MEMBERS, dtype=np.int32)
    sides = (~np.isin(members, STAYED)).astype(np.int32)
    known = np.isin(members, LEADERS)
    tensors = {
        "x": np.eye(MEMBERS, dtype=np.float32),
        "source": np.concatenate([pairs[:, 0], pairs[:, 1]]),
        "target": np.concatenate([pairs[:, 1], pairs[:, 0]]),
        "train.node": members[known],
        "train.label": sides[known],
        "test.node": members[~known],
        "test.label": sides[~known],
    }
    content = save(tensors, {"about": ABOUT})
    KARATE.write_bytes(content)
    for name, tensor in tensors.items():
        print(f"{name}: {tensor.dtype} {list(tensor.shape)}")
    print(f"{len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()}")


if __name__ == "__main__":
    main()
