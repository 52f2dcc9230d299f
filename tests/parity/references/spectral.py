"""A Gaussian process by torch.linalg, a state-space model and a Fourier operator by torch.fft."""

import math

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn


class Features(nn.Module):
    """`Features` of gp.mgn."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(1, hidden)
        self.fc2 = nn.Linear(hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.fc2(torch.tanh(self.fc1(x))))


class Process(nn.Module):
    """`Process` of gp.mgn: likelihood of known values, mean and variance of others."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(0.0))
        self.log_length = nn.Parameter(torch.tensor(0.0))
        self.log_noise = nn.Parameter(torch.tensor(-4.0))
        self.features = Features(hidden)

    def kernel(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = (self.features(each) / self.log_length.exp() for each in (x, y))
        squares = (a[..., :, None, :] - b[..., None, :, :]).pow(2).sum(-1)
        return self.log_scale.exp() * torch.exp(-squares / 2)

    def forward(
        self, x: torch.Tensor, y: torch.Tensor, query: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        one = torch.eye(x.shape[-2], dtype=x.dtype)
        known = self.kernel(x, x) + (self.log_noise.exp() + 1e-4) * one
        across = self.kernel(query, x)
        found = torch.linalg.solve(known, torch.cat([y[..., None], across.mT], -1))
        likelihood = torch.distributions.MultivariateNormal(torch.zeros_like(y), known)
        variance = self.log_scale.exp() - (across.mT * found[..., 1:]).sum(-2)
        return likelihood.log_prob(y), (across @ found[..., :1])[..., 0], variance


class Kernel(nn.Module):
    """`Kernel` of s4d.mgn, in complex numbers."""

    def __init__(self, channels: int, states: int) -> None:
        super().__init__()
        self.log_step = nn.Parameter(torch.zeros(channels))
        self.log_decay = nn.Parameter(torch.zeros(channels, states))
        self.turn = nn.Parameter(torch.zeros(channels, states))
        self.C_re = nn.Parameter(torch.zeros(channels, states))
        self.C_im = nn.Parameter(torch.zeros(channels, states))

    def forward(self, length: int) -> torch.Tensor:
        t = torch.arange(length, dtype=self.turn.dtype)
        speed = math.pi * torch.arange(self.turn.shape[1], dtype=t.dtype) + self.turn
        a = torch.complex(-0.5 * self.log_decay.exp(), speed)
        by = a * (self.log_step - math.log(100)).exp()[:, None]
        c = torch.complex(self.C_re, self.C_im) * (by.exp() - 1) / a
        return 2 * (c[..., None] * (by[..., None] * t).exp()).sum(1).real


class S4DLayer(nn.Module):
    """`S4D` of s4d.mgn."""

    def __init__(self, channels: int, states: int) -> None:
        super().__init__()
        self.D = nn.Parameter(torch.zeros(channels))
        self.kernel = Kernel(channels, states)
        self.out = nn.Conv1d(channels, 2 * channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n = 2 * x.shape[-1]
        k = torch.fft.rfft(self.kernel(x.shape[-1]), n=n)
        y = torch.fft.irfft(torch.fft.rfft(x, n=n) * k, n=n)[..., : x.shape[-1]]
        return F.glu(self.out(F.gelu(y + x * self.D[:, None])), 1)


class S4D(nn.Module):
    """`Net` of s4d.mgn."""

    def __init__(self, inputs: int, width: int, depth: int, states: int, classes: int) -> None:
        super().__init__()
        self.encoder = nn.Conv1d(inputs, width, 1)
        self.norms = nn.ModuleList(nn.GroupNorm(1, width) for _ in range(depth))
        self.layers = nn.ModuleList(S4DLayer(width, states) for _ in range(depth))
        self.decoder = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.encoder(x)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            h = h + layer(norm(h))
        return self.decoder(h.mean(2))


class SpectralConv(nn.Module):
    """`SpectralConv` of fno.mgn, in complex numbers."""

    def __init__(self, channels: int, modes: int) -> None:
        super().__init__()
        self.weight_re = nn.Parameter(torch.zeros(modes, channels, channels))
        self.weight_im = nn.Parameter(torch.zeros(modes, channels, channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.complex(self.weight_re, self.weight_im)
        low = torch.fft.rfft(x)[..., : len(weight)]
        return torch.fft.irfft(torch.einsum("nik,kio->nok", low, weight), n=x.shape[-1])


class Fno(nn.Module):
    """`Fno` of fno.mgn."""

    def __init__(self, width: int, depth: int, modes: int) -> None:
        super().__init__()
        self.lift = nn.Conv1d(2, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(depth))
        self.project = nn.Conv1d(width, 2 * width, 1)
        self.out = nn.Conv1d(2 * width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = torch.arange(x.shape[1], dtype=x.dtype) / x.shape[1]
        h = self.lift(torch.stack([x, place.expand_as(x)], 1))
        for spectral, local in zip(self.spectral, self.local, strict=True):
            h = F.gelu(spectral(h) + local(h))
        return self.out(F.gelu(self.project(h)))[:, 0]
