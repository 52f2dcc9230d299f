"""Products, convolutions, windows, norms, attention and losses."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tests.parity.opinfo.saying import (
    Given,
    NotSaidError,
    Row,
    Said,
    given,
    listed,
    number,
    permuted,
    whole,
    wholes,
)

REAL, INTEGER, BOOL = torch.float64, torch.int32, torch.bool
MATRICES = {"E0320": "`@` takes a matrix on its right, and does not stretch leading axes"}


def _matmul(sample: Any) -> Said:  # noqa: ANN401 - of PyTorch's class
    of = given(sample, "other")
    x, y = of.x, of["other"]
    fed = {"x": x, "y": y}
    if isinstance(y, torch.Tensor) and y.dim() == 1 and x.dim() >= 1:
        return Said(f"sum(x * y, {x.dim() - 1})", fed)
    return Said("x @ y", fed)


def _linear(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "weight bias")
    weight, bias = of["weight"], of["bias"]
    if weight.dim() != 2:
        raise NotSaidError("a weight that is a vector")
    call = f"linear({weight.shape[0]}{'' if bias is not None else ', bias=false'})"
    weights = {"l.weight": weight} | ({} if bias is None else {"l.bias": bias})
    return Said(f"x |> l: {call}", {"x": of.x}, weights)


def _geometry(
    of: Given,
    count: int,
    names: Sequence[str],
    kernel: Sequence[int] = (),
) -> dict[str, list[int]]:
    """Strides and the like along all axes; padding that is a word is worked out."""
    sizes = {
        name: wholes(of.get(name, 0 if "padding" in name else 1), count)
        for name in names
        if not isinstance(of.get(name), str)
    }
    if "padding" in names and "padding" not in sizes:
        if of["padding"] not in ("same", "valid") or any(each != 1 for each in sizes["stride"]):
            raise NotSaidError("padding by a word that PyTorch does not know, or with strides")
        reach = [
            d * (k - 1) if of["padding"] == "same" else 0
            for k, d in zip(kernel, sizes["dilation"], strict=True)
        ]
        if any(each % 2 for each in reach):
            raise NotSaidError("padding of which one side has more")
        sizes["padding"] = [each // 2 for each in reach]
    return {name: sizes[name] for name in names}


OURS = {
    "stride": "stride",
    "padding": "pad",
    "output_padding": "output_pad",
    "dilation": "dilation",
}
"""Names here of the arguments of convolutions, by their names in PyTorch."""


def _conv(count: int, *, block: bool, transposed: bool = False) -> Callable[[Any], Said]:
    names = tuple(each for each in OURS if transposed or each != "output_padding")
    function = "conv_transpose" if transposed else "conv"

    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, f"weight bias {' '.join(names)} groups")
        x, weight, bias = of.x, of["weight"], of["bias"]
        if x.dim() not in (count + 1, count + 2):
            raise NotSaidError("an operand of another rank")
        kernel = [*weight.shape[2:]]
        sizes = _geometry(of, count, names, () if transposed else kernel)
        groups = whole(of.get("groups", 1))
        fed, weights = {"x": x}, {}
        source = "x" if x.dim() == count + 2 else "insert_axis(x, 0, 1)"
        if block:
            if any(len({*each}) > 1 for each in (kernel, *sizes.values())):
                raise NotSaidError("a window that is not square, which the layer does not take")
            channels = weight.shape[1] * groups if transposed else weight.shape[0]
            settings = [f"{OURS[name]}={each[0]}" for name, each in sizes.items()]
            settings += [f"groups={groups}", f"bias={number(bias is not None)}"]
            arguments = ", ".join([f"{channels}", f"{kernel[0]}", *settings])
            text = f"{source} |> l: {function}{count}d({arguments})"
            weights = {"l.weight": weight} | ({} if bias is None else {"l.bias": bias})
        else:
            fed["y"] = weight
            settings = [f"{OURS[name]}={listed(each)}" for name, each in sizes.items()]
            text = f"{function}({', '.join([source, 'y', *settings, f'groups={groups}'])})"
            if bias is not None:
                fed["z"] = bias
                batch = x.shape[0] if x.dim() == count + 2 else 1
                axes = zip(x.shape[-count:], kernel, *sizes.values(), strict=True)
                size_of = _grown if transposed else _shrunk
                out = [size_of(*each) for each in axes]
                text += f" + expand(z, [c] -> [{batch}, c, {', '.join(map(str, out))}])"
        if x.dim() == count + 1:
            text = f"\n  y_ = {text}\n  return y_[0]"
        return Said(text, fed, weights)

    return say


def _shrunk(size: int, kernel: int, stride: int, pad: int, dilation: int) -> int:
    """Returns the size that a convolution makes of a size."""
    return (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1


def _grown(size: int, kernel: int, stride: int, pad: int, more: int, dilation: int) -> int:
    """Returns the size that a transposed convolution makes of a size."""
    return (size - 1) * stride - 2 * pad + dilation * (kernel - 1) + more + 1


def _pooled(count: int, kind: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        names = (
            "kernel_size stride padding dilation ceil_mode return_indices"
            if kind != "avg_pool"
            else "kernel_size stride padding ceil_mode count_include_pad divisor_override"
        )
        of = given(sample, names)
        x = of.x
        if x.dim() not in (count + 1, count + 2):
            raise NotSaidError("an operand of another rank")
        ceil = bool(of.get("ceil_mode", False))
        if ceil and kind != "window_max":
            raise NotSaidError(
                "windows that reach over the end (ceil_mode), which the layer has not"
            )
        if kind != "avg_pool":
            if any(each != 1 for each in wholes(of.get("dilation", 1), count)):
                raise NotSaidError("windows with gaps (dilation)")
            if of.get("return_indices", False):
                raise NotSaidError("places in windows (return_indices)")
        else:
            padding = wholes(of.get("padding", 0), count)
            if not of.get("count_include_pad", True) and any(padding):
                raise NotSaidError("a mean without the padding")
            if of.get("divisor_override", None) is not None:
                raise NotSaidError("a divisor of one's own")
        kernel = wholes(of["kernel_size"], count)
        stride = of.get("stride", None)
        stride = kernel if stride in (None, (), []) else wholes(stride, count)
        padding = wholes(of.get("padding", 0), count)
        kernel, stride, padding = (
            each * count if len(each) == 1 else each for each in (kernel, stride, padding)
        )
        source = "x" if x.dim() == count + 2 else "insert_axis(x, 0, 1)"
        if ceil:
            source = _reaching(source, x, kernel, stride, padding)
        if kind == "window_max":
            call = f"window_max({source}, {listed(kernel)}, {listed(stride)}, {listed(padding)})"
        else:
            if any(len({*each}) > 1 for each in (kernel, stride, padding)):
                raise NotSaidError("a window that is not square, which the layer does not take")
            call = f"{kind}({kernel[0]}, stride={stride[0]}, pad={padding[0]})({source})"
        if x.dim() == count + 1:
            return Said(f"\n  y_ = {call}\n  return y_[0]", {"x": x})
        return Said(call, {"x": x})

    return say


def _reaching(
    text: str,
    x: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
) -> str:
    """Lets the last windows reach over the end: they see numbers below all others there."""
    count = len(kernel)
    sizes = [*x.shape] if x.dim() == count + 2 else [1, *x.shape]
    for axis, k, step, pad in zip(range(2, count + 2), kernel, stride, padding, strict=True):
        size = sizes[axis]
        windows = -(-(size + 2 * pad - k) // step) + 1
        if (windows - 1) * step >= size + pad:
            windows -= 1  # The last one would begin in the padding.
        more = (windows - 1) * step + k - size - 2 * pad
        if more > 0:
            filler = listed([*sizes[:axis], more, *sizes[axis + 1 :]])
            text = f"concat({text}, full({filler}, -3e38), axis={axis})"
            sizes[axis] += more
    return text


def _like(value: float, count: int) -> torch.Tensor:
    return torch.full((count,), value, dtype=REAL)


def _batch_norm(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "running_mean running_var weight bias training momentum eps")
    x = of.x
    if x.dim() < 2:
        raise NotSaidError("an operand of another rank")
    channels = x.shape[1]
    training = bool(of.get("training", False))
    momentum = of.get("momentum", 0.1)
    if momentum is None:
        raise NotSaidError("a running mean of all steps")
    weights = {
        "l.weight": of["weight"] if of["weight"] is not None else _like(1.0, channels),
        "l.bias": of["bias"] if of["bias"] is not None else _like(0.0, channels),
    }
    updates: dict[str, torch.Tensor] = {}
    mean, var = of["running_mean"], of["running_var"]
    if mean is not None:
        # PyTorch overwrites its own; the language is given what was there before.
        weights |= {"l.running_mean": mean.clone(), "l.running_var": var.clone()}
        if training:
            updates = {"l.running_mean": mean, "l.running_var": var}
    call = f"batch_norm(eps={number(of.get('eps', 1e-5))}, momentum={number(float(momentum))})"
    return Said(f"x |> l: {call}", {"x": x}, weights, training, updates)


def _layer_norm(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "normalized_shape weight bias eps")
    shape = wholes(of["normalized_shape"])
    if len(shape) != 1:
        raise NotSaidError("more than one axis is normalised")
    weights = {
        "l.weight": of["weight"] if of["weight"] is not None else _like(1.0, shape[0]),
        "l.bias": of["bias"] if of["bias"] is not None else _like(0.0, shape[0]),
    }
    return Said(f"x |> l: layer_norm(eps={number(of.get('eps', 1e-5))})", {"x": of.x}, weights)


def _rms_norm(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "normalized_shape weight eps")
    shape = wholes(of["normalized_shape"])
    if len(shape) != 1:
        raise NotSaidError("more than one axis is normalised")
    eps = of.get("eps", None)
    eps = float(torch.finfo(REAL).eps) if eps is None else eps
    weights = {"l.weight": of["weight"] if of["weight"] is not None else _like(1.0, shape[0])}
    return Said(f"x |> l: rms_norm(eps={number(eps)})", {"x": of.x}, weights)


def _group_norm(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "num_groups weight bias eps")
    channels = of.x.shape[1] if of.x.dim() > 1 else 1
    weights = {
        "l.weight": of["weight"] if of["weight"] is not None else _like(1.0, channels),
        "l.bias": of["bias"] if of["bias"] is not None else _like(0.0, channels),
    }
    call = f"group_norm({number(whole(of['num_groups']))}, eps={number(of.get('eps', 1e-5))})"
    return Said(f"x |> l: {call}", {"x": of.x}, weights)


def _instance_norm(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "running_mean running_var weight bias use_input_stats momentum eps")
    if of["running_mean"] is not None or not of.get("use_input_stats", True):
        raise NotSaidError("running statistics")
    text, fed = f"instance_norm(eps={number(of.get('eps', 1e-5))})(x)", {"x": of.x}
    sizes = listed(of.x.shape)
    for name, key, sign in (("y", "weight", "*"), ("z", "bias", "+")):
        if of[key] is not None:
            fed[name] = of[key]
            text = f"{text} {sign} expand({name}, [{of.x.shape[1]}] -> {sizes})"
    return Said(text, fed)


def _embedding(sample: Any) -> Said:  # noqa: ANN401
    # The weight is the first operand of the sample, the ids are its argument.
    of = given(sample, "ids padding_idx max_norm norm_type scale_grad_by_freq sparse")
    if of["max_norm"] is not None:
        raise NotSaidError("rows that are renormalised in place")
    if of.get("scale_grad_by_freq", False):
        raise NotSaidError("gradients divided by frequency")
    rows, width = of.x.shape
    padding = of.get("padding_idx", None)
    padding = -1 if padding is None else padding + rows if padding < 0 else padding
    text = f"x |> l: embedding({rows}, {width}, padding={padding})"
    return Said(text, {"x": of["ids"]}, {"l.weight": of.x})


def _dropout(name: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "p training inplace")
        if of.get("inplace", False):
            raise NotSaidError("in place")
        training, p = of.get("training", True), of.get("p", 0.5)
        if training and p not in (0, 1):
            raise NotSaidError("draws at random")
        return Said(f"{name}(p={number(float(p))})(x)", {"x": of.x}, training=bool(training))

    return say


def _attention(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "key value attn_mask dropout_p is_causal scale enable_gqa")
    if of.get("dropout_p", 0.0):
        raise NotSaidError("draws at random")
    if of["scale"] is not None:
        raise NotSaidError("a scale of one's own")
    q, k, v, mask = of.x, of["key"], of["value"], of["attn_mask"]
    rank = q.dim()
    if not rank == k.dim() == v.dim():
        raise NotSaidError("an operand of another rank")
    fed = {"x": q, "y": k, "z": v}
    names = (
        ["x", "y", "z"] if rank == 4 else [f"insert_axis({each}, 0, 1)" for each in ("x", "y", "z")]
    )
    if rank not in (3, 4):
        raise NotSaidError("an operand of another rank")
    more = ""
    if mask is not None:
        fed["u"] = mask
        full = [*[*(q.shape if rank == 4 else (1, *q.shape))][:3], k.shape[-2]]
        shape = list(mask.shape)
        text = "u"
        for axis in range(len(shape)):
            at = 4 - len(shape) + axis
            if shape[axis] == 1 and full[at] != 1:
                index = ", ".join([":"] * axis + ["0"])
                text = f"insert_axis({text}[{index}], {axis}, {full[at]})"
        for at in reversed(range(4 - len(shape))):
            text = f"insert_axis({text}, 0, {full[at]})"
        more = f", {'mask' if mask.dtype == BOOL else 'bias'}={text}"
    form = "causal=true" if of.get("is_causal", False) else ""
    call = f"attention({form})({', '.join(names)}{more})"
    if rank == 3:
        return Said(f"\n  y_ = {call}\n  return y_[0]", fed)
    return Said(call, fed)


def _cross_entropy(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "target weight size_average ignore_index reduce reduction label_smoothing")
    x, target = of.x, of["target"]
    if of["weight"] is not None:
        raise NotSaidError("weights of classes")
    if of.get("reduction", "mean") != "mean":
        raise NotSaidError("a loss that is no mean")
    smoothing = of.get("label_smoothing", 0.0)
    ignore = of.get("ignore_index", -100)
    rank = x.dim()
    order = [0, *range(2, rank), 1] if rank > 1 else [0]
    logits = permuted("x", order) if rank > 2 else "x"
    if target.is_floating_point():
        labels = permuted("y", order) if rank > 2 else "y"
        # PyTorch divides by the number of rows.
        return Said(
            f"cross_entropy({number(float(smoothing))})({logits}, {labels})", {"x": x, "y": target}
        )
    if bool((target == ignore).any()) or ignore != -100:
        if smoothing:
            raise NotSaidError("labels that are smoothed and left out at once")
        if not bool((target != ignore).any()):
            raise NotSaidError("no label at all, whose mean is NaN in PyTorch and 0 here")
        return Said(f"masked_cross_entropy({ignore})({logits}, y)", {"x": x, "y": target})
    return Said(f"cross_entropy({number(float(smoothing))})({logits}, y)", {"x": x, "y": target})


def _loss(name: str, extra: str = "") -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, f"target {extra or 'reduction'} {'reduction' if extra else ''}")
        if of.get("reduction", "mean") != "mean":
            raise NotSaidError("a loss that is no mean")
        beta = f"({number(float(of.get('beta', 1.0)))})" if extra == "beta" else ""
        if not isinstance(of["target"], torch.Tensor):
            raise NotSaidError("a target that is no tensor")
        return Said(f"{name}{beta}(x, y)", {"x": of.x, "y": of["target"]})

    return say


def _bce(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "target weight size_average reduce reduction pos_weight")
    if of["weight"] is not None or of["pos_weight"] is not None:
        raise NotSaidError("weights of classes")
    if of.get("reduction", "mean") != "mean":
        raise NotSaidError("a loss that is no mean")
    return Said("bce(x, y)", {"x": of.x, "y": of["target"]})


def _resized(mode: str) -> Callable[[Any], Said]:
    def say(sample: Any) -> Said:  # noqa: ANN401
        of = given(sample, "size scale_factor mode align_corners recompute_scale_factor antialias")
        if of.get("mode", mode) != mode:
            raise NotSaidError("another kind of interpolation")
        if of.get("align_corners", None):
            raise NotSaidError("corners that are aligned")
        if of.get("antialias", False):
            raise NotSaidError("a filter against aliasing")
        if of.x.dim() != 4:
            raise NotSaidError("no image")
        size = of["size"]
        if size is None:
            factor = of["scale_factor"]
            factors = factor if isinstance(factor, tuple | list) else [factor] * 2
            size = [int(f * s) for f, s in zip(factors, of.x.shape[2:], strict=True)]
            if any(f * s != t for f, s, t in zip(factors, of.x.shape[2:], size, strict=True)):
                raise NotSaidError("a factor that gives no whole size")
        height, width = wholes(size, 2)
        more = ', mode="nearest"' if mode == "nearest" else ""
        return Said(f"resize({height}, {width}{more})(x)", {"x": of.x})

    return say


def _upsample(sample: Any) -> Said:  # noqa: ANN401
    of = given(sample, "size scale_factor mode")
    factor = of["scale_factor"]
    if factor is None:
        sizes = wholes(of["size"], of.x.dim() - 2)
        factors = {size / own for size, own in zip(sizes, of.x.shape[2:], strict=True)}
        factor = factors.pop() if len(factors) == 1 else 0.5
    if isinstance(factor, tuple | list) or factor != int(factor):
        raise NotSaidError("a factor that is not whole")
    return Said(f"upsample({int(factor)})(x)", {"x": of.x})


ROWS = (
    Row("@", "matmul", _matmul, refused=MATRICES),
    Row("@", "mm", _matmul),
    Row("@", "bmm", _matmul),
    Row("@", "mv", _matmul),
    Row("@", "dot", _matmul),
    Row("linear", "nn.functional.linear", _linear),
    *(Row("conv", f"nn.functional.conv{n}d", _conv(n, block=False)) for n in (1, 2, 3)),
    *(Row(f"conv{n}d", f"nn.functional.conv{n}d", _conv(n, block=True)) for n in (1, 2, 3)),
    *(
        Row(
            "conv_transpose",
            f"nn.functional.conv_transpose{n}d",
            _conv(n, block=False, transposed=True),
            refused={"E0305": "an output_pad of the stride or more"},
        )
        for n in (1, 2, 3)
    ),
    *(
        Row(
            f"conv_transpose{n}d",
            f"nn.functional.conv_transpose{n}d",
            _conv(n, block=True, transposed=True),
        )
        for n in (1, 2)
    ),
    *(
        Row(name, f"nn.functional.{theirs}_pool{n}d", _pooled(n, name))
        for name, theirs in (("window_max", "max"), ("max_pool", "max"), ("avg_pool", "avg"))
        for n in (1, 2, 3)
    ),
    Row(
        "batch_norm",
        "nn.functional.batch_norm",
        _batch_norm,
        refused={"E0311": "a momentum below 0"},
    ),
    Row(
        "layer_norm",
        "nn.functional.layer_norm",
        _layer_norm,
        refused={"E0314": "a variance of one element"},
    ),
    Row("rms_norm", "nn.functional.rms_norm", _rms_norm),
    Row(
        "group_norm",
        "nn.functional.group_norm",
        _group_norm,
        refused={"E0311": "an eps below 0"},
    ),
    Row("instance_norm", "nn.functional.instance_norm", _instance_norm),
    Row("embedding", "nn.functional.embedding", _embedding),
    Row("dropout", "nn.functional.dropout", _dropout("dropout")),
    Row("dropout2d", "nn.functional.dropout2d", _dropout("dropout2d")),
    Row("attention", "nn.functional.scaled_dot_product_attention", _attention),
    Row("cross_entropy, masked_cross_entropy", "nn.functional.cross_entropy", _cross_entropy),
    Row("mse", "nn.functional.mse_loss", _loss("mse")),
    Row("l1", "nn.functional.l1_loss", _loss("l1")),
    Row("smooth_l1", "nn.functional.smooth_l1_loss", _loss("smooth_l1", "beta")),
    Row("bce", "nn.functional.binary_cross_entropy_with_logits", _bce),
    Row("resize", "nn.functional.interpolate/bilinear", _resized("bilinear")),
    Row("resize", "nn.functional.interpolate/nearest", _resized("nearest")),
    Row("upsample", "nn.functional.upsample_nearest", _upsample),
)
