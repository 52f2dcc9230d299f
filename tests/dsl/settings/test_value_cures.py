"""The cures of values that settings do not take, in a program and with `--set`."""

import re

import pytest

from meganeura_dsl.diagnostics.problem import Help, ProblemError, ProblemsError
from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting
from meganeura_dsl.pipeline import check, train_settings
from meganeura_dsl.settings.other_settings import of_moments
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.setting_values import whole
from meganeura_dsl.settings.settings_problems import UnmatchedPaths
from meganeura_runtime.backends.registry import DEVICE_NAMES

PROGRAM = """\
train fit(x: [batch, 64]):
  minimize mean(x |> fc: linear(1))
  run:
    {line}
"""
GIVEN = 'data = "digits"\n    batch = 32\n    '


def refused(line: str, *overrides: str) -> tuple[str, Help | None]:
    """Returns the code and the help of the only problem of a program with this setting."""
    given = check(Source("fit.mgn", PROGRAM.format(line=line)), lambda _: None)
    problems = [each for each in given.problems if each.report().code.startswith("E")]
    if not problems:
        written: dict[str, WrittenSetting] = dict(train_settings(given.program, "fit"))
        try:
            resolve_settings(written, overrides, ("batch",), DEVICE_NAMES)
        except ProblemsError as error:
            problems = list(error.problems)
        except ProblemError as error:
            problems = [error.problem]
    (problem,) = problems
    report = problem.report()
    return report.code, report.help


def code_of(line: str, *overrides: str) -> tuple[str, str | None]:
    """Returns the code of that problem, and the code of its help."""
    code, advice = refused(line, *overrides)
    return code, advice.code if advice else None


def accepted(line: str) -> bool:
    """Returns True if a program with this setting is without errors."""
    given = check(Source("fit.mgn", PROGRAM.format(line=line)), lambda _: None)
    resolve_settings(train_settings(given.program, "fit"), (), ("batch",), DEVICE_NAMES)
    return not any(each.report().code.startswith("E") for each in given.problems)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("steps = 1e4", "steps = 10000"),
        ('epochs = "20"', "epochs = 20"),
        ("schedule = cosine(warmup=1e2)", "warmup=100"),
        ('optimizer = adam(lr="1e-3")', "lr=1e-3"),
        ('optimizer = "adam"', "optimizer = adam()"),
        ('optimizer = "AdamW"', "optimizer = adamw()"),
        ('optimizer = "adam(lr=1e-3)"', "optimizer = adam(lr=1e-3)"),
        ("optimizer = 0.001", "optimizer = adam(lr=0.001)"),
        ('optimizer["fc.*"] = "sgd"', 'optimizer["fc.*"] = sgd()'),
        ('optimizer = "nadam"', None),
        ('schedule = "cosine"', "schedule = cosine()"),
        ('log = "wandb"', 'log = ["wandb"]'),
        ('disabled_rules = "fold"', 'disabled_rules = ["fold"]'),
        ('shuffle = "False"', "shuffle = false"),
        ("drop_last = 1", "drop_last = true"),
        ('clip_norm = "1.0"', "clip_norm = 1.0"),
        ("memory = 8", 'memory = "8GiB"'),
        ("epochs = 0.5", "epochs = 10"),
    ],
)
def test_a_value_of_another_kind_is_given_its_form(line: str, right: str | None) -> None:
    assert code_of(GIVEN + line) == ("E0512", right)
    if right is not None and right.startswith(line.partition(" ")[0]):
        assert accepted(GIVEN + right)


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ("steps = 1000\n    schedule = cosine(warmup=0.05)", "warmup=50"),
        ("steps = 1000\n    accumulate = 4\n    schedule = linear(warmup=0.1)", "warmup=25"),
        ("steps = 3\n    schedule = cosine(warmup=0.05)", "warmup=1"),
        ("epochs = 3\n    steps_per_epoch = 100\n    schedule = constant(warmup=0.1)", "warmup=30"),
        ("steps = 1000\n    schedule = cosine(steps=0.9)", "steps=900"),
        ("epochs = 20\n    schedule = cosine(warmup=0.05)", None),
        ("steps = 1000\n    schedule = cosine(warmup=2.5)", None),
    ],
)
def test_a_share_of_the_run_is_told_its_steps(lines: str, right: str | None) -> None:
    assert code_of(GIVEN + lines) == ("E0512", right)
    if right is not None:
        name = right.partition("=")[0]
        assert accepted(GIVEN + re.sub(rf"\({name}=[0-9.]+", f"({right}", lines))


def test_where_the_steps_are_unknown_it_is_told_what_they_are() -> None:
    _, advice = refused(GIVEN + "epochs = 20\n    schedule = cosine(warmup=0.05)")
    assert advice is not None
    assert "0.05 times its epochs times the batches of an epoch" in advice.text


def test_an_override_of_a_share_is_told_the_option() -> None:
    given = ("schedule=cosine(warmup=0.05)", "steps=1000")
    assert code_of(GIVEN, *given) == ("E0512", "--set schedule.warmup=50")


def test_so_is_the_size_of_a_batch() -> None:
    assert code_of('data = "digits"\n    batch = "32"') == ("E0512", "batch = 32")
    assert code_of('data = "digits"\n    batch = "many"') == ("E0512", None)


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ('precision = "fp16"', 'precision = "f16"'),
        ('precision = "half"', 'precision = "f16"'),
        ("precision = 16", 'precision = "f16"'),
        ('precision = "float32"', 'precision = "f32"'),
        ('precision = "bfloat16"', 'precision = "bf16"'),
        ('precision = "int8"', None),
        ('device = "cuda"', 'device = "wgpu"'),
        ('device = "gpu"', 'device = "wgpu"'),
        ('device = "mps"', 'device = "wgpu"'),
        ("steps = 0", "epochs = 0"),
        ("steps = -1", None),
    ],
)
def test_a_value_of_other_systems_is_given_ours(line: str, right: str | None) -> None:
    assert code_of(GIVEN + line) == ("E0513", right)
    assert right is None or accepted(GIVEN + right)


@pytest.mark.parametrize(
    ("override", "right"),
    [
        ("batch=1e4", "--set batch=10000"),
        ('optimizer="adam"', "--set optimizer=adam"),
        ('optimizer.lr="0.1"', "--set optimizer.lr=0.1"),
        ("log=tensorboard", """--set 'log=["tensorboard"]'"""),
        ("device=cuda", "--set device=wgpu"),
        ("precision=fp16", "--set precision=f16"),
        ("epochs.lr=0.1", "--set optimizer.lr=0.1"),
        ("epochs.warmup=100", "--set schedule.warmup=100"),
        ('epochs["*.bias"]=3', "--set epochs=3"),
        ('lr["fc.*"]=1e-4', """--set 'optimizer["fc.*"].lr=1e-4'"""),
    ],
)
def test_with_the_command_it_has_the_form_of_the_option(override: str, right: str) -> None:
    assert code_of(GIVEN, override)[1] == right


@pytest.mark.parametrize("line", ['log = "json"', 'log = ["json"]', "log = json"])
def test_a_log_that_each_run_writes_is_left_out(line: str) -> None:
    _, advice = refused(GIVEN + line)
    assert advice == Help("leave it out: each run writes `metrics.jsonl` in its folder")


@pytest.mark.parametrize("line", ["clip_norm = 0", "ema = 0", "stop_after = 0"])
def test_what_0_switches_off_elsewhere_is_left_out(line: str) -> None:
    assert refused(GIVEN + line) == ("E0513", Help("leave it out to go without"))


def test_a_number_for_some_paths_keeps_its_paths() -> None:
    """The advice was a learning rate, and a decay, of all parameters."""
    assert code_of(GIVEN + 'lr["fc.*"] = 1e-4')[1] == 'optimizer["fc.*"] = adam(lr=1e-4)'
    decay = 'optimizer["*.bias"] = adamw(weight_decay=0)'
    assert code_of(GIVEN + 'weight_decay["*.bias"] = 0')[1] == decay


@pytest.mark.parametrize(
    ("line", "right"),
    [
        (
            "optimizer = adam(lr=0.001), clip_norm=1.0",
            "optimizer = adam(lr=0.001)\nclip_norm = 1.0",
        ),
        ("epochs = 10,", "epochs = 10"),
        ("device = wgpu:1", 'device = "wgpu:1"'),
        ("device = xla:gpu:0  # the first", 'device = "xla:gpu:0"'),
        ("validation = ../digits.npz", 'validation = "../digits.npz"'),
        ("log_every = 2:3", None),
    ],
)
def test_more_than_a_value_is_given_lines_or_quotes(line: str, right: str | None) -> None:
    assert code_of(GIVEN + line) == ("E0101", right)
    assert right is None or accepted(GIVEN + right.replace("\n", "\n    "))


def test_a_path_without_quotes_is_no_division() -> None:
    assert code_of("data = data/digits.npz") == ("E0201", 'data = "data/digits.npz"')


def test_a_setting_without_a_value_and_a_second_one_are_left_out() -> None:
    text = "a setting that has no value is left out, with its line"
    assert refused(GIVEN + "seed = None") == ("E0121", Help(text))
    assert refused(GIVEN + 'data = "mnist"') == ("E0216", Help("leave out one of the lines"))


@pytest.mark.parametrize("value", ["mse", "mse(x, x)", "cross_entropy"])
def test_a_loss_is_no_setting(value: str) -> None:
    text = "the loss is what `minimize` says: leave this line out"
    assert refused(GIVEN + f"loss = {value}") == ("E0216", Help(text))


def test_a_metric_that_is_measured_twice_is_given_another_name() -> None:
    program = """\
train fit(x: [batch, 64]):
  minimize mean(x |> fc: linear(1))
  metric loss = mean(x)
"""
    problem, *_ = check(Source("fit.mgn", program), lambda _: None).problems
    report = problem.report()
    assert (report.code, report.help and report.help.code) == ("E0216", "metric loss_2 = mean(x)")


def test_a_glob_with_a_slip_is_given_the_label() -> None:
    known = ("body.weight", "body.bias", "head.weight")
    report = UnmatchedPaths(whole('optimizer["bodi.*"]=frozen'), "bodi.*", known).report()
    assert report.help == Help("did you mean `body.*`?")
    assert UnmatchedPaths(whole("x=1"), "tail.*", known).report().help is None
    assert UnmatchedPaths(whole("x=1"), "bodi.scale", known).report().help is None


@pytest.mark.parametrize(
    ("given", "cure"),
    [("momentum=0.8", "beta1=0.8"), ("betas=(0.8, 0.99)", "beta1=0.8, beta2=0.99")],
)
def test_the_decays_of_moments_have_their_names(given: str, cure: str) -> None:
    name = given.partition("=")[0]
    found = of_moments(name, ("lr", "beta1", "beta2"), f"adam(lr=1e-3, {given})")
    assert found is not None
    assert found.code == cure
    assert of_moments(name, ("lr", "momentum"), f"sgd({given})") is None
