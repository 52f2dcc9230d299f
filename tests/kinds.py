"""One standard model of each kind, large ones narrower than published."""

from collections.abc import Mapping

from meganeura_dsl import pipeline
from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_dsl.elaborate.declarations.models import Elaboration
from meganeura_dsl.elaborate.values import StaticValue
from meganeura_dsl.ir.types import example_sizes

BERT: Mapping[str, StaticValue] = {"vocabulary": 999, "d": 96, "layers": 3, "heads": 4, "ffn": 128}
KINDS: Mapping[str, Mapping[str, StaticValue]] = {
    "resnet18": {},
    "resnet50": {"width": 16},
    "resnet18_biased": {"width": 16},
    "ghost_resnet50": {"width": 16},
    "densenet121": {"growth": 8, "width": 16},
    "mobilenet_v2": {},
    "mobilenet_v3_small": {},
    "mobilenet_v3_large": {},
    "convnext_tiny": {"stages": [[24, 3], [48, 3], [96, 9], [192, 3]]},
    "efficientnet_b0": {},
    "repvgg_a0": {},
    "repvgg_b1g4": {"a": 0.125, "b": 0.125},
    "vit_tiny_patch16_224": {"image": 64},
    "whisper_tiny": {},
    "whisper_words": {},
    "whisper_frames": {},
    "lm_tiny": {},
    "gpt2_tiny": {},
    "gpt2_tiny_lora": {},
    "mamba_tiny": {},
    "bert_tiny": {},
    "bert_base": BERT,
    "minilm_l6": BERT,
    "t5_tiny": {},
    "clip_vit_b32": {
        "vocabulary": 999, "d": 64, "layers": 3, "heads": 4, "image": 64, "width": 96, "depth": 3,
        "image_heads": 4, "projection": 32,
    },
    "lstm_lm": {},
    "gru_lm": {},
    "tagger": {},
    "unet_tiny": {},
    "gan:generator": {},
    "gan:critic": {},
    "gan:drawn": {},
    "wgan:generator": {},
    "wgan:critic": {},
    "wgan:drawn": {},
    "pinn": {},
    "sam": {},
    "maml:regressor": {},
    "maml:adapted": {},
    "gp": {},
    "s4d": {},
    "fno": {},
    "ppo:policy": {},
    "vae:encoder": {},
    "vae:decoder": {},
    "vae:drawn": {},
    "ddpm:denoiser": {},
    "ddpm:drawn": {"iterations": 3},
    "dit_tiny": {},
    "mae_tiny": {},
    "detr_tiny": {},
    "wav2vec2_tiny": {},
    "dit:drawn": {"count": 4, "iterations": 3},
    "distil": {},
    "digits_cnn": {},
    "digits_mlp": {},
    "swin_tiny_patch4_window7_224": {},
    "mixtral_tiny": {},
    "deepseek_tiny": {},
    "rwkv_tiny": {},
    "sage": {},
    "efficientnet_lite0": {},
    "tf_efficientnet_lite0": {},
    "whisper_sentences": {},
}  # fmt: skip
"""Each kind of standard model, and how it is configured; none stands for as published."""


def concrete(name: str) -> Elaboration:
    """A model at the largest sizes that it takes, of 32 and what is half of it again and again."""
    program, config = pipeline.load(name), KINDS[name]
    sizes = example_sizes(pipeline.elaborate_model(program, config=config).inputs.values())
    while True:
        try:
            return pipeline.elaborate_model(program, config=config, sizes=sizes)
        except ProblemError:
            if max(sizes.values(), default=1) == 1:
                raise
            sizes = {each: max(1, size // 2) for each, size in sizes.items()}
