"""An importer: files `.mlp`, JSON with the matrices of linear layers and what they give."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from meganeura_runtime.importing.importers import ExampleRun, Importer, ReadModel

PROGRAM = """\
block Mlp()(x: [n, {first}]) -> [n, {last}]:
  return x{layers}

model mlp = Mlp()
"""


class MlpFile(Importer):
    """Reads `{"layers": [[[0.5, ...], ...], ...], "input": [...], "output": [...]}`."""

    suffix = "mlp"

    def read(self, path: Path, sizes: Mapping[str, int]) -> ReadModel:
        if sizes:
            raise ValueError("it has no open sizes")
        record = json.loads(path.read_text())
        if "layers" not in record:
            raise ValueError("it has no `layers`")
        matrices = [np.array(each, np.float32) for each in record["layers"]]
        layers = [
            f" |> layer{i}: linear({matrix.shape[0]}, bias=false)"
            for i, matrix in enumerate(matrices)
        ]
        text = PROGRAM.format(
            first=matrices[0].shape[1], last=matrices[-1].shape[0], layers=" |> relu".join(layers)
        )
        x, y = (np.array([record[name]], np.float32) for name in ("input", "output"))
        return ReadModel(
            text,
            {f"layer{i}.weight": matrix for i, matrix in enumerate(matrices)},
            [ExampleRun({"x": x}, {"output": y})],
        )
