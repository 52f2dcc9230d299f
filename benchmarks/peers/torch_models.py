"""The models of the comparison in PyTorch, under the names of our weights."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv_bn(channels: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    """A convolution without bias, and its normalization."""
    layers = nn.Sequential()
    conv = nn.Conv2d(channels, outputs, kernel, stride, kernel // 2, bias=False)
    layers.add_module("conv", conv)
    layers.add_module("bn", nn.BatchNorm2d(outputs))
    return layers


class RepLayer(nn.Module):
    """Three branches to train, one convolution to infer with (X. Ding et al., 2021)."""

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
        conv = nn.Conv2d(weight.shape[1], weight.shape[0], 3, self.stride, 1)
        conv.weight = nn.Parameter(weight)
        conv.bias = nn.Parameter(sum(bn.bias - bn.running_mean * s for bn, s in pairs))
        return nn.Sequential(conv, nn.ReLU(inplace=True))


class RepVGG(nn.Module):
    """RepVGG-A0, under the names timm gives its parts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = RepLayer(3, 48, 2)
        self.stages = nn.Sequential()
        channels = 48
        for number, (width, depth) in enumerate(((48, 2), (96, 4), (192, 14), (1280, 1))):
            stage = nn.Sequential()
            for layer in range(depth):
                stage.append(RepLayer(channels, width, 1 if layer else 2))
                channels = width
            self.stages.add_module(str(number), stage)
        self.head = nn.Sequential()
        self.head.add_module("fc", nn.Linear(channels, 1000))

    def forward(self, x: Tensor) -> Tensor:
        """Classify images."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))

    def fuse(self) -> None:
        """Take the inference form."""
        self.stem = self.stem.fused()
        for stage in self.stages:
            for number, layer in enumerate(stage):
                stage[number] = layer.fused()


class Whisper(nn.Module):
    """The encoder of Whisper tiny."""

    def __init__(self) -> None:
        from transformers import WhisperConfig  # noqa: PLC0415  large, and for this model alone
        from transformers.models.whisper import modeling_whisper  # noqa: PLC0415

        super().__init__()
        self.model = nn.Module()
        config = WhisperConfig(
            d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
        )
        config._attn_implementation = "sdpa"  # noqa: SLF001  the fastest, and so documented
        self.model.encoder = modeling_whisper.WhisperEncoder(config)

    def forward(self, x: Tensor) -> Tensor:
        """Encode spectrograms."""
        return self.model.encoder(x).last_hidden_state


def resnet18() -> nn.Module:
    """ResNet-18, of torchvision."""
    from torchvision import models  # noqa: PLC0415  large, and for this model alone

    return models.resnet18()


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "resnet18": resnet18,
    "repvgg_a0": RepVGG,
    "whisper_tiny": Whisper,
}
