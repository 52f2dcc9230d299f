"""PyTorch: in the same arithmetic, eager and compiled, and in the fastest arithmetic it has."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.peers.case import LEARNING_RATE, LOSSES, MOMENTUM, Material
from benchmarks.peers.contender import Running, Step
from benchmarks.peers.torch_models import MODELS, RepVGG
from meganeura_dsl.ir.graph import Array

Arithmetic = Literal["strict", "TF32", "bf16"]
SETTLING = 3
"""Steps in which cuDNN looks for its fastest algorithms."""


@dataclass(frozen=True)
class WithTorch:
    """Inputs stay on the GPU, images are channels last, and cuDNN searches for algorithms.

    The search is made when a case has the GPU to itself; until then cuDNN takes other ones.
    `strict` is single precision throughout, TF32 takes tensor cores for products, and bf16 is
    automatic mixed precision.
    """

    name: str
    arithmetic: Arithmetic
    compiled: bool

    def columns(self, *, trains: bool) -> tuple[str, ...]:  # noqa: ARG002
        """What it is timed for."""
        return (self.name,)

    @contextmanager
    def run(self, one: Material) -> Generator[Running]:
        """Build a case, compile it if that is asked for, and take its first steps."""
        allow_tf32(allowed=self.arithmetic != "strict")
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        before = memory_allocated()
        step = self._step(one)
        with self._mode(trains=one.case.trains):
            count = LOSSES if one.case.trains else 1
            found = [_array(step()) for _ in range(count)]
        own = memory_allocated() - before

        def timed() -> None:
            with self._mode(trains=one.case.trains):
                step()

        def settle() -> None:
            # What was chosen in the first steps is remembered for these settings.
            torch.backends.cudnn.deterministic = False
            torch.backends.cudnn.benchmark = True
            for _ in range(SETTLING):
                timed()
            synchronize()

        figures = {f"{self.name}: MiB": lambda: _peak(timed, own)}
        yield Running(
            np.stack(found) if one.case.trains else found[0],
            {self.name: timed},
            synchronize,
            figures if torch.cuda.is_available() else {},
            settle,
        )

    @contextmanager
    def _mode(self, *, trains: bool) -> Generator[None]:
        mixed = torch.autocast(
            _device(), torch.bfloat16, enabled=self.arithmetic == "bf16", cache_enabled=trains
        )
        with torch.set_grad_enabled(trains), mixed:
            yield

    def _step(self, one: Material) -> Callable[[], Tensor]:
        model = network(one)
        run = torch.compile(model, dynamic=False) if self.compiled else model
        x, *others = (_placed(torch.tensor(array), one) for array in one.inputs.values())
        if not one.case.trains:
            return lambda: run(x)
        (target,) = others
        if target.dtype == torch.int32:
            target = target.long()
        optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)

        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            y = run(x)
            is_regression = y.shape == target.shape
            loss_of = functional.mse_loss if is_regression else functional.cross_entropy
            loss = loss_of(y, target)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def __str__(self) -> str:
        where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        return f"PyTorch {torch.__version__} on {where}"


def network(one: Material) -> nn.Module:
    """The model with our weights, on the device; RepVGG infers in its fused form."""
    model = MODELS[one.case.model.name]()
    model.load_state_dict({name: torch.tensor(value) for name, value in one.weights.items()})
    model.train(one.case.trains)
    if isinstance(model, RepVGG) and not one.case.trains:
        with torch.no_grad():
            model.fuse()
    model = model.to(_device())
    return model.to(memory_format=torch.channels_last) if _has_pictures(one) else model


def allow_tf32(*, allowed: bool) -> None:
    """Let products of single precision round their factors to 10 bits, or not."""
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def synchronize() -> None:
    """Wait for the device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def memory_allocated() -> int:
    """Bytes that tensors take on the device."""
    return torch.cuda.memory_allocated() if torch.cuda.is_available() else 0


def _peak(step: Step, own: int) -> float:
    """The most that one model takes in a step, of a process that may hold several."""
    synchronize()
    others = torch.cuda.memory_allocated() - own
    torch.cuda.reset_peak_memory_stats()
    step()
    synchronize()
    return (torch.cuda.max_memory_allocated() - others) / 2**20


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _has_pictures(one: Material) -> bool:
    return next(iter(one.inputs.values())).ndim == 4


def _placed(tensor: Tensor, one: Material) -> Tensor:
    tensor = tensor.to(_device())
    last = _has_pictures(one) and tensor.ndim == 4
    return tensor.to(memory_format=torch.channels_last) if last else tensor


def _array(tensor: Tensor) -> Array:
    return tensor.detach().float().cpu().numpy()
