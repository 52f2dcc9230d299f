"""Steps of training in f32 and in f16 on matrix units, kernel by kernel, at large batches.

    python -m benchmarks.half_precision [--only NAME] [--f32 wgpu] [--f16 dawn] [--kinds 5]

Models are those of the standard library, trained by SGD with momentum, on inputs that stay on the
device. For each device the table has milliseconds of a step, the memory of its plan, and the time
of its kernels by kind, the slowest first. A process each plans all models side by side; they are
timed one after another.
"""

import argparse
import fcntl
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.case import LEARNING_RATE, MOMENTUM
from meganeura_dsl.ir.cost_model import DeviceModel
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.pipeline import elaborate_train, load
from meganeura_dsl.settings.compute_precision import ComputePrecision
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.webgpu.open_adapter import OpenAdapter
from meganeura_runtime.backends.webgpu.schedule.compile import plan_graph
from meganeura_runtime.backends.webgpu.timing.profile import profile_on

TEXT = """\
{head}

train fit(x: i32[batch, {positions} + 1]):
  minimize cross_entropy(x[:, :{positions}] |> subject, x[:, 1:])
"""
IMAGES = """\
{head}

train fit(x: [batch, 3, 224, 224], y: i32[batch]):
  minimize cross_entropy(x |> subject, y)
"""
NOISE = """\
{head}

train fit(x: [batch, 4, 64, 64], level: [batch], y: [batch, 4, 64, 64]):
  minimize mse(subject(x, level), y)
"""
SMOLLM2 = (
    "Decoder(vocabulary=49152, d=576, layers=30, heads=9, kv_heads=3, ffn=1536, theta=100000.0)"
)


@dataclass(frozen=True)
class Training:
    """A model, and the batch that it is trained on."""

    name: str
    module: str
    block: str
    batch: int
    form: str = IMAGES
    positions: int = 0

    def step(self, device: DeviceModel, *, scale_loss: bool) -> Graph:
        """The optimized step."""
        block = self.block.partition("(")[0]
        head = f"from {self.module} import {block}\n\nmodel subject = {self.block}"
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "benchmark.mgn"
            path.write_text(self.form.format(head=head, positions=self.positions))
            found = elaborate_train(
                load(str(path)), "fit", sizes={"batch": self.batch}, training=True
            )
        settings = TrainingSettings(Sgd(LEARNING_RATE, momentum=MOMENTUM), scale_loss=scale_loss)
        return optimized_training_step(found.graph, settings, RewriteOptions(device=device)).graph


TRAININGS = (
    Training("GPT-2, 8 x 1024", "gpt2", "Gpt2(d=768, layers=12, heads=12)", 8, TEXT, 1024),
    Training("SmolLM2-135M, 4 x 1024", "lm", SMOLLM2, 4, TEXT, 1024),
    Training("ViT-S/16, 128", "vit", "ViT(d=384, layers=12, heads=6)", 128),
    Training("ResNet-50, 128", "resnet", "ResNet(depths=[3, 4, 6, 3], expansion=4)", 128),
    Training("U-Net of 64 channels, 32", "unet", "UNet(base=64, groups=16)", 32, NOISE),
)


def measure(one: Training, selector: str, precision: ComputePrecision, kinds: int) -> str:
    """Returns a row of the table; waits until no other process times anything."""
    scales = precision is ComputePrecision.F16
    graph = one.step(model_of(selector, precision), scale_loss=scales)
    opened = choose_device(selector, precision=precision)
    if not isinstance(opened, OpenAdapter):
        raise TypeError(f"{selector} is no device of WebGPU")
    plan = plan_graph(graph, opened.limits, opened.device.style, opened.configs)
    with (Path(tempfile.gettempdir()) / "meganeura-benchmark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = profile_on(opened.device, graph, plan)
    parts = [f"{row.kind} {1e3 * row.seconds:.2f}" for row in found.kinds()[:kinds]]
    memory = sum(found.memory.values()) / 2**20
    cells = [one.name, f"{selector}, {precision}", f"{1e3 * found.step:.2f}", f"{memory:.0f}"]
    return f"| {' | '.join([*cells, ', '.join(parts)])} |"


def main() -> None:
    """Time all trainings, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="trainings whose names begin so")
    parser.add_argument("--f32", default="wgpu", help="the device that computes in f32")
    parser.add_argument("--f16", default="dawn", help="the device that computes in f16")
    parser.add_argument("--kinds", type=int, default=5, help="kinds of kernels that are shown")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    devices = {"f32": options.f32, "f16": options.f16}
    if options.one:
        name, precision = options.one
        (one,) = (each for each in TRAININGS if each.name == name)
        selector = devices[precision]
        print(measure(one, selector, ComputePrecision(precision), options.kinds), flush=True)
        return
    chosen = [each for each in TRAININGS if each.name.startswith(options.only)]
    if not chosen:
        parser.error(f"there are {'; '.join(each.name for each in TRAININGS)}")
    print(f"| training | device | ms | MiB | ms by kind |\n|{'---|' * 5}", flush=True)
    command = [sys.executable, "-m", "benchmarks.half_precision"]
    given = ["--f32", options.f32, "--f16", options.f16, "--kinds", str(options.kinds)]
    started = [
        subprocess.Popen([*command, *given, "--one", each.name, precision])
        for each in chosen
        for precision, device in devices.items()
        if device
    ]
    failed = [process for process in started if process.wait()]
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
