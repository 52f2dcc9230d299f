"""Functions of the library that are made of others: inverses, the gamma function, pixels."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.parity.opinfo.saying import NotSaidError, Row, Said, given, tensors, whole, wholes

STRETCHED: Mapping[str, str] = dict.fromkeys(
    ("E0302", "E0308"), "an axis of size 1 is not stretched"
)


def _one(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
        of = given(sample, "")
        return Said(f"{name}(x)", {"x": of.x}, imports=f"from special import {name}\n")

    return say


def _two(file: str, name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "other")
        (left, right), fed = tensors(sample.input, of["other"])
        if len(fed) < 2:
            raise NotSaidError("an operand that is a number")
        return Said(f"{name}({left}, {right})", fed, imports=f"from {file} import {name}\n")

    return say


def _pixels(name: str, argument: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, argument)
        if of.x.dim() != 4:
            raise NotSaidError("no image")
        call = f"{name}({whole(of[argument])})(x)"
        return Said(call, {"x": of.x}, imports=f"from vision import {name}\n")

    return say


def _unfold(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "kernel_size dilation padding stride")
    if of.x.dim() != 4:
        raise NotSaidError("no image")
    names = (("kernel_size", 1), ("stride", 1), ("padding", 0), ("dilation", 1))
    sizes = [wholes(of.get(name, usual), 2) for name, usual in names]
    if any(len({*each}) > 1 for each in sizes):
        raise NotSaidError("a window that is not square, which the layer does not take")
    call = f"unfold({', '.join(str(each[0]) for each in sizes)})(x)"
    return Said(call, {"x": of.x}, imports="from vision import unfold\n")


ROWS = (
    *(Row(name, name, _one(name), close=1e-8) for name in ("tan", "atan", "asin", "acos")),
    *(Row(name, name, _one(name), close=1e-7) for name in ("erfinv", "lgamma", "digamma")),
    Row("atan2", "atan2", _two("special", "atan2"), refused=STRETCHED),
    Row("log_add", "logaddexp", _two("sequence", "log_add"), refused=STRETCHED),
    Row("pixel_shuffle", "nn.functional.pixel_shuffle", _pixels("pixel_shuffle", "upscale_factor")),
    Row(
        "pixel_unshuffle",
        "nn.functional.pixel_unshuffle",
        _pixels("pixel_unshuffle", "downscale_factor"),
    ),
    Row("unfold", "nn.functional.unfold", _unfold),
)
