"""transformers in strict single precision: eager, and compiled with a static cache."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers

from benchmarks.generation.case import EPS, Case, per_call, per_token

Row = tuple[str, str]


def rows(case: Case, *, compiled: bool) -> Iterator[Row]:
    """Yields the measurements as they are made: the tokens first."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    place = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = model_of(case).to(place)
    run = model
    if compiled:
        mode = "reduce-overhead" if place == "cuda" else "default"
        run = torch.compile(model, mode=mode, fullgraph=True, dynamic=False)
    prompt = torch.tensor(case.ids, device=place, dtype=torch.long)[None]
    if not compiled:
        found = model.generate(
            prompt, max_new_tokens=case.compared, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        yield "tokens", " ".join(map(str, found[0, case.prompt :].tolist()))

    def wait() -> None:
        if place == "cuda":
            torch.cuda.synchronize()

    # One static cache, as a graph of CUDA is recorded for where it lies.
    static = transformers.StaticCache(model.config, max_cache_len=case.capacity)

    def cache() -> object:
        if not compiled:
            return transformers.DynamicCache(config=model.config)
        static.reset()
        return static

    def start() -> Iterator[object]:
        return _tokens(case, run, prompt, case.timed, cache())

    def first() -> None:
        next(_tokens(case, run, prompt, 1, cache()))
        wait()

    with torch.inference_mode():
        yield "decode", f"{per_token(case, start, wait):.3f}"
        yield "prefill", f"{per_call(first):.3f}"


def _tokens(
    case: Case, run: Callable[..., Any], prompt: torch.Tensor, steps: int, cache: object
) -> Iterator[object]:
    """The likeliest tokens, each computed from the one before without leaving the device."""
    place = prompt.device
    position = torch.arange(case.prompt, device=place)
    token = prompt
    for _ in range(steps):
        if place.type == "cuda":
            torch.compiler.cudagraph_mark_step_begin()
        logits = run(
            input_ids=token,
            past_key_values=cache,
            position_ids=position[None],
            cache_position=position,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        token = logits[:, -1:].argmax(-1).clone()
        position = position[-1:] + 1
        yield token


def model_of(case: Case) -> transformers.LlamaForCausalLM:
    """The model with the weights of the case, on the host."""
    config = transformers.LlamaConfig(
        vocab_size=case.vocabulary,
        hidden_size=case.width,
        num_hidden_layers=case.layers,
        num_attention_heads=case.heads,
        num_key_value_heads=case.shared,
        intermediate_size=case.ffn,
        rms_norm_eps=EPS,
        rope_parameters={"rope_type": "default", "rope_theta": case.theta},
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    model: Any = transformers.LlamaForCausalLM(config)
    named = {name: value for name, value in model.state_dict().items() if "lm_head" not in name}
    values = case.weights({name: tuple(value.shape) for name, value in named.items()})
    with torch.no_grad():
        for name, value in named.items():
            value.copy_(torch.from_numpy(values[name]))
    return model.eval()
