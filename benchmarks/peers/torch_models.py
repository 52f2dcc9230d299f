"""The models of the comparison in PyTorch, under the names of our weights.

They take the arguments of our blocks, and those of PyTorch that users take: `scaled_dot_product_
attention`, fused layer norms, convolutions that follow the layout of their input.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def numbered(layers: Sequence[nn.Module]) -> nn.Sequential:
    """Layers named 0, 1, ..."""
    return nn.Sequential(*layers)


# --- ResNet --------------------------------------------------------------------------------------


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size, but for its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


class Residual(nn.Module):
    """Two convolutions, or three with a bottleneck, beside a shortcut."""

    def __init__(self, inputs: int, channels: int, expansion: int, stride: int) -> None:
        super().__init__()
        outputs = channels * expansion
        if expansion == 1:
            convs = [conv(inputs, channels, 3, stride), conv(channels, channels, 3)]
        else:
            convs = [
                conv(inputs, channels, 1),
                conv(channels, channels, 3, stride),
                conv(channels, outputs, 1),
            ]
        self.depth = len(convs)
        for number, each in enumerate(convs, 1):
            self.add_module(f"conv{number}", each)
            self.add_module(f"bn{number}", nn.BatchNorm2d(each.out_channels))
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = numbered([conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)])

    def forward(self, x: Tensor) -> Tensor:
        """Add both paths."""
        y = x
        for number in range(1, self.depth + 1):
            y = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(y))
            y = functional.relu(y) if number < self.depth else y
        return functional.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """K. He et al. 2015, under torchvision's names."""

    def __init__(
        self, depths: Sequence[int], expansion: int = 1, width: int = 64, classes: int = 1000
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage, depth in enumerate(depths):
            layers: list[nn.Module] = []
            for number in range(depth):
                stride = 2 if stage and not number else 1
                layers.append(Residual(inputs, width << stage, expansion, stride))
                inputs = (width << stage) * expansion
            self.add_module(f"layer{stage + 1}", numbered(layers))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images."""
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


# --- RepVGG --------------------------------------------------------------------------------------


def conv_bn(channels: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """A convolution without bias, and its normalization."""
    layers = nn.Sequential()
    layers.add_module("conv", conv(channels, outputs, kernel, stride))
    layers.add_module("bn", nn.BatchNorm2d(outputs))
    return layers


class RepLayer(nn.Module):
    """Three branches to train, one convolution to infer with."""

    def __init__(self, channels: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv_kxk = conv_bn(channels, outputs, 3, stride)
        self.conv_1x1 = conv_bn(channels, outputs, 1, stride)
        self.identity = nn.BatchNorm2d(outputs) if stride == 1 and channels == outputs else None

    def forward(self, x: Tensor) -> Tensor:
        """Add up the branches."""
        y = self.conv_kxk(x) + self.conv_1x1(x)
        return functional.relu(y if self.identity is None else y + self.identity(x))

    def fused(self) -> nn.Module:
        """The convolution that the branches are in evaluation."""
        branches = [self.conv_kxk[1], self.conv_1x1[1]]
        kernels = [self.conv_kxk[0].weight, functional.pad(self.conv_1x1[0].weight, (1, 1, 1, 1))]
        if self.identity is not None:
            same = torch.eye(kernels[0].shape[0], device=kernels[0].device)[:, :, None, None]
            kernels.append(functional.pad(same, (1, 1, 1, 1)))
            branches.append(self.identity)
        scales = [bn.weight / (bn.running_var + bn.eps).sqrt() for bn in branches]
        pairs = list(zip(branches, scales, strict=True))
        weight = sum(w * s[:, None, None, None] for w, s in zip(kernels, scales, strict=True))
        found = nn.Conv2d(weight.shape[1], weight.shape[0], 3, self.stride, 1)
        found.weight = nn.Parameter(weight)
        found.bias = nn.Parameter(sum(bn.bias - bn.running_mean * s for bn, s in pairs))
        return nn.Sequential(found, nn.ReLU(inplace=True))


class RepVGG(nn.Module):
    """X. Ding et al. 2021, under timm's names."""

    def __init__(self, depths: Sequence[int], a: float, b: float, classes: int = 1000) -> None:
        super().__init__()
        widths = [int(64 * a), int(128 * a), int(256 * a), int(512 * b)]
        channels = min(64, widths[0])
        self.stem = RepLayer(3, channels, 2)
        self.stages = nn.Sequential()
        for number, (width, depth) in enumerate(zip(widths, depths, strict=True)):
            stage = nn.Sequential()
            for layer in range(depth):
                stage.append(RepLayer(channels, width, 1 if layer else 2))
                channels = width
            self.stages.add_module(str(number), stage)
        self.head = nn.Sequential()
        self.head.add_module("fc", nn.Linear(channels, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Classify images."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))

    def fuse(self) -> None:
        """Take the inference form."""
        self.stem = self.stem.fused()
        for stage in self.stages:
            for number, layer in enumerate(stage):
                stage[number] = layer.fused()


# --- transformers --------------------------------------------------------------------------------


def attention(q: Tensor, k: Tensor, v: Tensor, heads: int, *, causal: bool = False) -> Tensor:
    """The mean of values by head; all are [n, s, d]."""
    n, s, d = q.shape
    split = [each.view(n, s, heads, d // heads).transpose(1, 2) for each in (q, k, v)]
    y = functional.scaled_dot_product_attention(*split, is_causal=causal)
    return y.transpose(1, 2).reshape(n, s, d)


class WhisperAttention(nn.Module):
    """Keys have no bias."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj = nn.Linear(d, d), nn.Linear(d, d, bias=False)
        self.v_proj, self.out_proj = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Self-attention."""
        y = attention(self.q_proj(x), self.k_proj(x), self.v_proj(x), self.heads)
        return self.out_proj(y)


class WhisperLayer(nn.Module):
    """Normalized before each part."""

    def __init__(self, d: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.self_attn_layer_norm, self.final_layer_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.self_attn = WhisperAttention(d, heads)
        self.fc1, self.fc2 = nn.Linear(d, ffn), nn.Linear(ffn, d)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then two linear maps."""
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(functional.gelu(self.fc1(self.final_layer_norm(x))))


class Fixed(nn.Module):
    """A table that is not trained."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(shape))


class WhisperStack(nn.Module):
    """Two convolutions, positions, layers."""

    def __init__(self, d: int, heads: int, layers: int, ffn: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(80, d, 3, 1, 1), nn.Conv1d(d, d, 3, 2, 1)
        self.embed_positions = Fixed(1500, d)
        self.layers = numbered([WhisperLayer(d, heads, ffn) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(d)

    def forward(self, x: Tensor) -> Tensor:
        """From [n, 80, t] to [n, t / 2, d]."""
        x = functional.gelu(self.conv2(functional.gelu(self.conv1(x)))).transpose(1, 2)
        x = x + self.embed_positions.weight[: x.shape[1]]
        return self.layer_norm(self.layers(x))


class WhisperEncoder(nn.Module):
    """A. Radford et al. 2022, under the names of transformers."""

    def __init__(self, d: int, heads: int, layers: int, ffn: int) -> None:
        super().__init__()
        self.model = nn.Module()
        self.model.encoder = WhisperStack(d, heads, layers, ffn)

    def forward(self, x: Tensor) -> Tensor:
        """Encode spectrograms."""
        return self.model.encoder(x)


class Conv1D(nn.Module):
    """A linear map whose weights are [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map the last axis."""
        return functional.linear(x, self.weight.t(), self.bias)


class Gpt2Attention(nn.Module):
    """Causal."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = Conv1D(d, 3 * d), Conv1D(d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Self-attention."""
        q, k, v = self.c_attn(x).chunk(3, -1)
        return self.c_proj(attention(q, k, v, self.heads, causal=True))


class Gpt2Mlp(nn.Module):
    """Four times as wide inside."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(d, 4 * d), Conv1D(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Two linear maps."""
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))


class Gpt2Layer(nn.Module):
    """Normalized before each part."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn, self.mlp = Gpt2Attention(d, heads), Gpt2Mlp(d)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then two linear maps."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """A. Radford et al. 2019, under the names of transformers; logits are by the embedding."""

    def __init__(
        self, d: int, layers: int, heads: int, vocabulary: int = 50257, positions: int = 1024
    ) -> None:
        super().__init__()
        self.transformer = nn.Module()
        self.transformer.wte = nn.Embedding(vocabulary, d)
        self.transformer.wpe = nn.Embedding(positions, d)
        self.transformer.h = numbered([Gpt2Layer(d, heads) for _ in range(layers)])
        self.transformer.ln_f = nn.LayerNorm(d)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits of each position's next token."""
        parts = self.transformer
        places = torch.arange(ids.shape[1], device=ids.device)
        x = parts.ln_f(parts.h(parts.wte(ids) + parts.wpe(places)))
        return functional.linear(x, parts.wte.weight)


class VitAttention(nn.Module):
    """Of all tokens to all."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Self-attention."""
        return self.proj(attention(*self.qkv(x).chunk(3, -1), self.heads))


class VitMlp(nn.Module):
    """Four times as wide inside."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: Tensor) -> Tensor:
        """Two linear maps."""
        return self.fc2(functional.gelu(self.fc1(x)))


class VitLayer(nn.Module):
    """Normalized before each part."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(d, 1e-6), nn.LayerNorm(d, 1e-6)
        self.attn, self.mlp = VitAttention(d, heads), VitMlp(d)

    def forward(self, x: Tensor) -> Tensor:
        """Attention, then two linear maps."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    """A. Dosovitskiy et al. 2021, under timm's names."""

    def __init__(
        self,
        d: int,
        layers: int,
        heads: int,
        image: int = 224,
        patch: int = 16,
        classes: int = 1000,
    ) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, d))
        self.pos_embed = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, d))
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, d, patch, patch)
        self.blocks = numbered([VitLayer(d, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(d, 1e-6)
        self.head = nn.Linear(d, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Classify images."""
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(len(x), -1, -1), x), 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


# --- ConvNeXt ------------------------------------------------------------------------------------


class LayerNorm2d(nn.LayerNorm):
    """Of the channels of [n, c, h, w]."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each place."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Permute(nn.Module):
    """Axes in another order."""

    def __init__(self, *order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        """A view."""
        return x.permute(self.order)


class ConvNextLayer(nn.Module):
    """A depthwise convolution and two linear maps beside a shortcut."""

    def __init__(self, c: int) -> None:
        super().__init__()
        self.layer_scale = nn.Parameter(torch.zeros(c, 1, 1))
        self.block = numbered(
            [
                nn.Conv2d(c, c, 7, padding=3, groups=c),
                Permute(0, 2, 3, 1),
                nn.LayerNorm(c, 1e-6),
                nn.Linear(c, 4 * c),
                nn.GELU(),
                nn.Linear(4 * c, c),
                Permute(0, 3, 1, 2),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add both paths."""
        return x + self.layer_scale * self.block(x)


class ConvNext(nn.Module):
    """Z. Liu et al. 2022, under torchvision's names; no layer is left out by chance."""

    def __init__(
        self, stages: Sequence[Sequence[int]], drop_path: float, patch: int = 4, classes: int = 1000
    ) -> None:
        super().__init__()
        assert not drop_path
        first = stages[0][0]
        parts: list[nn.Module] = [
            numbered([nn.Conv2d(3, first, patch, patch), LayerNorm2d(first, 1e-6)])
        ]
        c = first
        for number, (wide, depth) in enumerate(stages):
            if number:
                parts.append(numbered([LayerNorm2d(c, 1e-6), nn.Conv2d(c, wide, 2, 2)]))
            parts.append(numbered([ConvNextLayer(wide) for _ in range(depth)]))
            c = wide
        self.features = numbered(parts)
        self.classifier = numbered([nn.LayerNorm(c, 1e-6), nn.Flatten(1), nn.Linear(c, classes)])

    def forward(self, x: Tensor) -> Tensor:
        """Classify images."""
        return self.classifier(self.features(x).mean((2, 3)))


MODELS: Mapping[str, Callable[..., nn.Module]] = {
    "ResNet": ResNet,
    "RepVGG": RepVGG,
    "WhisperEncoder": WhisperEncoder,
    "Gpt2": Gpt2,
    "ViT": ViT,
    "ConvNext": ConvNext,
}
"""By the name of our block."""
