"""DETR against transformers': what it finds, the assignment of its loss, and all gradients."""

import re
from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import DetrConfig, DetrForObjectDetection

from meganeura_dsl.elaborate.declarations.models import Inputs, elaborate_block
from meganeura_dsl.ir.graph import Array
from meganeura_dsl.ir.interpreter import Interpreter, Precision
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.pipeline import load
from meganeura_runtime.io.weights import compare
from tests.effort import effort
from tests.parity import models
from tests.parity.models import Case

pytestmark = pytest.mark.parity

TEXT = """\
from detr import Detr, detr_loss, frozen_norm, matched
from resnet import Features

block Net()(x: [n, 3, h, w]) -> logits: [n, 5, 5], boxes: [n, 5, 4]:
  return x |> model.backbone.conv_encoder.model: Features([1, 1, 1, 1], 4, 2, norm=frozen_norm)
           |> .: Detr(d=12, layers=2, heads=3, ffn=10, queries=5, classes=4, drops=false)

model net = Net()

train fit(x: [n, 3, h, w], label: i32[n, 3], target: [n, 3, 4])
    where 0 <= label, label <= 4:
  logits, boxes = x |> net
  query = matched()(logits, boxes, label, target)
  minimize detr_loss()(logits, boxes, label, target, query)
"""
TORCHVISION: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"embedder\.embedder\.convolution", "conv1"),
    (r"embedder\.embedder\.normalization", "bn1"),
    (r"encoder\.stages\.(\d)\.layers", lambda at: f"layer{int(at[1]) + 1}"),
    (r"shortcut\.convolution", "downsample.0"),
    (r"shortcut\.normalization", "downsample.1"),
    (r"layer\.(\d)\.convolution", lambda at: f"conv{int(at[1]) + 1}"),
    (r"layer\.(\d)\.normalization", lambda at: f"bn{int(at[1]) + 1}"),
]
"""Names of transformers' ResNet, and those of torchvision's, which the published file has."""


def reference() -> DetrForObjectDetection:
    """DETR of transformers with a narrow ResNet, all of whose weights are trained."""
    backbone = {
        "model_type": "resnet", "embedding_size": 2, "hidden_sizes": [8, 16, 32, 64],
        "depths": [1, 1, 1, 1], "out_features": ["stage4"],
    }  # fmt: skip
    config = DetrConfig(
        backbone_config=backbone, d_model=12, num_queries=5, encoder_layers=2,
        decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
        encoder_ffn_dim=10, decoder_ffn_dim=10, dropout=0.0,
    )  # fmt: skip
    config.num_labels = 4
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    module = DetrForObjectDetection(config)
    models.randomized(module)
    return module.float().requires_grad_()


def published(module: DetrForObjectDetection, folder: Path) -> Path:
    """The weights in a file, under the names of the published one."""
    module.save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    for theirs, torchvisions in TORCHVISION:
        tensors = {re.sub(theirs, torchvisions, name): each for name, each in tensors.items()}
    save_file(tensors, path)
    return path


@pytest.fixture
def double_precision() -> Iterator[None]:
    """The weights of classes in transformers' loss are of PyTorch's default precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double_precision")
def test_loss_and_gradients_with_objects_that_fill_up(tmp_path: Path) -> None:
    case = Case("detr", TEXT, reference, {"n": 2, "h": 40, "w": 70})
    module = reference()
    values = compare([published(module, tmp_path)], models.inference(case).parameters).read()
    module = module.double().eval()
    generator = np.random.default_rng(1)
    x = generator.normal(size=(2, 3, 40, 70)).astype(np.float32)
    label = np.array([[2, 0, 4], [1, 1, 3]], np.int32)
    target = generator.uniform(0.2, 0.8, (2, 3, 4)).astype(np.float32)
    labels = [
        {
            "class_labels": torch.tensor(label[n][label[n] < 4], dtype=torch.long),
            "boxes": torch.tensor(target[n][label[n] < 4]).double(),
        }
        for n in range(2)
    ]
    expected = module(pixel_values=torch.tensor(x).double(), labels=labels)
    graph = Interpreter(models.inference(case).graph, Precision.DOUBLE)
    models.assert_near(
        graph.run({**values, "x": x}).outputs,
        {
            "logits": expected.logits.detach().numpy(),
            "boxes": expected.pred_boxes.detach().numpy(),
        },
        1e-12,
    )
    expected.loss.backward()
    with torch.no_grad():
        for each in module.parameters():
            each.copy_(torch.zeros_like(each) if each.grad is None else each.grad)
    slopes = {name: each.numpy() for name, each in load_file(published(module, tmp_path)).items()}
    ours = models.step(case, values, {"x": x, "label": label, "target": target}, Precision.DOUBLE)
    assert ours.loss == pytest.approx(expected.loss.item(), rel=1e-12)
    models.assert_near(ours.gradients, {name: slopes[name] for name in ours.gradients}, 1e-11)


def assigned(cost: Array) -> Array:
    """Our assignment of the rows of matrices to columns."""
    module = load("detr").module
    kind = TensorType(DType.F32, cost.shape)
    graph = elaborate_block(
        module, module.blocks["assignment"], config={}, inputs=Inputs((kind,)), training=False
    ).graph
    (found,) = Interpreter(graph, Precision.DOUBLE).run({"cost": cost}).outputs.values()
    return found


@pytest.mark.parametrize(
    ("rows", "columns"), effort([(3, 5)], [(1, 1), (1, 4), (3, 5), (4, 4), (5, 7)])
)
def test_the_assignment_is_the_best_of_all(rows: int, columns: int) -> None:
    """Half of the matrices are of whole numbers, with many assignments of one cost."""
    generator = np.random.default_rng(rows)
    costs = generator.normal(size=(40, rows, columns))
    costs[::2] = np.round(2 * costs[::2])
    found = assigned(costs)
    every = np.array(list(permutations(range(columns), rows)))
    for cost, row in zip(costs, found, strict=True):
        assert len(set(row)) == rows
        least = cost[np.arange(rows), every].sum(1).min()
        assert cost[np.arange(rows), row].sum() == pytest.approx(least)
