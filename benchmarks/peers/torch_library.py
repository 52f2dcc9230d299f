"""Models of torchvision, timm and transformers, without anything that is left out by chance."""

from collections.abc import Callable, Mapping
from importlib import import_module

from torch import Tensor, nn


def _torchvision(name: str, **settings: float) -> nn.Module:
    return getattr(import_module("torchvision.models"), name)(**settings)


def _swin() -> nn.Module:
    return import_module("timm").create_model("swin_tiny_patch4_window7_224", drop_path_rate=0.0)


class Guesses(nn.Module):
    """The logits of each token, by the encoder of transformers."""

    def __init__(self) -> None:
        super().__init__()
        library = import_module("transformers")
        config = library.BertConfig(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        self.bert = library.BertModel(config, add_pooling_layer=False)
        self.head = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, ids: Tensor) -> Tensor:
        """From tokens [n, s] to [n, s, vocabulary]."""
        return self.head(self.bert(ids).last_hidden_state)


LIBRARY: Mapping[str, Callable[[], nn.Module]] = {
    "MobileNetV3": lambda: _torchvision("mobilenet_v3_large", dropout=0.0),
    "EfficientNet": lambda: _torchvision("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0),
    "DenseNet": lambda: _torchvision("densenet121"),
    "Swin": _swin,
    "Guesses": Guesses,
}
"""By the name of our block, in the size of `UNTUNED`."""
