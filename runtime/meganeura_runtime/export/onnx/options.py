"""Options of writing a model as ONNX."""

from collections.abc import Mapping
from dataclasses import dataclass, field

OLDEST_OPSET = 17
NEWEST_OPSET = 20


@dataclass(frozen=True)
class OnnxOptions:
    """The opset to write, and whether batch norms become part of the convolutions before them."""

    opset: int = NEWEST_OPSET
    fold_batch_norm: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    """The entries of the file's `metadata_props`."""

    def __post_init__(self) -> None:
        if not OLDEST_OPSET <= self.opset <= NEWEST_OPSET:
            text = f"the opset is one of {OLDEST_OPSET} to {NEWEST_OPSET}, not {self.opset}"
            raise ValueError(text)
