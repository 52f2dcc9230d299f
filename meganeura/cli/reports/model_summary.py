"""The layers of a model as a table for a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from meganeura.cli.ui.console import count, table
from meganeura_dsl.summary import Layer, Summary

HEAD = ("layer", "block", "output", "weights", "FLOPs")


def summary_text(
    found: Summary, sizes: Mapping[str, int], open_sizes: Sequence[str], depth: int | None
) -> str:
    """Returns the table and what follows of it; `depth` is how deep layers are shown.

    The arithmetic is for `sizes`, or unknown since `open_sizes` have no number.
    """
    rows = [HEAD, *_rows(found.root, 0, depth)]
    root = found.root
    lines = [table(rows, right=(3, 4)), ""]
    frozen = root.weights - found.trained
    of_frozen = f", {frozen:,} of them frozen" if frozen else ""
    memory = _short(found.weight_bytes)
    lines.append(
        f"{count(root.weights, 'weight')}{of_frozen}; {memory}B in memory, states included"
    )
    if root.flops is None:
        given = " ".join(f"--set {name}=NUMBER" for name in open_sizes)
        lines.append(f"FLOPs follow from numbers: {given}")
    else:
        shown = ", ".join(f"{name}={size}" for name, size in sizes.items())
        for_ = f" for {shown}" if shown else ""
        lines.append(f"{_short(root.flops).rstrip()} FLOPs{for_}: additions and multiplications")
    return "\n".join(lines)


def _rows(layer: Layer, level: int, depth: int | None) -> Iterator[tuple[str, ...]]:
    times = f"{layer.times} x " if layer.times > 1 else ""
    name = layer.paths or layer.path
    yield (
        f"{'  ' * level}{name or layer.kind}",
        layer.kind if layer.path else "",
        layer.output,
        f"{times}{layer.weights:,}" if layer.weights else "",
        f"{times}{_short(layer.flops)}" if layer.flops is not None else "-",
    )
    if depth is None or level < depth:
        for each in layer.inside:
            yield from _rows(each, level + 1, depth)


def _short(number: int) -> str:
    """Returns a number with three digits and a unit: `1.82 G`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number} "
