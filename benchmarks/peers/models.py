"""The models that are compared: programs of the standard library, at the sizes of a benchmark.

The arguments of a model are those of its block in the language, and of its class in PyTorch and
its function in JAX, which bear the same names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["images", "sounds", "tokens"]
FIXED = ("vit", "swin")
"""Modules whose blocks say the size of their image themselves."""


@dataclass(frozen=True)
class Model:
    """A model, what it reads, and how it is trained."""

    name: str
    module: str
    block: str
    arguments: Mapping[str, object]
    kind: Kind
    size: int
    """The side of an image, the frames of a sound, the tokens of a text."""
    label: str = ""
    """The prefix of the names of its weights."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """The sizes of its input beside the batch, as its block calls them."""
        match self.kind:
            case "images" if self.module in FIXED:
                return {}
            case "images":
                return {"h": self.size, "w": self.size}
            case "sounds":
                return {"t": self.size}
            case "tokens":
                return {"s": self.size}

    @property
    def program(self) -> str:
        """The model, and a `train` block; the inputs are `x`, and `y` but for tokens."""
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        label = f"{self.label}: " if self.label else ""
        return (
            f"from {self.module} import {self.block}\n\n"
            f"model subject = {label}{self.block}({given})\n\n{self._training()}"
        )

    def _training(self) -> str:
        match self.kind:
            case "images":
                head = f"x: [batch, 3, {self.size}, {self.size}], y: i32[batch]"
                objective = "cross_entropy(x |> subject, y)"
            case "sounds":
                # The second convolution of the encoder halves the frames.
                shape = f"[batch, {self.size // 2}, {self.arguments['d']}]"
                head, objective = f"x: [batch, 80, {self.size}], y: {shape}", "mse(x |> subject, y)"
            case "tokens":
                head = f"x: i32[batch, {self.size + 1}]"
                objective = f"cross_entropy(x[:, :{self.size}] |> subject, x[:, 1:])"
        return f"train fit({head}):\n  minimize {objective}\n"


RESNET = {"depths": [2, 2, 2, 2]}
BOTTLENECKS = {"depths": [3, 4, 6, 3], "expansion": 4}
WHISPER = {"d": 384, "heads": 6, "layers": 4, "ffn": 1536}

MOBILENET = [
    [3, 16, 16, 0, 0, 1],
    [3, 64, 24, 0, 0, 2],
    [3, 72, 24, 0, 0, 1],
    [5, 72, 40, 24, 0, 2],
    [5, 120, 40, 32, 0, 1],
    [5, 120, 40, 32, 0, 1],
    [3, 240, 80, 0, 1, 2],
    [3, 200, 80, 0, 1, 1],
    [3, 184, 80, 0, 1, 1],
    [3, 184, 80, 0, 1, 1],
    [3, 480, 112, 120, 1, 1],
    [3, 672, 112, 168, 1, 1],
    [5, 672, 160, 168, 1, 2],
    [5, 960, 160, 240, 1, 1],
    [5, 960, 160, 240, 1, 1],
]
BERT = {"vocabulary": 30522, "positions": 512, "d": 768, "layers": 12, "heads": 12, "ffn": 3072}
DENSENET = {"growth": 32, "depths": [6, 12, 24, 16]}

UNTUNED = (
    Model(
        "mobilenet_v3_large",
        "mobilenet_v3",
        "MobileNetV3",
        {"layers": MOBILENET, "last": 1280, "dropout": 0.0},
        "images",
        224,
    ),
    Model(
        "efficientnet_b0",
        "efficientnet",
        "EfficientNet",
        {"dropout": 0.0, "drop_path": 0.0},
        "images",
        224,
    ),
    Model("densenet121", "densenet", "DenseNet", DENSENET, "images", 224),
    Model("swin_t", "swin", "Swin", {}, "images", 224),
    Model("bert", "bert", "Guesses", BERT, "tokens", 128),
)
"""Models for which no kernel was tuned. PyTorch's are those of its libraries, and JAX has none."""

LARGE = (
    Model("resnet18", "resnet", "ResNet", RESNET, "images", 224),
    Model(
        "repvgg_a0",
        "repvgg",
        "RepVGG",
        {"depths": [2, 4, 14, 1], "a": 0.75, "b": 2.5},
        "images",
        224,
    ),
    Model("whisper_tiny", "whisper", "WhisperEncoder", WHISPER, "sounds", 3000, "model.encoder"),
    Model("resnet50", "resnet", "ResNet", BOTTLENECKS, "images", 224),
    Model("gpt2", "gpt2", "Gpt2", {"d": 768, "layers": 12, "heads": 12}, "tokens", 512),
    Model("vit_s", "vit", "ViT", {"d": 384, "layers": 12, "heads": 6}, "images", 224),
    # Without layers left out by chance, which frameworks draw differently.
    Model(
        "convnext_t",
        "convnext",
        "ConvNext",
        {"stages": [[96, 3], [192, 3], [384, 9], [768, 3]], "drop_path": 0.0},
        "images",
        224,
    ),
    *UNTUNED,
)
"""The models of the tables."""

SMALL = (
    Model("resnet18", "resnet", "ResNet", {**RESNET, "width": 8, "classes": 10}, "images", 64),
    Model(
        "repvgg_a0",
        "repvgg",
        "RepVGG",
        {"depths": [1, 1, 2, 1], "a": 0.125, "b": 0.25, "classes": 10},
        "images",
        64,
    ),
    Model(
        "whisper_tiny",
        "whisper",
        "WhisperEncoder",
        {"d": 32, "heads": 2, "layers": 1, "ffn": 64},
        "sounds",
        64,
        "model.encoder",
    ),
    Model(
        "resnet50",
        "resnet",
        "ResNet",
        {"depths": [1, 1, 1, 1], "expansion": 4, "width": 8, "classes": 10},
        "images",
        64,
    ),
    Model(
        "gpt2",
        "gpt2",
        "Gpt2",
        {"vocabulary": 256, "positions": 64, "d": 64, "layers": 2, "heads": 4},
        "tokens",
        32,
    ),
    Model(
        "vit_s",
        "vit",
        "ViT",
        {"d": 64, "layers": 2, "heads": 4, "image": 64, "patch": 8, "classes": 10},
        "images",
        64,
    ),
    Model(
        "convnext_t",
        "convnext",
        "ConvNext",
        {"stages": [[16, 1], [32, 1]], "drop_path": 0.0, "classes": 10},
        "images",
        64,
    ),
)
"""The same at sizes that a CPU computes at once."""

BATCHES: Mapping[str, int] = {
    "resnet18": 32,
    "repvgg_a0": 32,
    "whisper_tiny": 8,
    "resnet50": 16,
    "gpt2": 4,
    "vit_s": 16,
    "convnext_t": 16,
    "mobilenet_v3_large": 32,
    "efficientnet_b0": 32,
    "densenet121": 16,
    "swin_t": 16,
    "bert": 8,
}
"""The examples of a large batch."""
