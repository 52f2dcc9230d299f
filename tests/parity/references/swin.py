"""The Swin transformer in plain PyTorch, with timm's names; windows are found pixel by pixel."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn


class WindowAttention(nn.Module):
    def __init__(self, d: int, heads: int, window: int) -> None:
        super().__init__()
        self.heads, self.window = heads, window
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x: torch.Tensor, shift: int) -> torch.Tensor:
        """Each pixel looks at those of its window that are near it in the picture."""
        n, h, w, d = x.shape
        q, k, v = self.qkv(x).view(n, h * w, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        row = torch.arange(h * w) // w
        column = torch.arange(h * w) % w
        rolled = torch.stack([(row - shift) % h, (column - shift) % w])
        apart = rolled[:, :, None] - rolled[:, None, :]
        same = (rolled // self.window)[:, :, None] == (rolled // self.window)[:, None, :]
        near = apart == torch.stack([row[:, None] - row, column[:, None] - column])
        seen = (same & near).all(0)
        place = (apart[0] + self.window - 1) * (2 * self.window - 1) + apart[1] + self.window - 1
        bias = self.relative_position_bias_table[torch.where(seen, place, 0)].permute(2, 0, 1)
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5 + bias
        y = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(n, h, w, d))


class SwinLayer(nn.Module):
    def __init__(self, d: int, heads: int, window: int, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.norm1 = nn.LayerNorm(d)
        self.attn = WindowAttention(d, heads, window)
        self.norm2 = nn.LayerNorm(d)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, 4 * d), "fc2": nn.Linear(4 * d, d)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x), self.shift)
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class PatchMerging(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * d)
        self.reduction = nn.Linear(4 * d, 2 * d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x[:, :, 0::2], x[:, :, 1::2]
        parts = [left[:, 0::2], left[:, 1::2], right[:, 0::2], right[:, 1::2]]
        return self.reduction(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    def __init__(
        self,
        d: int,
        depths: Sequence[int],
        heads: Sequence[int],
        window: int,
        image: int,
        patch: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.patch_embed = nn.ModuleDict(
            {"proj": nn.Conv2d(3, d, patch, patch), "norm": nn.LayerNorm(d)}
        )
        stages: list[nn.Module] = []
        for i, (depth, of) in enumerate(zip(depths, heads, strict=True)):
            shift = window // 2 if image // patch // 2**i > window else 0
            width = d * 2**i
            stage = nn.Sequential()
            if i:
                stage.add_module("downsample", PatchMerging(width // 2))
            layers = (SwinLayer(width, of, window, shift if j % 2 else 0) for j in range(depth))
            stage.add_module("blocks", nn.Sequential(*layers))
            stages.append(stage)
        self.layers = nn.Sequential(*stages)
        self.norm = nn.LayerNorm(d * 2 ** (len(depths) - 1))
        self.head = nn.ModuleDict({"fc": nn.Linear(d * 2 ** (len(depths) - 1), classes)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed["norm"](self.patch_embed["proj"](x).permute(0, 2, 3, 1))
        return self.head["fc"](self.norm(self.layers(x)).mean((1, 2)))
