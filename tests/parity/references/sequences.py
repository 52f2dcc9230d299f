"""Sequence models in plain PyTorch, with the names and the arithmetic of Hugging Face's."""

import torch
import torch.nn.functional as F  # noqa: N812 - so it is known
from torch import nn


def heads_first(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[n, s, heads * d] as [n, heads, s, d]."""
    n, s, _ = x.shape
    return x.reshape(n, s, heads, -1).transpose(1, 2)


def heads_last(x: torch.Tensor) -> torch.Tensor:
    """[n, heads, s, d] as [n, s, heads * d]."""
    return x.transpose(1, 2).flatten(2)


# --- Whisper -------------------------------------------------------------------------------------


class WhisperAttention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.k_proj = nn.Linear(d, d, bias=False)
        self.v_proj = nn.Linear(d, d)
        self.q_proj = nn.Linear(d, d)
        self.out_proj = nn.Linear(d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = heads_first(self.q_proj(x), self.heads) * (x.shape[-1] // self.heads) ** -0.5
        k, v = (heads_first(each(x), self.heads) for each in (self.k_proj, self.v_proj))
        weights = torch.softmax(q @ k.transpose(2, 3), -1)
        return self.out_proj(heads_last(weights @ v))


class WhisperLayer(nn.Module):
    def __init__(self, d: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.self_attn = WhisperAttention(d, heads)
        self.self_attn_layer_norm = nn.LayerNorm(d)
        self.fc1 = nn.Linear(d, ffn)
        self.fc2 = nn.Linear(ffn, d)
        self.final_layer_norm = nn.LayerNorm(d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.self_attn_layer_norm(x))
        return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))


class WhisperEncoder(nn.Module):
    def __init__(
        self, d: int, heads: int, layers: int, ffn: int, mels: int = 80, positions: int = 1500
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, d, 3, padding=1)
        self.conv2 = nn.Conv1d(d, d, 3, stride=2, padding=1)
        self.embed_positions = nn.Embedding(positions, d)
        self.embed_positions.requires_grad_(requires_grad=False)
        self.layers = nn.ModuleList([WhisperLayer(d, heads, ffn) for _ in range(layers)])
        self.layer_norm = nn.LayerNorm(d)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.conv2(F.gelu(self.conv1(mel)))).permute(0, 2, 1)
        x = x + self.embed_positions.weight[: x.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.layer_norm(x)


class Whisper(nn.Module):
    """A `WhisperModel` without its decoder."""

    def __init__(self, **config: int) -> None:
        super().__init__()
        self.model = nn.ModuleDict({"encoder": WhisperEncoder(**config)})

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        return self.model["encoder"](mel)


# --- Llama ---------------------------------------------------------------------------------------


class RmsNorm(nn.Module):
    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rotated(x: torch.Tensor, theta: float) -> torch.Tensor:
    """The sum x cos + rotate_half(x) sin, the angles repeated for both halves."""
    s, d = x.shape[-2:]
    rates = 1.0 / theta ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
    angles = torch.outer(torch.arange(s, dtype=x.dtype), rates).repeat(1, 2)
    left, right = x[..., : d // 2], x[..., d // 2 :]
    return x * angles.cos() + torch.cat([-right, left], -1) * angles.sin()


class LlamaAttention(nn.Module):
    """`heads` are the query heads, the key and value heads they share, and the size of one."""

    def __init__(self, d: int, heads: tuple[int, int, int], theta: float) -> None:
        super().__init__()
        self.heads, self.kv_heads, head_dim = heads
        self.theta = theta
        self.q_proj = nn.Linear(d, self.heads * head_dim, bias=False)
        self.k_proj = nn.Linear(d, self.kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(d, self.kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(self.heads * head_dim, d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q = rotated(heads_first(self.q_proj(x), self.heads), self.theta)
        k = rotated(heads_first(self.k_proj(x), self.kv_heads), self.theta)
        v = heads_first(self.v_proj(x), self.kv_heads)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(heads_last(y))


class LlamaMlp(nn.Module):
    def __init__(self, d: int, ffn: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(d, ffn, bias=False)
        self.up_proj = nn.Linear(d, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, d, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, d: int, attention: LlamaAttention, ffn: int, eps: float) -> None:
        super().__init__()
        self.self_attn = attention
        self.mlp = LlamaMlp(d, ffn)
        self.input_layernorm = RmsNorm(d, eps)
        self.post_attention_layernorm = RmsNorm(d, eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(
        self, vocabulary: int, d: int, layers: int, heads: tuple[int, int, int], ffn: int,
        theta: float,
    ) -> None:  # fmt: skip
        super().__init__()

        def layer() -> nn.Module:
            return LlamaLayer(d, LlamaAttention(d, heads, theta), ffn, 1e-5)

        self.model = nn.ModuleDict(
            {
                "embed_tokens": nn.Embedding(vocabulary, d),
                "layers": nn.ModuleList([layer() for _ in range(layers)]),
                "norm": RmsNorm(d, 1e-5),
            }
        )

    def hidden(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.model["embed_tokens"](ids)
        for layer in self.model["layers"].children():
            x = layer(x)
        return self.model["norm"](x)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        table = self.model["embed_tokens"]
        assert isinstance(table, nn.Embedding)
        return F.linear(self.hidden(ids), table.weight)


# --- Mixtral -------------------------------------------------------------------------------------


class Experts(nn.Module):
    """Every expert on all rows, and only the share that a row takes of it."""

    def __init__(self, d: int, ffn: int, experts: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.zeros(experts, 2 * ffn, d))
        self.down_proj = nn.Parameter(torch.zeros(experts, d, ffn))

    def forward(self, x: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        gate, up = torch.einsum("rd,efd->erf", x, self.gate_up_proj).chunk(2, -1)
        each = torch.einsum("erf,edf->erd", F.silu(gate) * up, self.down_proj)
        return torch.einsum("erd,re->rd", each, share)


class SparseMoe(nn.Module):
    """The `top` experts of each row share it by their probabilities."""

    def __init__(self, d: int, ffn: int, experts: int, top: int) -> None:
        super().__init__()
        self.top = top
        self.gate = nn.Linear(d, experts, bias=False)
        self.experts = Experts(d, ffn, experts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.gate(x.flatten(0, 1)), -1)
        best, chosen = scores.topk(self.top, -1)
        share = torch.zeros_like(scores).scatter(1, chosen, best / best.sum(-1, keepdim=True))
        return self.experts(x.flatten(0, 1), share).reshape(x.shape)


class Mixtral(Llama):
    def __init__(
        self, vocabulary: int, d: int, layers: int, heads: tuple[int, int, int], ffn: int,
        theta: float, experts: int,
    ) -> None:  # fmt: skip
        super().__init__(vocabulary, d, layers, heads, ffn, theta)
        for layer in self.model["layers"].children():
            layer.mlp = SparseMoe(d, ffn, experts, 2)
        self.lm_head = nn.Linear(d, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.hidden(ids))


# --- GPT-2 ---------------------------------------------------------------------------------------


class Conv1D(nn.Module):
    """A linear map whose weight is [in, out]."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(inner, outer))
        self.bias = nn.Parameter(torch.zeros(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.bias


class Gpt2Layer(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(d)
        self.attn = nn.ModuleDict({"c_attn": Conv1D(d, 3 * d), "c_proj": Conv1D(d, d)})
        self.ln_2 = nn.LayerNorm(d)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(d, 4 * d), "c_proj": Conv1D(4 * d, d)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.attn["c_attn"](self.ln_1(x)).split(x.shape[-1], -1)
        q, k, v = (heads_first(part, self.heads) for part in parts)
        y = heads_last(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        x = x + self.attn["c_proj"](y)
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)


class Gpt2(nn.Module):
    def __init__(self, vocabulary: int, positions: int, d: int, layers: int, heads: int) -> None:
        super().__init__()
        self.transformer = nn.ModuleDict(
            {
                "wte": nn.Embedding(vocabulary, d),
                "wpe": nn.Embedding(positions, d),
                "h": nn.ModuleList([Gpt2Layer(d, heads) for _ in range(layers)]),
                "ln_f": nn.LayerNorm(d),
            }
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        tokens, positions = self.transformer["wte"], self.transformer["wpe"]
        assert isinstance(tokens, nn.Embedding)
        x = tokens(ids) + positions(torch.arange(ids.shape[1]))
        for layer in self.transformer["h"].children():
            x = layer(x)
        return F.linear(self.transformer["ln_f"](x), tokens.weight)
