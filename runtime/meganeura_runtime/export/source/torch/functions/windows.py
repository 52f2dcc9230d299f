"""Convolutions and windows."""

from meganeura_runtime.export.source.functions.arguments import Arguments
from meganeura_runtime.export.source.text import Code, call

_GEOMETRY = (
    ("stride", "stride"),
    ("pad", "padding"),
    ("dilation", "dilation"),
    ("groups", "groups"),
)


def convolved(arguments: Arguments) -> Code:
    """Writes a convolution."""
    rank = arguments.rank() - 2
    named = {
        theirs: str(arguments.static(place, ours))
        for place, (ours, theirs) in enumerate(_GEOMETRY, 2)
        if arguments.node_at(place, ours) is not None
    }
    name = f"F.conv{rank}d"
    if arguments.node.callee == "conv_transpose":
        name = f"F.conv_transpose{rank}d"
        if arguments.node_at(6, "output_pad") is not None:
            named["output_padding"] = str(arguments.static(6, "output_pad"))
    return call(name, arguments.tensor(0), arguments.tensor(1), **named)


def window_max(arguments: Arguments) -> Code:
    """Writes the largest element of each window."""
    rank = arguments.rank() - 2
    window = arguments.static(1, "k")
    stride = arguments.static(2, "stride", str(window))
    pad = arguments.static(3, "pad", "0")
    return call(f"F.max_pool{rank}d", arguments.tensor(0), window, stride, pad)
