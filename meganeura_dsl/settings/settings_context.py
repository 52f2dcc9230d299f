"""Facts that settings are judged with: the names of devices, and the optimizers of a program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from meganeura_dsl.settings.device_names import DeviceNames
from meganeura_dsl.transforms.optimizers.hyperparameters import Choice

Declared = Mapping[str, type[Choice]]
"""The optimizers that a program declares, by the words that name them."""
NONE_DECLARED: Declared = MappingProxyType({})


@dataclass(frozen=True)
class SettingsContext:
    """The context of a validation."""

    declared: Declared = field(default_factory=dict[str, type[Choice]])
    devices: DeviceNames | None = None
    """The names of devices that a person may give; `None` for settings that were judged before."""


def declared_of(context: object) -> Declared:
    """Returns the optimizers that a validation knows of."""
    return context.declared if isinstance(context, SettingsContext) else NONE_DECLARED


def devices_of(context: object) -> DeviceNames | None:
    """Returns the names of devices that a validation knows of, if it is of what a person gave."""
    return context.devices if isinstance(context, SettingsContext) else None
