"""Mistakes of people who come from other systems: the first cure is the line that they meant."""

import pytest

from meganeura_dsl.diagnostics.report import Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.pipeline import check_text

TOWER = (
    "block Tower(layers, c, k)(x: [n, c, t]) -> [n, c, t]\n"
    "    where k >= 1:\n"
    "  for i in 0..layers:\n"
    "    y = pad(x, 2, before=(k - 1) * 2 ** i) "
    "|> conv{i}: conv1d(c, k, dilation=2 ** i) |> relu\n"
    "    x = x + y\n"
    "  return x\n"
    "model tower = Tower(layers=3, c=4, k=3)\n"
)
MISTAKES: dict[str, tuple[str, tuple[str, str], str]] = {
    "patches that overlap": (
        (
            "block Patches(d, p)(image: [n, 3, h, w]) -> [n, (h // p) * (w // p), d]\n"
            "    where h % p == 0, w % p == 0:\n"
            "  x = image |> proj: conv2d(d, p, stride=p)\n"
            "  return x |> rearrange([n, d, a, b] -> [n, a * b, d])\n"
        ),
        ("conv2d(d, p, stride=p)", "conv2d(d, p)"),
        "line 3:  x = image |> proj: conv2d(d, p, stride=p)",
    ),
    "a shortcut between other channels": (
        (
            "block Shortcut(wide, stride)(x: [n, c, h, w])\n"
            "    -> [n, wide, (h - 1) // stride + 1, (w - 1) // stride + 1]:\n"
            "  y = x |> a: conv2d(wide, 3, stride, pad=1)\n"
            "  if stride == 1 and c == wide:\n"
            "    y = x + y\n"
            "  return y\n"
        ),
        ("stride == 1 and c == wide", "stride == 1"),
        "if stride == 1 and c == wide:",
    ),
    "labels that are made in the call": (
        (
            "block Critic()(x: [n, 7]) -> [n, 1] = x |> fc: linear(1)\n"
            "model critic = Critic()\n"
            "train fit(x: [batch, 7]):\n"
            "  said = x |> critic\n"
            "  minimize bce(rearrange(said, [batch, 1] -> [batch]), ones([batch]))\n"
        ),
        ("rearrange(said, [batch, 1] -> [batch])", "said"),
        "rearrange(said, [batch, 1] -> [batch])",
    ),
    "a state of one example": (
        (
            "block Cell(hidden)(x: [n, s, d]) -> [n, hidden]:\n"
            "  h = zeros([n, hidden])\n"
            "  scan t in 0..s:\n"
            "    h = concat(x[:, t], h, axis=1) |> both: linear(hidden) |> tanh\n"
            "  return h\n"
        ),
        ("zeros([n, hidden])", "zeros([hidden])"),
        "line 2:  h = zeros([n, hidden])",
    ),
    "a norm of tokens": (
        (
            "block Mlp(wide)(x: [n, s, d]) -> [n, s, d]:\n"
            "  return x |> up: linear(wide) |> rearrange([n, s, wide] -> [n, wide, s])\n"
            "           |> norm: batch_norm |> rearrange([n, wide, s] -> [n, s, wide]) |> relu\n"
            "           |> down: linear(d)\n"
            "block Net()(x: [n, s, 6]) -> [n, s, 6] = x |> mlp: Mlp(8)\n"
            "model net = Net()\n"
        ),
        (
            (
                " |> rearrange([n, s, wide] -> [n, wide, s])\n"
                "           |> norm: batch_norm |> rearrange([n, wide, s] -> [n, s, wide])"
            ),
            "\n           |> norm: batch_norm",
        ),
        (
            "rearrange([n, s, c] -> [n, c, s]) |> norm: batch_norm "
            "|> rearrange([n, c, s] -> [n, s, c])"
        ),
    ),
    "groups that do not divide": (
        (
            "block Cell(c)(x: [n, b, h, w]) -> [n, c, h, w] where c % 8 == 0:\n"
            "  return x |> conv: conv2d(c, 3, pad=1) |> norm: group_norm(8) |> silu\n"
            "block Net()(x: [n, 3, h, w]) -> [n, 40, h, w] = x |> cell: Cell(40)\n"
            "model net = Net()\n"
        ),
        ("group_norm(8)", "group_norm(32)"),
        "line 2:  return x |> conv: conv2d(c, 3, pad=1) |> norm: group_norm(8) |> silu",
    ),
    "an activation among the arguments": (
        "block Mlp()(x: [n, 9]) -> [n, 5] = x |> up: linear(7) |> silu |> down: linear(5)\n",
        ("linear(7) |> silu", 'linear(7, activation="swish")'),
        "up: linear(7) |> silu",
    ),
    "no activation among the arguments": (
        "block Mlp()(x: [n, 9]) -> [n, 5] = x |> up: linear(7) |> silu |> down: linear(5)\n",
        ("linear(5)", "linear(5, activation=linear)"),
        "down: linear(5)",
    ),
    "a layer that is called": (
        ("block Mlp(wide)(x: [n, d]) -> [n, wide]:\n  layer up: linear(wide)\n  return x |> up\n"),
        ("layer up: linear(wide)", "up = linear(wide)"),
        "layer up: linear(wide)",
    ),
    "the last feature for the last step": (
        (
            "block Last()(x: [n, s, 5]) -> [n, 2]:\n"
            "  h = tanh(x)\n"
            "  return h[:, -1] |> fc: linear(2)\n"
            "model net = Last()\n"
        ),
        ("h[:, -1]", "h[:, :, -1]"),
        "line 3:  return h[:, -1] |> fc: linear(2)",
    ),
    "values of the other input": (
        (
            "block Cross()(x: [n, t, d], seen: [n, s, d]) -> [n, 1, t, d]:\n"
            "  q = x |> q: linear(d) |> rearrange([n, t, g * d] -> [n, g, t, d])\n"
            "  k = seen |> k: linear(d) |> rearrange([n, s, g * d] -> [n, g, s, d])\n"
            "  v = seen |> v: linear(d) |> rearrange([n, s, g * d] -> [n, g, s, d])\n"
            "  return attention(q, k, v)\n"
        ),
        ("v = seen", "v = x"),
        "line 4:  v = seen |> v: linear(d) |> rearrange([n, s, g * d] -> [n, g, s, d])",
    ),
    "examples that are moved behind the steps": (
        (
            "block Seen(k)(x: [n, s, d]) -> [n, s, k]:\n"
            "  y = tanh(x)\n"
            "  return y |> seen: linear(k) |> cumsum(1)\n"
        ),
        ("y = tanh(x)", "y = rearrange(tanh(x), [n, s, d] -> [s, n, d])"),
        "line 2:  y = tanh(x)",
    ),
    "examples that are moved in a pipe": (
        "block Seen(k)(x: [n, s, d]) -> [n, s, k]:\n  return x |> seen: linear(k) |> cumsum(1)\n",
        ("x |> seen", "x |> rearrange([n, s, d] -> [s, n, d]) |> seen"),
        "line 2:  return x |> seen: linear(k) |> cumsum(1)",
    ),
    "a sum for what grows": (
        (
            "block Grown(more)(x: [n, c, t]) -> [n, c + more, t]:\n"
            "  y = x |> conv: conv1d(more, 3, pad=1) |> relu\n"
            "  return concat(x, y, axis=1)\n"
        ),
        ("concat(x, y, axis=1)", "x + y"),
        "line 3:  return concat(x, y, axis=1)",
    ),
    "a residual of a multiple": (
        (
            "block Narrow(c)(x: [n, 2 * c, t]) -> [n, 2 * c, t]:\n"
            "  y = x |> a: conv1d(c, 1) |> relu |> b: conv1d(2 * c, 1)\n"
            "  return x + y\n"
        ),
        ("b: conv1d(2 * c, 1)", "b: conv1d(c, 1)"),
        "b: conv1d(2 * c, 1)",
    ),
    "axes that are not split": (
        (
            "block Boxes(boxes, size)(x: [n, c, t]) -> [n, boxes, t, size]:\n"
            "  y = x |> out: conv1d(boxes * size, 1)\n"
            "  return y |> rearrange([n, boxes * size, t] -> [n, boxes, t, size])\n"
        ),
        ("rearrange([n, boxes * size, t]", "rearrange([n, boxes, size, t]"),
        "line 3:  return y |> rearrange([n, boxes * size, t] -> [n, boxes, t, size])",
    ),
    "steps that are not joined": (
        (
            "block Next(steps, wide)(x: [n, steps, f]) -> [n, f]:\n"
            "  y = x |> rearrange([n, steps, f] -> [n, steps * f]) |> a: linear(wide) |> relu\n"
            "  return y |> b: linear(f)\n"
        ),
        ("x |> rearrange([n, steps, f] -> [n, steps * f]) |> a", "x |> a"),
        "line 2:  y = x |> rearrange([n, steps, f] -> [n, steps * f]) |> a: linear(wide) |> relu",
    ),
    "an image that is not joined": (
        (
            "block Auto()(x: [n, 2, 3, 4]) -> [n, 24]:\n"
            "  return x |> rearrange([n, c, h, w] -> [n, c * h * w]) |> fc: linear(24)\n"
            "model auto = Auto()\n"
            "train fit(x: [batch, 2, 3, 4]):\n"
            "  minimize mse(x |> auto, rearrange(x, [batch, 2, 3, 4] -> [batch, 2 * 3 * 4]))\n"
        ),
        ("rearrange(x, [batch, 2, 3, 4] -> [batch, 2 * 3 * 4])", "x"),
        "rearrange(x, [batch, 2, 3, 4] -> [batch, 2 * 3 * 4])",
    ),
    "a number with an axis": (
        (
            "block Scores(d)(a: [n, 5], b: [n, 7]) -> [n, n]:\n"
            "  param heat: [] = ones\n"
            "  left = a |> left: linear(d)\n"
            "  right = b |> right: linear(d)\n"
            "  return left @ rearrange(right, [n, d] -> [d, n]) * exp(heat)\n"
        ),
        ("heat: []", "heat: [1]"),
        "line 2:  param heat: [] = ones",
    ),
    "a kernel of other channels": (
        (
            "block Stem()(a: [n, 2, t], b: [n, 3, t]) -> [n, 8, t]:\n"
            "  param weight: [8, 5, 3] = kaiming_uniform()\n"
            "  return conv(concat(a, b, axis=1), weight, pad=1)\n"
        ),
        ("[8, 5, 3]", "[8, 3, 3]"),
        "param weight: [8, 5, 3] = kaiming_uniform()",
    ),
    "a causal padding that is not dilated": (
        TOWER,
        ("before=(k - 1) * 2 ** i", "before=(k - 1)"),
        (
            "line 4:  y = pad(x, 2, before=(k - 1) * 2 ** i) "
            "|> conv{i}: conv1d(c, k, dilation=2 ** i) |> relu"
        ),
    ),
    "a causal padding that is doubled": (
        TOWER,
        ("before=(k - 1) * 2 ** i", "before=(k - 1) * 2 * i"),
        (
            "line 4:  y = pad(x, 2, before=(k - 1) * 2 ** i) "
            "|> conv{i}: conv1d(c, k, dilation=2 ** i) |> relu"
        ),
    ),
    "a causal window that is not dilated": (
        TOWER,
        (", dilation=2 ** i", ""),
        (
            "line 4:  y = pad(x, 2, before=(k - 1) * 2 ** i) "
            "|> conv{i}: conv1d(c, k, dilation=2 ** i) |> relu"
        ),
    ),
    "a mean over one of two axes": (
        (
            "block Net()(x: [n, 3, 9, 9]) -> [n, 5]:\n"
            "  y = x |> a: conv2d(8, 3, pad=1) |> relu\n"
            "  return y |> mean(2, 3) |> fc: linear(5)\n"
            "model net = Net()\n"
        ),
        ("mean(2, 3)", "mean(2)"),
        "line 3:  return y |> mean(2, 3) |> fc: linear(5)",
    ),
    "ids that are joined to numbers": (
        (
            "block Drawn()(z: [n, 6], kind: i32[n]) -> [n, 2] where 0 <= kind, kind < 4:\n"
            "  return concat(z, one_hot(kind, 4), axis=1) |> fc: linear(2)\n"
        ),
        ("one_hot(kind, 4)", "kind"),
        "line 2:  return concat(z, one_hot(kind, 4), axis=1) |> fc: linear(2)",
    ),
    "the larger of two": (
        "block Hinge()(x: [n, d]) -> [n, d] = maximum(0, 1 - x)\n",
        ("maximum", "max"),
        "maximum(0, 1 - x)",
    ),
    "a score with an axis": (
        (
            "block Pooled(wide)(x: [n, s, d]) -> [n, d]:\n"
            "  score = (tanh(x |> up: linear(wide)) |> v: linear(1))[..., 0]\n"
            "  return sum(insert_axis(softmax(score), 2, d) * x, 1)\n"
        ),
        (
            "(tanh(x |> up: linear(wide)) |> v: linear(1))[..., 0]",
            "tanh(x |> up: linear(wide)) |> v: linear(1)",
        ),
        "line 2:  score = (tanh(x |> up: linear(wide)) |> v: linear(1))[..., 0]",
    ),
    "reductions that lose the axis": (
        (
            "block Gate()(x: [n, c, t]) -> [n, 1, t]:\n"
            "  both = concat(insert_axis(mean(x, 1), 1, 1), insert_axis(max(x, 1), 1, 1), axis=1)\n"
            "  return both |> conv: conv1d(1, 7, pad=3)\n"
        ),
        ("insert_axis(mean(x, 1), 1, 1), insert_axis(max(x, 1), 1, 1)", "mean(x, 1), max(x, 1)"),
        (
            "line 2:  both = concat(insert_axis(mean(x, 1), 1, 1), insert_axis(max(x, 1), 1, 1), "
            "axis=1)"
        ),
    ),
    "a size by another name": (
        (
            "block Net()(x: [n, 5]) -> [n, 4] = x |> fc: linear(4)\n"
            "model net = Net()\n"
            "train fit(x: [batch, 5]):\n"
            "  minimize mse(x |> net, zeros([batch, 4]))\n"
        ),
        ("zeros([batch, 4])", "zeros([n, 4])"),
        "line 4:  minimize mse(x |> net, zeros([batch, 4]))",
    ),
    "an argument of another name": (
        (
            "block Net(hidden)(x: [n, 5]) -> [n, 4] = x |> a: linear(hidden) |> b: linear(4)\n"
            "model net = Net(hidden=8)\n"
        ),
        ("hidden=8", "hidden_size=8"),
        "Net(hidden=8)",
    ),
    "values with their places": (
        (
            "block Best()(x: [n, d]) -> [n], i32[n]:\n"
            "  best = max(x, 1)\n  at = argmax(x, 1)\n  return best, at\n"
        ),
        ("best = max(x, 1)\n  at = argmax(x, 1)", "best, at = max(x, 1)"),
        "best = max(x, 1)",
    ),
    "another stride than is declared": (
        (
            "block Frames(c)(x: [n, 1, t]) -> [n, c, (t - 50) // 20 + 1] where t >= 50:\n"
            "  return x |> conv: conv1d(c, 50, stride=20)\n"
        ),
        ("stride=20", "stride=50"),
        "line 2:  return x |> conv: conv1d(c, 50, stride=20)",
    ),
    "a shortcut without the pool": (
        (
            "block Down(c)(x: [n, k, t]) -> [n, c, t // 2] where t >= 2:\n"
            "  y = x |> a: conv1d(c, 3, pad=1) |> relu |> max_pool(2)\n"
            "  return y + (x |> short: conv1d(c, 1) |> max_pool(2))\n"
        ),
        ("short: conv1d(c, 1) |> max_pool(2)", "short: conv1d(c, 1)"),
        "line 3:  return y + (x |> short: conv1d(c, 1) |> max_pool(2))",
    ),
    "whole numbers without features": (
        (
            "block Time(d)(t: i32[n]) -> [n, d]:\n"
            "  return insert_axis(f32(t), 1, 1) |> a: linear(d) |> silu |> b: linear(d)\n"
        ),
        ("insert_axis(f32(t), 1, 1)", "f32(t)"),
        "line 2:  return insert_axis(f32(t), 1, 1) |> a: linear(d) |> silu |> b: linear(d)",
    ),
    "heads that are joined to the steps": (
        (
            "block Joined(heads)(x: [n, heads, s, e]) -> [n, s, heads * e]:\n"
            "  return x |> rearrange([n, heads, s, e] -> [n, s, heads * e]) |> tanh\n"
        ),
        ("-> [n, s, heads * e]) |> tanh", "-> [n, heads * s, e]) |> tanh"),
        "line 2:  return x |> rearrange([n, heads, s, e] -> [n, s, heads * e]) |> tanh",
    ),
    "a matrix product for a product": (
        "block Gated()(x: [n, d], y: [n, d]) -> [n, d]:\n  return sigmoid(x) * y\n",
        ("sigmoid(x) * y", "sigmoid(x) @ y"),
        "line 2:  return sigmoid(x) * y",
    ),
    "ids of every row": (
        (
            "block Picked()(x: [n, s, d], at: i32[n, k]) -> [n, k, d] where 0 <= at, at < s:\n"
            "  return gather(x, at, axis=1, batch=1)\n"
        ),
        ("axis=1, batch=1", "axis=0"),
        "line 2:  return gather(x, at, axis=1, batch=1)",
    ),
    "a larger scale than meant": (
        (
            "block Up(c)(x: [n, c, t], skip: [n, c, 2 * t]) -> [n, 2 * c, 2 * t]:\n"
            "  y = x |> upsample(2) |> a: conv1d(c, 3, pad=1)\n"
            "  return concat(y, skip, axis=1)\n"
        ),
        ("upsample(2)", "upsample(4)"),
        "line 2:  y = x |> upsample(2) |> a: conv1d(c, 3, pad=1)",
    ),
    "a pool that moves by its window": (
        (
            "block Branch(c)(x: [n, k, t]) -> [n, c + k, t]:\n"
            "  return concat(x |> a: conv1d(c, 1), x |> max_pool(3, stride=1, pad=1), axis=1)\n"
        ),
        ("max_pool(3, stride=1, pad=1)", "max_pool(3, pad=1)"),
        "line 2:  return concat(x |> a: conv1d(c, 1), x |> max_pool(3, stride=1, pad=1), axis=1)",
    ),
    "a mean over one axis too many": (
        "block Pooled()(x: [n, c, t]) -> [n, c]:\n  return mean(tanh(x), 2)\n",
        ("mean(tanh(x), 2)", "mean(tanh(x), 1, 2)"),
        "line 2:  return mean(tanh(x), 2)",
    ),
    "a weight of truth values": (
        (
            "block Pooled()(seen: bool[n, s], x: [n, s, d]) -> [n, d]:\n"
            "  return sum(f32(insert_axis(seen, 2, d)) * x, 1)\n"
        ),
        ("f32(insert_axis(seen, 2, d))", "insert_axis(seen, 2, d)"),
        "f32(insert_axis(seen, 2, d))",
    ),
}


def errors(program: str) -> list[Report]:
    """The errors that `meganeura check` prints."""
    reports = check_text(Source("net.mgn", program)).reports
    return [each for each in reports if each.severity is Severity.ERROR]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_first_cure_is_what_is_meant(mistake: str) -> None:
    meant, (right, wrong), cure = MISTAKES[mistake]
    assert errors(meant) == []
    assert meant.count(right) == 1
    first = errors(meant.replace(right, wrong))[0]
    assert first.help is not None
    assert (first.help.code or "").splitlines()[:1] == [cure]


def test_a_fact_that_a_use_refutes_is_no_fix() -> None:
    """With `c % 31 == 0` stated, the block around would be refused, whose 40 is no multiple."""
    meant, _, _ = MISTAKES["groups that do not divide"]
    (error,) = errors(meant.replace(" where c % 8 == 0", "").replace("(8)", "(31)"))
    assert error.help is not None
    assert error.help.edits == ()


def test_a_rounded_part_of_data_is_a_quotient() -> None:
    text = "block Part(r: real)(x: [n, d]) -> [n, d]:\n  return x[:, :int(d * r)]\n"
    (error,) = errors(f"{text}model part = Part(r=0.5)\n")
    assert error.help is not None
    assert "`d // 2`" in error.help.text
    half = text.replace("-> [n, d]", "-> [n, d // 2] where d >= 2").replace("int(d * r)", "d // 2")
    assert errors(half.replace("r: real", "")) == []


@pytest.mark.parametrize("size", ["k ** 0.5", "k / 2"])
def test_a_size_that_is_no_whole_number_is_refused(size: str) -> None:
    text = f"block Padded(k)(x: [n, 5]) -> [n, 7] = pad(x, 1, before={size})\n"
    assert errors(text) != []
    assert [each.code for each in errors(f"{text}model padded = Padded(k=5)\n")] == ["E0203"]


def test_what_is_repeated_comes_before_an_edit_that_holds_by_chance() -> None:
    """`iota(t)` would fit, and compare each position with itself."""
    text = (
        "block Later()(x: [n, s, t]) -> [n, s, t]:\n"
        "  seen = iota(s) >= insert_axis(iota(t), 0, s)\n"
        "  return where(expand(seen, [s, t] -> [n, s, t]), x, 0)\n"
    )
    (error,) = errors(text)
    assert error.help is not None
    assert error.help.text.startswith("repeat `iota(s)` along `t`")
    repeated = "expand(iota(s), [s] -> [s, t])"
    assert repeated in error.help.text
    assert errors(text.replace("iota(s) >=", f"{repeated} >=")) == []
