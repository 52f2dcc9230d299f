"""The same decoder in JAX by hand: layers unrolled, caches donated, precision `highest`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
from jax import Array
from jax import numpy as jnp

from benchmarks.generation.case import EPS, Case, per_call, per_token

Row = tuple[str, str]
Caches = list[tuple[Array, Array]]


def rows(case: Case) -> Iterator[Row]:
    """Yields the measurements as they are made: the tokens first."""
    weights = jax.device_put(case.weights(_shapes(case)))
    step = jax.jit(partial(_step, case), donate_argnums=3)
    prompt = jnp.asarray(case.ids)

    def tokens(count: int) -> Iterator[Array]:
        shape = (case.shared, case.capacity, case.head_dim)
        caches = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(case.layers)]
        token, position = prompt, 0
        for _ in range(count):
            length = len(token)
            token, caches = step(weights, token, position, caches)
            position += length
            yield token
        jax.block_until_ready(token)

    with jax.default_matmul_precision("highest"):
        yield "tokens", " ".join(str(int(each[0])) for each in tokens(case.compared))
        yield "decode", f"{per_token(case, lambda: tokens(case.timed), lambda: None):.3f}"
        yield "prefill", f"{per_call(lambda: jax.block_until_ready(next(tokens(1)))):.3f}"


def prompt_only(case: Case) -> Callable[[], Array]:
    """Returns a function that computes the token behind the prompt, without a cache."""
    weights = jax.device_put(case.weights(_shapes(case)))
    exact = replace(case, compared=0, timed=0)
    prompt = jnp.asarray(case.ids)

    @jax.jit
    def run(weights: dict[str, Array], prompt: Array) -> Array:
        shape = (case.shared, exact.capacity, case.head_dim)
        caches = [(jnp.zeros(shape), jnp.zeros(shape)) for _ in range(case.layers)]
        with jax.default_matmul_precision("highest"):
            return _step(exact, weights, prompt, jnp.int32(0), caches)[0][0]

    return lambda: run(weights, prompt)


def _step(
    case: Case, weights: dict[str, Array], ids: Array, position: Array, caches: Caches
) -> tuple[Array, Caches]:
    """The token behind `ids`, whose first is at `position`, and the caches with them."""
    table = weights["model.embed_tokens.weight"]
    x = table[ids]
    places = position + jnp.arange(len(ids))
    rate = jnp.exp(jnp.arange(case.head_dim // 2) * (-2 * jnp.log(case.theta) / case.head_dim))
    turn = places[:, None] * rate
    visible = jnp.arange(case.capacity) <= places[:, None]
    after: Caches = []
    for number, (old_keys, old_values) in enumerate(caches):

        def w(name: str, layer: int = number) -> Array:
            return weights[f"model.layers.{layer}.{name}.weight"]

        y = _normed(x, w("input_layernorm"))
        q, k, v = (_heads(case, y @ w(f"self_attn.{name}_proj").T) for name in "qkv")
        begin = (0, position, 0)
        keys = jax.lax.dynamic_update_slice(old_keys, _turned(k, turn), begin)
        values = jax.lax.dynamic_update_slice(old_values, v, begin)
        after.append((keys, values))
        q = _turned(q, turn).reshape(case.shared, -1, len(ids), case.head_dim)
        scores = jnp.einsum("gqsd,gtd->gqst", q, keys) * case.head_dim**-0.5
        shares = jax.nn.softmax(jnp.where(visible, scores, -1e30))
        found = jnp.einsum("gqst,gtd->sgqd", shares, values).reshape(len(ids), -1)
        x = x + found @ w("self_attn.o_proj").T
        y = _normed(x, w("post_attention_layernorm"))
        gate = jax.nn.silu(y @ w("mlp.gate_proj").T)
        x = x + (gate * (y @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    x = _normed(x[-1:], weights["model.norm.weight"])
    return jnp.argmax(x @ table.T, -1), after


def _normed(x: Array, scale: Array) -> Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + EPS) * scale


def _heads(case: Case, x: Array) -> Array:
    """Tokens by width as heads by tokens by the width of a head."""
    return x.reshape(len(x), -1, case.head_dim).transpose(1, 0, 2)


def _turned(x: Array, angle: Array) -> Array:
    """Rotary positions."""
    left, right = jnp.split(x, 2, -1)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)


def _shapes(case: Case) -> dict[str, tuple[int, ...]]:
    width, shared = case.width, case.shared * case.head_dim
    layer = {
        "input_layernorm": (width,),
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (shared, width),
        "self_attn.v_proj": (shared, width),
        "self_attn.o_proj": (width, width),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (case.ffn, width),
        "mlp.up_proj": (case.ffn, width),
        "mlp.down_proj": (width, case.ffn),
    }
    names = {
        f"model.layers.{number}.{name}.weight": shape
        for number in range(case.layers)
        for name, shape in layer.items()
    }
    table = {"model.embed_tokens.weight": (case.vocabulary, width), "model.norm.weight": (width,)}
    return table | names
