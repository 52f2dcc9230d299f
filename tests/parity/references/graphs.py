"""Networks over graphs in plain PyTorch, with PyTorch Geometric's names."""

import torch
from torch import nn


class SageConv(nn.Module):
    def __init__(self, d: int, out: int, pool: str) -> None:
        super().__init__()
        self.pool = pool
        self.lin_l = nn.Linear(d, out)
        self.lin_r = nn.Linear(d, out, bias=False)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Node by node: what arrives there is averaged, or the largest of it is taken."""
        near: list[torch.Tensor] = []
        for node in range(len(x)):
            arriving = x[source[target == node]]
            if not len(arriving):
                near.append(torch.zeros_like(x[node]))
            else:
                near.append(arriving.mean(0) if self.pool == "mean" else arriving.amax(0))
        return self.lin_l(torch.stack(near)) + self.lin_r(x)


class Sage(nn.Module):
    def __init__(self, d: int, hidden: int, classes: int, pool: str) -> None:
        super().__init__()
        self.conv1 = SageConv(d, hidden, pool)
        self.conv2 = SageConv(hidden, classes, pool)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.conv2(self.conv1(x, source, target).relu(), source, target)
