"""The published models against the libraries they come from, at full size.

    python -m benchmarks.parity.originals [cpu|wgpu]

ResNet-18 is torchvision's, RepVGG-A0 is timm's and the encoder of Whisper-tiny is transformers';
all with the same random weights on both sides, exchanged through safetensors files. PyTorch
computes in double precision. Each number is the largest difference of any element, relative to the
largest element of its tensor; see `benchmarks.parity.compare`.
"""

import sys

import timm
import torch
import torchvision
import transformers
from torch import nn
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from benchmarks.parity.compare import differences, of_pytorch_itself
from tests.parity.models import Case

IMAGE = """\
    from {0} import {1}
    model net = {1}()
    train fit(x: [n, 3, h, w], target: [n, 1000]):
      minimize mse(x |> net, target)
    """
SPEECH = """\
    from whisper import whisper_tiny
    model net = whisper_tiny()
    train fit(mel: [n, 80, t], target: [n, (t + 1) // 2, 384]):
      minimize mse(mel |> net, target)
    """


class Whisper(nn.Module):
    """The encoder under the names of a whole Whisper checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        config = transformers.WhisperConfig()
        config.dropout = config.attention_dropout = config.activation_dropout = 0.0
        self.model = nn.Module()
        self.model.encoder = WhisperEncoder(config)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """The encoding of log-mel features [n, 80, 3000]."""
        return self.model.encoder(mel).last_hidden_state


CASES = [
    Case(
        f"torchvision {torchvision.__version__} resnet18",
        IMAGE.format("resnet", "resnet18"),
        torchvision.models.resnet18,
        {"n": 2, "h": 224, "w": 224},
    ),
    Case(
        f"timm {timm.__version__} repvgg_a0",
        IMAGE.format("repvgg", "repvgg_a0"),
        lambda: timm.create_model("repvgg_a0"),
        {"n": 2, "h": 224, "w": 224},
    ),
    Case(
        f"transformers {transformers.__version__} whisper-tiny",
        SPEECH,
        Whisper,
        {"n": 1, "t": 3000},
    ),
]


def main() -> None:
    """Print the table."""
    device = sys.argv[1] if len(sys.argv) > 1 else "wgpu"
    print("| model | output | gradients | running statistics | PyTorch's own f32 gradients |")
    print("|---|---|---|---|---|")
    for case in CASES:
        numbers = (*differences(case, device), of_pytorch_itself(case))
        cells = " | ".join(f"{number:.0e}" for number in numbers)
        print(f"| {case.name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
