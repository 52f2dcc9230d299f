"""RWKV-7 as its paper writes it, a token after the other, with the names of the checkpoints."""

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn

VECTORS = ("x_r", "x_w", "x_k", "x_v", "x_a", "x_g", "w0", "a0", "k_k", "k_a")


def before(x: torch.Tensor) -> torch.Tensor:
    """Each token's own is that of the one before it."""
    return torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)


class TimeMix(nn.Module):
    """`TimeMix` of rwkv.mgn; without a `rank` it is that of the first layer."""

    def __init__(self, d: int, heads: int, ranks: dict[str, int], rank: int) -> None:
        super().__init__()
        self.heads = heads
        ranks = {**ranks, **({"v": rank} if rank else {})}
        vectors = (*VECTORS, *(("v0",) if rank else ()))
        for name in vectors:
            self.register_parameter(name, nn.Parameter(torch.randn(1, 1, d)))
        for name, each in ranks.items():
            self.register_parameter(f"{name}1", nn.Parameter(torch.randn(d, each)))
            self.register_parameter(f"{name}2", nn.Parameter(torch.randn(each, d)))
        self.r_k = nn.Parameter(torch.randn(heads, d // heads))
        self.receptance = nn.Linear(d, d, bias=False)
        self.key = nn.Linear(d, d, bias=False)
        self.value = nn.Linear(d, d, bias=False)
        self.output = nn.Linear(d, d, bias=False)
        self.ln_x = nn.GroupNorm(heads, d, eps=64e-5)

    def forward(self, x: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n, s, d = x.shape
        heads = (n, s, self.heads, d // self.heads)
        own = dict(self.named_parameters(recurse=False))
        xr, xw, xk, xv, xa, xg = (x + (before(x) - x) * own[f"x_{name}"] for name in "rwkvag")
        r, k, v = self.receptance(xr), self.key(xk), self.value(xv)
        w = -F.softplus(-(own["w0"] + torch.tanh(xw @ own["w1"]) @ own["w2"])) - 0.5
        if "v0" in own:
            v = v + (first - v) * torch.sigmoid(own["v0"] + xv @ own["v1"] @ own["v2"])
        a = torch.sigmoid(own["a0"] + xa @ own["a1"] @ own["a2"])
        g = torch.sigmoid(xg @ own["g1"]) @ own["g2"]
        kk = F.normalize((k * own["k_k"]).view(heads), dim=-1)
        k = (k * (1 + (a - 1) * own["k_a"])).view(heads)
        r, w, a, u = (each.view(heads) for each in (r, torch.exp(-torch.exp(w)), a, v))
        state = torch.zeros(n, self.heads, heads[3], heads[3]).to(x)
        found: list[torch.Tensor] = []
        for t in range(s):
            removed = torch.einsum("nhvk,nhk,nhl->nhvl", state, kk[:, t], kk[:, t] * a[:, t])
            taken = torch.einsum("nhv,nhk->nhvk", u[:, t], k[:, t])
            state = state * w[:, t, :, None] - removed + taken
            found.append(torch.einsum("nhvk,nhk->nhv", state, r[:, t]))
        y = self.ln_x(torch.stack(found, 1).view(n * s, d)).view(n, s, d)
        y = y + ((r * k * self.r_k).sum(-1, keepdim=True) * u).view(n, s, d)
        return self.output(y * g), v


class ChannelMix(nn.Module):
    """`ChannelMix` of rwkv.mgn."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.x_k = nn.Parameter(torch.randn(1, 1, d))
        self.key = nn.Linear(d, 4 * d, bias=False)
        self.value = nn.Linear(4 * d, d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value(torch.relu(self.key(x + (before(x) - x) * self.x_k)) ** 2)


class Layer(nn.Module):
    """`Layer` of rwkv.mgn; the first one has a norm before it."""

    def __init__(self, d: int, heads: int, ranks: dict[str, int], rank: int) -> None:
        super().__init__()
        if not rank:
            self.ln0 = nn.LayerNorm(d)
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att, self.ffn = TimeMix(d, heads, ranks, rank), ChannelMix(d)

    def forward(self, x: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y, v = self.att(self.ln1(x), first)
        x = x + y
        return x + self.ffn(self.ln2(x)), v


class Rwkv(nn.Module):
    """`Rwkv` of rwkv.mgn."""

    def __init__(
        self, vocabulary: int, d: int, layers: int, heads: int, ranks: dict[str, int], rank: int
    ) -> None:
        super().__init__()
        self.emb = nn.Embedding(vocabulary, d)
        self.blocks = nn.ModuleList(
            Layer(d, heads, ranks, rank if at else 0) for at in range(layers)
        )
        self.ln_out = nn.LayerNorm(d)
        self.head = nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        first_layer, *others = self.blocks
        x = first_layer.get_submodule("ln0")(self.emb(ids))
        x, first = first_layer(x, x)
        for layer in others:
            x, _ = layer(x, first)
        return self.head(self.ln_out(x))
