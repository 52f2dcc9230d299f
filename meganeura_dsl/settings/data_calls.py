"""The calls that name data and the way to read it, such as `images("flowers")`."""

from collections.abc import Mapping
from dataclasses import dataclass

FILE = "file"
"""The call that names data and the tensors of it that feed inputs of other names."""
TABLE = "table"
"""The call that names a table and the columns that feed each input."""


@dataclass(frozen=True)
class DataCall:
    """A call that names data and the way to read it, such as `images(...)`."""

    example: str
    arguments: tuple[str, ...] | None = None
    """Its arguments beside the path; `None` where these are names of inputs."""


DATA_CALLS: Mapping[str, DataCall] = {
    FILE: DataCall('file("x.npz", image="images")'),
    "images": DataCall(
        'images("flowers", crop=0.875)', ("crop", "mean", "std", "resample", "preprocess")
    ),
    TABLE: DataCall('table("flowers.csv", x=["width", "height"], y="kind")'),
    "text": DataCall('text("corpus.txt", tokenizer="tokenizer.json")', ("tokenizer",)),
}
"""The calls that name data, by their words."""
