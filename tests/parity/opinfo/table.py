"""All rows, and the functions without one."""

from collections.abc import Iterator, Mapping
from importlib.resources import files

from tests.dsl.test_special_points import functions
from tests.parity.opinfo import elementwise, layers, matrices, movement, reductions, special
from tests.standard import declared

ROWS = (
    *elementwise.ROWS,
    *reductions.ROWS,
    *movement.ROWS,
    *layers.ROWS,
    *matrices.ROWS,
    *special.ROWS,
)

NO_OPINFO = "PyTorch has it, and no OpInfo of it"
DRAWS = "it draws at random, and no two generators agree"
INITIAL = "it is an initial value of a parameter here"
SIZES = "it is a number that is known before anything runs"
PART = "a part of another function, which has a row"
OTHER_FORM = "its arguments have another form than PyTorch's; tests/parity compares it by itself"
MODEL = "a part of one model or task, which PyTorch leaves to its users"

WITHOUT: Mapping[str, str] = {
    **dict.fromkeys(
        ("Neg", "Add", "Sub", "Mul", "Div", "Compare", "Cast"), "its operator has rows"
    ),
    **dict.fromkeys(("stop_gradient", "grad", "lstm", "lstm_step", "gru", "gru_step"), NO_OPINFO),
    **dict.fromkeys(("rank", "size", "shape", "is_integer", "len", "product", "int"), SIZES),
    **dict.fromkeys(("constant", "uniform", "normal", "kaiming_uniform", "sinusoids"), INITIAL),
    **dict.fromkeys(("random_uniform", "random_normal", "drop_path", "normal_noise"), DRAWS),
    **dict.fromkeys(("sample", "sample_nucleus", "sample_top"), DRAWS),
    **dict.fromkeys(("random_flip", "random_shift", "random_erase", "random_box"), DRAWS),
    **dict.fromkeys(("random_colour", "random_span", "mixup", "cutmix", "spec_augment"), DRAWS),
    **dict.fromkeys(("class_cross_entropy", "soft_cross_entropy", "count", "turns", "mixed"), PART),
    **dict.fromkeys(("half", "cholesky_rounds", "inverse_rounds", "changed_inverse"), PART),
    **dict.fromkeys(("lower_inverse", "lower_inverse_rounds"), PART),
    **dict.fromkeys(("quick_gelu", "soft_targets", "radial", "image_share", "noisy"), MODEL),
    **dict.fromkeys(("turned", "later", "gae", "clipped"), MODEL),
    **dict.fromkeys(("positions", "modulated", "diffused", "ancestral_step"), MODEL),
    **dict.fromkeys(("mae_loss", "patches"), MODEL),
    **dict.fromkeys(("frozen_norm", "waves", "places", "dropped", "matched", "detr_loss"), MODEL),
    **dict.fromkeys(("assignment", "generalized_iou", "area", "scenes"), MODEL),
    **dict.fromkeys(("cosines", "contrast", "wav2vec2_loss", "spans", "others"), MODEL),
    **dict.fromkeys(("rope", "confusion_matrix", "ghost_batch_norm", "lora", "long_conv"), MODEL),
    **dict.fromkeys(("small_asin", "central", "tail", "far_tail", "lgamma_above"), PART),
    **dict.fromkeys(("digamma_above", "pixels", "between", "ctc_losses", "rnnt_losses"), PART),
    **dict.fromkeys(("rnnt", "roi_align"), "PyTorch itself has no such function"),
    **dict.fromkeys(("ctc", "reflect_pad", "sample_at", "searchsorted"), OTHER_FORM),
    **dict.fromkeys(("fake_quantize", "fake_quantize_groups", "quantized_linear"), NO_OPINFO),
    "unit": "a part of one model, of matrices; PyTorch's samples of `normalize` have other ranks",
    "show": "it prints, and gives what it is given",
    "weights": "it names the parameters of a model",
    "u32": "PyTorch's function of this element type has no OpInfo",
    **dict.fromkeys(("linear_recurrence", "example_of", "offsets"), "PyTorch has no such function"),
}
"""Functions without a row, and the reason."""


def every_function() -> Iterator[str]:
    """The functions of the language and of the whole library, once each."""
    library = (
        name
        for file in files("stdlib_models").iterdir()
        if file.name.endswith(".mgn")
        for name in declared(file.name.removesuffix(".mgn"), "block")
        if name[0].islower()
    )
    yield from dict.fromkeys((*functions(), *library))
