"""Image models in plain PyTorch, with the names and the arithmetic of their published versions."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn


class DigitsResidual(nn.Module):
    """`Residual` of digits_cnn.mgn."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(self.bn1(self.conv1(x)))
        return F.silu(x + self.bn2(self.conv2(y)))


class DigitsNet(nn.Module):
    """`DigitsNet` of digits_cnn.mgn."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.block1 = DigitsResidual(width)
        self.widen = nn.Conv2d(width, 2 * width, 3, 2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(2 * width)
        self.block2 = DigitsResidual(2 * width)
        self.fc = nn.Linear(2 * width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.block1(F.silu(self.bn1(self.stem(image / 16))))
        x = self.block2(F.silu(self.bn2(self.widen(x))))
        return self.fc(x.mean((2, 3)))


# --- ResNet, as torchvision's --------------------------------------------------------------------


def _shortcut(inner: int, outer: int, stride: int, *, bias: bool) -> nn.Module | None:
    if stride == 1 and inner == outer:
        return None
    return nn.Sequential(
        nn.Conv2d(inner, outer, 1, stride, bias=bias), nn.BatchNorm2d(outer)
    )  # fmt: skip


class BasicBlock(nn.Module):
    def __init__(self, inner: int, width: int, stride: int, *, bias: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, width, 3, stride, 1, bias=bias)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=bias)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inner, width, stride, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int, *, bias: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, width, 1, bias=bias)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=bias)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=bias)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = _shortcut(inner, 4 * width, stride, bias=bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(
        self,
        depths: Sequence[int],
        width: int = 64,
        classes: int = 1000,
        *,
        bottleneck: bool = False,
        conv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=conv_bias)
        self.bn1 = nn.BatchNorm2d(width)
        inner, stages = width, list[nn.Module]()
        for index, depth in enumerate(depths):
            layers = list[nn.Module]()
            for layer in range(depth):
                stride = 2 if index > 0 and layer == 0 else 1
                make = Bottleneck if bottleneck else BasicBlock
                layers.append(make(inner, width * 2**index, stride, bias=conv_bias))
                inner = width * 2**index * (4 if bottleneck else 1)
            stages.append(nn.Sequential(*layers))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(inner, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


# --- RepVGG, as timm's ---------------------------------------------------------------------------


class ConvBN(nn.Module):
    def __init__(self, inner: int, outer: int, k: int, stride: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, k, stride, k // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.conv(x))


class RepLayer(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, groups: int) -> None:
        super().__init__()
        self.identity = nn.BatchNorm2d(outer) if inner == outer and stride == 1 else None
        self.conv_kxk = ConvBN(inner, outer, 3, stride, groups)
        self.conv_1x1 = ConvBN(inner, outer, 1, stride, groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv_1x1(x) + self.conv_kxk(x)
        return F.relu(y if self.identity is None else self.identity(x) + y)


class RepVgg(nn.Module):
    def __init__(
        self, depths: Sequence[int], a: float, b: float, groups: int = 1, classes: int = 1000
    ) -> None:
        super().__init__()
        widths = [int(64 * a), int(128 * a), int(256 * a), int(512 * b)]
        inner = min(64, widths[0])
        self.stem = RepLayer(3, inner, 2, 1)
        self.stages = nn.ModuleList()
        before = 0
        for width, depth in zip(widths, depths, strict=True):
            layers = list[nn.Module]()
            for layer in range(depth):
                parts = groups if before % 2 == 1 else 1
                layers.append(RepLayer(inner, width, 2 if layer == 0 else 1, parts))
                inner, before = width, before + 1
            self.stages.append(nn.Sequential(*layers))
        self.head = nn.ModuleDict({"fc": nn.Linear(inner, classes)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head["fc"](x.mean((2, 3)))


# --- ViT, as timm's ------------------------------------------------------------------------------


class VitAttention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, s, d = x.shape
        parts = self.qkv(x).reshape(n, s, 3, self.heads, d // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(n, s, d))


class VitLayer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d, eps=1e-6)
        self.attn = VitAttention(d, heads)
        self.norm2 = nn.LayerNorm(d, eps=1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, 4 * d), "fc2": nn.Linear(4 * d, d)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class ViT(nn.Module):
    def __init__(
        self, d: int, layers: int, heads: int, image: int, patch: int, classes: int
    ) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, d))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, d, patch, patch)})
        self.blocks = nn.Sequential(*(VitLayer(d, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.head = nn.Linear(d, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


# --- U-Net ---------------------------------------------------------------------------------------


class UNetBlock(nn.Module):
    def __init__(self, inner: int, outer: int, groups: int, time: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, inner)
        self.conv1 = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        self.time_proj = nn.Linear(time, outer)
        self.norm2 = nn.GroupNorm(groups, outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.res_conv = nn.Conv2d(inner, outer, 1, bias=False) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x))) + self.time_proj(time)[:, :, None, None]
        return self.res_conv(x) + self.conv2(F.silu(self.norm2(y)))


class UNet(nn.Module):
    def __init__(self, base: int, groups: int, channels: int = 4) -> None:
        super().__init__()
        self.base, time, c = base, 4 * base, [base, 2 * base, 4 * base]

        def block(inner: int, outer: int) -> nn.Module:
            return UNetBlock(inner, outer, groups, time)

        def down(width: int) -> nn.Module:
            return nn.Conv2d(width, width, 3, 2, 1, bias=False)

        self.time_mlp = nn.ModuleDict(
            {"fc1": nn.Linear(base, time), "fc2": nn.Linear(time, time)}
        )  # fmt: skip
        self.conv_in = nn.Conv2d(channels, base, 3, padding=1, bias=False)
        self.encoder = nn.ModuleList(
            [
                nn.ModuleDict({"resblock": block(c[0], c[0]), "downsample": down(c[0])}),
                nn.ModuleDict({"resblock": block(c[0], c[1]), "downsample": down(c[1])}),
                nn.ModuleDict({"resblock": block(c[1], c[2])}),
            ]
        )
        self.middle = nn.ModuleDict({"resblock": block(c[2], c[2])})
        pairs = [(c[1] + c[0], c[0]), (c[2] + c[1], c[1]), (c[2] + c[2], c[2])]
        self.decoder = nn.ModuleList(
            [nn.ModuleDict({"resblock": block(inner, outer)}) for inner, outer in pairs]
        )
        self.norm_out = nn.GroupNorm(groups, base)
        self.conv_out = nn.Conv2d(base, channels, 3, padding=1, bias=False)

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        half = self.base // 2
        rates = 10000.0 ** (-torch.arange(half, dtype=level.dtype) / half)
        angle = 1000 * level[:, None] * rates
        time = torch.cat([angle.sin(), angle.cos()], 1)
        time = F.silu(self.time_mlp["fc2"](F.silu(self.time_mlp["fc1"](time))))
        y, skips = self.conv_in(x), list[torch.Tensor]()
        for part in self.encoder:
            assert isinstance(part, nn.ModuleDict)
            y = part["resblock"](y, time)
            skips.append(y)
            y = part["downsample"](y) if "downsample" in part else y
        y = self.middle["resblock"](y, time)
        for depth in (2, 1, 0):
            y = F.interpolate(y, scale_factor=2.0, mode="nearest") if depth < 2 else y
            part = self.decoder[depth]
            assert isinstance(part, nn.ModuleDict)
            y = part["resblock"](torch.cat([y, skips[depth]], 1), time)
        return self.conv_out(F.silu(self.norm_out(y)))
