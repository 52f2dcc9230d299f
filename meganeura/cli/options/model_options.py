"""Options that several commands share: which weights a model gets, and what it is configured as."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meganeura.cli.options.target_program import load
from meganeura.cli.ui.console import say
from meganeura_dsl.settings.compute_precision import ComputePrecision

if TYPE_CHECKING:
    from meganeura_dsl.elaborate.declarations.models import Asked, Elaboration
    from meganeura_dsl.elaborate.values import StaticValue
    from meganeura_dsl.ir.graph import Array
    from meganeura_dsl.ir.quantization import Quantization
    from meganeura_dsl.pipeline import Program
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
    from meganeura_runtime.backends.backend import OpenDevice
    from meganeura_runtime.backends.base import OpenSession
    from meganeura_runtime.io.weight_names import Names
    from meganeura_runtime.io.weights import Allowed, Comparison

ModelName = Annotated[str, typer.Argument(metavar="MODEL", help="A model, or a file with one.")]
RandomWeights = Annotated[
    int | None, typer.Option(metavar="SEED", min=0, help="Untrained weights, to try things.")
]
WeightFiles = Annotated[
    list[Path] | None,
    typer.Option("--weights", metavar="FILE", help="A .safetensors file, an index, or a folder."),
]
AllowMissing = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Parameters that keep their initial values, as 'fc.*'."),
]
AllowUnexpected = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Tensors of the file that are left unused, as 'head.*'."),
]
Renames = Annotated[
    list[str] | None,
    typer.Option(
        "--rename",
        metavar="PATTERN=NEW",
        help=r"Tensors of the file are called so in the model: 'teacher\.(.*)=\1'.",
    ),
]
Prefix = Annotated[
    str, typer.Option(metavar="PATH.", help="The tensors of the file are below it: 'teacher.'.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="An argument of the model, or a size left open."
    ),
]
NoOptimizer = Annotated[
    bool, typer.Option("--no-opt", help="Run the program as it is written, not optimized.")
]
DisabledRules = Annotated[
    list[str] | None,
    typer.Option("--disable-rule", metavar="NAME", help="A rewrite rule to go without."),
]


def rewriting(
    *,
    no_opt: bool,
    disabled: Sequence[str] | None,
    device: str = "cpu",
    precision: ComputePrecision = ComputePrecision.F32,
) -> "RewriteOptions":
    """Returns the options of the optimizer for `--no-opt` and `--disable-rule`, on a device."""
    from meganeura_dsl.transforms.egraph.rewrite_options import RewriteOptions
    from meganeura_runtime.backends.registry import model_of

    return RewriteOptions(not no_opt, tuple(disabled or ()), model_of(device, precision))


def rewriting_settings(rules: "RewriteOptions") -> list[str]:
    """The same as settings of a run, which stay as they are where nothing is asked for."""
    return [
        *([] if rules.enabled else ["optimize=false"]),
        *([f"disabled_rules={json.dumps(rules.disabled)}"] if rules.disabled else []),
    ]


def allowed(missing: Sequence[str] | None, unexpected: Sequence[str] | None) -> "Allowed":
    """Returns the differences that `--allow-missing` and `--allow-unexpected` excuse."""
    from meganeura_runtime.io.weights import Allowed

    return Allowed(tuple(missing or ()), tuple(unexpected or ()))


def given_names(renames: Sequence[str] | None, prefix: str) -> "Names":
    """Returns the names that `--rename` and `--prefix` give tensors. Raises `ProblemError`."""
    from meganeura_runtime.io.weight_names import Names, Rename

    return Names(tuple(map(Rename.parse, renames or ())), prefix)


FIRST_SEED = 0
"""The seed of parameters that `--allow-missing` leaves at their initial values."""


def require_weights(
    files: Sequence[Path] | None, seed: int | None, *, has_file_options: bool
) -> None:
    """Refuse to run without weights, with two kinds of them, or with options but no files."""
    if bool(files) == (seed is not None):
        text = "give the weights of a file, or --random-weights SEED to try an untrained model"
        raise typer.BadParameter(text, param_hint="--weights")
    if has_file_options and not files:
        raise typer.BadParameter("there are no weights to compare with", param_hint="--weights")


def given_files(files: Sequence[Path] | None) -> list[Path]:
    """Returns the files of `--weights`; without any the command is refused."""
    if not files:
        text = "say which: --weights runs/fit-1/best.safetensors"
        raise typer.BadParameter(text, param_hint="--weights")
    return list(files)


@dataclass(frozen=True)
class LoadedWeights:
    """The values of all parameters and states, and the levels of those that are quantized."""

    values: "dict[str, Array]"
    levels: "Mapping[str, Quantization]"

    def opening(
        self, device: "OpenDevice", open_session: "OpenSession | None" = None
    ) -> "OpenSession":
        """Opens sessions that keep quantized weights packed, where the device runs them so.

        Without `open_session` it is the device that opens them.
        """
        from meganeura_runtime.backends.packed_session import open_packed

        return open_packed(open_session or device.open, device.packs(self.levels))


def loaded_weights(
    symbolic: "Elaboration",
    files: Sequence[Path],
    seed: int | None,
    excused: "Allowed",
    called: "Names",
    *,
    err: bool = False,
) -> LoadedWeights:
    """All parameters and states: those of the files, and first values for what is excused."""
    from meganeura_runtime.io.weights import compare, initial_values

    if seed is not None:
        say(f"weights: random, of seed {seed}", err=err)
        return LoadedWeights(initial_values(symbolic.parameters, seed), {})
    found = compare(files, symbolic.parameters, excused, called)
    values = found.read()
    say("\n  ".join([f"weights: {found.file}", *exceptions(found)]), err=err)
    anew = [each for each in symbolic.parameters if each.name in found.anew]
    return LoadedWeights({**initial_values(anew, FIRST_SEED), **values}, found.quantized)


def exceptions(comparison: "Comparison") -> list[str]:
    """Returns lines about tensors that were renamed and differences that were excused."""
    lines: list[str] = []
    if comparison.renamed:
        (old, new), *others = comparison.renamed
        more = f" and {len(others):,} more" if others else ""
        lines.append(f"renamed: {old} to {new}{more}")
    if comparison.anew:
        lines.append(f"at their initial values: {', '.join(comparison.anew)}")
    if comparison.unused:
        lines.append(f"unused: {', '.join(comparison.unused)}")
    return lines


@dataclass(frozen=True)
class ConfiguredModel:
    """A model and what `--set` says of it."""

    program: "Program"
    name: str
    config: Mapping[str, "StaticValue"]
    sizes: Mapping[str, int]

    def elaborate(
        self,
        sizes: Mapping[str, int] | None = None,
        *,
        training: bool = False,
        asked: "Asked | None" = None,
    ) -> "Elaboration":
        """Its graph, for sizes beyond those of the command line, with the values asked for."""
        from meganeura_dsl import pipeline

        given = {**self.sizes, **(sizes or {})}
        return pipeline.elaborate_model(
            self.program, self.name, config=self.config, sizes=given, training=training, asked=asked
        )


def configured(target: str, changes: Sequence[str] | None, *, whole: str = "") -> ConfiguredModel:
    """The model of a target; a change names a size its inputs leave open, or else an argument.

    Where the target is a part of a model, the whole one is taken whose name ends in `whole`.
    """
    from meganeura_dsl import pipeline
    from meganeura_dsl.ir.types import free_sizes
    from meganeura_dsl.settings.setting_values import with_overrides

    program = load(target)
    name = program.model()
    if whole and f"{name}{whole}" in program.models:
        name = f"{name}{whole}"
    given = {key: each.value for key, each in with_overrides({}, changes or ()).items()}
    free = free_sizes(pipeline.elaborate_model(program, name).inputs.values()) if given else []
    sizes: dict[str, int] = {}
    for key in [each for each in given if each in free]:
        number = given.pop(key)
        if type(number) is not int or number < 1:
            raise typer.BadParameter(f"the size `{key}` is a number from 1", param_hint="--set")
        sizes[key] = number
    return ConfiguredModel(program, name, dict(map(_argument, given.items())), sizes)


def _argument(given: "tuple[str, StaticValue]") -> "tuple[str, StaticValue]":
    """An argument of a model, as the language has it: `zeros` is an initial value, not a choice."""
    from meganeura_dsl.elaborate.builtins.initial_values import initial_setting
    from meganeura_dsl.elaborate.values import Invocation

    name, value = given
    initial = initial_setting(value) if isinstance(value, Invocation) else None
    return name, value if initial is None else initial
