"""`meganeura abi`: the tensors of a model's checkpoint, in order."""

import json
from collections.abc import Sequence
from math import prod
from typing import Annotated, TypedDict

import typer

from meganeura.cli.options.model_options import Changes, ModelName, configured
from meganeura.cli.ui.console import say
from meganeura_dsl.diagnostics.plain_table import count, table

STORED_BYTES = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "bool": 1}


class Entry(TypedDict):
    """One tensor of the checkpoint."""

    name: str
    shape: list[int]
    dtype: str
    kind: str


def abi(
    model: ModelName,
    *,
    changes: Changes = None,
    as_data: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the parameters of a model as checkpoints have them: name, shape, type and kind."""
    chosen = configured(model, changes)
    entries: list[Entry] = [
        {
            "name": each.name,
            "shape": [size for size in each.type.shape if isinstance(size, int)],
            "dtype": each.stored,
            "kind": each.kind,
        }
        for each in chosen.elaborate().parameters
    ]
    if as_data:
        say(json.dumps({"model": chosen.name, **_totals(entries), "tensors": entries}, indent=2))
        return
    rows = [(each["name"], str(each["shape"]), each["dtype"], each["kind"]) for each in entries]
    if rows:
        say(table([("name", "shape", "type", "kind"), *rows]))
    totals = _totals(entries)
    say(
        f"{count(totals['params'], 'param')}, {count(totals['states'], 'state')}, "
        f"{count(totals['weights'], 'weight')}, {count(totals['bytes'], 'byte')}"
    )


class Totals(TypedDict):
    """Counts over all tensors. States are neither params nor weights, but take bytes."""

    params: int
    states: int
    weights: int
    bytes: int


def _totals(entries: Sequence[Entry]) -> Totals:
    params = [each for each in entries if each["kind"] != "state"]
    return {
        "params": len(params),
        "states": len(entries) - len(params),
        "weights": sum(prod(each["shape"]) for each in params),
        "bytes": sum(prod(each["shape"]) * STORED_BYTES[each["dtype"]] for each in entries),
    }
