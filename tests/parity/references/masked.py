"""A masked autoencoder in plain PyTorch, with the names of its authors' checkpoints."""

import torch
from torch import nn

from tests.parity.references.diffusion import positions
from tests.parity.references.images import VitLayer


class Mae(nn.Module):
    """`Mae` of mae.mgn, which returns the pixels of all patches, those of hidden ones times 2."""

    def __init__(self, d: int, layers: int, heads: int, image: int, patch: int, kept: int) -> None:
        super().__init__()
        self.side, self.kept, inner = image // patch, kept, d // 2
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, inner))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, d, patch, patch)})
        self.blocks = nn.Sequential(*(VitLayer(d, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.decoder_embed = nn.Linear(d, inner)
        self.decoder_blocks = nn.Sequential(VitLayer(inner, heads))
        self.decoder_norm = nn.LayerNorm(inner, eps=1e-6)
        self.decoder_pred = nn.Linear(inner, 3 * patch**2)

    def forward(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        h = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        h = h + positions(self.side, h.shape[2]).to(h.dtype)
        row = torch.arange(len(x))[:, None]
        seen = noise.argsort(1)[:, : self.kept]
        h = torch.cat([self.cls_token.expand(len(x), -1, -1), h[row, seen]], 1)
        h = self.decoder_embed(self.norm(self.blocks(h)))
        y = self.mask_token.repeat(len(x), self.side**2, 1)
        y = y.index_put((row, seen), h[:, 1:]) + positions(self.side, h.shape[2]).to(h.dtype)
        y = self.decoder_blocks(torch.cat([h[:, :1], y], 1))
        hidden = torch.ones_like(noise).scatter(1, seen, 0)
        return self.decoder_pred(self.decoder_norm(y))[:, 1:] * (1 + hidden[:, :, None])
