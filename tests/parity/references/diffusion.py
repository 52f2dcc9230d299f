"""A diffusion transformer in plain PyTorch, with the names of its authors' checkpoints."""

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn

from tests.parity.references.images import VitAttention


def positions(side: int, d: int) -> torch.Tensor:
    """Returns a table [side * side, d]: sines and cosines of the column, then of the row."""
    rate = 10000 ** -(torch.arange(d // 4).double() / (d // 4))
    row, column = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    turns = (each.flatten()[:, None] * rate for each in (column, row))
    return torch.cat([wave for each in turns for wave in (each.sin(), each.cos())], 1)


class Timestep(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(256, d), nn.SiLU(), nn.Linear(d, d))

    def forward(self, level: torch.Tensor) -> torch.Tensor:
        rate = 10000 ** -(torch.arange(128).double() / 128)
        turn = 1000 * level[:, None] * rate.to(level.dtype)
        return self.mlp(torch.cat([turn.cos(), turn.sin()], 1))


def modulation(d: int, parts: int) -> nn.Sequential:
    """Returns the layers that make `parts` vectors of a condition."""
    return nn.Sequential(nn.SiLU(), nn.Linear(d, parts * d))


def modulated(x: torch.Tensor, shift: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Returns normalised tokens, scaled and moved."""
    return F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[:, None]) + shift[:, None]


class DiTBlock(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.attn = VitAttention(d, heads)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, 4 * d), "fc2": nn.Linear(4 * d, d)})
        self.adaLN_modulation = modulation(d, 6)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        move, scale, gate, move2, scale2, gate2 = self.adaLN_modulation(condition).chunk(6, 1)
        x = x + gate[:, None] * self.attn(modulated(x, move, scale))
        y = F.gelu(self.mlp["fc1"](modulated(x, move2, scale2)), approximate="tanh")
        return x + gate2[:, None] * self.mlp["fc2"](y)


class FinalLayer(nn.Module):
    def __init__(self, d: int, out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d, out)
        self.adaLN_modulation = modulation(d, 2)

    def forward(self, x: torch.Tensor, condition: torch.Tensor) -> torch.Tensor:
        return self.linear(modulated(x, *self.adaLN_modulation(condition).chunk(2, 1)))


class DiT(nn.Module):
    """`DiT` of dit.mgn."""

    def __init__(
        self, d: int, layers: int, heads: int, image: int, patch: int, channels: int, classes: int
    ) -> None:
        super().__init__()
        self.patch, self.side, self.results = patch, image // patch, 2 * channels
        self.t_embedder = Timestep(d)
        self.y_embedder = nn.ModuleDict({"embedding_table": nn.Embedding(classes + 1, d)})
        self.x_embedder = nn.ModuleDict({"proj": nn.Conv2d(channels, d, patch, patch)})
        self.blocks = nn.ModuleList(DiTBlock(d, heads) for _ in range(layers))
        self.final_layer = FinalLayer(d, patch * patch * self.results)

    def forward(self, x: torch.Tensor, level: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        condition = self.t_embedder(level) + self.y_embedder["embedding_table"](label)
        h = self.x_embedder["proj"](x).flatten(2).transpose(1, 2)
        h = h + positions(self.side, h.shape[2]).to(h.dtype)
        for each in self.blocks:
            h = each(h, condition)
        h = self.final_layer(h, condition)
        h = h.unflatten(2, (self.patch, self.patch, self.results))
        h = h.unflatten(1, (self.side, self.side))
        return h.permute(0, 5, 1, 3, 2, 4).reshape(len(x), self.results, *x.shape[2:])
