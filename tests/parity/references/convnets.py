"""DenseNet, MobileNetV2 and EfficientNet in plain PyTorch, with torchvision's names."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn

# --- DenseNet ------------------------------------------------------------------------------------


class DenseLayer(nn.Module):
    """What one layer of a block adds to its channels."""

    def __init__(self, inner: int, growth: int, bn_size: int = 4) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inner)
        self.conv1 = nn.Conv2d(inner, bn_size * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(bn_size * growth)
        self.conv2 = nn.Conv2d(bn_size * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(F.relu(self.norm2(y)))], 1)


def _dense_block(inner: int, layers: int, growth: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            (f"denselayer{index + 1}", DenseLayer(inner + index * growth, growth))
            for index in range(layers)
        )
    )


def _transition(inner: int) -> nn.Sequential:
    parts = {
        "norm": nn.BatchNorm2d(inner),
        "relu": nn.ReLU(),
        "conv": nn.Conv2d(inner, inner // 2, 1, bias=False),
        "pool": nn.AvgPool2d(2),
    }
    return nn.Sequential(OrderedDict(parts))


class DenseNet(nn.Module):
    """`DenseNet` of densenet.mgn."""

    def __init__(self, growth: int, depths: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, width, 7, 2, 3, bias=False),
            norm0=nn.BatchNorm2d(width),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, 2, 1),
        )
        for index, layers in enumerate(depths):
            parts[f"denseblock{index + 1}"] = _dense_block(width, layers, growth)
            width += layers * growth
            if index < len(depths) - 1:
                parts[f"transition{index + 1}"] = _transition(width)
                width //= 2
        parts["norm5"] = nn.BatchNorm2d(width)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(F.relu(self.features(x)).mean((2, 3)))


# --- MobileNetV2 ---------------------------------------------------------------------------------


def _conv_norm(inner: int, outer: int, kernel: int, stride: int, groups: int,
               activation: nn.Module | None) -> nn.Sequential:  # fmt: skip
    convolution = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    active = [] if activation is None else [activation]
    return nn.Sequential(convolution, nn.BatchNorm2d(outer), *active)


class InvertedResidual(nn.Module):
    """`InvertedResidual` of mobilenet.mgn."""

    def __init__(self, inner: int, outer: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * inner
        widened = [] if expansion == 1 else [_conv_norm(inner, hidden, 1, 1, 1, nn.ReLU6())]
        self.conv = nn.Sequential(
            *widened,
            _conv_norm(hidden, hidden, 3, stride, hidden, nn.ReLU6()),
            nn.Conv2d(hidden, outer, 1, bias=False),
            nn.BatchNorm2d(outer),
        )
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x) if self.is_residual else self.conv(x)


class MobileNetV2(nn.Module):
    """`MobileNetV2` of mobilenet.mgn."""

    def __init__(self, stages: Sequence[Sequence[int]], width: int, last: int,
                 classes: int) -> None:  # fmt: skip
        super().__init__()
        features: list[nn.Module] = [_conv_norm(3, width, 3, 2, 1, nn.ReLU6())]
        for expansion, outer, depth, stride in stages:
            for index in range(depth):
                first = stride if index == 0 else 1
                features.append(InvertedResidual(width, outer, first, expansion))
                width = outer
        features.append(_conv_norm(width, last, 1, 1, 1, nn.ReLU6()))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(last, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


# --- EfficientNet --------------------------------------------------------------------------------


class SqueezeExcitation(nn.Module):
    """`SqueezeExcitation` of efficientnet.mgn."""

    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.fc2(F.silu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * torch.sigmoid(scale)


class MBConv(nn.Module):
    """`MBConv` of efficientnet.mgn, without a dropped branch."""

    def __init__(self, inner: int, outer: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * inner
        widened = [] if expansion == 1 else [_conv_norm(inner, hidden, 1, 1, 1, nn.SiLU())]
        self.block = nn.Sequential(
            *widened,
            _conv_norm(hidden, hidden, kernel, stride, hidden, nn.SiLU()),
            SqueezeExcitation(hidden, max(1, inner // 4)),
            _conv_norm(hidden, outer, 1, 1, 1, None),
        )
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x) if self.is_residual else self.block(x)


class EfficientNet(nn.Module):
    """`EfficientNet` of efficientnet.mgn, without dropout."""

    def __init__(self, stages: Sequence[Sequence[int]], width: int, last: int,
                 classes: int) -> None:  # fmt: skip
        super().__init__()
        features: list[nn.Module] = [_conv_norm(3, width, 3, 2, 1, nn.SiLU())]
        for expansion, kernel, stride, outer, depth in stages:
            blocks: list[nn.Module] = []
            for index in range(depth):
                first = stride if index == 0 else 1
                blocks.append(MBConv(width, outer, kernel, first, expansion))
                width = outer
            features.append(nn.Sequential(*blocks))
        features.append(_conv_norm(width, last, 1, 1, 1, nn.SiLU()))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(last, classes))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))
