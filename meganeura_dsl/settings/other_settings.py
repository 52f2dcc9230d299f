"""Names of settings in PyTorch Lightning, Keras and Hugging Face, and the advice on each."""

import re
from collections.abc import Collection, Mapping

from meganeura_dsl.diagnostics.problem import Help
from meganeura_dsl.settings.run_settings import SETTINGS

BATCH = "batch = 64"
_NAMES: Mapping[str, str] = {
    "optimizer.lr = 1e-3": "lr learning_rate base_lr max_lr",
    "optimizer.weight_decay = 0.01": "weight_decay wd l2",
    "optimizer.momentum = 0.9": "momentum",
    "optimizer.beta1 = 0.9": "beta1 betas adam_beta1",
    "optimizer.beta2 = 0.999": "beta2 adam_beta2",
    BATCH: "batch_size bs train_batch_size per_device_train_batch_size minibatch",
    "epochs": "n_epochs num_epochs max_epochs num_train_epochs",
    "steps": "max_steps num_steps iterations max_iters n_steps total_steps",
    "seed": "random_seed manual_seed random_state",
    "workers": "num_workers n_workers dataloader_num_workers",
    "stop_after": "early_stopping early_stop patience EarlyStopping early_stopping_patience",
    "schedule": (
        "scheduler lr_scheduler lr_schedule warmup warmup_steps num_warmup_steps lr_decay"
        " lr_scheduler_type cosine"
    ),
    "clip_norm": (
        "grad_clip gradient_clip gradient_clip_val gradient_clipping max_grad_norm clip"
        " clip_grad_norm clip_grad clipnorm"
    ),
    "clip_value": "clip_grad_value clipvalue",
    "precision": "amp fp16 bf16 mixed_precision autocast half dtype",
    "device": "accelerator gpu gpus cuda use_cuda backend",
    "accumulate": (
        "gradient_accumulation_steps accumulate_grad_batches grad_accum grad_accumulation"
    ),
    "validation": "val val_split validation_split valid validation_data val_data test_size",
    'data = "images"': "dataset train_data data_dir data_path train_dir dataset_path",
    "ema": "ema_decay use_ema swa",
    "log_every": "log_interval log_every_n_steps logging_steps print_every",
    "eval_every": "check_val_every_n_epoch validation_freq eval_epochs",
    "eval_every_steps": "eval_interval eval_steps val_check_interval evaluate_every eval_freq",
    "save_every": "checkpoint_every save_steps save_interval save_freq",
    "not_finite": "detect_anomaly grad_scaler terminate_on_nan skip_nan",
    "best": "monitor metric_for_best_model save_best_only",
    "memory": "gradient_checkpointing activation_checkpointing checkpointing",
}
"""Names of other systems, by the setting that they are called here."""
_WORDS: Mapping[str, str] = {
    "what is made small is `minimize` in the `train` block": "loss criterion loss_fn objective",
    "a metric is `metric accuracy = mean(...)` in the `train` block": "metric metrics",
    "the folder of a run is given with the command, `--out FOLDER`": (
        "output output_dir out out_dir log_dir logdir save_dir default_root_dir run_name"
    ),
    "a run goes on with the command, `--resume RUN`": "resume resume_from_checkpoint ckpt_path",
    "callbacks are Python's: `program.train(watch=[...])`": "callbacks callback hooks",
    "each program is compiled": "compile jit torch_compile",
    "every run is deterministic": "deterministic benchmark",
}


def _written(setting: str) -> str:
    """A setting with a value: its example, unless one is written already."""
    return f"{setting} = {SETTINGS[setting].example}" if setting in SETTINGS else setting


OTHER_SETTINGS: Mapping[str, Help] = {
    **{
        name: Help("it is called", _written(setting))
        for setting, names in _NAMES.items()
        for name in names.split()
    },
    **{name: Help(words) for words, names in _WORDS.items() for name in names.split()},
}
"""The advice on each name."""


_NUMBER = re.compile(r"(?P<name>[\w.]+ = )[\d.]+(e-?\d+)?", re.IGNORECASE)


def in_a_run(name: str, advice: Help, given: str = "", optimizer: str = "") -> Help:
    """The same, for a `run:` block, where a part of a setting is an argument of it.

    A number that was given stays, where the advice has a number. `optimizer` is the call of the
    optimizer that the block has; the usual one if it has none.
    """
    found = _NUMBER.fullmatch(advice.code or "")
    if given and found:
        advice = Help(advice.text, found["name"] + given)
    outer, dot, inner = (advice.code or "").partition(".")
    if not dot or outer != "optimizer":
        return advice
    rule = _USUAL.get(name, "adam")
    called = re.fullmatch(r"(\w+)(?:\((.*)\))?", optimizer)
    inside = inner.replace(" = ", "=")
    if called is not None:
        argument = inside.partition("=")[0]
        kept = [each for each in re.split(r",\s*", called[2] or "") if each.strip()]
        others = [each for each in kept if not re.match(rf"{argument}\s*=", each)]
        rule, inside = called[1], ", ".join([*others, inside])
    return Help("it is an argument of the optimizer", f"optimizer = {rule}({inside})")


_USUAL = {"momentum": "sgd", "weight_decay": "adamw", "wd": "adamw", "l2": "adamw"}
"""The optimizer that has an argument, where the usual one does not."""
_ARGUMENTS: Mapping[str, str] = {
    "steps": "T_max total_steps num_training_steps decay_steps total_iters max_steps t_total",
    "warmup": "warmup_steps num_warmup_steps n_warmup warmup_iters",
    "final": "end_factor alpha min_lr_ratio",
    "every": "step_size",
    "period": "T_0 first_decay_steps",
    "patience": "num_bad_epochs",
}
"""Names of arguments of schedules in PyTorch, Keras and Hugging Face, by those that they have here.
"""
OTHER_ARGUMENTS: Mapping[str, str] = {
    name: argument for argument, names in _ARGUMENTS.items() for name in names.split()
}
LEAST_RATES = ("eta_min", "min_lr", "lr_end", "end_learning_rate", "lr_min")
"""Arguments elsewhere that are the last learning rate; here it is a factor of the first."""


def with_the_command(advice: Help, given: str = "") -> Help:
    """The same, as an option `--set`, with the value that was given."""
    if advice.code is None:
        return advice
    name, _, value = advice.code.partition(" = ")
    shown = (given if given and "(" not in value else value).replace('"', "")
    return Help(
        advice.text, f"--set {name}={shown}" if "(" not in shown else f"--set '{name}={shown}'"
    )


def of_moments(name: str, known: Collection[str], code: str) -> Help | None:
    """The decays of Adam's moments in place of `betas`, or of the `momentum` of other optimizers.

    `known` are the arguments of the optimizer, and `code` is its call.
    """
    if name == "betas" and {"beta1", "beta2"} <= set(known):
        found = re.search(r"\bbetas\s*=\s*[\[(]\s*([^,\s]+)\s*,\s*([^,\s\])]+)", code)
        first, second = (found[1], found[2]) if found else ("0.9", "0.999")
        return Help("they are two arguments", f"beta1={first}, beta2={second}")
    if name == "momentum" and "beta1" in known:
        found = re.search(r"\bmomentum\s*=\s*([^,\s)]+)", code)
        text = "the decay of the mean of gradients is `beta1` here"
        return Help(text, f"beta1={found[1] if found else '0.9'}")
    return None
