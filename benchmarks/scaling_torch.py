"""The workloads of `scaling.py` in PyTorch, distributed by DDP and by FSDP2.

    torchrun --nproc-per-node 2 -m benchmarks.scaling_torch [--models gpt2,resnet50,vit]
        [--shardings data,fsdp] [--scaling weak] [--steps 20] [--eager]

`data` is DistributedDataParallel, `fsdp` is `fully_shard` of each layer with parameters gathered
in bf16 and gradients summed in float32. Compiled, bf16 by automatic mixed precision, images
channels last, AdamW fused. Batch norm takes the statistics of a device's own examples, as DDP has
it; `--sync-batch-norm` those of all, as ours does. Times and memory are those of the first process.
"""

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterable
from time import perf_counter

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

ROUNDS = 5
WARM_UP = 8
BATCHES = {"gpt2": 16, "resnet50": 128, "vit": 128}
TOKENS = 1024


def gpt2() -> nn.Module:
    """GPT-2 of 124 million parameters, of transformers."""
    from transformers import GPT2Config, GPT2LMHeadModel  # noqa: PLC0415

    none = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", **none))


def resnet50() -> nn.Module:
    """ResNet-50, of torchvision."""
    from torchvision import models  # noqa: PLC0415

    return models.resnet50()


def vit() -> nn.Module:
    """ViT-S/16, of torchvision's parts."""
    from torchvision import models  # noqa: PLC0415

    return models.VisionTransformer(224, 16, 12, 6, 384, 1536)


MODELS: dict[str, Callable[[], nn.Module]] = {"gpt2": gpt2, "resnet50": resnet50, "vit": vit}


def main() -> None:
    """Measure every cell, and print a line of JSON for each."""
    arguments = _parsed()
    place = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(place)
    distributed.init_process_group("nccl", device_id=place)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    for name in arguments.models.split(","):
        for sharding in arguments.shardings.split(","):
            cell = _measured(name, sharding, place, arguments)
            if distributed.get_rank() == 0:
                print(json.dumps(cell), flush=True)
    distributed.destroy_process_group()


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How PyTorch's training steps scale.")
    parser.add_argument("--models", default="gpt2,resnet50,vit")
    parser.add_argument("--shardings", default="data,fsdp")
    parser.add_argument("--scaling", choices=("weak", "strong"), default="weak")
    parser.add_argument("--batch", type=int, default=0, help="of one device alone")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--sync-batch-norm", action="store_true")
    return parser.parse_args()


def _measured(
    name: str, sharding: str, place: torch.device, arguments: argparse.Namespace
) -> dict[str, object]:
    torch._dynamo.reset()  # noqa: SLF001  each cell compiles anew
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    devices = distributed.get_world_size()
    alone = arguments.batch or BATCHES[name]
    batch = alone if arguments.scaling == "weak" else alone // devices
    step = _step(name, sharding, batch, place, arguments)
    rounds: list[float] = []
    for number in range(ROUNDS + 1):
        distributed.barrier()
        torch.cuda.synchronize()
        start = perf_counter()
        count = arguments.steps if number else WARM_UP
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        rounds.append((perf_counter() - start) / count)
    ms = 1000 * statistics.median(rounds[1:])
    return {
        "system": f"PyTorch {torch.__version__}",
        "model": name,
        "scaling": arguments.scaling,
        "sharding": sharding,
        "devices": devices,
        "batch": batch * devices,
        "ms": round(ms, 3),
        "examples_per_second": round(1000 * batch * devices / ms, 1),
        "gib": round(torch.cuda.max_memory_allocated() / (1 << 30), 3),
        "sync_batch_norm": arguments.sync_batch_norm,
    }


def _step(
    name: str, sharding: str, batch: int, place: torch.device, arguments: argparse.Namespace
) -> Callable[[], None]:
    """One step: forward, backward, AdamW."""
    model = MODELS[name]().to(place)
    if name != "gpt2":
        model = model.to(memory_format=torch.channels_last)
    if arguments.sync_batch_norm:
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    inputs, targets = _examples(name, batch, place)
    mixed = torch.autocast("cuda", torch.bfloat16, enabled=sharding == "data")
    if sharding == "data":
        model = DistributedDataParallel(
            model, device_ids=[place.index], gradient_as_bucket_view=True, static_graph=True
        )
    else:
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
        for layer in _layers(name, model):
            fully_shard(layer, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
    run = model if arguments.eager else torch.compile(model, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with mixed:
            found = run(inputs)
            logits = found if isinstance(found, Tensor) else found.logits
            loss = functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())
        loss.backward()
        optimizer.step()

    return step


def _layers(name: str, model: nn.Module) -> Iterable[nn.Module]:
    match name:
        case "gpt2":
            return list(model.transformer.h)
        case "vit":
            return list(model.encoder.layers)
        case _:
            return [block for number in range(1, 5) for block in getattr(model, f"layer{number}")]


def _examples(name: str, batch: int, place: torch.device) -> tuple[Tensor, Tensor]:
    if name == "gpt2":
        ids = torch.randint(0, 50257, (batch, TOKENS + 1), device=place)
        return ids[:, :TOKENS].contiguous(), ids[:, 1:].contiguous()
    images = torch.randn(batch, 3, 224, 224, device=place)
    return (
        images.to(memory_format=torch.channels_last),
        torch.randint(0, 1000, (batch,), device=place),
    )


if __name__ == "__main__":
    main()
