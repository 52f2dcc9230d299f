"""Movement of elements: order of axes, parts, repetition, indexing and scattering."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from tests.parity.opinfo.saying import (
    NAMES,
    Given,
    NotSaidError,
    Row,
    Said,
    flat,
    given,
    listed,
    number,
    permuted,
    unflat,
    whole,
    wholes,
)

REAL, INTEGER, BOOL = torch.float64, torch.int32, torch.bool
NUMBERS = (REAL, INTEGER)
NO_AXIS = {"E0302": "a scalar has no axis, not even axis 0"}


def _permute(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
    of = given(sample, "dims")
    order = wholes(of["dims"])
    rank = of.x.dim()
    if len(order) != rank:
        raise NotSaidError("an order of more or fewer axes")
    return Said(permuted("x", [each % rank for each in order]) if rank else "x", {"x": of.x})


def _transpose(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim0 dim1")
    order = [*range(of.x.dim())]
    if not order:
        raise NotSaidError("a scalar has no axis, not even axis 0")
    one, two = whole(of["dim0"]), whole(of["dim1"])
    order[one], order[two] = order[two], order[one]
    return Said(permuted("x", order), {"x": of.x})


def _movedim(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "source destination")
    source, destination = wholes(of["source"]), wholes(of["destination"])
    rank = of.x.dim()
    if rank == 0:
        raise NotSaidError("a scalar has no axis, not even axis 0")
    if any(not -rank <= each < rank for each in (*source, *destination)):
        raise NotSaidError("an axis that is not there")
    source, destination = ([each % rank for each in some] for some in (source, destination))
    if not len(source) == len(destination) == len({*source}) == len({*destination}):
        raise NotSaidError("places that are no order of axes")
    order = [-1] * rank
    for one, two in zip(source, destination, strict=True):
        order[two % rank] = one % rank
    left = iter([each for each in range(rank) if each not in order])
    return Said(permuted("x", [next(left) if each < 0 else each for each in order]), {"x": of.x})


def _reshaped(x: torch.Tensor, shape: Sequence[int]) -> Said:
    if not shape and x.numel() != 1:
        raise NotSaidError("the only element of many")
    sizes = [*shape]
    if -1 in sizes:
        rest = prod(each for each in sizes if each != -1)
        if rest == 0 or x.numel() % rest:
            raise NotSaidError("an open size that divides nothing")
        sizes[sizes.index(-1)] = x.numel() // rest
    return Said(unflat(flat("x", x.dim()), sizes), {"x": x})


def _reshape(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "shape")
    return _reshaped(of.x, wholes(of["shape"]))


def _flatten(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "start_dim end_dim")
    x = of.x
    first, last = whole(of.get("start_dim", 0)), whole(of.get("end_dim", -1))
    if x.dim() == 0:
        return Said("insert_axis(x, 0, 1)", {"x": x})
    first, last = first % x.dim(), last % x.dim()
    if first > last:
        raise NotSaidError("an end before the start")
    shape = [*x.shape[:first], prod(x.shape[first : last + 1]), *x.shape[last + 1 :]]
    return _reshaped(x, shape)


def _flip(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dims")
    text = "x"
    for axis in wholes(of["dims"]):
        text = f"reverse({text}, {axis})"
    return Said(text, {"x": of.x})


def _roll(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "shifts dims")
    shifts = wholes(of["shifts"])
    if of["dims"] in (None, (), []):
        rank = of.x.dim()
        text = f"roll({flat('x', rank)}, 0, {number(sum(shifts))})"
        return Said(unflat(text, of.x.shape), {"x": of.x})
    dims, text = wholes(of["dims"]), "x"
    for axis, by in zip(dims, shifts, strict=True):
        text = f"roll({text}, {axis}, {number(by)})"
    return Said(text, {"x": of.x})


def _interleave(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "repeats dim output_size")
    if isinstance(of["repeats"], torch.Tensor):
        raise NotSaidError("sizes that depend on data")
    times = number(whole(of["repeats"]))
    if of["dim"] is None:
        return Said(f"repeat({flat('x', of.x.dim())}, 0, {times})", {"x": of.x})
    return Said(f"repeat(x, {number(of['dim'])}, {times})", {"x": of.x})


def _tile(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dims")
    times, text = wholes(of["dims"]), "x"
    times = [1] * (of.x.dim() - len(times)) + times
    new = len(times) - of.x.dim()
    if any(each < 0 for each in times):
        raise NotSaidError("a negative number of times")
    for axis in range(new, len(times)):
        if times[axis] != 1:
            copies = ", ".join([text] * times[axis])
            text = (
                f"concat({copies}, axis={axis - new})"
                if copies
                else f"repeat({text}, {axis - new}, 0)"
            )
    for axis in reversed(range(new)):
        text = f"insert_axis({text}, 0, {times[axis]})"
    return Said(text, {"x": of.x})


def _expand(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "size")
    sizes, text = wholes(of["size"]), "x"
    new = len(sizes) - of.x.dim()
    if new < 0:
        raise NotSaidError("fewer sizes than axes")
    for axis, size in enumerate(of.x.shape):
        if size == 1 and sizes[new + axis] not in (1, -1):
            index = ", ".join([":"] * axis + ["0"])
            text = f"insert_axis({text}[{index}], {axis}, {sizes[new + axis]})"
        elif sizes[new + axis] not in (size, -1):
            raise NotSaidError("a size that is not 1 is stretched")
    for size in reversed(sizes[:new]):
        text = f"insert_axis({text}, 0, {size})"
    return Said(text, {"x": of.x})


def _unsqueeze(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim")
    return Said(f"insert_axis(x, {number(of['dim'])}, 1)", {"x": of.x})


def _cat(sample: Any) -> Said:  # noqa: ANN401
    if "dim" in sample.kwargs and sample.args:
        raise NotSaidError("more arguments")
    tensors = sample.input
    if (
        not isinstance(tensors, list | tuple)
        or not tensors
        or not all(isinstance(each, torch.Tensor) for each in tensors)
    ):
        raise NotSaidError("operands that are no list of tensors")
    dim = sample.args[0] if sample.args else sample.kwargs.get("dim", 0)
    if "out" in sample.kwargs:
        raise NotSaidError("out=")
    names = NAMES[: len(tensors)]
    text = f"concat({', '.join(names)}, axis={number(whole(dim))})"
    return Said(text, dict(zip(names, tensors, strict=True)))


def _stack(sample: Any) -> Said:  # noqa: ANN401
    said = _cat(sample)
    dim = sample.args[0] if sample.args else sample.kwargs.get("dim", 0)
    parts = ", ".join(f"insert_axis({name}, {dim}, 1)" for name in said.fed)
    return Said(f"concat({parts}, axis={dim})", said.fed)


def _padded(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "pad mode value")
    if of.get("mode", "constant") != "constant":
        raise NotSaidError("another kind of padding")
    return _with_pad(of, of.get("value", None) or 0)


def _constant_pad(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "pad value")
    return _with_pad(of, of.get("value", 0))


def _with_pad(of: Given, value: object) -> Said:
    amounts, text, sizes = wholes(of["pad"]), "x", [*of.x.shape]
    if any(each < 0 for each in amounts):
        raise NotSaidError("padding by less than nothing")
    for place in range(0, len(amounts) - 1, 2):
        axis, before, after = -1 - place // 2, amounts[place], amounts[place + 1]
        if value == 0:
            text = f"pad({text}, {axis}, before={before}, after={after})"
            continue
        axis += of.x.dim()
        fillers = [
            f"full({listed([*sizes[:axis], each, *sizes[axis + 1 :]])}, {number(value)})"
            for each in (before, after)
        ]
        parts = [fillers[0]] * (before > 0) + [text] + [fillers[1]] * (after > 0)
        text = f"concat({', '.join(parts)}, axis={axis})" if len(parts) > 1 else text
        sizes[axis] += before + after
    return Said(text, {"x": of.x})


def _index_select(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim index")
    if not isinstance(of["index"], torch.Tensor):
        raise NotSaidError("an index that is no tensor")
    if of["index"].dim() == 0 and of.x.dim():
        text = f"gather(x, insert_axis(y, 0, 1), axis={whole(of['dim'])})"
    else:
        text = f"gather(x, y, axis={whole(of['dim'])})"
    return Said(text, {"x": of.x, "y": of["index"]})


def _picked(sample: Any) -> Said:  # noqa: ANN401
    """`torch.gather`: the axis goes to the end, and all others are common."""
    of = given(sample, "dim index sparse_grad")
    x, index = of.x, of["index"]
    return _along(x, whole(of["dim"]), index)


def _along(x: torch.Tensor, dim: int, index: object) -> Said:
    if not isinstance(index, torch.Tensor):
        raise NotSaidError("an index that is no tensor")
    rank = x.dim()
    if rank == 0:
        raise NotSaidError("a scalar has no axis, not even axis 0")
    if index.dim() != rank:
        return Said(f"gather(x, y, axis={rank - 1}, batch={rank - 1})", {"x": x, "y": index})
    order = _last(rank, dim)
    parts = ", ".join(f":{index.shape[each]}" for each in order[:-1])
    source = permuted("x", order)
    source = f"{source}[{parts}, :]" if parts else source
    text = f"gather({source}, {permuted('y', order)}, axis={rank - 1}, batch={rank - 1})"
    return Said(permuted(text, _back(order)), {"x": x, "y": index})


def _last(rank: int, dim: int) -> list[int]:
    dim %= rank
    return [each for each in range(rank) if each != dim] + [dim]


def _back(order: Sequence[int]) -> list[int]:
    return [order.index(each) for each in range(len(order))]


def _take_along(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "indices dim")
    index = of["indices"]
    if of["dim"] is None:
        return Said(
            f"gather({flat('x', of.x.dim())}, {flat('y', index.dim())})", {"x": of.x, "y": index}
        )
    x = of.x
    dim = whole(of["dim"])
    if isinstance(index, torch.Tensor) and x.dim() == index.dim():
        order = _last(x.dim(), dim)
        if any(x.shape[each] != index.shape[each] for each in order[:-1]):
            raise NotSaidError("an axis of size 1 is not stretched")
    return _along(x, dim, index)


def _scattered(form: str) -> Callable[[Any], Said]:
    """`torch.scatter_add` and its like: the axis goes to the end, and all others are common."""

    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "dim index src reduce include_self")
        x, index, source = of.x, of["index"], of["src"]
        of.demand("include_self", (True,), "what was there before is left out")
        if not isinstance(index, torch.Tensor) or not isinstance(source, torch.Tensor):
            raise NotSaidError("an index or a source that is no tensor")
        rank = x.dim()
        if rank == 0:
            raise NotSaidError("a scalar has no axis, not even axis 0")
        if index.dim() != rank or source.dim() != rank:
            raise NotSaidError("an index of another rank")
        dim = whole(of["dim"])
        order = _last(rank, dim)
        sizes = [index.shape[each] for each in order]
        parts = ", ".join(f":{each}" for each in sizes)
        updates = f"{permuted('z', order)}[{parts}]"
        lead = rank - 1
        size = x.shape[order[-1]]
        if any(index.shape[each] != x.shape[each] for each in order[:-1]) and form != "add":
            raise NotSaidError("an index of fewer places than there are")
        empty = {"add": "", "max": ", -3e38", "min": ", 3e38"}[form]
        text = (
            f"scatter_{form}({permuted('y', order)}, {updates}, {size}{empty}, "
            f"axis={lead}, batch={lead})"
        )
        for axis, each in enumerate(order[:-1]):
            more = x.shape[each] - index.shape[each]
            text = f"pad({text}, {axis}, after={more})" if more else text
        text = permuted(text, _back(order))
        whole_ = {"add": "x + {}", "max": "maximum(x, {})", "min": "minimum(x, {})"}[form]
        return Said(whole_.format(text), {"x": x, "y": index, "z": source})

    return say


def _index_add(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim index source alpha")
    index, source = of["index"], of["source"]
    if not isinstance(index, torch.Tensor) or not isinstance(source, torch.Tensor):
        raise NotSaidError("an index or a source that is no tensor")
    if of.x.dim() == 0 or index.dim() == 0:
        raise NotSaidError("a scalar has no axis, not even axis 0")
    dim = whole(of["dim"])
    if not -of.x.dim() <= dim < of.x.dim():
        raise NotSaidError("an axis that is not there")
    alpha = number(of.get("alpha", 1))
    text = f"x + scatter_add(y, z, {of.x.shape[dim]}, axis={dim % of.x.dim()}) * {alpha}"
    return Said(text, {"x": of.x, "y": index, "z": source})


def _one_hot(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "num_classes")
    if of.get("num_classes", -1) == -1:
        raise NotSaidError("sizes that depend on data")
    return Said(f"i32(one_hot(x, {number(of['num_classes'])}))", {"x": of.x})


def _narrow(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim start length")
    if isinstance(of["start"], torch.Tensor):
        raise NotSaidError("a start that is a tensor")
    rank = of.x.dim()
    dim, start, length = whole(of["dim"]), whole(of["start"]), whole(of["length"])
    if not -rank <= dim < rank:
        raise NotSaidError("an axis that is not there")
    if length < 0:
        raise NotSaidError("a part of less than nothing")
    start = start + of.x.shape[dim] if start < 0 else start
    parts = [":"] * (dim % rank) + [f"{start}:{start + length}"]
    return Said(f"x[{', '.join(parts)}]", {"x": of.x})


def _select(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "dim index")
    rank, dim = of.x.dim(), whole(of["dim"])
    if not -rank <= dim < rank:
        raise NotSaidError("an axis that is not there")
    parts = [":"] * (dim % rank) + [number(whole(of["index"]))]
    return Said(f"x[{', '.join(parts).replace('(', '').replace(')', '')}]", {"x": of.x})


def _split(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "size dim")
    x, dim = of.x, whole(of.get("dim", 0))
    if x.dim() == 0:
        raise NotSaidError("a scalar has no axis, not even axis 0")
    total = x.shape[dim]
    size = of["size"]
    sizes = [*size] if isinstance(size, tuple | list) else []
    if not sizes:
        step = whole(size)
        if step < 1:
            raise NotSaidError("parts of no size")
        sizes = [min(step, total - at) for at in range(0, total, step)]
    at, parts = 0, []
    for each in sizes:
        index = [":"] * (dim % x.dim()) + [f"{at}:{at + each}"]
        parts.append(f"x[{', '.join(index)}]")
        at += each
    return Said(f"\n  return {', '.join(parts)}" if len(parts) > 1 else parts[0], {"x": x})


def _filled(value: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        sizes = (
            sample.input
            if isinstance(sample.input, tuple | list | torch.Size)
            else (sample.input, *[a for a in sample.args if value != "fill"])
        )
        of = given(sample, "fill dtype device") if value == "fill" else None
        number_ = number(of["fill"]) if of else value
        return Said(f"full({listed(wholes(tuple(sizes)))}, {number_})", {})

    return say


def _arange(sample: Any) -> Said:  # noqa: ANN401
    numbers = [sample.input, *sample.args]
    if any(not isinstance(each, int) for each in numbers) or sample.kwargs:
        raise NotSaidError("a step, a start or an end that is not whole")
    start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
    count = len(range(start, end, step))
    return Said(f"iota({count}) * {number(step)} + {number(start)}", {})


def _shuffle(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "groups")
    groups = whole(of["groups"])
    rank, channels = of.x.dim(), of.x.shape[1] if of.x.dim() > 1 else 0
    if rank < 3 or groups < 1 or channels % groups:
        raise NotSaidError("channels that are not divided")
    rest = ", ".join(f"s{each}" for each in range(rank - 2))
    text = f"rearrange(x, [n, {groups} * c, {rest}] -> [n, c * {groups}, {rest}])"
    return Said(text, {"x": of.x})


ROWS = (
    Row("rearrange", "permute", _permute, dtypes=NUMBERS),
    Row("rearrange", "transpose", _transpose),
    Row("rearrange", "movedim", _movedim),
    Row("rearrange", "reshape", _reshape, dtypes=NUMBERS),
    Row("rearrange", "flatten", _flatten),
    Row("rearrange", "nn.functional.channel_shuffle", _shuffle),
    Row("expand, insert_axis", "expand", _expand),
    Row("insert_axis", "unsqueeze", _unsqueeze, dtypes=NUMBERS),
    Row("repeat", "repeat_interleave", _interleave, refused=NO_AXIS),
    Row("concat of copies", "repeat", _tile),
    Row("concat of copies", "tile", _tile),
    Row("concat", "cat", _cat),
    Row("concat", "stack", _stack),
    Row("pad", "nn.functional.pad/constant", _padded),
    Row("pad", "constant_pad_nd", _constant_pad),
    Row("reverse", "flip", _flip, dtypes=NUMBERS, refused=NO_AXIS),
    Row(
        "roll",
        "roll",
        _roll,
        dtypes=NUMBERS,
        refused=NO_AXIS,
        accepted={"`shifts` required": "to move by no list of amounts is to move by 0"},
    ),
    Row("gather", "index_select", _index_select, refused=NO_AXIS),
    Row(
        "gather",
        "gather",
        _picked,
        accepted={"same number of dimensions": "ids of another rank pick whole slices"},
    ),
    Row(
        "gather",
        "take_along_dim",
        _take_along,
        accepted={"same number of dimensions": "ids of another rank pick whole slices"},
    ),
    Row("scatter_add", "scatter_add", _scattered("add")),
    Row("scatter_add", "index_add", _index_add),
    Row("scatter_max", "scatter_reduce/amax", _scattered("max")),
    Row("scatter_min", "scatter_reduce/amin", _scattered("min")),
    Row("one_hot", "nn.functional.one_hot", _one_hot, dtypes=(torch.int64,)),
    Row("a part", "narrow", _narrow),
    Row("a part", "select", _select),
    Row("parts", "split", _split),
    Row("parts", "split_with_sizes", _split),
    Row("full", "full", _filled("fill")),
    Row("zeros", "zeros", _filled("0.0")),
    Row("ones", "ones", _filled("1.0")),
    Row("iota", "arange", _arange, dtypes=(torch.int64,)),
)
