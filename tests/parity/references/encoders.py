"""BERT, CLIP, T5 and Mamba in plain PyTorch, with the names of Hugging Face."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
import transformers
from torch import nn

from tests.parity.references.sequences import heads_first, heads_last


def softmax_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, scale: float,
           bias: torch.Tensor | float = 0.0) -> torch.Tensor:  # fmt: skip
    """Attention of [n, s, heads * d], with scores scaled and a bias added."""
    q, k, v = (heads_first(each, heads) for each in (q, k, v))
    return heads_last(torch.softmax(q @ k.transpose(2, 3) * scale + bias, -1) @ v)


def future(length: int) -> torch.Tensor:
    """The bias that hides what follows each position."""
    return torch.full((length, length), -1e30, dtype=torch.float64).triu(1)


def tree(**parts: nn.Module) -> nn.Module:
    """Modules under names."""
    found = nn.Module()
    for name, part in parts.items():
        found.add_module(name, part)
    return found


# --- BERT ----------------------------------------------------------------------------------------


class BertLayer(nn.Module):
    def __init__(self, d: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        maps = {name: nn.Linear(d, d) for name in ("query", "key", "value")}
        self.attention = nn.Module()
        self.attention.add_module("self", tree(**maps))
        self.attention.add_module(
            "output", tree(dense=nn.Linear(d, d), LayerNorm=nn.LayerNorm(d, 1e-12))
        )
        self.intermediate = tree(dense=nn.Linear(d, ffn))
        self.output = tree(dense=nn.Linear(ffn, d), LayerNorm=nn.LayerNorm(d, 1e-12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps, output = self.attention.get_submodule("self"), self.attention.get_submodule("output")
        q, k, v = (maps.get_submodule(name)(x) for name in ("query", "key", "value"))
        scale = (x.shape[-1] // self.heads) ** -0.5
        y = output.get_submodule("dense")(softmax_attention(q, k, v, self.heads, scale))
        x = output.get_submodule("LayerNorm")(x + y)
        y = F.gelu(self.intermediate.get_submodule("dense")(x))
        y = self.output.get_submodule("dense")(y)
        return self.output.get_submodule("LayerNorm")(x + y)


class Bert(nn.Module):
    """`Bert` of bert.mgn."""

    def __init__(self, vocabulary: int, positions: int, d: int, layers: int, heads: int,
                 ffn: int) -> None:  # fmt: skip
        super().__init__()
        self.embeddings = tree(
            word_embeddings=nn.Embedding(vocabulary, d),
            position_embeddings=nn.Embedding(positions, d),
            token_type_embeddings=nn.Embedding(2, d),
            LayerNorm=nn.LayerNorm(d, 1e-12),
        )
        self.encoder = tree(layer=nn.Sequential(*(BertLayer(d, heads, ffn) for _ in range(layers))))
        self.pooler = tree(dense=nn.Linear(d, d))

    def encoded(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns the hidden states of tokens."""
        words, places, kinds, norm = self.embeddings.children()
        x = words(ids) + places(torch.arange(ids.shape[1])) + kinds(torch.zeros_like(ids))
        return self.encoder.get_submodule("layer")(norm(x))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.pooler.get_submodule("dense")(self.encoded(ids)[:, 0]))


# --- CLIP ----------------------------------------------------------------------------------------


class ClipLayer(nn.Module):
    def __init__(self, d: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        names = ("k_proj", "v_proj", "q_proj", "out_proj")
        self.self_attn = tree(**{name: nn.Linear(d, d) for name in names})
        self.layer_norm1 = nn.LayerNorm(d)
        self.mlp = tree(fc1=nn.Linear(d, 4 * d), fc2=nn.Linear(4 * d, d))
        self.layer_norm2 = nn.LayerNorm(d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k, v, q, out = self.self_attn.children()
        y = self.layer_norm1(x)
        scale = (x.shape[-1] // self.heads) ** -0.5
        bias = future(x.shape[1]).to(x) if self.causal else 0.0
        x = x + out(softmax_attention(q(y), k(y), v(y), self.heads, scale, bias))
        wide, narrow = self.mlp.children()
        y = wide(self.layer_norm2(x))
        return x + narrow(y * torch.sigmoid(1.702 * y))


class Clip(nn.Module):
    """`Clip` of clip.mgn, with one width for both encoders."""

    def __init__(self, vocabulary: int, positions: int, d: int, heads: int, image: int, patch: int,
                 projection: int) -> None:  # fmt: skip
        super().__init__()
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))
        self.text_model = tree(
            embeddings=tree(
                token_embedding=nn.Embedding(vocabulary, d),
                position_embedding=nn.Embedding(positions, d),
            ),
            encoder=tree(layers=nn.Sequential(ClipLayer(d, heads, causal=True))),
            final_layer_norm=nn.LayerNorm(d),
        )
        seen = tree(
            patch_embedding=nn.Conv2d(3, d, patch, patch, bias=False),
            position_embedding=nn.Embedding((image // patch) ** 2 + 1, d),
        )
        seen.register_parameter("class_embedding", nn.Parameter(torch.zeros(d)))
        self.vision_model = tree(
            embeddings=seen,
            pre_layrnorm=nn.LayerNorm(d),
            encoder=tree(layers=nn.Sequential(ClipLayer(d, heads, causal=False))),
            post_layernorm=nn.LayerNorm(d),
        )
        self.visual_projection = nn.Linear(d, projection, bias=False)
        self.text_projection = nn.Linear(d, projection, bias=False)

    def forward(self, image: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        embeddings, encoder, norm = self.text_model.children()
        words, places = embeddings.children()
        x = words(ids) + places(torch.arange(ids.shape[1]))
        x = norm(encoder.get_submodule("layers")(x))
        text = self.text_projection(x[torch.arange(len(ids)), ids.argmax(1)])
        embeddings, before, encoder, after = self.vision_model.children()
        patches, places = embeddings.children()
        first = embeddings.get_parameter("class_embedding").expand(len(image), 1, -1)
        x = torch.cat([first, patches(image).flatten(2).transpose(1, 2)], 1)
        x = x + places(torch.arange(x.shape[1]))
        seen = self.visual_projection(after(encoder.get_submodule("layers")(before(x))[:, 0]))
        seen, text = (F.normalize(each, dim=1, eps=0.0) for each in (seen, text))
        return self.logit_scale.exp() * seen @ text.T


# --- T5 ------------------------------------------------------------------------------------------


class Norm(nn.Module):
    """A norm by the root of the mean square."""

    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def buckets(length: int, count: int, *, causal: bool) -> torch.Tensor:
    """The bucket of each query and key, by the formula of the paper's code."""
    back = torch.arange(length)[:, None] - torch.arange(length)[None]
    found = torch.zeros_like(back)
    if causal:
        back = back.clamp(min=0)
    else:
        count //= 2
        found, back = found + (back < 0) * count, back.abs()
    exact = count // 2
    far = torch.log(back.double().clamp(min=1) / exact) / torch.log(torch.tensor(128 / exact))
    large = (exact + (far * (count - exact) + 1e-6).long()).clamp(max=count - 1)
    return found + torch.where(back < exact, back, large)


class T5Attention(nn.Module):
    def __init__(self, d: int, heads: int, width: int, count: int) -> None:
        super().__init__()
        self.heads = heads
        for name in "qkv":
            self.add_module(name, nn.Linear(d, heads * width, bias=False))
        self.o = nn.Linear(heads * width, d, bias=False)
        if count:
            self.relative_attention_bias = nn.Embedding(count, heads)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, bias: torch.Tensor | float
                ) -> torch.Tensor:  # fmt: skip
        q, k, v, *_ = self.children()
        return self.o(softmax_attention(q(x), k(memory), v(memory), self.heads, 1.0, bias))


class T5Stack(nn.Module):
    def __init__(self, d: int, layers: int, heads: int, width: int, ffn: int, count: int,
                 *, decodes: bool) -> None:  # fmt: skip
        super().__init__()
        self.decodes, self.count = decodes, count
        self.block = nn.ModuleList()
        for index in range(layers):
            own = T5Attention(d, heads, width, 0 if index else count)
            parts = [tree(SelfAttention=own, layer_norm=Norm(d, 1e-6))]
            if decodes:
                other = T5Attention(d, heads, width, 0)
                parts.append(tree(EncDecAttention=other, layer_norm=Norm(d, 1e-6)))
            maps = {"wi": nn.Linear(d, ffn, bias=False), "wo": nn.Linear(ffn, d, bias=False)}
            parts.append(tree(DenseReluDense=tree(**maps), layer_norm=Norm(d, 1e-6)))
            self.block.append(tree(layer=nn.ModuleList(parts)))
        self.final_layer_norm = Norm(d, 1e-6)

    def forward(self, x: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        table = self.get_submodule("block.0.layer.0.SelfAttention.relative_attention_bias")
        bias = table(buckets(x.shape[1], self.count, causal=self.decodes)).permute(2, 0, 1)
        bias = bias + future(x.shape[1]).to(x) if self.decodes else bias
        for block in self.block:
            own, *others = block.get_submodule("layer").children()
            attention, norm = own.children()
            y = norm(x)
            x = x + attention(y, y, bias)
            for part in others[:-1]:
                attention, norm = part.children()
                x = x + attention(norm(x), memory, 0.0)
            maps, norm = others[-1].children()
            wide, narrow = maps.children()
            x = x + narrow(F.relu(wide(norm(x))))
        return self.final_layer_norm(x)


class T5(nn.Module):
    """`T5` of t5.mgn."""

    def __init__(self, vocabulary: int, d: int, layers: int, heads: int, width: int, ffn: int,
                 count: int) -> None:  # fmt: skip
        super().__init__()
        sizes = (d, layers, heads, width, ffn, count)
        self.shared = nn.Embedding(vocabulary, d)
        self.encoder = T5Stack(*sizes, decodes=False)
        self.decoder = T5Stack(*sizes, decodes=True)

    def forward(self, ids: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        x = self.shared(ids)
        x = self.decoder(self.shared(given), self.encoder(x, x))
        return x * x.shape[-1] ** -0.5 @ self.shared.weight.T


# --- Whisper -------------------------------------------------------------------------------------


class WholeWhisper(nn.Module):
    """`Whisper` of whisper.mgn, by transformers: `WhisperForConditionalGeneration`."""

    def __init__(self, d: int, heads: int, layers: int, ffn: int, mels: int, positions: int,
                 words: int) -> None:  # fmt: skip
        super().__init__()
        config = transformers.WhisperConfig(
            vocab_size=words, d_model=d, encoder_layers=layers, decoder_layers=layers,
            encoder_attention_heads=heads, decoder_attention_heads=heads, encoder_ffn_dim=ffn,
            decoder_ffn_dim=ffn, num_mel_bins=mels, max_source_positions=positions,
            max_target_positions=8, pad_token_id=0,
        )  # fmt: skip
        whole = transformers.WhisperForConditionalGeneration(config)
        self.model = whole.model
        self.model.decoder.embed_tokens.padding_idx = None

    def forward(self, mel: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        found = self.model(input_features=mel, decoder_input_ids=ids, use_cache=False)
        return found.last_hidden_state @ self.model.decoder.embed_tokens.weight.T


# --- Mamba ---------------------------------------------------------------------------------------


class Mixer(nn.Module):
    def __init__(self, d: int, inner: int, state: int, rank: int) -> None:
        super().__init__()
        self.sizes: Sequence[int] = (rank, state, state)
        self.A_log = nn.Parameter(torch.zeros(inner, state))
        self.D = nn.Parameter(torch.ones(inner))
        self.conv1d = nn.Conv1d(inner, inner, 4, padding=3, groups=inner)
        self.in_proj = nn.Linear(d, 2 * inner, bias=False)
        self.x_proj = nn.Linear(inner, sum(self.sizes), bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.out_proj = nn.Linear(inner, d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        v, gate = self.in_proj(x).chunk(2, -1)
        v = F.silu(self.conv1d(v.transpose(1, 2))[:, :, : x.shape[1]].transpose(1, 2))
        rate, taken, read = self.x_proj(v).split(self.sizes, -1)
        rate = F.softplus(self.dt_proj(rate))
        h = torch.zeros(len(x), *self.A_log.shape).to(x)
        found: list[torch.Tensor] = []
        for t in range(x.shape[1]):
            decay = torch.exp(-self.A_log.exp() * rate[:, t, :, None])
            h = decay * h + (rate * v)[:, t, :, None] * taken[:, t, None]
            found.append((h * read[:, t, None]).sum(-1))
        return self.out_proj((torch.stack(found, 1) + v * self.D) * F.silu(gate))


class Mamba(nn.Module):
    """`Mamba` of mamba.mgn."""

    def __init__(self, vocabulary: int, d: int, layers: int, state: int, rank: int) -> None:
        super().__init__()
        parts = [
            tree(norm=Norm(d, 1e-5), mixer=Mixer(d, 2 * d, state, rank)) for _ in range(layers)
        ]
        self.backbone = tree(
            embeddings=nn.Embedding(vocabulary, d),
            layers=nn.ModuleList(parts),
            norm_f=Norm(d, 1e-5),
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        words, layers, last = self.backbone.children()
        x = words(ids)
        for layer in layers.children():
            norm, mixer = layer.children()
            x = x + mixer(norm(x))
        return last(x) @ words.weight.T
