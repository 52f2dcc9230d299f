"""Convolutional networks in plain PyTorch, with torchvision's names."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn

# --- DenseNet ------------------------------------------------------------------------------------


class DenseLayer(nn.Module):
    """A layer of a dense block, which adds channels."""

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


# --- MobileNetV3 ---------------------------------------------------------------------------------


class HardSwish(nn.Module):
    """In full double precision; PyTorch's own multiplies its gradient by a sixth in float32."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * F.relu6(x + 3) / 6


class HardSqueeze(nn.Module):
    """`SqueezeExcitation` of mobilenet_v3.mgn."""

    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeeze, 1)
        self.fc2 = nn.Conv2d(squeeze, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True))))
        return x * F.relu6(scale + 3) / 6


def _slow_norm(inner: int, outer: int, kernel: int, stride: int, groups: int,
               act: nn.Module | None) -> nn.Sequential:  # fmt: skip
    found = _conv_norm(inner, outer, kernel, stride, groups, act)
    found[1] = nn.BatchNorm2d(outer, eps=0.001, momentum=0.01)
    return found


class HardResidual(nn.Module):
    """`InvertedResidual` of mobilenet_v3.mgn."""

    def __init__(self, inner: int, layer: Sequence[int]) -> None:
        super().__init__()
        kernel, hidden, outer, squeeze, swish, stride = layer
        act = HardSwish() if swish else nn.ReLU()
        parts = [] if hidden == inner else [_slow_norm(inner, hidden, 1, 1, 1, act)]
        parts.append(_slow_norm(hidden, hidden, kernel, stride, hidden, act))
        squeezes = [HardSqueeze(hidden, squeeze)] if squeeze else []
        self.block = nn.Sequential(*parts, *squeezes, _slow_norm(hidden, outer, 1, 1, 1, None))
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x) if self.is_residual else self.block(x)


class MobileNetV3(nn.Module):
    """`MobileNetV3` of mobilenet_v3.mgn, without dropout."""

    def __init__(
        self, layers: Sequence[Sequence[int]], last: int, classes: int, width: int
    ) -> None:
        super().__init__()
        features: list[nn.Module] = [_slow_norm(3, width, 3, 2, 1, HardSwish())]
        for layer in layers:
            features.append(HardResidual(width, layer))
            width = layer[2]
        features.append(_slow_norm(width, 6 * width, 1, 1, 1, HardSwish()))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Linear(6 * width, last), HardSwish(), nn.Dropout(0.0), nn.Linear(last, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


# --- ConvNeXt ------------------------------------------------------------------------------------


class ChannelNorm(nn.LayerNorm):
    """A layer norm of the channels at each place."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - PyTorch's name
        return super().forward(input.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Places(nn.Module):
    """[n, c, h, w] as [n, h, w, c], or back."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(self.order)


class ConvNextLayer(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((d, 1, 1), 0.5))
        self.block = nn.Sequential(
            nn.Conv2d(d, d, 7, padding=3, groups=d),
            Places(0, 2, 3, 1),
            nn.LayerNorm(d, 1e-6),
            nn.Linear(d, 4 * d),
            nn.GELU(),
            nn.Linear(4 * d, d),
            Places(0, 3, 1, 2),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer_scale * self.block(x)


class ConvNext(nn.Module):
    """`ConvNext` of convnext.mgn, without a dropped branch."""

    def __init__(self, stages: Sequence[tuple[int, int]], patch: int, classes: int) -> None:
        super().__init__()
        width = stages[0][0]
        features: list[nn.Module] = [
            nn.Sequential(nn.Conv2d(3, width, patch, patch), ChannelNorm(width, 1e-6))
        ]
        for index, (d, depth) in enumerate(stages):
            if index:
                features.append(nn.Sequential(ChannelNorm(width, 1e-6), nn.Conv2d(width, d, 2, 2)))
            features.append(nn.Sequential(*(ConvNextLayer(d) for _ in range(depth))))
            width = d
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.LayerNorm(width, 1e-6), nn.Identity(), nn.Linear(width, classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean((2, 3)))


# --- EfficientNet-Lite ---------------------------------------------------------------------------


class SameConv(nn.Conv2d):
    """A convolution that pads as TensorFlow does: what is odd stands behind."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - as Conv2d's
        (k, _), (stride, _) = self.kernel_size, self.stride
        h, w = ((size - 1) // stride * stride + k - size for size in input.shape[2:])
        return super().forward(F.pad(input, [w // 2, w - w // 2, h // 2, h - h // 2]))


def _lite_conv(inner: int, outer: int, k: int, stride: int = 1, groups: int = 1, *,
               same: bool) -> nn.Conv2d:  # fmt: skip
    if same:
        return SameConv(inner, outer, k, stride, groups=groups, bias=False)
    return nn.Conv2d(inner, outer, k, stride, k // 2, groups=groups, bias=False)


class LiteBlock(nn.Module):
    """`Separable` and `InvertedResidual` of efficientnet_lite.mgn, by timm's names."""

    def __init__(
        self, inner: int, outer: int, k: int, stride: int, expansion: int, *, same: bool, eps: float
    ) -> None:
        super().__init__()
        hidden = expansion * inner
        filtered = _lite_conv(hidden, hidden, k, stride, hidden, same=same)
        convs = {"conv_dw": filtered, "conv_pw": nn.Conv2d(hidden, outer, 1, bias=False)}
        if expansion > 1:
            widened = nn.Conv2d(inner, hidden, 1, bias=False)
            convs = {"conv_pw": widened, "conv_dw": filtered, "conv_pwl": convs["conv_pw"]}
        for index, (name, conv) in enumerate(convs.items()):
            self.add_module(name, conv)
            self.add_module(f"bn{index + 1}", nn.BatchNorm2d(conv.out_channels, eps))
        self.is_residual = stride == 1 and inner == outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, parts = x, list(self.children())
        for index, part in enumerate(parts):
            y = part(y)
            if index % 2 == 1 and index < len(parts) - 1:
                y = F.relu6(y)
        return x + y if self.is_residual else y


class EfficientNetLite(nn.Module):
    """`EfficientNetLite` of efficientnet_lite.mgn, without what is dropped."""

    def __init__(
        self, stages: Sequence[Sequence[int]], width: int, last: int, classes: int, *, same: bool,
        eps: float,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv_stem = _lite_conv(3, width, 3, 2, same=same)
        self.bn1 = nn.BatchNorm2d(width, eps)
        rows: list[nn.Module] = []
        for expansion, k, stride, outer, depth in stages:
            row: list[nn.Module] = []
            for index in range(depth):
                step = stride if index == 0 else 1
                row.append(LiteBlock(width, outer, k, step, expansion, same=same, eps=eps))
                width = outer
            rows.append(nn.Sequential(*row))
        self.blocks = nn.Sequential(*rows)
        self.conv_head = nn.Conv2d(width, last, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(last, eps)
        self.classifier = nn.Linear(last, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.blocks(F.relu6(self.bn1(self.conv_stem(x))))
        return self.classifier(F.relu6(self.bn2(self.conv_head(x))).mean((2, 3)))
