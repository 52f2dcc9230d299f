"""Layers and losses of Keras 3, by their documented definitions and defaults, in NumPy.

Weights are drawn in the layouts that PyTorch has; images are [n, c, h, w] here too.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np

from meganeura_dsl.ir.graph import Array

Loss = Callable[[Array, Array], Array]


class Drawn:
    """A layer with weights, in the order in which they are declared here."""

    weights: Sequence[Array] = ()

    def draw(self, *shapes: tuple[int, ...]) -> None:
        """Make weights of these shapes."""
        generator = np.random.default_rng(1)
        self.weights = [generator.uniform(0.1, 1, shape) for shape in shapes]


class Dense(Drawn):
    def __init__(self, units: int) -> None:
        self.units = units

    def __call__(self, x: Array) -> Array:
        self.draw((self.units, x.shape[-1]), (self.units,))
        kernel = self.weights[0].T
        return x @ kernel + self.weights[1]


class Conv2D(Drawn):
    """The sum over a window of each pixel; `same` adds zeros around, for a stride of 1."""

    def __init__(self, filters: int, size: int, padding: str) -> None:
        assert padding == "same"
        assert size % 2
        self.filters, self.size = filters, size

    def __call__(self, image: Array) -> Array:
        self.draw((self.filters, image.shape[1], self.size, self.size), (self.filters,))
        half = self.size // 2
        height, width = image.shape[2:]
        padded = np.pad(image, ((0, 0), (0, 0), (half, half), (half, half)))
        out = np.zeros((image.shape[0], self.filters, height, width))
        for row in range(self.size):
            for column in range(self.size):
                window = padded[:, :, row : row + height, column : column + width]
                out += np.einsum("nihw,oi->nohw", window, self.weights[0][:, :, row, column])
        return out + self.weights[1][:, None, None]


class Conv2DTranspose(Drawn):
    """Each pixel times the kernel, added into the result; windows do not overlap."""

    def __init__(self, filters: int, size: int, strides: int) -> None:
        assert size == strides
        self.filters, self.size = filters, size

    def __call__(self, image: Array) -> Array:
        self.draw((image.shape[1], self.filters, self.size, self.size), (self.filters,))
        parts = np.einsum("nihw,iokl->nohkwl", image, self.weights[0])
        n, c, height, k, width, _ = parts.shape
        return parts.reshape(n, c, height * k, width * k) + self.weights[1][:, None, None]


class BatchNormalization(Drawn):
    """In inference, by the moving mean and variance; epsilon is 1e-3."""

    def __init__(self, axis: int) -> None:
        assert axis == 1

    def __call__(self, image: Array) -> Array:
        channels = (image.shape[1],)
        self.draw(channels, channels, channels, channels, ())
        gamma, beta, mean, variance = (each[:, None, None] for each in self.weights[:4])
        return gamma * (image - mean) / np.sqrt(variance + 1e-3) + beta


class LayerNormalization(Drawn):
    """Over the last axis; epsilon is 1e-3."""

    def __call__(self, x: Array) -> Array:
        self.draw((x.shape[-1],), (x.shape[-1],))
        gamma, beta = self.weights
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return gamma * (x - mean) / np.sqrt(variance + 1e-3) + beta


def _windows(image: Array) -> Array:
    """The windows of 2 by 2 that do not overlap, in the last axis."""
    n, c, height, width = image.shape
    parts = image.reshape(n, c, height // 2, 2, width // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    return parts.reshape(n, c, height // 2, width // 2, 4)


def _huber(true: Array, predicted: Array) -> Array:
    off = np.abs(predicted - true)
    return np.asarray(np.mean(np.where(off <= 1, 0.5 * off**2, off - 0.5)))


layers = SimpleNamespace(
    Dense=Dense,
    Conv2D=Conv2D,
    Conv2DTranspose=Conv2DTranspose,
    BatchNormalization=BatchNormalization,
    LayerNormalization=LayerNormalization,
    Reshape=lambda shape: lambda z: z.reshape(len(z), *shape),
    Flatten=lambda: lambda z: z.reshape(len(z), -1),
    Permute=lambda axes: lambda z: z.transpose(0, *axes),
    RepeatVector=lambda times: lambda x: np.stack([x] * times, 1),
    Concatenate=lambda: lambda parts: np.concatenate(parts, -1),
    Dot=lambda _axes: lambda pair: np.matmul(*pair),
    Add=lambda: lambda pair: pair[0] + pair[1],
    Multiply=lambda: lambda pair: pair[0] * pair[1],
    MaxPool2D=lambda: lambda image: _windows(image).max(-1),
    AveragePooling2D=lambda: lambda image: _windows(image).mean(-1),
    GlobalAveragePooling2D=lambda: lambda image: image.mean((2, 3)),
    GlobalMaxPooling2D=lambda: lambda image: image.max((2, 3)),
    UpSampling2D=lambda: lambda image: image.repeat(2, 2).repeat(2, 3),
    LeakyReLU=lambda: lambda x: np.where(x > 0, x, 0.3 * x),
)
losses = SimpleNamespace(
    MeanSquaredError=lambda: lambda true, predicted: np.mean((predicted - true) ** 2),
    MeanAbsoluteError=lambda: lambda true, predicted: np.mean(np.abs(predicted - true)),
    Huber=lambda: _huber,
)
