"""The settings of a run: what is accepted, and what each mistake is told."""

from collections.abc import Sequence

import pytest

from meganeura_dsl.diagnostics.problem import ProblemError, ProblemsError, Report
from meganeura_dsl.diagnostics.source import Source, Span
from meganeura_dsl.elaborate.declarations.written_settings import WrittenSetting
from meganeura_dsl.elaborate.problems.location import Location
from meganeura_dsl.elaborate.scope.parameter_info import ParameterInfo
from meganeura_dsl.elaborate.values import Invocation, StaticValue
from meganeura_dsl.ir.initializers import Zeros
from meganeura_dsl.ir.ops.primitive.leaf import Kind
from meganeura_dsl.ir.types import DType, TensorType
from meganeura_dsl.settings.parameter_groups import parameter_groups, scheduled_parameters
from meganeura_dsl.settings.resolve_settings import resolve_settings
from meganeura_dsl.settings.run_settings import RunSettings
from meganeura_dsl.settings.setting_values import RawSettings
from meganeura_dsl.settings.settings_problems import UnknownSetting
from meganeura_dsl.transforms.optimizers.optimizer import Optimizer
from meganeura_dsl.transforms.optimizers.optimizers import OPTIMIZERS, Adam, Sgd
from meganeura_dsl.transforms.optimizers.schedules import Constant, Cosine, Linear, Schedule
from meganeura_runtime.backends.registry import DEVICE_NAMES


def raw(**values: StaticValue) -> RawSettings:
    """Settings as if written one per line, in order."""
    source = Source("fit.mgn", "".join(f"{name} = ...\n" for name in values))
    starts = [source.text.index(f"{name} = ") for name in values]
    return {
        name: WrittenSetting(value, Span(source, start, start + len(name)))
        for (name, value), start in zip(values.items(), starts, strict=True)
    }


def resolved(
    settings: RawSettings, *overrides: str, free: Sequence[str] = ("batch",)
) -> RunSettings:
    return resolve_settings(settings, overrides, free, DEVICE_NAMES, needs_data=True)


def refused(
    settings: RawSettings, *overrides: str, free: Sequence[str] = ("batch",)
) -> Sequence[Report]:
    with pytest.raises(ProblemsError) as caught:
        resolve_settings(settings, overrides, free, DEVICE_NAMES, needs_data=True)
    return [problem.report() for problem in caught.value.problems]


def test_what_is_left_out_has_a_default() -> None:
    settings = resolved(raw(data="digits", batch=64))
    assert settings.sizes == {"batch": 64}
    assert settings.optimizer == Adam()
    assert settings.schedule == Constant()
    assert (settings.epochs, settings.seed, settings.device) == (1, 0, "auto")


def test_settings_that_were_kept_may_be_of_batches_that_python_gave() -> None:
    """A person may not leave `data` empty; what a run was made with has no file then."""
    kept = resolved(raw(data="digits", batch=64), "optimizer=sgd(lr=0.5)").model_dump()
    again = RunSettings.model_validate({**kept, "data": ""})
    assert (again.data, again.optimizer) == ("", Sgd(lr=0.5))
    assert again.model_dump() == {**kept, "data": ""}


def test_data_may_name_tensors() -> None:
    file = Invocation("file", {"image": "images"}, ("x.npz",))
    settings = resolved(raw(data=file, batch=64))
    assert (settings.data, settings.tensors) == ("x.npz", {"image": "images"})
    given = resolved(raw(data="digits", batch=64), 'data=file("y.npz", label="labels")')
    assert (given.data, given.tensors) == ("y.npz", {"label": "labels"})
    assert resolved(raw(data=file, batch=64), "data.image=x").tensors == {"image": "x"}
    assert resolved(raw(data=file, batch=64), "data=z.npz").tensors == {}


@pytest.mark.parametrize(
    "path",
    [
        "z.npz", "file", "file(2", "file(1).npz", "images(old", "images(2).npz", "my file.npz",
        "copy(x)", "other(y=2)", "a=b.npz", "1.npz", "-1", "none", "a,b.npz", "[a].npz",
    ],
)  # fmt: skip
def test_data_of_the_command_line_is_a_path_unless_it_is_a_call_of_a_reader(path: str) -> None:
    """And so is one in quotes."""
    for written in (path, f'"{path}"'):
        found = resolved(raw(data="digits", batch=64), f"data={written}")
        assert (found.data, found.tensors) == (path, {})
    assert resolved(raw(data="digits", batch=64), 'data=file("file(2")').data == "file(2"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("0.25", 0.25),
        (".5", None),
        ("1e-1", 0.1),
        ("2024.npz", "2024.npz"),
        ("2024-held.npz", "2024-held.npz"),
        ("2024/held", "2024/held"),
        ("-1.csv", "-1.csv"),
        ("0.1.npz", "0.1.npz"),
        ("0.1x", None),
        ("10%", None),
    ],
)
def test_a_number_behind_validation_is_a_share_and_not_a_path(
    written: str, value: float | str | None
) -> None:
    def found() -> float | str | None:
        return resolved(raw(data="digits", batch=1), f"validation={written}").validation

    if value is None:
        with pytest.raises(ProblemError):
            found()
    else:
        assert found() == value


@pytest.mark.parametrize("name", ["balance", "memory", "sampling_weights", "validation"])
def test_the_command_line_unsets_a_text_of_the_program(name: str) -> None:
    written = raw(data="digits", batch=1, **{name: "8GiB"})
    assert getattr(resolved(written), name) == "8GiB"
    assert getattr(resolved(written, f"{name}=none"), name) is None
    if name != "memory":
        assert getattr(resolved(written, f'{name}="none"'), name) == "none"


@pytest.mark.parametrize(
    "file",
    [
        Invocation("file", {"image": "images"}),
        Invocation("file", {}, ("x.npz", "y.npz")),
        Invocation("file", {}, (3,)),
        Invocation("file", {"image": 3}, ("x.npz",)),
    ],
)
def test_data_is_one_file_and_names(file: StaticValue) -> None:
    (report,) = refused(raw(data=file, batch=64))
    assert report.code == "E0512"


def test_choices_take_their_arguments() -> None:
    settings = resolved(
        raw(
            data="digits",
            batch=64,
            optimizer=Invocation("sgd", {"lr": 1, "momentum": 0.9, "nesterov": True}),
            schedule=Invocation("cosine", {"warmup": 10}),
        )
    )
    assert settings.optimizer == Sgd(lr=1.0, momentum=0.9, nesterov=True)
    assert settings.schedule == Cosine(warmup=10)


def test_paths_may_wait_for_some_steps() -> None:
    found = resolved(raw(data="digits", batch=64), 'every["g.*"]=5', 'every["g.*"]=2')
    assert found.intervals == {"g.*": 2}
    for override, code in [
        ('every["g.*"]=0', "E0513"),
        ('every["g.*"]=1.5', "E0512"),
        ("every=2", "E0510"),
        ('epochs["g.*"]=2', "E0507"),
        ('weights["teacher"]="cnn.safetensors"', "E0510"),
    ]:
        reports = refused(raw(data="digits", batch=64), override)
        assert [each.code for each in reports] == [code]


NAMES: dict[str, Kind] = {
    "a.weight": "param",
    "a.bias": "param",
    "a.count": "state",
    "b.weight": "param",
    "b.fixed": "frozen",
    "b.bias": "param",
}
GLOBS = {
    ("*", "*.bias"): {"*": ["a.weight", "b.weight"], "*.bias": ["a.bias", "b.bias"]},
    ("*.bias", "*"): {"*.bias": [], "*": ["a.weight", "a.bias", "b.weight", "b.bias"]},
    ("a.*", "*.bias"): {"a.*": ["a.weight"], "*.bias": ["a.bias", "b.bias"]},
    ("*.bias", "a.*"): {"*.bias": ["b.bias"], "a.*": ["a.weight", "a.bias"]},
    ("*", "a.*", "*.bias"): {
        "*": ["b.weight"],
        "a.*": ["a.weight"],
        "*.bias": ["a.bias", "b.bias"],
    },
}


@pytest.mark.parametrize("globs", GLOBS)
def test_of_paths_that_overlap_the_last_counts(globs: tuple[str, ...]) -> None:
    """Parameters without a path are moved by `optimizer` alone, and states by nothing."""
    place = Location(Span(Source("net.mgn", "net"), 0, 3))
    parameters = [
        ParameterInfo(name, TensorType(DType.F32, (2,)), kind, "f32", Zeros(), place)
        for name, kind in NAMES.items()
    ]
    settings = resolved(raw(data="digits", batch=64)).model_copy(
        update={"optimizers": dict.fromkeys(globs, Sgd()), "schedules": dict.fromkeys(globs)}
    )
    groups = parameter_groups(settings, parameters)
    found = {group.glob: [each.name for each in group.parameters] for group in groups}
    named = [name for names in GLOBS[globs].values() for name in names]
    others = [name for name, kind in NAMES.items() if kind == "param" and name not in named]
    assert found == {None: others, **GLOBS[globs]}
    scheduled = scheduled_parameters(settings, parameters)
    assert {glob: [each.name for each in of] for glob, of in scheduled.items()} == GLOBS[globs]


def test_every_free_size_is_bound() -> None:
    settings = resolved(raw(data="text", batch=8, length=128), free=("batch", "length"))
    assert settings.sizes == {"batch": 8, "length": 128}


def test_a_missing_free_size_is_asked_for() -> None:
    [report] = refused(raw(data="digits"))
    assert report.code == "E0511"
    assert report.headline == "the setting `batch` is missing"


def test_missing_data_is_asked_for() -> None:
    [report] = refused(raw(batch=64))
    assert report.headline == "the setting `data` is missing"


@pytest.mark.parametrize(
    ("name", "value", "headline"),
    [
        ("epochs", 2.5, "`epochs` must be a whole number, not 2.5"),
        ("epochs", True, "`epochs` must be a whole number, not true"),
        ("epochs", "20", '`epochs` must be a whole number, not "20"'),
        ("epochs", -1, "`epochs` must be at least 0"),
        ("log_every", -1, "`log_every` must be at least 0"),
        ("save_every", 0, "`save_every` must be above 0"),
        ("drop_last", 1, "`drop_last` must be true or false, not 1"),
        ("batch", 0, "`batch` must be above 0"),
        ("batch", 6.5, "`batch` must be a whole number, not 6.5"),
        ("seed", -1, "`seed` must be at least 0"),
        ("seed", 2**32, "`seed` must be below 4294967296"),
        ("shuffle", 1, "`shuffle` must be true or false, not 1"),
        ("clip_norm", 0.0, "`clip_norm` must be above 0"),
        ("clip_norm", float("inf"), "`clip_norm` must be finite"),
        ("clip_value", 0.0, "`clip_value` must be above 0"),
        ("gradient_norm", 1, "`gradient_norm` must be true or false, not 1"),
        ("data", 3, "`data` must be a text, not 3"),
        ("data", "", "`data` must not be empty"),
        ("data", [1], "`data` must be a text, not [1]"),
        ("device", "cuda", f"`device` must be {DEVICE_NAMES.listed()}"),
        ("optimizer", 3, f"`optimizer` must be one of {', '.join(OPTIMIZERS)}, not 3"),
        ("optimizer", Invocation("sgd", {"decay": "bias"}),
         '`optimizer.decay` must be "all" or "matrices"'),
        ("optimizer", Invocation("sgd", {"decay": Invocation("matrices", {})}),
         '`optimizer.decay` must be "all" or "matrices"'),
        ("optimizer", Invocation("muon", {"ns_steps": 0}),
         "`optimizer.ns_steps` must be at least 1"),
        ("optimizer", Invocation("adafactor", {"d": 0.5}), "`optimizer.d` must be at least 1"),
        ("optimizer", Invocation("adm", {}), "`adm` is no optimizer"),
        ("optimizer", Invocation("adam", {"lr": 0}), "`optimizer.lr` must be above 0"),
        ("optimizer", Invocation("adam", {"beta1": 1.0}), "`optimizer.beta1` must be below 1"),
        ("optimizer", Invocation("adam", {"lr": "x"}), '`optimizer.lr` must be a number, not "x"'),
        ("optimizer", Invocation("adam", {"beta": 0.9}), "`adam` has no argument `beta`"),
        ("optimizer", Invocation("sgd", {"nesterov": True}), "`optimizer` needs momentum above 0"),
        ("optimizer", Invocation("adam", {"kind": "sgd"}), "`adam` has no argument `kind`"),
        ("schedule", Invocation("cosine", {"kind": 1}), "`cosine` has no argument `kind`"),
        ("optimizer", Invocation("adam", {}, (0.1,)), "this argument has no name"),
        ("schedule", Invocation("cosine", {"final": 2}), "`schedule.final` must be at most 1"),
        ("schedule", Invocation("piecewise", {"milestones": 3}),
         "`schedule.milestones` must be a list, not 3"),
        ("schedule", Invocation("piecewise", {"milestones": [3, 0], "factors": [1, 1]}),
         "`schedule.milestones.1` must be above 0"),
        ("schedule", Invocation("piecewise", {"milestones": [3]}),
         "`schedule` needs as many factors as milestones"),
        ("schedule", Invocation("plateau", {"mode": "low"}),
         '`schedule.mode` must be "min" or "max"'),
        ("schedule", Invocation("plateau", {"metric": 3}),
         "`schedule.metric` must be a text, not 3"),
        ("epoch", 3, "there is no setting `epoch`"),
        ("sizes", 3, "there is no setting `sizes`"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_place(name: str, value: StaticValue, headline: str) -> None:
    written: dict[str, StaticValue] = {"data": "digits", "batch": 64, name: value}
    [report] = refused(raw(**written))
    assert report.headline == headline
    assert report.label is not None
    assert report.label.span.text == name


def test_a_word_that_reads_no_data_is_told_beside_its_argument() -> None:
    reports = refused(raw(data=Invocation("picture", {}, ("i",)), batch=64))
    assert [each.headline for each in reports] == [
        "this argument has no name",
        "`picture` is no way to read data",
    ]


def test_the_nearest_name_is_offered() -> None:
    [report] = refused(raw(data="digits", batch=64, epoch=3))
    assert report.help is not None
    assert report.help.text == "did you mean `epochs`?"


def test_an_argument_of_another_system_is_told_by_our_name() -> None:
    given = Invocation("adamw", {"learning_rate": 1e-3})
    [report] = refused(raw(data="digits", batch=64, optimizer=given))
    assert report.help is not None
    assert report.help.text == "it is called `lr` here"


def test_an_unknown_name_does_not_hold_all_others() -> None:
    """Ten thousand of them would hold each other, and be compared with each other."""
    unknown: dict[str, StaticValue] = {f"q{index}": index for index in range(100)}
    with pytest.raises(ProblemsError) as caught:
        resolved(raw(data="digits", batch=4, **unknown))
    found = [each for each in caught.value.problems if isinstance(each, UnknownSetting)]
    assert len(found) == 100
    assert {each.given for each in found} == {("batch", "data")}


def test_all_mistakes_are_told_at_once() -> None:
    reports = refused(raw(data="", epochs=-1, bach=64))
    assert {report.code for report in reports} == {"E0510", "E0511", "E0513"}
    assert len(reports) == 4


def test_a_size_may_not_take_a_setting_s_name() -> None:
    reports = refused(raw(data="digits", seed=3), free=("seed",))
    assert reports[0].code == "E0519"


def test_overrides_win_and_the_last_one_most() -> None:
    settings = resolved(
        raw(data="digits", batch=64, optimizer=Invocation("sgd", {"lr": 0.1, "momentum": 0.9})),
        "batch=32",
        "optimizer.lr=0.2",
        "epochs=3",
        "epochs=4",
        "data=other/digits.safetensors",
        "clip_norm=none",
    )
    assert settings.sizes == {"batch": 32}
    assert settings.optimizer == Sgd(lr=0.2, momentum=0.9)
    assert settings.epochs == 4
    assert settings.data == "other/digits.safetensors"


def test_an_argument_of_the_default_choice_can_be_overridden() -> None:
    assert resolved(raw(data="digits", batch=1), "optimizer.lr=0.5").optimizer == Adam(lr=0.5)


def test_a_whole_choice_can_be_overridden() -> None:
    settings = resolved(raw(data="digits", batch=1), "optimizer=sgd(lr=1e-2, momentum=0.5)")
    assert settings.optimizer == Sgd(lr=0.01, momentum=0.5)


def test_arguments_of_overrides_add_up_and_a_new_choice_forgets_them() -> None:
    written = raw(data="digits", batch=1, optimizer=Invocation("adam", {"lr": 0.1, "eps": 0.2}))
    both = resolved(written, "optimizer=sgd(lr=0.3)", "optimizer.momentum=0.5")
    assert both.optimizer == Sgd(lr=0.3, momentum=0.5)
    two = resolved(written, "optimizer.beta1=0.5", "optimizer.beta2=0.6")
    assert two.optimizer == Adam(lr=0.1, eps=0.2, beta1=0.5, beta2=0.6)
    assert resolved(written, "optimizer.lr=0.5", "optimizer=adam").optimizer == Adam()


SGD, COSINE = Invocation("sgd", {"lr": 0.01, "momentum": 0.9}), Invocation("cosine", {"warmup": 5})


@pytest.mark.parametrize(
    ("overrides", "optimizer", "schedule"),
    [
        (("{}.lr=0.1",), Sgd(lr=0.1, momentum=0.9), None),
        (("{}.lr=0.1", "{}.nesterov=true"), Sgd(lr=0.1, momentum=0.9, nesterov=True), None),
        (("optimizer=adam(lr=0.2)", "{}.beta1=0.5"), Adam(lr=0.2, beta1=0.5), None),
        (("{}.beta1=0.5", "optimizer=adam(lr=0.2)"), Adam(lr=0.2, beta1=0.5), None),
        (("{}.lr=0.1", "optimizer.momentum=0.5"), Sgd(lr=0.1, momentum=0.5), None),
        (("{}.lr=0.1", "{}=sgd"), Sgd(lr=0.01, momentum=0.9), None),
        (('schedule["*.bias"].final=0.1',), None, Cosine(warmup=5, final=0.1)),
        (("schedule=linear", 'schedule["*.bias"].final=0.1'), None, Linear(final=0.1)),
    ],
)
def test_an_argument_for_some_paths_is_of_the_choice_for_all(
    overrides: tuple[str, ...], optimizer: Optimizer | None, schedule: Schedule | None
) -> None:
    written = raw(data="digits", batch=1, optimizer=SGD, schedule=COSINE)
    found = resolved(written, *(each.format('optimizer["*.bias"]') for each in overrides))
    assert found.optimizers.get("*.bias") == optimizer
    assert found.schedules.get("*.bias") == schedule
    for wrong in ('optimizer["*.bias"].beta1=0.5', 'schedule["*.bias"].every=2'):
        (report,) = refused(written, wrong)
        assert report.code == "E0510"


def test_a_negative_override_is_read_as_a_number() -> None:
    [report] = refused(raw(data="digits", batch=1), "seed=-1")
    assert report.headline == "`seed` must be at least 0"
    assert report.label is not None
    assert report.label.span.text == "seed=-1"
    assert report.label.span.source.name == "--set"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("batch", "E0517"),
        ("batch=", "E0517"),
        ("=3", "E0517"),
        ("a.b.c=3", "E0517"),
        ("7x=3", "E0517"),
        ("data.x=3", "E0518"),
        ("batch.x=3", "E0518"),
        ("optimizer=adam(0.1)", "E0516"),
        ("batch=1 + 1", "E0515"),
        ("batch=x |> f", "E0515"),
        ("batch=1 +", "E0517"),
        ("batch=3 4", "E0517"),
        ("batch=3\ndef f() = 4", "E0517"),
    ],
)
def test_a_malformed_override_is_refused(text: str, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        resolved(raw(data="digits", batch=1), text)
    assert caught.value.problem.code == code


LENGTHS: list[tuple[dict[str, StaticValue], tuple[str, ...], tuple[int, int | None] | str]] = [
    ({}, (), (1, None)),
    ({"epochs": 3}, (), (3, None)),
    ({"steps": 9}, (), (1, 9)),
    ({"epochs": 3, "steps": 9}, (), "steps"),
    ({"steps": 9, "epochs": 3}, (), "steps"),
    ({}, ("epochs=3", "steps=9"), "steps=9"),
    ({}, ("steps=9", "epochs=3"), "steps=9"),
    ({"epochs": 3}, ("steps=9",), (1, 9)),
    ({"steps": 9}, ("epochs=3",), (3, None)),
    ({"epochs": 3}, ("epochs=4", "steps=9"), "steps=9"),
    ({"steps": 9}, ("epochs=4", "steps=8"), "steps=8"),
    ({"epochs": 3, "steps": 9}, ("steps=8",), (1, 8)),
    ({"epochs": 3, "steps": 9}, ("epochs=2",), (2, None)),
    ({"epochs": 3, "steps": 9}, ("epochs=2", "steps=8"), "steps=8"),
    ({"epochs": 3, "steps_per_epoch": 5}, (), (3, None)),
    ({"steps": 9, "steps_per_epoch": 5}, (), (1, 9)),
    ({"epochs": 3}, ("seed=1",), (3, None)),
    ({"epochs": 3}, ("steps=none",), (3, None)),
    ({"steps": 9}, ("steps=none",), (1, None)),
    ({"steps": 9}, ("epochs=0", "steps=none"), (0, None)),
]
"""Lengths of a run in a program and on a command line: epochs and steps, or the place that is
refused, which is that of the steps."""


@pytest.mark.parametrize(("written", "overrides", "expected"), LENGTHS)
def test_a_run_has_one_length_the_one_of_the_command_line_first(
    written: dict[str, StaticValue],
    overrides: tuple[str, ...],
    expected: tuple[int, int | None] | str,
) -> None:
    settings = raw(data="digits", batch=64, **written)
    if not isinstance(expected, str):
        found = resolved(settings, *overrides)
        assert (found.epochs, found.steps) == expected
        return
    [report] = refused(settings, *overrides)
    assert report.code == "E0547"
    assert report.label is not None
    assert report.label.span.text == expected


@pytest.mark.parametrize("size", ["steps", "epochs"])
def test_a_size_of_the_name_of_a_length_is_none(size: str) -> None:
    """It is refused as a size alone, and takes the place of no other length."""
    other = "epochs" if size == "steps" else "steps"
    for settings, overrides in (
        (raw(data="digits", epochs=3, steps=9), ()),
        (raw(data="digits", **{size: 3}), (f"{other}=9",)),
        (raw(data="digits", **{other: 3}), (f"{size}=9",)),
    ):
        reports = refused(settings, *overrides, free=(size,))
        assert [each.code for each in reports] == ["E0519"]
