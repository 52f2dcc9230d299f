"""Programs of `torch.export`, read as programs that give the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

import meganeura as api
from meganeura_dsl.diagnostics.problem import ProblemError


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
        """Where there is something."""
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


def test_what_is_no_program_or_has_no_form_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="not Net"):
        api.import_torch(Net(), tmp_path / "net.mgn")
    exported = torch.export.export(Unknown(), (torch.ones(3),))
    with pytest.raises(ProblemError, match="cannot say this `NonZero`"):
        api.import_torch(exported, tmp_path / "net.mgn")
