"""A source of data: examples that are drawn, with a tenth of them held out."""

from dataclasses import dataclass

import numpy as np

from meganeura_dsl.settings.data_source import DataRequest, DataSource
from meganeura_dsl.transforms.optimizers.hyperparameters import Count, NonNegative


@dataclass(frozen=True)
class Spiral(DataSource):
    """Points on two arms of a spiral: `x`, f32[n, 2], and the number of the arm, `label`."""

    word = "spiral"

    points: Count = 200
    noise: NonNegative = 0.1
    seed: Count = 0

    def __post_init__(self) -> None:
        if self.points < 10:
            raise ValueError("needs at least 10 points")

    def examples(self, request: DataRequest) -> dict[str, np.ndarray]:
        del request  # it is drawn, and not read from a folder
        random = np.random.default_rng(self.seed)
        label = np.arange(self.points) % 2
        angle = random.uniform(0.5, 3, self.points) * np.pi
        radius = np.where(label == 0, angle, -angle)
        x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        x += random.normal(scale=self.noise, size=x.shape) if self.noise else 0
        split = self.points // 10
        arrays = {"x": x.astype(np.float32), "label": label.astype(np.int32)}
        test = {f"test.{name}": each[:split] for name, each in arrays.items()}
        return test | {f"train.{name}": each[split:] for name, each in arrays.items()}
