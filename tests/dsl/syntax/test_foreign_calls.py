"""A call behind a dot is answered with code of the program's own names, which is proved."""

import pytest

from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.diagnostics.terminal import render
from meganeura_dsl.pipeline import check

HEADER = (
    "block Net(heads)(x: [n, d], y: [n, d], z: [n, c, h, w], t: [n, s, d], u: [n, s, d],"
    " l: [n, k, d], m: [n, s], mask: bool[n, s], seen: bool[n, d]) -> [n, d]\n"
    "    where d % heads == 0, d >= 8, h >= 8, w >= 8, s >= 2:\n"
    "  q = t |> q: linear(d) |> rearrange([n, s, heads * e] -> [n, heads, s, e])\n"
)
CALLS = {
    "t.view(n, s, heads, d // heads)": "rearrange(t, [n, s, heads * e] -> [n, s, heads, e])",
    "t.reshape(n, -1)": "rearrange(t, [n, s, d] -> [n, s * d])",
    "z.view(z.size(0), -1)": "rearrange(z, [n, c, h, w] -> [n, c * h * w])",
    "z.flatten(2)": "rearrange(z, [n, c, h, w] -> [n, c, h * w])",
    "torch.flatten(z, 1)": "rearrange(z, [n, c, h, w] -> [n, c * h * w])",
    "z.permute(0, 2, 3, 1)": "rearrange(z, [n, c, h, w] -> [n, h, w, c])",
    "q.transpose(-1, -2)": "rearrange(q, [n, heads, s, e] -> [n, heads, e, s])",
    "np.moveaxis(z, 1, -1)": "rearrange(z, [n, c, h, w] -> [n, h, w, c])",
    "jnp.swapaxes(t, 1, 2)": "rearrange(t, [n, s, d] -> [n, d, s])",
    "t.view(n, s, heads, -1).transpose(1, 2)": (
        "rearrange(t, [n, s, heads * e] -> [n, heads, s, e])"
    ),
    "torch.cat([x, y], 1)": "concat(x, y, axis=1)",
    "torch.cat((x, y), dim=-1)": "concat(x, y, axis=-1)",
    "np.concatenate([x, y])": "concat(x, y, axis=0)",
    "torch.stack([x, y], dim=1)": "concat(insert_axis(x, 1, 1), insert_axis(y, 1, 1), axis=1)",
    "z.mean(dim=(2, 3))": "mean(z, 2, 3)",
    "z.mean((2, 3), keepdim=True)": (
        "insert_axis(insert_axis(mean(z, 2, 3), 2, size(z, 2)), 3, size(z, 3))"
    ),
    "x.sum(-1, keepdim=True)": "insert_axis(sum(x, -1), -1, size(x, -1))",
    "torch.softmax(x, dim=-1)": "softmax(x)",
    "F.softmax(t, dim=1)": "softmax(axis=1)(t)",
    "t.log_softmax(2)": "log_softmax(t)",
    "t * m.unsqueeze(-1)": "expand(m, [n, s] -> [n, s, d])",
    "m.unsqueeze(1)": "rearrange(m, [n, s] -> [n, 1, s])",
    "x.masked_fill(seen, -1e9)": "where(seen, -1e9, x)",
    "t.masked_fill(mask, 0.0)": "where(expand(mask, [n, s] -> [n, s, d]), 0.0, t)",
    "F.relu(x)": "relu(x)",
    "jax.nn.gelu(x + y)": "gelu(x + y)",
    "torch.clamp(x, 0, 1)": "minimum(maximum(x, 0), 1)",
    "torch.matmul(t, u.transpose(1, 2))": "t @ rearrange(u, [n, s, d] -> [n, d, s])",
    "(x + y).pow(2).mean(1)": "mean((x + y) ** 2, 1)",
    "np.maximum(x, 0)": "maximum(x, 0)",
    "x.neg()": "-x",
    "x.size(0)": "size(x, 0)",
    "torch.zeros(n, d)": "zeros([n, d])",
    "F.dropout(x, p=0.5, training=self.training)": "x |> dropout(0.5)",
    "F.max_pool2d(z, 2)": "z |> max_pool(2)",
    "nn.ReLU()(x)": "relu(x)",
    "nn.Linear(20, 16)(x)": "x |> fc: linear(16)",
    "layers.Dense(16)(x)": "x |> fc: linear(16)",
    "nn.Conv2d(3, 16, 5, padding=1)(z)": "z |> conv1: conv2d(16, 5, pad=1)",
    "torch.zeros_like(x)": "zeros(shape(x))",
    "F.softmax(t @ u.transpose(-2, -1), dim=-1)": (
        "softmax(t @ rearrange(u, [n, s, d] -> [n, d, s]))"
    ),
    'torch.einsum("nsd,nkd->nsk", t, l)': "t @ rearrange(l, [n, k, d] -> [n, d, k])",
}
"""Code, and the answer to it."""


def refused(text: str) -> Report:
    """The one report of a program."""
    (report,) = check(Source("net.mgn", text), nothing_to_import).reports
    assert report.help is not None
    return report


def nothing_to_import(_words: tuple[str, ...]) -> None:
    return None


@pytest.mark.parametrize("call", CALLS)
def test_a_call_is_answered_in_one_step(call: str) -> None:
    report = refused(f"{HEADER}  return {call}\n")
    assert (report.code, report.help and report.help.code) == ("E0138", CALLS[call])


def test_every_answer_is_proved() -> None:
    lines = "".join(
        f"  _y{place} = {code.replace('fc:', f'fc{place}:').replace('conv1:', f'conv{place}:')}\n"
        for place, code in enumerate(CALLS.values())
    )
    text = f"{HEADER}{lines}  return x\n"
    found = check(Source("net.mgn", text), nothing_to_import).reports
    assert not [render(each) for each in found if each.code != "E0207"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("x.std(1)", "PyTorch divides by d - 1"),
        ('x.to("cuda")', "devices are chosen outside"),
        ("unknown.transpose(1, 2)", "rearrange(z, [n, c, d] -> [n, d, c])    # z.transpose(1, 2)"),
        ("x.nonzero()", "keep all"),
        ('torch.einsum("nsd,nsd,n->nd", t, u, v)', "an equation of letters"),
        ("nn.Conv2d(3, 3)(z)", "nn.Conv2d(3, 64, 3, padding=1)(image)"),
    ],
)
def test_what_a_text_does_not_say_is_the_answer_to_the_name(call: str, words: str) -> None:
    report = refused(f"{HEADER}  return {call}\n")
    assert report.code == "E0138"
    assert words in render(report)


def test_behind_a_pipe_a_name_is_enough() -> None:
    text = "block Net()(x: [n, d]) -> [n, d]:\n  return x |> torch.relu\n"
    report = refused(text)
    assert (report.code, report.help and report.help.text) == (
        "E0201",
        "its name is enough: `relu`",
    )
