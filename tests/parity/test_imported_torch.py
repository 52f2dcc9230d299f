"""Programs of `torch.export`, read as programs that give the same."""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from torch.onnx._internal.exporter._registration import ONNXRegistry

import meganeura as api
from meganeura_dsl.diagnostics.problem import ProblemError

STEPS = 3
FIT = f"""\
from net import net

model body = net

train fit(x: [batch, 3, 8, 8], y: [batch, 5]):
  p = x |> body
  minimize mean((p - y) ** 2)
  run:
    data      = "data.safetensors"
    batch     = 6
    epochs    = {STEPS}
    optimizer = sgd(lr=0.1)
"""


registry = cache(ONNXRegistry.from_torchlib)
"""The functions of all operators, which PyTorch reads anew for each program, in a second."""


@pytest.fixture(autouse=True)
def _operators_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ONNXRegistry, "from_torchlib", staticmethod(registry))


class Net(torch.nn.Module):
    """Layers that keep their names, and their weights apart."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.fc = torch.nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of pictures [n, 3, h, w]."""
        return self.fc(torch.relu(self.norm(self.stem(x))).mean((2, 3)))


class Unknown(torch.nn.Module):
    """An op that is not read."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns a bool for each position: true where there is something."""
        return torch.nonzero(x)


def test_a_module_becomes_layers_of_the_library(tmp_path: Path) -> None:
    net = Net().eval()
    batch = torch.export.Dim("batch")
    x = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(net, (x,), dynamic_shapes=({0: batch},))
    made = api.import_torch(exported, tmp_path / "net.mgn")
    layers = "stem: conv2d(4, 3, pad=1) |> norm: batch_norm |> relu |> mean(2, 3) |> fc: linear(5)"
    assert layers in made.program.read_text()
    model = api.load(str(made.program)).model(weights=made.weights)
    assert {each.name for each in model.parameters} == {*net.state_dict()}
    found = model.run({"x": x.numpy()}, device="cpu")["output"]
    with torch.no_grad():
        np.testing.assert_allclose(found, net(x).numpy(), atol=1e-6)


class Trained(torch.nn.Module):
    """A norm with its own momentum, one without weights, a buffer, and frozen parts."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(4, momentum=0.03)
        self.plain = torch.nn.BatchNorm2d(4, affine=False)
        self.frozen = torch.nn.Linear(4, 6).requires_grad_(requires_grad=False)
        self.fc = torch.nn.Linear(6, 5)
        self.fc.weight.requires_grad = False
        self.register_buffer("shift", torch.randn(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two halves of scores of pictures [n, 3, h, w], one upon the other."""
        x = self.plain(torch.relu(self.norm(self.stem(x)))).mean((2, 3))
        left, right = (self.frozen(x) + self.get_buffer("shift")).chunk(2, -1)
        return self.fc(torch.cat([left, left * right], -1))


def test_training_is_pytorchs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = Trained().eval(), torch.randn(6, 3, 8, 8)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(net, (x,), dynamic_shapes=({0: batch},))
    made = api.import_torch(exported, tmp_path / "net.mgn")
    assert "(x: [batch, 3, 8, 8])" in made.program.read_text()
    assert set(made.trained) == {"stem.weight", "norm.weight", "norm.bias", "fc.bias"}
    constants = {"frozen.weight", "frozen.bias", "fc.weight", "shift", "plain.weight", "plain.bias"}
    assert set(made.constants) == constants
    (tmp_path / "fit.mgn").write_text(FIT)
    data = {"x": x.numpy(), "y": np.ones((6, 5), np.float32)}
    save_file(data, tmp_path / "data.safetensors")
    run = api.load(str(tmp_path / "fit.mgn")).train(weights=made.weights, device="cpu")
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = ((net(x) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()  # pyright: ignore[reportUnknownMemberType] - untyped
        optimizer.step()  # pyright: ignore[reportUnknownMemberType] - untyped
    found = load_file(run.weights)
    for name, wanted in net.state_dict().items():
        np.testing.assert_allclose(found[name], wanted.numpy(), atol=2e-6, err_msg=name)


class Within(torch.nn.Module):
    """Applies the weights of two layers within it by functions, biases zero as untrained ones."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = torch.nn.Linear(4, 6), torch.nn.Linear(6, 3)
        torch.nn.init.zeros_(self.wide.bias)
        torch.nn.init.zeros_(self.narrow.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows [n, 4] to [n, 3]."""
        x = torch.nn.functional.linear(x, self.wide.weight, self.wide.bias)
        return torch.nn.functional.linear(x, self.narrow.weight, self.narrow.bias)


def test_weights_of_layers_within_a_module_keep_their_names(tmp_path: Path) -> None:
    net = torch.nn.Sequential(Within()).eval()
    exported = torch.export.export(net, (torch.randn(2, 4),))
    made = api.import_torch(exported, tmp_path / "net.mgn")
    assert set(made.trained) == {*net.state_dict()}


class Scaled(torch.nn.Module):
    """A temperature that is one number, and rates that are a few."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature = torch.nn.Parameter(torch.tensor(0.5))
        self.rates = torch.nn.Parameter(torch.rand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows [n, 4] to [n, 4]."""
        return x * self.temperature.exp() + self.rates.exp()


def test_parameters_of_one_or_a_few_numbers_stay_parameters(tmp_path: Path) -> None:
    exported = torch.export.export(Scaled(), (torch.randn(2, 4),))
    made = api.import_torch(exported, tmp_path / "net.mgn")
    assert set(made.trained) == {"temperature", "rates"}


class Positions(torch.nn.Module):
    """A table of positions that is read at every place, and a mask with infinities."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(32, 8)
        self.register_buffer("mask", torch.full((32, 32), float("-inf")).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention of [n, s, 8] to what is before."""
        steps = x.shape[1]
        x = x + self.table(torch.arange(steps))
        scores = x @ x.transpose(1, 2) + self.get_buffer("mask")[:steps, :steps]
        return scores.softmax(-1) @ x


def test_positions_and_masks_with_infinities(tmp_path: Path) -> None:
    net, x = Positions().eval(), torch.randn(2, 5, 8)
    sizes = ({0: torch.export.Dim("n"), 1: torch.export.Dim("steps", max=31)},)
    made = api.import_torch(
        torch.export.export(net, (x,), dynamic_shapes=sizes), tmp_path / "p.mgn"
    )
    assert "[n, steps, 8]" in made.program.read_text()
    assert (made.trained, made.constants) == (["table.weight"], ["mask_infinite"])
    model = api.load(str(made.program)).model(weights=made.weights)
    with torch.no_grad():
        wanted = net(x).numpy()
    for device in ("cpu", "xla"):
        found = model.run({"x": x.numpy()}, device=device)["output"]
        np.testing.assert_allclose(found, wanted, atol=1e-6)


class Tied(torch.nn.Module):
    """A language model that reads and writes with one table, by layers whose masks differ."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(9, 4)
        self.layers = torch.nn.ModuleList([Masked() for _ in range(3)])
        self.head = torch.nn.Linear(4, 9, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits of words [n, s]."""
        x = self.table(ids)
        for each in self.layers:
            x = each(x)
        return self.head(x)


class Masked(torch.nn.Module):
    """Attention with its own mask, and what all layers compute of the positions."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the preceding elements, of [n, 6, 4]."""
        angles = torch.cos(torch.arange(6)[:, None] * torch.arange(4) * 1.5)
        return x + self.get_buffer("mask") @ torch.tanh(self.fc(x * angles))


def test_a_table_that_is_tied_and_layers_in_a_loop(tmp_path: Path) -> None:
    net, ids = Tied().eval(), torch.randint(0, 9, (2, 6))
    made = api.import_torch(torch.export.export(net, (ids,)), tmp_path / "tied.mgn")
    text = made.program.read_text()
    assert "table: embedding(9, 4)" in text
    assert "for i in 0..3:" in text
    assert made.trained[0] == "table.weight"
    assert "head.weight" not in made.trained
    masks = {f"layers.{index}.mask" for index in range(3)}
    assert set(made.constants) == {"constant1", *masks}


def test_what_the_exporter_of_pytorch_optimized_is_the_module(tmp_path: Path) -> None:
    net, ids = Tied().eval(), torch.randint(0, 9, (2, 6))
    path = tmp_path / "tied.onnx"
    with warnings.catch_warnings():  # PyTorch warns of itself
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (ids,), str(path), dynamo=True, verbose=False)
    made = api.import_onnx(path, tmp_path / "tied.mgn")
    assert "for i in 0..3:" in made.program.read_text()
    layers = {f"layers.{index}.fc.{name}" for index in range(3) for name in ("weight", "bias")}
    (table,) = set(made.trained) - layers
    assert table in ("table.weight", "head.weight")


def test_a_convolution_of_volumes_without_a_bias(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Conv3d(2, 4, 3, bias=False), torch.nn.ReLU()).eval()
    made = api.import_torch(
        torch.export.export(net, (torch.randn(1, 2, 4, 5, 6),)), tmp_path / "v.mgn"
    )
    assert list(made.trained) == ["p0.weight"]
    assert "zeros([" not in made.program.read_text()


class Ordered(torch.nn.Module):
    """Extremes along all axes and some, and sorts in which equal elements keep their order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rows [n, 5] to [n, 5]."""
        places = torch.argsort(x, dim=1, stable=True)
        falling = torch.sort(x, dim=0, descending=True, stable=True)[1]
        largest, least = x.amax() + x.amax(1, keepdim=True), x.amin((0, 1), keepdim=True)
        return places * largest + falling * least


def test_extremes_along_all_axes_and_sorts_of_equal_elements(tmp_path: Path) -> None:
    x = torch.randint(-2, 3, (7, 5), generator=torch.Generator().manual_seed(0)).float()
    _assert_read(Ordered(), tmp_path, x)


def test_activations_are_those_of_the_library(tmp_path: Path) -> None:
    layers = [torch.nn.LeakyReLU(0.2), torch.nn.Hardswish(), torch.nn.ReLU6(), torch.nn.Hardtanh()]
    text = _assert_read(torch.nn.Sequential(*layers), tmp_path, 4 * torch.randn(9, 5))
    assert "leaky_relu(slope=0.2) |> hard_swish |> relu6" in text
    assert ">= 1.0, 1.0, " in text  # the slope is 0 at both bounds, and 1 at those of Clip


class Summed(torch.nn.Module):
    """Rows of nodes added up at others, by indices of 32 bits that repeat."""

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Nodes [n, d] and edges i32[e] to nodes [n, d]."""
        return torch.zeros_like(x).index_add(0, target, x[source], alpha=2)


def test_rows_that_are_added_by_indices_of_32_bits(tmp_path: Path) -> None:
    ids = torch.tensor([[0, 4, 4, 1], [2, 2, 3, 2]], dtype=torch.int32)
    _assert_read(Summed(), tmp_path, torch.randn(5, 3), *ids)


class Attends(torch.nn.Module):
    """Attention by PyTorch's function, with what a case names."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Queries [n, heads, s, d] of keys, which are values too."""
        dot_product = torch.nn.functional.scaled_dot_product_attention
        return dot_product(q, k, k, attn_mask=mask, **self.options)  # pyright: ignore[reportArgumentType] - a case


ATTENTIONS = [
    ({}, 4, None, "q @ rearrange(k, [a, b, c, d] -> [a, b, d, c]) * 0.5"),
    ({"scale": 0.25}, 4, None, "* 0.25"),
    ({"is_causal": True}, 4, None, "where(x, -1e30, q @ "),
    ({"enable_gqa": True}, 2, None, "* 0.5"),
    ({"enable_gqa": True, "is_causal": True}, 2, None, "where(z, -1e30, q @ "),
    ({}, 4, torch.bool, "where(mask, q @ rearrange(k, [a, b, c, d] -> [a, b, d, c]) * 0.5, -1e29)"),
    ({"scale": 0.25}, 4, torch.float32, "* 0.25 + mask)"),
]


@pytest.mark.parametrize(("options", "shared", "masks", "said"), ATTENTIONS)
def test_attention_is_read_as_it_is_written(
    options: dict[str, object], shared: int, masks: torch.dtype | None, said: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    given = [torch.randn(2, 4, 3, 4), torch.randn(2, shared, 5, 4)]
    if masks is not None:
        mask = torch.randn(2, 4, 3, 5) > 0
        mask[0, 1, 2] = masks is not torch.bool  # a query that sees no key
        given.append(mask if masks is torch.bool else mask.to(masks))
    assert said in _assert_read(Attends(**options), tmp_path, *given)


def _assert_read(net: torch.nn.Module, folder: Path, *given: torch.Tensor) -> str:
    """Demands that a module gives what the program made of it does; returns its text."""
    made = api.import_torch(torch.export.export(net.eval(), given), folder / "net.mgn")
    model = api.load(str(made.program)).model()
    fed = dict(zip(model.inputs, (each.numpy() for each in given), strict=True))
    found = model.run(fed, device="cpu")["output"]
    np.testing.assert_allclose(found, net(*given).numpy(), atol=1e-6)
    return made.program.read_text()


def test_what_is_no_program_or_has_no_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not Net"):
        api.import_torch(Net(), tmp_path / "net.mgn")
    exported = torch.export.export(Unknown(), (torch.ones(3),))
    with pytest.raises(ProblemError, match="cannot say this `NonZero`"):
        api.import_torch(exported, tmp_path / "net.mgn")


def test_a_message_names_no_temporary_file(tmp_path: Path) -> None:
    exported = torch.export.export(torch.nn.Linear(3, 2).eval(), (torch.zeros(2, 3),))
    with pytest.raises(ProblemError, match=r"cannot read `net\.onnx`"):
        api.import_torch(exported, tmp_path / "net.mgn", sizes={"rows": 3})
