"""The smaller standard models in plain PyTorch."""

from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn
from torch.func import functional_call

from tests.parity.references.encoders import Bert
from tests.parity.references.sequences import Conv1D, Gpt2, Whisper


class Perceptron(nn.Module):
    """`Perceptron` of digits_mlp.mgn."""

    def __init__(self, hidden: int, classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.relu(self.fc1(image.flatten(1) / 16)))


class Lora(Conv1D):
    """`lora` of lora.mgn, around a map of GPT-2."""

    def __init__(self, inner: int, outer: int, r: int) -> None:
        super().__init__(inner, outer)
        self.r = r
        self.lora_A = nn.Parameter(torch.zeros(r, inner))
        self.lora_B = nn.Parameter(torch.zeros(outer, r))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + x @ self.lora_A.T @ self.lora_B.T * (16 / self.r)


class LoraGpt2(Gpt2):
    def __init__(self, vocabulary: int, positions: int, d: int, layers: int, heads: int) -> None:
        super().__init__(vocabulary, positions, d, layers, heads)
        for layer in self.transformer["h"].children():
            layer.get_submodule("attn").add_module("c_attn", Lora(d, 3 * d, 3))


class SentenceBert(Bert):
    """`SentenceEncoder` of bert.mgn, for sentences of which the first tokens alone count."""

    def __init__(self, seen: int, vocabulary: int, positions: int, d: int, layers: int, heads: int,
                 ffn: int) -> None:  # fmt: skip
        super().__init__(vocabulary, positions, d, layers, heads, ffn)
        del self.pooler
        self.seen = seen

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids[:, : self.seen]
        words, places, kinds, norm = self.embeddings.children()
        x = norm(words(ids) + places(torch.arange(self.seen)) + kinds(torch.zeros_like(ids)))
        return F.normalize(self.encoder.get_submodule("layer")(x).mean(1), dim=1)


class BertGuesses(nn.Module):
    """`Guesses` of bert.mgn: the logits of each token."""

    def __init__(self, vocabulary: int, positions: int, d: int, layers: int, heads: int,
                 ffn: int) -> None:  # fmt: skip
        super().__init__()
        self.bert = Bert(vocabulary, positions, d, layers, heads, ffn)
        del self.bert.pooler
        self.head = nn.Linear(d, vocabulary)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.bert.encoded(ids))


class RecurrentLm(nn.Module):
    """`LstmLm` and `GruLm` of recurrent.mgn, by torch.nn.LSTM and torch.nn.GRU."""

    def __init__(self, kind: Literal["lstm", "gru"], vocabulary: int, d: int, hidden: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        layer = nn.LSTM if kind == "lstm" else nn.GRU
        self.add_module(kind, layer(d, hidden, batch_first=True))
        self.out = nn.Linear(hidden, vocabulary)
        self.kind = kind

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.out(self.get_submodule(self.kind)(self.embed(ids))[0])


class Tagger(nn.Module):
    """`Tagger` of recurrent.mgn, by a torch.nn.GRU for each direction."""

    def __init__(self, words: int, d: int, hidden: int, tags: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.forwards = nn.GRU(d, hidden, batch_first=True)
        self.backwards = nn.GRU(d, hidden, batch_first=True)
        self.out = nn.Linear(2 * hidden, tags)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        after = self.backwards(x.flip(1))[0].flip(1)
        return self.out(torch.cat([self.forwards(x)[0], after], 2))


class WhisperWords(Whisper):
    """`WhisperClassifier` of whisper.mgn."""

    def __init__(self, classes: int, d: int, heads: int, layers: int, ffn: int) -> None:
        super().__init__(d=d, heads=heads, layers=layers, ffn=ffn)
        self.head = nn.Linear(d, classes)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return self.head(super().forward(mel).mean(1))


class WhisperFrames(Whisper):
    """`WhisperFrames` of whisper.mgn."""

    def __init__(self, classes: int, d: int, heads: int, layers: int, ffn: int) -> None:
        super().__init__(d=d, heads=heads, layers=layers, ffn=ffn)
        self.train_proj = nn.ParameterDict({"weight": nn.Parameter(torch.zeros(d, classes))})

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return super().forward(mel) @ self.train_proj["weight"]


class Autoencoder(nn.Module):
    """`Encoder` and `Decoder` of vae.mgn, the sum of what one gives being what the other reads."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        sizes = {"fc1": (64, hidden), "fc2": (hidden, hidden)}
        ends = {"mean": (hidden, 8), "log_variance": (hidden, 8)}
        self.encoder = _linears(sizes | ends)
        self.decoder = _linears({**sizes, "fc1": (8, hidden), "fc3": (hidden, 64)})

    def encoded(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean and the logarithm of the variance."""
        e = self.encoder
        x = F.silu(e["fc2"](F.silu(e["fc1"](image.flatten(1)))))
        return e["mean"](x), e["log_variance"](x)

    def decoded(self, z: torch.Tensor) -> torch.Tensor:
        d = self.decoder
        return d["fc3"](F.silu(d["fc2"](F.silu(d["fc1"](z))))).reshape(-1, 1, 8, 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        mean, log_variance = self.encoded(image)
        return self.decoded(mean + log_variance)


def _linears(sizes: dict[str, tuple[int, int]]) -> nn.ModuleDict:
    return nn.ModuleDict({name: nn.Linear(*each) for name, each in sizes.items()})


class Generator(nn.Module):
    """`Generator` of gan.mgn."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(16, hidden, bias=False)
        self.norm1 = nn.BatchNorm1d(hidden)
        self.fc2 = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = nn.BatchNorm1d(hidden)
        self.fc3 = nn.Linear(hidden, 64)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm2(self.fc2(torch.relu(self.norm1(self.fc1(z))))))
        return torch.sigmoid(self.fc3(x)).reshape(-1, 1, 8, 8)


class Critic(nn.Module):
    """`Critic` of gan.mgn."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def dropped(
        self, image: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> torch.Tensor:
        """As in training, where hidden values are multiplied with masks of dropout."""
        x = F.leaky_relu(self.fc1(image.flatten(1)), 0.2) * first
        return self.fc3(F.leaky_relu(self.fc2(x), 0.2) * second)[:, 0]

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        one = torch.ones((), dtype=image.dtype)
        return self.dropped(image, one, one)


class WassersteinCritic(nn.Module):
    """`Critic` of wgan.mgn."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, 2, 1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.fc = nn.Conv2d(2 * width, 1, 2, bias=False)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        h = F.leaky_relu(self.conv2(F.leaky_relu(self.conv1(image), 0.2)), 0.2)
        return self.fc(h)[:, 0, 0, 0]


class Regressor(nn.Module):
    """`Regressor` of maml.mgn, of its own weights or of others."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(1, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))

    def adapted(self, x: torch.Tensor, y: torch.Tensor, steps: int) -> dict[str, torch.Tensor]:
        """The weights after steps on known values, to be differentiated."""
        w: dict[str, torch.Tensor] = {**dict(self.named_parameters())}
        for _ in range(steps):
            cost = F.mse_loss(functional_call(self, w, x), y)
            by = torch.autograd.grad(cost, list(w.values()), create_graph=True)
            w = {name: w[name] - 0.01 * each for name, each in zip(w, by, strict=True)}
        return w


class Solution(nn.Module):
    """`Solution` of pinn.mgn."""

    def __init__(self, hidden: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden if i else 2, hidden) for i in range(depth))
        self.last = nn.Linear(hidden, 1)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        h = torch.stack([x, t], 1)
        for layer in self.layers:
            h = torch.tanh(layer(h))
        return self.last(h)[:, 0]
