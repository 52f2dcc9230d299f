# What is used of onnxruntime, which brings no types.

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

class GraphOptimizationLevel:
    ORT_ENABLE_BASIC: GraphOptimizationLevel

class SessionOptions:
    graph_optimization_level: GraphOptimizationLevel
    log_severity_level: int
    intra_op_num_threads: int
    inter_op_num_threads: int

    def add_session_config_entry(self, key: str, value: str) -> None: ...

class InferenceSession:
    def __init__(
        self,
        path: str,
        sess_options: SessionOptions,
        providers: Sequence[str],
        enable_fallback: int = 1,
    ) -> None: ...
    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, NDArray[Any]]
    ) -> list[NDArray[Any]]: ...
