"""A prompt without caches: the likeliest token behind it, ours beside PyTorch's and JAX's.

Nothing is kept for tokens to come: a plain forward pass, whose last row alone gives logits.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.generation.case import Case, per_call

Row = tuple[str, str]
PROGRAM = """from lm import {model}

block Next()(ids: i32[n, s]) -> i32[n]:
  logits = ids |> .: {model}
  return argmax(logits[:, s - 1], 1)

model net = Next()
"""


def ours(case: Case, device: str) -> Iterator[Row]:
    """A session of this repository."""
    import meganeura  # noqa: PLC0415  each contender has its process
    from meganeura_dsl.ir.ops.type_rules import concrete_shape  # noqa: PLC0415

    with TemporaryDirectory() as folder:
        path = Path(folder) / "prompt.mgn"
        path.write_text(PROGRAM.format(model=case.model))
        model = meganeura.load(str(path)).model("net")
    shapes = {each.name: concrete_shape(each.type.shape) for each in model.parameters}
    model.values = dict(case.weights(shapes))
    data = {"ids": case.ids[None]}
    with model.session({"n": 1, "s": case.prompt}, device=device) as session:

        def call() -> int:
            return int(session.step(data)["output"][0])

        yield "token", str(call())
        yield "prompt", f"{per_call(call):.3f}"


def torchs(case: Case, *, compiled: bool) -> Iterator[Row]:
    """Yields transformers' times in strict single precision: eager, and compiled layer by layer.

    Layers share their code, so that is soon compiled. `compiled` is the whole model at once: as
    PyTorch does it by default, and in a graph of CUDA, which the host launches once.
    """
    import torch  # noqa: PLC0415  may be missing

    from benchmarks.generation.with_transformers import model_of  # noqa: PLC0415

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    place = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = model_of(case).to(place)
    prompt = torch.tensor(case.ids, device=place, dtype=torch.long)[None]

    def timed(name: str, run: Callable[..., Any]) -> Iterator[Row]:
        def call() -> int:
            logits = run(input_ids=prompt, use_cache=False, logits_to_keep=1).logits
            return int(logits[0, -1].argmax())

        yield f"token {name}", str(call())
        yield name, f"{per_call(call):.3f}"

    with torch.inference_mode():
        if compiled:
            for mode in ("reduce-overhead", "default"):
                run: Any = torch.compile(model, mode=mode, fullgraph=True, dynamic=False)
                yield from timed(mode, run)
        else:
            yield from timed("eager", model)
            for layer in model.model.layers:
                layer.compile(fullgraph=True, dynamic=False)
            yield from timed("layers compiled", model)


def jaxs(case: Case) -> Iterator[Row]:
    """JAX by hand, precision `highest`; its caches hold the prompt and nothing more."""
    from benchmarks.generation import with_jax  # noqa: PLC0415  may be missing

    run = with_jax.prompt_only(case)
    yield "token", str(int(run()))
    yield "prompt", f"{per_call(lambda: int(np.asarray(run()))):.3f}"
