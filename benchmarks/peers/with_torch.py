"""PyTorch: eager, compiled, and compiled with CUDA graphs, in each precision."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile

from benchmarks.peers.case import LEARNING_RATE, LOSSES, MOMENTUM, Material
from benchmarks.peers.contender import (
    RESIDENT,
    Absent,
    Figure,
    Kernel,
    Precision,
    Running,
    Step,
)
from benchmarks.peers.models import Model
from benchmarks.peers.torch_library import LIBRARY
from benchmarks.peers.torch_models import MODELS, RepVGG
from meganeura_dsl.ir.graph import Array

Mode = Literal["eager", "compiled", "graphs"]
Placed = TypeVar("Placed", Tensor, nn.Module)


@dataclass(frozen=True)
class WithTorch:
    """Inputs stay on the device, images are channels last, cuDNN searches for its algorithms.

    `tf32` takes tensor cores for products of float32. `bf16` is automatic mixed precision, around
    the forward pass and the loss; an inference has its weights and inputs in bfloat16 instead,
    unless it is to be `mixed` too; its outputs are of bfloat16, unless they are to be `widened` to
    float32, as ours are. The optimizer is the fused one, and `graphs` is torch.compile's
    mode `reduce-overhead`.
    """

    device: str
    mode: Mode
    precision: Precision
    mixed: bool = False
    widened: bool = False

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Build a case, compile it if that is asked for, and take its first steps."""
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Absent("PyTorch finds no CUDA device")
        allow_tf32(allowed=self.precision == "tf32")
        torch.backends.cudnn.benchmark = True
        with torch.set_grad_enabled(one.case.trains):
            step = self._step(one)
            count = LOSSES if one.case.trains else 1
            found = [_array(step()) for _ in range(count)]
            yield Running(
                np.stack(found) if one.case.trains else found[0],
                {RESIDENT: step},
                self._wait,
                self._figures(step),
                self._kernels,
            )

    def _step(self, one: Material) -> Callable[[], Tensor]:
        model = network(one, self.device)
        tensors = [self._placed(each) for each in one.inputs.values()]
        if one.case.trains:
            return self._training(one, model, *tensors)
        (x,) = tensors
        if self.precision == "bf16" and not self.mixed:
            model = model.bfloat16()
            x = x.bfloat16() if x.is_floating_point() else x
        run = self._compiled(lambda x: model(x).float()) if self.widened else self._compiled(model)
        autocast = self._autocast(enabled=self.mixed)

        def infer() -> Tensor:
            self._begin()
            with autocast:
                return run(x)

        return infer

    def _training(
        self, one: Material, model: nn.Module, x: Tensor, y: Tensor | None = None
    ) -> Callable[[], Tensor]:
        if y is None:
            x, y = x[:, :-1].contiguous(), x[:, 1:].contiguous()
        target = y if y.is_floating_point() else y.long()
        loss_of = functional.mse_loss if one.case.model.kind == "sounds" else _cross_entropy
        optimizer = torch.optim.SGD(
            [each for each in model.parameters() if each.requires_grad],
            lr=LEARNING_RATE,
            momentum=MOMENTUM,
            fused=True,
        )
        # The loss is compiled with the model, so that what it reads need not be stored.
        forward = self._compiled(lambda: loss_of(model(x), target))
        autocast = self._autocast(enabled=True)

        def train() -> Tensor:
            self._begin()
            optimizer.zero_grad(set_to_none=True)
            with autocast:
                loss = forward()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return train

    def _compiled(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        match self.mode:
            case "eager":
                return function
            case "compiled":
                return torch.compile(function, dynamic=False)
            case "graphs":
                return torch.compile(function, dynamic=False, mode="reduce-overhead")

    def _begin(self) -> None:
        if self.mode == "graphs":
            torch.compiler.cudagraph_mark_step_begin()

    def _autocast(self, *, enabled: bool) -> torch.autocast:
        return torch.autocast(
            self.device, torch.bfloat16, enabled=enabled and self.precision == "bf16"
        )

    def _placed(self, array: Array) -> Tensor:
        tensor = torch.tensor(array, device=self.device)
        return channels_last(tensor) if tensor.ndim == 4 else tensor

    def _figures(self, step: Step) -> Mapping[str, Figure]:
        # The memory of CUDA graphs lies in their own pools, of which no peak is known.
        is_known = self.device == "cuda" and self.mode != "graphs"
        return {"MiB": lambda: self._peak(step)} if is_known else {}

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _peak(self, step: Step) -> float:
        """The most that is allocated in a step."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() / 2**20

    def _kernels(self, action: Step) -> Sequence[Kernel]:
        on_gpu = self.device == "cuda"
        with profile(
            activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]
        ) as seen:
            action()
        return tuple(
            Kernel(each.name(), 1e-9 * each.start_ns(), 1e-9 * each.end_ns())
            for each in seen.profiler.kineto_results.events()
            if not on_gpu or ("CUDA" in str(each.device_type()) and not _is_mark(each.name()))
        )

    def __str__(self) -> str:
        where = torch.cuda.get_device_name() if self.device == "cuda" else "the CPU"
        return f"PyTorch {torch.__version__} on {where}"


def network(one: Material, device: str) -> nn.Module:
    """The model with our weights, on the device; RepVGG infers in its fused form."""
    model = _built(one.case.model)
    model.load_state_dict({name: torch.tensor(value) for name, value in one.weights.items()})
    model.train(one.case.trains)
    if isinstance(model, RepVGG) and not one.case.trains:
        with torch.no_grad():
            model.fuse()
    model = model.to(device)
    return channels_last(model) if one.case.model.kind == "images" else model


def _built(model: Model) -> nn.Module:
    """The model by hand, or that of a library, which may be missing."""
    if model.block in MODELS:
        return MODELS[model.block](**model.arguments)
    try:
        return LIBRARY[model.block]()
    except ImportError as error:
        raise Absent(str(error)) from error


def channels_last(of: Placed) -> Placed:
    """Images and kernels as tensor cores read them; of a CPU nothing depends on it."""
    return of.to(memory_format=torch.channels_last) if torch.cuda.is_available() else of


def allow_tf32(*, allowed: bool) -> None:
    """Let products of single precision round their factors to 10 bits, or not."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _is_mark(name: str) -> bool:
    """True if an event of a trace is a region that TorchInductor marked, with kernels inside."""
    return name.startswith(("##", "Torch-Compiled", "CompiledF"))


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """The mean over all examples and positions."""
    return functional.cross_entropy(logits.flatten(0, -2), target.flatten())


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().cpu().numpy()
