"""The Llama family: what a file says of a model, as a program, and the names of its tensors.

The names of entries and tensors are those of ggml's docs/gguf.md; those of the program are Hugging
Face's, as in the standard model `smollm2_135m`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from meganeura_runtime.importing.gguf.gguf_file import GgufFile

ARCHITECTURES: Mapping[str, bool] = {"llama": True, "qwen2": False}
"""The architectures, and whether rope turns neighbours, for which rows of a head were permuted."""
MOST_LAYERS = 1024
LARGEST_SIZE = 1 << 24
BASE = 10_000.0
"""The base of the rotary frequencies where a file does not say it, as in llama.cpp."""
IGNORED = frozenset({"context_length", "rope.scaling.original_context_length",
                     "rope.scaling.finetuned"})  # fmt: skip
"""Entries that say nothing about the results."""
WITHOUT_EFFECT: Mapping[str, tuple[Any, ...]] = {
    "rope.scaling.type": ("none",), "rope.scaling.factor": (0.0, 1.0), "rope.scale_linear": (1.0,),
    "expert_count": (0,), "expert_used_count": (0,), "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,), "attention.max_alibi_bias": (0.0,),
    "use_parallel_residual": (False,), "tensor_data_layout": ("reference", "Meta AI original pth"),
    "attention.sliding_window": (0,),
}  # fmt: skip
"""Entries that may say what they say without being there."""
PARTS: Mapping[str, str] = {
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
"""The parts of a layer, and their paths in the program."""
BIASED = ("attn_q", "attn_k", "attn_v", "attn_output")
"""The parts that may have a bias, all of the first three or none."""


@dataclass(frozen=True)
class Llama:
    """A model of the family."""

    layers: int
    d: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    theta: float
    eps: float
    qkv_bias: bool
    out_bias: bool
    is_tied: bool
    """True if the table that reads the tokens also writes them."""
    is_permuted: bool

    def names(self) -> dict[str, str]:
        """The parameter of the program that each tensor is."""
        found = {
            "token_embd.weight": "model.embed_tokens.weight", "output_norm.weight":
            "model.norm.weight",
        }  # fmt: skip
        if not self.is_tied:
            found["output.weight"] = "lm_head.weight"
        for layer in range(self.layers):
            for part, path in PARTS.items():
                found[f"blk.{layer}.{part}.weight"] = f"model.layers.{layer}.{path}.weight"
            for part in self.biased:
                found[f"blk.{layer}.{part}.bias"] = f"model.layers.{layer}.{PARTS[part]}.bias"
        return found

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The shape of a tensor of a name."""
        *_, part, suffix = tensor.split(".")
        rows, columns = {
            "token_embd": (self.vocabulary, self.d), "output": (self.vocabulary, self.d),
            "attn_q": (self.heads * self.head_dim, self.d),
            "attn_k": (self.kv_heads * self.head_dim, self.d),
            "attn_v": (self.kv_heads * self.head_dim, self.d),
            "attn_output": (self.d, self.heads * self.head_dim),
            "ffn_gate": (self.ffn, self.d), "ffn_up": (self.ffn, self.d),
            "ffn_down": (self.d, self.ffn),
        }.get(part, (self.d, 0))  # fmt: skip
        return (rows, columns) if columns and suffix == "weight" else (rows,)

    @property
    def biased(self) -> tuple[str, ...]:
        """The parts of a layer that have a bias."""
        return (BIASED[:3] if self.qkv_bias else ()) + (BIASED[3:] if self.out_bias else ())

    def permuted_heads(self, tensor: str) -> int:
        """The heads of which the rows of a tensor are in another order, 0 if they are not."""
        part = tensor.split(".")[2] if tensor.startswith("blk.") else ""
        heads = {"attn_q": self.heads, "attn_k": self.kv_heads}.get(part, 0)
        return heads if self.is_permuted else 0

    def text(self, origin: str, name: str) -> str:
        """The program."""
        qkv = "" if self.qkv_bias else ", bias=false"
        out = "" if self.out_bias else ", bias=false"
        head = (
            "x @ rearrange(model.embed_tokens.weight, [vocabulary, d] -> [d, vocabulary])"
            if self.is_tied
            else "x |> lm_head: linear(vocabulary, bias=false)"
        )
        return PROGRAM.format(
            origin=origin, name=name, qkv=qkv, out=out, head=head, vocabulary=self.vocabulary,
            d=self.d, layers=self.layers, heads=self.heads, kv_heads=self.kv_heads, ffn=self.ffn,
            head_dim=self.head_dim, theta=_real(self.theta), eps=_real(self.eps),
        )  # fmt: skip


PROGRAM = """\
# From {origin}: a decoder of the Llama family (Touvron et al. 2023). Names are Hugging Face's.

block SelfAttention(heads, kv_heads, head_dim, theta: real)(x: [n, s, d]) -> [n, s, d]
    where heads % kv_heads == 0, head_dim % 2 == 0, theta > 0:
  q = x |> q_proj: linear(heads * head_dim{qkv})
        |> rearrange([n, s, heads * head_dim] -> [n, heads, s, head_dim])
  k = x |> k_proj: linear(kv_heads * head_dim{qkv})
        |> rearrange([n, s, kv_heads * head_dim] -> [n, kv_heads, s, head_dim])
  v = x |> v_proj: linear(kv_heads * head_dim{qkv})
        |> rearrange([n, s, kv_heads * head_dim] -> [n, kv_heads, s, head_dim])
  y = attention(q |> rope(theta), k |> rope(theta), v, causal=true)
  return y |> rearrange([n, heads, s, head_dim] -> [n, s, heads * head_dim])
           |> o_proj: linear(d{out})

# SwiGLU (Shazeer 2020).
block Mlp(ffn)(x: [n, s, d]) -> [n, s, d]:
  gate = x |> gate_proj: linear(ffn, bias=false) |> silu
  up = x |> up_proj: linear(ffn, bias=false)
  return gate * up |> down_proj: linear(d, bias=false)

block DecoderLayer(heads, kv_heads, head_dim, ffn, theta: real, eps: real)(
    x: [n, s, d]
) -> [n, s, d]
    where heads % kv_heads == 0, head_dim % 2 == 0, theta > 0:
  x = x + (x |> input_layernorm: rms_norm(eps)
             |> self_attn: SelfAttention(heads, kv_heads, head_dim, theta))
  return x + (x |> post_attention_layernorm: rms_norm(eps) |> mlp: Mlp(ffn))

# The logits of each position's next token.
block Decoder(vocabulary, d, layers, heads, kv_heads, head_dim, ffn, theta: real, eps: real)(
    ids: i32[n, s]
) -> [n, s, vocabulary]
    where heads % kv_heads == 0, head_dim % 2 == 0, theta > 0:
  x = ids |> model.embed_tokens: embedding(vocabulary, d, std=0.02)
  for i in 0..layers:
    x = x |> model.layers[i]: DecoderLayer(heads, kv_heads, head_dim, ffn, theta, eps)
  x = x |> model.norm: rms_norm(eps)
  return {head}

model {name} = Decoder({vocabulary}, d={d}, layers={layers}, heads={heads}, kv_heads={kv_heads},
                       head_dim={head_dim}, ffn={ffn}, theta={theta}, eps={eps})
"""


def _real(number: float) -> str:
    """A number with the digits that single precision has."""
    return f"{float(f'{number:.9g}'):.9g}"


def llama_of(file: GgufFile) -> Llama:
    """The model of a file; raises `ProblemError` for one that the program cannot say."""
    name = file.metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise file.fault(f"its architecture is `{str(name)[:80]}`, and {known} are read")
    entries = _Entries(file, str(name))
    heads = entries.size("attention.head_count")
    d = entries.size("embedding_length")
    kv_heads = entries.size("attention.head_count_kv", heads)
    head_dim = entries.size("attention.key_length", d // heads)
    for each in ("attention.value_length", "rope.dimension_count"):
        if entries.size(each, head_dim) != head_dim:
            raise file.fault(f"`{entries.key(each)}` is not the size of a head, {head_dim}")
    if head_dim % 2 or heads % kv_heads:
        said = f"{heads} heads of {head_dim} share {kv_heads} of keys"
        raise file.fault(f"{said}, and heads are even and shared by as many each")
    layers = entries.size("block_count", most=MOST_LAYERS)
    theta = entries.real("rope.freq_base", BASE)
    eps = entries.real("attention.layer_norm_rms_epsilon", None)
    table = file.tensors.get("token_embd.weight")
    vocabulary = table.shape[0] if table is not None else 0
    if entries.size("vocab_size", vocabulary or 1) != (vocabulary or 1):
        raise file.fault(f"`{entries.key('vocab_size')}` is not the size of its table of tokens")
    found = Llama(
        layers, d, heads, kv_heads, head_dim, entries.size("feed_forward_length"), vocabulary,
        theta, eps, "blk.0.attn_q.bias" in file.tensors, "blk.0.attn_output.bias" in file.tensors,
        "output.weight" not in file.tensors, ARCHITECTURES[str(name)],
    )  # fmt: skip
    entries.require_read()
    _require_tensors(file, found)
    return found


def _require_tensors(file: GgufFile, llama: Llama) -> None:
    names = llama.names()
    absent, more = names.keys() - file.tensors.keys(), file.tensors.keys() - names.keys()
    if absent:
        raise file.fault(f"it has no tensor `{min(absent)}`")
    if more:
        raise file.fault(f"the program has nothing for its tensor `{min(more)[:80]}`")
    for name in names:
        found, wanted = file.tensors[name].shape, llama.shape(name)
        if found != wanted:
            raise file.fault(f"`{name}` is {list(found)}, and its entries ask for {list(wanted)}")


class _Entries:
    """The entries of a model, each of which is read or without effect."""

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self._file = file
        self._prefix = f"{architecture}."
        self._read = set(IGNORED)

    def key(self, name: str) -> str:
        return f"{self._prefix}{name}"

    def size(self, name: str, default: int | None = None, most: int = LARGEST_SIZE) -> int:
        found = self._found(name, default)
        if type(found) is not int or not 1 <= found <= most:
            shown = str(found)[:40]
            raise self._file.fault(f"`{self.key(name)}` is {shown}, and no number up to {most:,}")
        return found

    def real(self, name: str, default: float | None) -> float:
        found = self._found(name, default)
        if type(found) is not float or not 1e-30 < found < 1e30:
            raise self._file.fault(f"`{self.key(name)}` is {str(found)[:40]}")
        return found

    def _found(self, name: str, default: object) -> object:
        self._read.add(name)
        found = self._file.metadata.get(self.key(name), default)
        if found is None:
            raise self._file.fault(f"it has no entry `{self.key(name)}`")
        return found

    def require_read(self) -> None:
        """Raise `ProblemError` for an entry that says something else."""
        for key, value in self._file.metadata.items():
            name = key.removeprefix(self._prefix)
            if name == key or name in self._read:
                continue
            usual = WITHOUT_EFFECT.get(name, ())
            if not any(type(value) is type(each) and value == each for each in usual):
                said = f"`{key[:80]}` is {str(value)[:40]}"
                raise self._file.fault(f"{said}, which the program cannot say")
