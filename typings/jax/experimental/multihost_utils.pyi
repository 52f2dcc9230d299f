from typing import Any

import numpy as np

def process_allgather(in_tree: Any) -> np.ndarray[tuple[int, ...], np.dtype[Any]]: ...
