"""Names that other systems have for settings are answered, and what is answered is accepted."""

from pathlib import Path

import pytest

from meganeura.cli.driver.checked_target import check_target
from meganeura_dsl.diagnostics.problem import Report
from meganeura_dsl.settings.other_settings import OTHER_SETTINGS, in_a_run, with_the_command
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.run_settings import SETTINGS
from meganeura_runtime.backends.registry import DEVICE_NAMES
from tests.dsl.settings.test_run_settings import raw, refused, resolved
from tests.folded import each_of

PROGRAM = """\
block Net()(x: [n, 4]) -> [n, 2] = x |> fc: linear(2)
model net = Net()
train fit(x: [{size}, 4], y: i32[{size}]):
  logits = x |> net
  minimize cross_entropy(logits, y)
  metric accuracy = mean(argmax(logits, 1) == y)
  run:
    {setting}
"""
CODES = sorted({(name, each.code) for name, each in OTHER_SETTINGS.items() if each.code})


def refusals(file: Path) -> list[Report]:
    """Returns the problems of a program, without missing settings that a run needs."""
    return [each for each in check_target(str(file)).reports if each.code != "E0511"]


def test_no_name_is_a_setting() -> None:
    assert not OTHER_SETTINGS.keys() & SETTINGS.keys()


@each_of(("name", "code"), CODES)
def test_what_is_answered_is_accepted(name: str, code: str) -> None:
    del code
    advice = with_the_command(OTHER_SETTINGS[name])
    assert advice.code is not None
    override = advice.code.removeprefix("--set ").strip("'")
    given = dict(raw(data="digits", batch=64))
    given.pop(override.partition("=")[0], None)
    overrides = [override]
    if override.startswith("optimizer.momentum"):
        overrides.insert(0, "optimizer=sgd")
    if override.startswith("optimizer.weight_decay"):
        overrides.insert(0, "optimizer=adamw")
    resolve_settings(given, overrides, ("batch",), DEVICE_NAMES, needs_data=True)


@each_of("code", sorted({code for _, code in CODES}))
def test_what_is_answered_in_a_run_is_accepted(code: str, tmp_path: Path) -> None:
    name = next(name for name, each in CODES if each == code)
    file = tmp_path / "net.mgn"
    example = code.partition(" = ")[2]
    given = example if example.strip("0123456789.e-") == "" else "3"
    file.write_text(PROGRAM.format(size="batch", setting=f"{name} = {given or 3}"))
    (report,) = refusals(file)
    assert report.code == "E0510"
    advice = in_a_run(name, OTHER_SETTINGS[name])
    assert report.help == advice
    file.write_text(PROGRAM.format(size="batch", setting=advice.code))
    assert refusals(file) == []


def test_the_size_of_a_batch_is_called_as_the_inputs_call_it(tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    for size, said, name in (
        ("n", "n = 32", "batch_size"),
        ("n", "n = 32", "batch"),
        ("8", None, "batch_size"),
        ("8", None, "batch"),
    ):
        file.write_text(PROGRAM.format(size=size, setting=f"{name} = 32"))
        (report,) = refusals(file)
        assert report.help is not None
        assert report.help.code == said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("batch_size = 32", "batch = 32"),
        ("grad_clip = 0.5", "clip_norm = 0.5"),
        ("lr = 3e-4", "optimizer = adam(lr=3e-4)"),
        ("warmup = 10", "schedule = cosine(warmup=100)"),
        ("optimizer = adamw(lr=1e-3, betas=[0.9, 0.95])", "beta1=0.9, beta2=0.95"),
    ],
)
def test_a_setting_keeps_its_number(setting: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "net.mgn"
    file.write_text(PROGRAM.format(size="batch", setting=setting))
    (report,) = refusals(file)
    assert report.help is not None
    assert report.help.code == said


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("lr=3e-4", "--set optimizer.lr=3e-4"),
        ("batch_size=32", "--set batch=32"),
        ("warmup=10", "--set 'schedule=cosine(warmup=100)'"),
        ("gradient_clip_val=0.5", "--set clip_norm=0.5"),
    ],
)
def test_an_override_keeps_its_number(override: str, said: str) -> None:
    (report,) = refused(raw(data="digits", batch=64), override)
    assert report.help is not None
    assert report.help.code == said


@pytest.mark.parametrize(
    ("device", "said"),
    [("cuda", "`xla:gpu`"), ("cuda:0", "`xla:gpu`"), ("gpu", "`wgpu`"), ("mps", "`wgpu`")],
)
def test_a_gpu_of_another_name_is_told_what_it_is_called(device: str, said: str) -> None:
    (report,) = refused(raw(data="digits", batch=64), f"device={device}")
    assert report.help is not None
    assert said in report.help.text
    assert resolved(raw(data="digits", batch=64), "device=wgpu").device == "wgpu"
