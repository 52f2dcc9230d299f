"""Kinds of reasons for which the language has no form for a sample."""

from collections.abc import Mapping

KINDS: Mapping[str, tuple[str, ...]] = {
    "an argument of max pooling: dilation, ceil_mode of the layer, places of the largest": (
        "windows with gaps (dilation)",
        "windows that reach over the end (ceil_mode)",
        "places in windows (return_indices)",
    ),
    "another argument that our function does not have": (
        "a diagonal of ones that is not read",
        "a divisor of one's own",
        "a factor that gives no whole size",
        "a factor that is not whole",
        "a filter against aliasing",
        "a loss that is no mean",
        "a matrix that is not square",
        "a mean without the padding",
        "a running mean of all steps",
        "a scale of one's own",
        "a step, a start or an end that is not whole",
        "a weight that is a vector",
        "a window that is not square",
        "an index of fewer places",
        "an unknown on the left",
        "an upper matrix on the left, or a lower one on the right",
        "another diagonal",
        "another kind of interpolation",
        "another kind of padding",
        "corners that are aligned",
        "gradients divided by frequency",
        "labels that are smoothed and left out at once",
        "more or less than one axis",
        "more than one axis is normalised",
        "padding by less than nothing",
        "padding of which one side has more",
        "rounding towards 0",
        "running statistics",
        "the smallest elements",
        "weights of classes",
        "what was there before is left out",
    ),
    "an operand of another rank than our function takes": (
        "a scalar has no axis",
        "an index of another rank",
        "an operand of another rank",
        "no image",
    ),
    "a size or a place that only the data or the device knows": (
        "a start that is a tensor",
        "sizes that depend on data",
    ),
    "numbers drawn at random": ("draws at random",),
    "an element type or a number that the language does not have": (
        "a number that is infinite or NaN",
        "a result of another element type",
        "complex numbers",
        "elements of type",
        "operands of two types of floats",
    ),
    "where both differ by definition": (
        "a division by 0",
        "an axis of size 1 is not stretched",
        "no label at all",
    ),
    "another row has this form": ("the other form of gelu",),
    "arguments of Python: in place, `out`, `device`, operands that are no tensors": (
        "a target that is no tensor",
        "a whole number of type",
        "an argument of type",
        "an index or a source that is no tensor",
        "an index that is no tensor",
        "an operand that is a number",
        "argument ",
        "arguments of another form",
        "in place",
        "more arguments",
        "no operand is a tensor",
        "operands that are no list of tensors",
        "out=",
        "rows that are renormalised in place",
        "the first operand is no tensor",
    ),
    "an argument that PyTorch refuses, which the text of a program cannot even hold": (
        "a negative number of times",
        "a part of less than nothing",
        "a size that is not 1 is stretched",
        "an axis that is not there",
        "an end before the start",
        "an open size that divides nothing",
        "an order of more or fewer axes",
        "channels that are not divided",
        "fewer sizes than axes",
        "no bound",
        "padding by a word",
        "parts of no size",
        "places that are no order of axes",
        "the only element of many",
    ),
}
"""Beginnings of the reasons of `NotSaidError`, by kind."""


def kind_of(reason: str) -> str:
    """The kind of a reason. Raises `KeyError` for a reason that no kind names."""
    for kind, beginnings in KINDS.items():
        if reason.startswith(beginnings):
            return kind
    raise KeyError(reason)
