"""Mistakes of people who come from other systems: their first cures, and no fix that hides one."""

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.fixes import apply, next_fixes
from meganeura_dsl.diagnostics.problem import Report, Severity
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render

MISTAKES = {
    "keys_not_transposed": (
        "E0320",
        "q @ rearrange(k, [n, h, t, d] -> [n, h, d, t])",
        """\
block Heads()(q: [n, h, s, d], k: [n, h, t, d], v: [n, h, t, d]) -> [n, h, s, d]:
  scores = q @ k * d ** -0.5
  return softmax(scores) @ v
""",
    ),
    "a_type_before_a_value": (
        "E0133",
        "pooled = x |> mean(1, 2)",
        """\
block Net(classes)(x: [n, 3, h, w]) -> [n, classes]:
  x = x |> stem: conv2d(16, 3, pad=1) |> relu
  pooled: [n, 16] = x |> mean(1, 2)
  return pooled |> fc: linear(classes)
""",
    ),
    "channels_averaged": (
        "E0303",
        "",
        """\
block Pool()(x: [n, c, h, w]) -> [n, c]:
  return x |> mean(1, 2)
""",
    ),
    "mean_without_its_axis": (
        "E0301",
        "expand(m, [n, s] -> [n, s, d])",
        """\
block Norm()(x: [n, s, d]) -> [n, s, d]:
  m = mean(x, -1)
  v = mean((x - m) ** 2, -1)
  return (x - m) / sqrt(v + 1e-5)
""",
    ),
    "heads_not_moved": (
        "E0304",
        "move them where they were laid out",
        """\
block Attn(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> wq: linear(d) |> rearrange([n, s, heads * hd] -> [n, s, heads, hd])
  k = x |> wk: linear(d) |> rearrange([n, s, heads * hd] -> [n, s, heads, hd])
  v = x |> wv: linear(d) |> rearrange([n, s, heads * hd] -> [n, s, heads, hd])
  y = attention(q, k, v)
  return y |> rearrange([n, heads, s, hd] -> [n, s, heads * hd]) |> wo: linear(d)
""",
    ),
    "heads_merged_into_the_sequence": (
        "E0303",
        "",
        """\
block Attn(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> wq: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  k = x |> wk: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  v = x |> wv: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  y = attention(q, k, v) |> rearrange([n, heads, s, hd] -> [n, heads * s, hd])
  return y |> wo: linear(d)
""",
    ),
    "projected_before_heads_are_merged": (
        "E0303",
        "",
        """\
block Attn(heads)(x: [n, s, d]) -> [n, s, d]
    where d % heads == 0:
  qkv = x |> qkv: linear(3 * d) |> rearrange([n, s, 3 * heads * hd] -> [3, n, heads, s, hd])
  y = attention(qkv[0], qkv[1], qkv[2])
  return y |> wo: linear(d) |> rearrange([n, heads, s, e] -> [n, s, heads * e])
""",
    ),
    "residual_over_another_width": (
        "E0301",
        "bring `gelu` back to that of `x`",
        """\
block Mlp()(x: [n, s, d]) -> [n, s, d]:
  return x + (x |> ln: layer_norm |> up: linear(4 * d) |> gelu)
""",
    ),
    "residual_over_a_stride": (
        "E0301",
        "x |> shortcut: conv2d(c, 1, stride=stride)",
        """\
block Block(c, stride=1)(x: [n, c_in, h, w])
    -> [n, c, (h - 1) // stride + 1, (w - 1) // stride + 1]:
  y = x |> conv1: conv2d(c, 3, stride, pad=1) |> bn1: batch_norm |> relu
        |> conv2: conv2d(c, 3, pad=1) |> bn2: batch_norm
  return relu(x + y)
""",
    ),
    "gate_without_expand": (
        "E0301",
        "expand(gate, [n, c] -> [n, c, h, w])",
        """\
block SE(r)(x: [n, c, h, w]) -> [n, c, h, w]:
  gate = x |> mean(2, 3) |> down: linear(r) |> relu |> up: linear(c) |> sigmoid
  return x * gate
""",
    ),
    "mask_without_expand": (
        "E0302",
        "expand(keep, [n, t] -> [n, heads, s, t])",
        """\
block Cross()(q: [n, heads, s, d], k: [n, heads, t, d], v: [n, heads, t, d],
              keep: bool[n, t]) -> [n, heads, s, d]:
  return attention(q, k, v, mask=keep)
""",
    ),
    "mask_of_numbers": (
        "E0307",
        "are given as `bias=`",
        """\
block Cross()(q: [n, heads, s, d], k: [n, heads, t, d], v: [n, heads, t, d],
              keep: [n, heads, s, t]) -> [n, heads, s, d]:
  return attention(q, k, v, mask=keep)
""",
    ),
    "loss_masked_before_its_sum": (
        "E0301",
        "expand(keep, [n, s] -> [n, s, v])",
        """\
block Masked()(logits: [n, s, v], target: [n, s, v], keep: [n, s]) -> []:
  return -sum(log_softmax(logits) * target * keep) / sum(keep)
""",
    ),
    "sum_left_of_a_pipe": (
        "E0139",
        "write the brackets of the one that is meant",
        """\
block Res()(x: [n, s, d]) -> [n, s, d]:
  return x + x |> ln: layer_norm |> fc: linear(d)
""",
    ),
    "sum_behind_a_layer": (
        "E0140",
        "(x |> fc: linear(d)) + x",
        """\
block Res()(x: [n, s, d]) -> [n, s, d]:
  return x |> fc: linear(d) + x
""",
    ),
    "positions_too_few": (
        "E0311",
        "",
        """\
block Lm(vocabulary, d, positions)(ids: i32[n, s]) -> [n, s, d]
    where s <= positions:
  x = ids |> tok: embedding(vocabulary, d)
  return x + (iota(s) |> pos: embedding(positions, d))

model lm = Lm(vocabulary=1000, d=64, positions=512)

expect lm maps i32[n, 1024] -> [n, 1024, 64]
""",
    ),
    "no_position_for_the_class_token": (
        "E0301",
        "",
        """\
block Vit(d)(image: [n, 3, 32, 32]) -> [n, 65, d]:
  param cls: [d] = zeros
  param positions: [64, d] = normal(0.02)
  x = image |> patch: conv2d(d, 4, 4) |> rearrange([n, d, h, w] -> [n, h * w, d])
  x = concat(expand(cls, [d] -> [n, 1, d]), x, axis=1)
  return x + positions
""",
    ),
    "labels_in_a_column": (
        "E0503",
        "rearrange(label, [batch, 1] -> [batch])",
        """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> fc: linear(10)

model net = Net()

train fit(image: [batch, 784], label: i32[batch, 1]):
  minimize cross_entropy(image |> net, label)
""",
    ),
    "labels_of_floats": (
        "E0503",
        "i32[batch] ",
        """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> fc: linear(10)

model net = Net()

train fit(image: [batch, 784], label: [batch]):
  minimize cross_entropy(image |> net, label)
""",
    ),
    "logits_in_a_column": (
        "E0503",
        "rearrange(x |> net, [batch, 1] -> [batch])",
        """\
block Net()(x: [n, 20]) -> [n, 1]:
  return x |> fc1: linear(32) |> relu |> fc2: linear(1)

model net = Net()

train fit(x: [batch, 20], y: [batch]):
  minimize bce(x |> net, y)
""",
    ),
    "a_row_without_a_label": (
        "E0503",
        "logits[:, :64]",
        """\
block Lm(vocabulary, d)(ids: i32[n, s]) -> [n, s, vocabulary]:
  return ids |> tok: embedding(vocabulary, d) |> out: linear(vocabulary)

model lm = Lm(vocabulary=256, d=64)

train text(ids: i32[batch, 65]):
  logits = ids |> lm
  minimize cross_entropy(logits, ids[:, 1:])
""",
    ),
    "convolution_without_padding": (
        "E0301",
        "",
        """\
block Res(c)(x: [n, c, h, w]) -> [n, c, h, w]
    where h >= 3, w >= 3:
  return relu(x + (x |> conv: conv2d(c, 3) |> bn: batch_norm))
""",
    ),
    "joined_along_the_last_axis": (
        "E0303",
        "",
        """\
block Join()(x: [n, c, h, w], y: [n, c, h, w]) -> [n, 2 * c, h, w]:
  return concat(x, y, axis=-1)
""",
    ),
    "layer_of_keras": (
        "E0201",
        "fc1: linear(128) |> relu",
        """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> fc1: Dense(128, activation="relu") |> fc2: Dense(10)
""",
    ),
    "two_widths_of_linear": (
        "E0203",
        "`linear(10)`",
        """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> fc: linear(784, 10)
""",
    ),
    "labels_missing": (
        "E0204",
        "label it",
        """\
block Net()(x: [n, 784]) -> [n, 10]:
  return x |> linear(128) |> relu |> linear(10)
""",
    ),
    "several_slips": (
        "E0204",
        "label it",
        """\
block Net(classes)(x: [n, 3, h, w]) -> [n, classes]:
  x = x |> conv2d(16, 3, pad=1) |> bn: batch_norm |> relu
  x = x |> F.max_pool2d(2)
  return x |> mean(1, 2) |> fc: linear(classes)
""",
    ),
    "carry_of_another_width": (
        "E0309",
        "h = zeros([n, out])",
        """\
block Rnn(hidden, out)(x: [n, s, d]) -> [n, s, out]:
  h = zeros([n, hidden])
  scan t in 0..s:
    h = tanh((x[:, t] |> ih: linear(out)) + (h |> hh: linear(out)))
    y[:, t] = h
  return y
""",
    ),
    "iteration_of_the_wrong_axis": (
        "E0315",
        "[:, t]",
        """\
block Rnn(hidden)(x: [n, s, d]) -> [n, hidden]:
  h = zeros([n, hidden])
  scan t in 0..s:
    h = tanh((x[t] |> ih: linear(hidden)) + (h |> hh: linear(hidden)))
  return h
""",
    ),
    "half_of_an_odd_size": (
        "E0303",
        "",
        """\
block Pool()(x: [n, c, h, w]) -> [n, c, h // 2, w // 2]:
  return x |> max_pool(3, 2, pad=1)
""",
    ),
    "queries_and_keys_swapped": (
        "E0301",
        "",
        """\
block Cross(heads)(x: [n, s, d], memory: [n, t, d]) -> [n, s, d]
    where d % heads == 0:
  q = memory |> wq: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])
  k = x |> wk: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  v = x |> wv: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  y = attention(q, k, v) |> rearrange([n, heads, t, hd] -> [n, t, heads * hd])
  return x + (y |> wo: linear(d))
""",
    ),
    "values_of_the_other_sequence": (
        "E0308",
        "v = memory |> wv: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])",
        """\
block Cross(heads)(x: [n, s, d], memory: [n, t, d]) -> [n, s, d]
    where d % heads == 0:
  q = x |> wq: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  k = memory |> wk: linear(d) |> rearrange([n, t, heads * hd] -> [n, heads, t, hd])
  v = x |> wv: linear(d) |> rearrange([n, s, heads * hd] -> [n, heads, s, hd])
  y = attention(q, k, v) |> rearrange([n, heads, s, hd] -> [n, s, heads * hd])
  return x + (y |> wo: linear(d))
""",
    ),
    "words_of_floats": (
        "E0307",
        "i32(ids)",
        """\
block Lm(vocabulary, d)(ids: [n, s]) -> [n, s, d]:
  return ids |> tok: embedding(vocabulary, d)
""",
    ),
    "table_not_transposed": (
        "E0320",
        "rearrange(tok.weight, [vocabulary, d] -> [d, vocabulary])",
        """\
block Lm(vocabulary, d)(ids: i32[n, s]) -> [n, s, vocabulary]:
  x = ids |> tok: embedding(vocabulary, d)
  return x @ tok.weight
""",
    ),
    "heads_behind_the_sequence": (
        "E0303",
        "",
        """\
block Split(heads)(x: [n, s, d]) -> [n, heads, s, d // heads]
    where d % heads == 0:
  return x |> rearrange([n, s, heads * hd] -> [n, s, heads, hd])
""",
    ),
    "patches_of_one_name": (
        "E0219",
        "names of their own",
        """\
block Patches(p)(x: [n, c, h, w]) -> [n, (h // p) * (w // p), c * p * p]
    where h % p == 0, w % p == 0:
  return x |> rearrange([n, c, a * p, b * p] -> [n, a * b, c * p * p])
""",
    ),
    "objective_over_a_block": (
        "E0506",
        "",
        """\
block Gen()(z: [n, 16]) -> [n, 64]:
  return z |> fc: linear(64)

block Critic()(x: [n, 64]) -> [n]:
  return x |> fc: linear(1) |> rearrange([n, 1] -> [n])

model generator = g: Gen()
model critic = d: Critic()

train gan(image: [batch, 64]):
  fake = random_normal([batch, 16]) |> generator
  found = mean(softplus(-(image |> critic))) + mean(softplus(stop_gradient(fake) |> critic))
  minimize found over Critic
  minimize mean(softplus(-(fake |> critic))) over generator
""",
    ),
    "noise_of_another_width": (
        "E0308",
        "axis 1 is 100 here",
        """\
block Gen()(z: [n, 16]) -> [n, 64]:
  return z |> fc: linear(64)

block Critic()(x: [n, 64]) -> [n]:
  return x |> fc: linear(1) |> rearrange([n, 1] -> [n])

model generator = g: Gen()
model critic = d: Critic()

train gan(image: [batch, 64]):
  fake = random_normal([batch, 100]) |> generator
  found = mean(softplus(-(image |> critic))) + mean(softplus(stop_gradient(fake) |> critic))
  minimize found over critic
  minimize mean(softplus(-(fake |> critic))) over generator
""",
    ),
    "objective_without_a_gradient": (
        "E0584",
        "",
        """\
block Gen()(z: [n, 16]) -> [n, 64]:
  return z |> fc: linear(64)

block Critic()(x: [n, 64]) -> [n]:
  return x |> fc: linear(1) |> rearrange([n, 1] -> [n])

model generator = g: Gen()
model critic = d: Critic()

train gan(image: [batch, 64]):
  fake = stop_gradient(random_normal([batch, 16]) |> generator)
  minimize mean(softplus(-(image |> critic))) + mean(softplus(fake |> critic)) over critic
  minimize mean(softplus(-(fake |> critic))) over generator
""",
    ),
    "cache_along_the_heads": (
        "E0315",
        "[:, :, position:position + s]",
        """\
block Head(capacity)(q: [n, h, s, d], k: [n, h, s, d], v: [n, h, s, d], position: i32[])
    -> [n, h, s, d]
    where 0 <= position, position + s <= capacity:
  cache keys: [n, h, capacity, d]
  cache values: [n, h, capacity, d]
  update keys[:, position:position + s] = k
  update values[:, position:position + s] = v
  return attention(q, keys, values, causal=true, offset=position)
""",
    ),
    "cache_of_one_call": (
        "E0315",
        "",
        """\
block Head(capacity)(k: [n, h, s, d], position: i32[]) -> [n, h, capacity, d]
    where 0 <= position, position + s <= capacity:
  cache keys: [n, h, s, d]
  update keys[:, :, position:position + s] = k
  return keys
""",
    ),
    "one_label_in_a_loop": (
        "E0205",
        "fc[i]: linear(d)",
        """\
block Net(layers)(x: [n, d]) -> [n, d]:
  for i in 0..layers:
    x = x |> fc: linear(d) |> relu
  return x
""",
    ),
    "experts_without_expand": (
        "E0301",
        "expand(gate, [n, s, e] -> [n, s, e, d])",
        """\
block Moe(e)(x: [n, s, d]) -> [n, s, d]:
  gate = x |> router: linear(e) |> softmax
  experts = x |> up: linear(e * d) |> rearrange([n, s, e * d] -> [n, s, e, d])
  return sum(experts * gate, 2)
""",
    ),
    "condition_without_expand": (
        "E0301",
        "[n, c] -> [n, c, h, w])",
        """\
block Film(c)(x: [n, c_in, h, w], t: [n, k]) -> [n, c, h, w]:
  y = x |> conv: conv2d(c, 3, pad=1)
  s = t |> cond: linear(2 * c)
  return y * (1 + s[:, :c]) + s[:, c:]
""",
    ),
    "axis_called_dim": (
        "E0202",
        "softmax(x, -1)",
        """\
block Probs()(x: [n, classes]) -> [n, classes]:
  return softmax(x, dim=-1)
""",
    ),
}
"""The code of the first problem, a fragment of its cure where it has one, and the program."""

WIDTHS_OF_NORMS = """\
block Net()(x: [n, 64, h, w]) -> [n, 64, h, w]:
  return x |> norm: {norm}
"""


def _problems(text: str) -> tuple[Source, list[Report]]:
    source = Source("example.mgn", text)
    result = pipeline.check(source, lambda _module: None)
    return source, [problem.report() for problem in result.problems]


def _errors(reports: list[Report]) -> list[Report]:
    return [report for report in reports if report.severity is Severity.ERROR]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_cure_and_is_never_fixed_away(name: str) -> None:
    code, cure, text = MISTAKES[name]
    source, reports = _problems(text)
    first = _errors(reports)[0]
    assert first.code == code
    assert cure in " ".join(render(first, colour=False).split("help:")[-1].split())
    for _ in range(8):
        chosen = next_fixes(reports, source, unsafe=True)
        if not chosen:
            break
        edits = [edit for each in chosen if each.help is not None for edit in each.help.edits]
        source, reports = _problems(apply(source.text, edits))
    assert _errors(reports)


@pytest.mark.parametrize(
    ("norm", "cure"),
    [
        ("batch_norm(64)", "`batch_norm`"),
        ("layer_norm(w)", "`layer_norm`"),
        ("group_norm(8, 64)", "`group_norm(8)`"),
        ("instance_norm(64)", "`instance_norm`"),
        ("rms_norm(64)", "`rms_norm`"),
        ("ghost_batch_norm(2, 64)", "`ghost_batch_norm(2)`"),
    ],
)
def test_the_width_of_a_norm_is_no_eps(norm: str, cure: str) -> None:
    _, reports = _problems(WIDTHS_OF_NORMS.format(norm=norm))
    (error,) = _errors(reports)
    assert error.code == "E0311"
    assert cure in render(error, colour=False)
