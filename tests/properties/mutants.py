"""Mutants of programs: small changes, most of which keep a text readable."""

import re
from collections.abc import Sequence
from random import Random

PIECE = re.compile(r"\n[ ]*|[A-Za-z_]\w*|\d[\d_.]*|\|>|->|//|\*\*|[<>=!]=|\.\.\.?|[^\w\s]|[ ]+")
SWAPS = (
    ("+", "-", "*", "//", "/", "%"),
    ("==", "!=", "<", "<=", ">", ">="),
    ("0", "1", "2", "3", "4", "5", "7", "64", "1000003", "4294967296"),
    ("relu", "gelu", "softmax", "silu", "tanh", "abs", "log", "sqrt", "argmax", "sum", "mean"),
    ("batch_norm", "layer_norm", "group_norm", "rms_norm", "embedding"),
    ("n", "c", "h", "w", "s", "d", "k", "c_in", "t"),
    ("linear", "conv1d", "conv2d", "max_pool", "avg_pool", "upsample", "dropout"),
    ("true", "false"),
    ("for", "scan"),
    ("[", "("), ("]", ")"),
)  # fmt: skip


def mutant(random: Random, text: str) -> str:
    """The program with one to three small changes, most of which keep it readable."""
    pieces = PIECE.findall(text)
    for _ in range(random.randint(1, 3)):
        if pieces:
            _change(random, pieces)
    return "".join(pieces)


def _change(random: Random, pieces: list[str]) -> None:
    at = random.randrange(len(pieces))
    match random.choice(("swap", "swap", "swap", "copy", "drop", "line", "twice")):
        case "swap":
            _swap(random, pieces)
        case "copy":
            pieces[at] = random.choice(pieces)
        case "drop":
            del pieces[at]
        case "line":
            start, end = _line(pieces, at)
            del pieces[start:end]
        case _:
            start, end = _line(pieces, at)
            pieces[end:end] = pieces[start:end]


def _swap(random: Random, pieces: list[str]) -> None:
    """Replace a piece by one of its kind."""
    places = [
        (index, kind) for index, piece in enumerate(pieces) for kind in SWAPS if piece in kind
    ]
    if places:
        index, kind = random.choice(places)
        pieces[index] = random.choice(kind)


def _line(pieces: Sequence[str], at: int) -> tuple[int, int]:
    """Returns the range of the line with a piece."""
    breaks = [index for index, piece in enumerate(pieces) if piece.startswith("\n")]
    start = max((index for index in breaks if index <= at), default=0)
    return start, min((index for index in breaks if index > at), default=len(pieces))
