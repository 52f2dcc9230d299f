"""A compiled model in one file: a plan, its kernels and its weights.

    session = meganeura_runtime.export.mgb.open("model.mgb")
    outputs = session.step({"image": images})

To open one takes no parser and no optimizer.
"""

from meganeura_runtime.export.mgb.container import Artefact, open  # noqa: A004 - `artefact.open`

__all__ = ["Artefact", "open"]
