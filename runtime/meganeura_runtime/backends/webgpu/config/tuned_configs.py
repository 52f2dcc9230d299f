"""The fastest configs of an adapter: data for planning, and its file.

A file speaks of one adapter with one driver, and of one version of this program; it holds what was
found for contractions by their names, whatever model they were found in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, TypeAdapter, ValidationError

from meganeura_dsl import __version__
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.ir.text import format_graph
from meganeura_dsl.support.limited_read import TooLongError, read_bytes
from meganeura_runtime.backends.webgpu.config.kernel_config import (
    DEFAULT_FUSION,
    FusionConfig,
    KernelConfig,
)
from meganeura_runtime.backends.webgpu.config.limits import DeviceLimits

VERSION = 2
LONGEST = 16
"""Mebibytes of a file of choices: of many thousand contractions."""


class TunedConfigsError(Exception):
    """A file that holds no choices for this adapter; says why."""


@dataclass(frozen=True)
class TunedConfigs:
    """Ways to compute contractions; `name` says where they are from."""

    name: str = ""
    configs: Mapping[str, KernelConfig] = field(default_factory=dict[str, KernelConfig])
    fusings: Mapping[str, FusionConfig] = field(default_factory=dict[str, FusionConfig])
    """Configs of fusion, by the names of whole steps."""

    def fusing_of(self, graph: Graph) -> FusionConfig:
        """Returns the config by which the values of a graph share kernels."""
        return (
            self.fusings.get(step_name(graph), DEFAULT_FUSION) if self.fusings else DEFAULT_FUSION
        )


UNTUNED = TunedConfigs()


def step_name(graph: Graph) -> str:
    """Returns the name of a whole graph.

    Its ops, attributes, shapes and names, without locations.
    """
    text = format_graph(graph, origins=False).removesuffix("\n")
    return sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class TuningKey:
    """The scope of tuned choices: an adapter, its driver, and the compiler of the timed kernels."""

    adapter: str
    driver: str
    compiler: str = __version__

    @property
    def file_name(self) -> str:
        """A name that no other key has."""
        digest = sha256(json.dumps([self.adapter, self.driver, self.compiler]).encode())
        words = "-".join("".join(c if c.isalnum() else " " for c in self.adapter.lower()).split())
        return f"{words[:40]}-{digest.hexdigest()[:12]}.json"


@dataclass(frozen=True)
class TuningRecord:
    """The best way that was found, and the seconds of one run, with it and before."""

    config: KernelConfig
    seconds: float
    before: float


@dataclass(frozen=True)
class TuningDatabase:
    """All that was found for one key."""

    configs: Mapping[str, TuningRecord] = field(default_factory=dict[str, TuningRecord])
    fusings: Mapping[str, FusionConfig] = field(default_factory=dict[str, FusionConfig])


@dataclass(frozen=True)
class TunedConfigsFile:
    """A file, as data."""

    key: Annotated[TuningKey, Field(validation_alias=AliasChoices("key", "place"))]
    """Older files say `place`."""
    found: dict[str, TuningRecord]
    fusings: dict[str, FusionConfig] = field(default_factory=dict[str, FusionConfig])
    version: Literal[2] = VERSION


@cache
def _adapter() -> TypeAdapter[TunedConfigsFile]:
    return TypeAdapter(TunedConfigsFile)


def read_tuning_record(path: Path, key: TuningKey) -> TuningDatabase:
    """Reads the record of a key. Raises `TunedConfigsError` and `FileNotFoundError`."""
    try:
        written = read_bytes(path, LONGEST)
        content = _adapter().validate_json(written)
    except FileNotFoundError:
        raise
    except (OSError, TooLongError) as error:
        raise TunedConfigsError(f"{path} cannot be read: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise TunedConfigsError(f"{path} holds no choices: {first['msg']}") from None
    if content.key != key:
        raise TunedConfigsError(f"{path} is of {content.key.adapter}, {content.key.driver}")
    return TuningDatabase(content.found, content.fusings)


def read_tuned_configs(path: Path, key: TuningKey, limits: DeviceLimits) -> TunedConfigs:
    """The configs for a key, without what its limits forbid."""
    known = read_tuning_record(path, key)
    configs = {
        name: one.config for name, one in known.configs.items() if is_possible(one.config, limits)
    }
    fusings = {name: one for name, one in known.fusings.items() if one.is_sensible}
    shown = {name: str(each) for name, each in sorted({**configs, **fusings}.items())}
    digest = sha256(json.dumps(shown).encode())
    return TunedConfigs(f"{path.name} ({digest.hexdigest()[:8]})", configs, fusings)


def is_possible(config: KernelConfig, limits: DeviceLimits) -> bool:
    """True if kernels can be written in a way, and an adapter can run them."""
    if config.split_k < 1 or (
        config.rows is not None and not (0 < config.rows <= MOST_ROWS and limits.lanes)
    ):
        return False
    tile = config.tile
    if tile is None:
        return True
    sizes = (tile.rows, tile.columns, tile.terms, tile.rows_each, tile.columns_each)
    return (
        all(0 < size <= MOST_ROWS and size & (size - 1) == 0 for size in sizes)
        and tile.is_even
        and tile.bytes <= limits.workgroup_bytes
        and tile.lanes <= limits.invocations
    )


MOST_ROWS = 256
"""Rows or columns of a tile; more would not fit the registers of any adapter."""


def content_of(key: TuningKey, known: TuningDatabase) -> str:
    """The text of a file."""
    configs, fusings = dict(sorted(known.configs.items())), dict(sorted(known.fusings.items()))
    return _adapter().dump_json(TunedConfigsFile(key, configs, fusings), indent=1).decode()
