"""LSTMs of two layers: this repository's beside PyTorch's, which are cuDNN's on an NVIDIA GPU."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.generation.case import per_call
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.pipeline import elaborate_train, load
from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
from meganeura_dsl.transforms.optimizers.optimizers import Sgd
from meganeura_dsl.transforms.training_step import TrainingSettings, optimized_training_step
from meganeura_runtime.backends.registry import choose_device, model_of
from meganeura_runtime.backends.timing.example_inputs import example_of
from meganeura_runtime.backends.timing.step_timer import step_seconds

Row = tuple[str, str]
PROGRAM = """from recurrent import lstm

block Net(width)(x: [n, s, width]) -> [n, s, width]:
  return x |> first: lstm(width) |> second: lstm(width)

model net = Net({width})

train fit(x: [batch, {steps}, {width}], y: [batch, {steps}, {width}]):
  minimize mse(x |> net, y)
"""


@dataclass(frozen=True)
class Sequences:
    """The width, the length and the number of sequences."""

    width: int
    steps: int
    batch: int

    def forward(self) -> Graph:
        """The loss."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "lstms.mgn"
            path.write_text(PROGRAM.format(width=self.width, steps=self.steps))
            found = elaborate_train(load(str(path)), sizes={"batch": self.batch}, training=True)
        return found.graph


LSTM = Sequences(512, 256, 32)
SMALL = Sequences(32, 16, 2)


def ours(sizes: Sequences, device: str, *, profiled: bool) -> Iterator[Row]:
    """The loss alone, and a step of gradient descent."""
    chosen, rewriting = choose_device(device), RewriteOptions(device=model_of(device))
    forward = sizes.forward()
    settings = TrainingSettings(Sgd(1e-3))
    for name, graph in (
        ("LSTM forward", rewriting.optimize(forward, "train").graph),
        ("LSTM training step", optimized_training_step(forward, settings, rewriting).graph),
    ):
        example = example_of(graph)
        with chosen.open(graph) as session:
            session.load(example.persistent)
            yield name, f"{step_seconds(session, example) * 1e3:.3f}"
        profile = chosen.profile(graph) if profiled else None
        for row in () if profile is None else profile.rows[:12]:
            yield f"{row.calls:6} x {row.seconds / row.calls * 1e6:7.2f} us", row.name


def torchs(sizes: Sequences) -> Iterator[Row]:
    """The same by torch.nn.LSTM, in strict single precision."""
    import torch  # noqa: PLC0415  may be missing

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    place = "cuda" if torch.cuda.is_available() else "cpu"
    net = torch.nn.LSTM(sizes.width, sizes.width, 2, batch_first=True).to(place)
    shape = (sizes.batch, sizes.steps, sizes.width)
    x, y = (torch.randn(shape, device=place) for _ in range(2))
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)

    def forward() -> None:
        with torch.inference_mode():
            torch.nn.functional.mse_loss(net(x)[0], y)

    def train() -> None:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(x)[0], y).backward()
        optimizer.step()

    def several(step: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(STEPS):
                step()
            if place == "cuda":
                torch.cuda.synchronize()

        return run

    for name, step in (("LSTM forward", forward), ("LSTM training step", train)):
        yield name, f"{per_call(several(step)) / STEPS:.3f}"


STEPS = 5
"""Steps that follow each other, as they are timed."""
