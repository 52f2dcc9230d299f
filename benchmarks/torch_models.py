"""The models of the comparison in PyTorch, with our weights, as fast as it runs them."""

import gc
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import torch
import torchvision
from torch import Tensor, nn
from torch.nn import functional
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from meganeura_dsl.graph.core import Array

Mode = Literal["eager", "compiled", "TF32 eager", "TF32 compiled"]


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
        super().__init__()
        self.model = nn.Module()
        config = WhisperConfig(
            d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536
        )
        config._attn_implementation = "sdpa"  # noqa: SLF001  the fastest, and so documented
        self.model.encoder = WhisperEncoder(config)

    def forward(self, x: Tensor) -> Tensor:
        """Encode spectrograms."""
        return self.model.encoder(x).last_hidden_state


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "resnet18": torchvision.models.resnet18,
    "repvgg_a0": RepVGG,
    "whisper_tiny": Whisper,
}


class Peer:
    """One case in PyTorch."""

    def __init__(
        self, name: str, values: Mapping[str, Array], inputs: Mapping[str, Array], *, trains: bool
    ) -> None:
        self._name, self._values, self._trains = name, values, trains
        self._inputs = {key: torch.tensor(array).cuda() for key, array in inputs.items()}
        if name != "whisper_tiny":
            for key, tensor in self._inputs.items():
                if tensor.ndim == 4:
                    self._inputs[key] = tensor.to(memory_format=torch.channels_last)
        torch.backends.cudnn.benchmark = True
        _allow_tf32(allowed=False)

    def _model(self) -> nn.Module:
        model = MODELS[self._name]()
        state = {name: torch.tensor(value) for name, value in self._values.items()}
        model.load_state_dict(state)
        if not self._trains:
            model.eval()
            if isinstance(model, RepVGG):
                model.fuse()
        model = model.cuda().train(self._trains)
        return (
            model if self._name == "whisper_tiny" else model.to(memory_format=torch.channels_last)
        )

    def _run(self, model: nn.Module) -> Callable[[], Tensor]:
        x, *others = self._inputs.values()
        if not self._trains:
            return lambda: model(x)
        (target,) = others
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            y = model(x)
            if self._name == "whisper_tiny":
                loss = functional.mse_loss(y, target)
            else:
                loss = functional.cross_entropy(y, target.long())
            loss.backward()
            optimizer.step()
            return loss

        return step

    def expected(self) -> Array:
        """What the first step gives."""
        with torch.set_grad_enabled(self._trains):
            return self._run(self._model())().detach().cpu().numpy().astype(np.float32)

    def mode(self, mode: Mode) -> tuple[Callable[[], object], Callable[[], object]]:
        """A step in a mode, and how to wait for it."""
        _allow_tf32(allowed=mode.startswith("TF32"))
        torch.compiler.reset()
        model = self._model()
        run = self._run(model if mode.endswith("eager") else torch.compile(model))

        def step() -> None:
            with torch.set_grad_enabled(self._trains):
                run()

        for _ in range(3):
            step()
        return step, torch.cuda.synchronize

    def close(self) -> None:
        """Give memory back."""
        _allow_tf32(allowed=False)
        gc.collect()
        torch.cuda.empty_cache()


def _allow_tf32(*, allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed
