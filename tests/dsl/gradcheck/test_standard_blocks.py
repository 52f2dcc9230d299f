"""Every standard block and model has the gradient that finite differences show."""

from functools import cache

import pytest

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import Sink
from meganeura_dsl.elaborate.scope.linker import LinkedModule
from meganeura_dsl.gradcheck.case_search import SearchBudget, check_gradients
from meganeura_dsl.gradcheck.subjects import Subject, block_subject, subjects
from meganeura_dsl.gradcheck.verdict_text import describe
from meganeura_dsl.gradcheck.verdicts import Passed, Skipped
from meganeura_dsl.resources import standard_model_names
from meganeura_dsl.syntax import ast
from meganeura_dsl.syntax.parser.parser import parse
from tests.effort import effort
from tests.standard import declared

LAYER_FILES = ("nn", "loss")

WITHOUT_FLOATS = [
    *(("nn", name) for name in ("sample", "sample_nucleus", "sample_top")),
    *(("augment", name) for name in ("random_box", "random_span")),
    ("swin", "Part"),
    ("detr", "assignment"),
    ("detr", "matched"),
    ("special", "searchsorted"),
    *(("wav2vec2", name) for name in ("spans", "others")),
]
"""Blocks that return tokens or truth values alone."""

CONSTANT = [("loss", "confusion_matrix"), ("unet", "normal_noise")]
"""Blocks that count, or draw: their gradient is 0."""
TABLES = [
    *(("detr", "waves"), ("detr", "places"), ("linalg", "eye")),
    *(("spectra", "count"), ("spectra", "turns"), ("vit", "positions")),
]
"""Blocks without inputs and weights."""
COMPOSED = [
    ("detr", "DetrResNet50"),
    ("resnet", "Features"),
    *(("wav2vec2", name) for name in ("FeatureEncoder", "Wav2Vec2Base")),
]
"""Networks at one size alone, of blocks that are checked."""
DROWNED = [("wav2vec2", "contrast")]
"""Blocks whose results hold -1e30; tests/parity compares their gradients with PyTorch's."""
UNCHECKED = {*DROWNED, *WITHOUT_FLOATS, *CONSTANT, *TABLES, *COMPOSED}

LAYERS = [
    (file, block)
    for file in LAYER_FILES
    for block in declared(file, "block")
    if (file, block) not in UNCHECKED
]
BLOCKS = {
    f"{file}: {block}": (file, block)
    for file in standard_model_names()
    if file not in LAYER_FILES
    for block in declared(file, "block")
    if (file, block) not in UNCHECKED
}
EXAMPLES = {
    "detr: Detr": (1, 1000),
    "detr: Tiny": (1, 1000),
    "detr: generalized_iou": (20, 10_000),
    "deepseek: DeepSeek": (1, 1000),
    "wav2vec2: cosines": (6, 10_000),
    "wav2vec2: Tiny": (1, 1000),
    "wav2vec2: Wav2Vec2": (1, 1000),
    "rwkv: Rwkv": (1, 1000),
    "mixtral: Mixtral": (1, 1000),
    "ddpm: Drawn": (2, 50),
    "dit: Drawn": (1, 50),
    "deepseek: LatentAttention": (1, 1000),
    "deepseek: Layer": (1, 1000),
    "deepseek: Moe": (1, 1000),
    "rwkv: Layer": (1, 1000),
    "rwkv: TimeMix": (1, 1000),
    "mixtral: Routed": (1, 1000),
    "vision: roi_align": (10, 200),
    **dict.fromkeys(
        (
            *("clip: unit", "deepseek: Gate", "densenet: DenseLayer", "detr: area"),
            "distil: soft_targets",
            *("repvgg: Stage", "resnet: Bottleneck", "resnet: Stage", "sequence: ctc_losses"),
            *("sequence: ctc", "sequence: rnnt_losses", "sequence: rnnt", "vision: pixels"),
            *("vision: between", "vision: sample_at"),
        ),
        (2, 10_000),
    ),
}
"""The numbers of examples of blocks that take a second or more for one (a U-Net in a loop, or
experts whose sizes have to be found), or whose first example has no slope but 0."""
OF_MODELS = {
    *("bert: Bert", "bert: Guesses", "bert: SentenceEncoder", "clip: Clip", "convnext: ConvNext"),
    *("deepseek: DeepSeek", "densenet: DenseNet", "detr: Detr", "detr: Tiny"),
    *("digits_cnn: DigitsNet", "dit: DiT", "dit: Drawn", "dit: Guided", "fno: Fno"),
    *("efficientnet: EfficientNet", "gpt2: Gpt2"),
    *("efficientnet_lite: EfficientNetLite", "lm: Decoder", "mae: Mae", "mamba: Mamba"),
    *("mixtral: Mixtral", "mobilenet: MobileNetV2", "mobilenet_v3: MobileNetV3"),
    *("recurrent: GruLm", "recurrent: LstmLm", "recurrent: Tagger", "repvgg: RepVGG"),
    *("resnet: ResNet", "rwkv: Rwkv", "s4d: Net", "swin: Swin", "t5: T5", "unet: UNet"),
    *("vit: ViT", "wav2vec2: Tiny", "wav2vec2: Wav2Vec2", "whisper: Whisper"),
    *("whisper: WhisperFrames", "whisper: WhisperClassifier"),
}
"""Whole models, checked at night: their blocks are checked by day, and tests/parity compares their
gradients with PyTorch's."""
LAYER, BLOCK = (6, 10_000), (1, 10_000)
"""The numbers of examples of a layer, and of a block that is made of layers: by day and at
night."""


@cache
def module_of(file: str) -> LinkedModule:
    """A standard file, which several tests look into."""
    return pipeline.load(file).module


def subject(file: str, block: str) -> Subject:
    module = module_of(file)
    return block_subject(module, module.blocks[block])


def test_every_block_is_checked() -> None:
    known = {*LAYERS, *UNCHECKED, *BLOCKS.values()}
    for file in standard_model_names():
        parsed = parse(pipeline.find(file).read(), Sink())
        blocks = {each.name.text for each in parsed.declarations if isinstance(each, ast.Block)}
        assert {block for home, block in known if home == file} == blocks


@pytest.mark.parametrize(("file", "block"), LAYERS, ids=[f"<{block}>" for _, block in LAYERS])
def test_layers(file: str, block: str) -> None:
    budget = SearchBudget(examples=effort(*LAYER))
    verdict = check_gradients(subject(file, block), budget)
    assert isinstance(verdict, Passed), describe(verdict)
    assert 2 * verdict.examples >= budget.examples
    assert verdict.slopes > 0
    assert verdict.worst < 1e-5


@pytest.mark.parametrize(("file", "block"), LAYERS, ids=[f"<{block}>" for _, block in LAYERS])
def test_layers_on_kinks(file: str, block: str) -> None:
    budget = SearchBudget(examples=effort(2, 1000), kinks=True)
    verdict = check_gradients(subject(file, block), budget)
    assert isinstance(verdict, Passed), describe(verdict)


@pytest.mark.parametrize(("file", "block"), WITHOUT_FLOATS)
def test_what_gives_no_floats_has_no_gradient(file: str, block: str) -> None:
    verdict = check_gradients(subject(file, block), SearchBudget(examples=1))
    assert verdict == Skipped(block, "none of its results is a float", is_constant=True)


@pytest.mark.parametrize(("file", "block"), TABLES)
def test_a_table_has_no_gradient(file: str, block: str) -> None:
    verdict = check_gradients(subject(file, block), SearchBudget(examples=1))
    assert isinstance(verdict, Skipped)
    assert verdict.reason == "it reads no float that could be moved"


@pytest.mark.parametrize(("file", "block"), CONSTANT)
def test_what_is_constant_is_not_called_fine(file: str, block: str) -> None:
    verdict = check_gradients(subject(file, block), SearchBudget(examples=5))
    assert isinstance(verdict, Skipped)
    assert verdict.is_constant
    assert verdict.reason.startswith("every slope is 0")


@pytest.mark.parametrize(
    "name", effort([each for each in BLOCKS if each not in OF_MODELS], [*BLOCKS])
)
def test_blocks(name: str) -> None:
    """With fewer examples than layers: blocks are made of layers, and networks of blocks."""
    checked = subject(*BLOCKS[name])
    budget = SearchBudget(examples=effort(*EXAMPLES.get(name, BLOCK)))
    verdict = check_gradients(checked, budget)
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.slopes > 0


@pytest.mark.parametrize("name", ["digits_cnn", "digits_mlp", "gpt2", "lm"])
def test_small_models(name: str) -> None:
    """Of larger ones, the configurations are among those of their blocks."""
    (model,) = (each for each in subjects(module_of(name)) if each.is_model)
    verdict = check_gradients(model, SearchBudget(examples=effort(*BLOCK)))
    assert isinstance(verdict, Passed), describe(verdict)
    assert verdict.slopes > 0
