from collections.abc import Mapping
from typing import Any, TypeVar

from jax import Array

_Key = TypeVar("_Key")

class CompiledMemoryStats:
    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int

class Compiled:
    def __call__(
        self,
        updated: Mapping[_Key, Array],
        constant: Mapping[_Key, Array],
        fed: Mapping[str, Array],
    ) -> tuple[dict[str, Array], dict[_Key, Array]]: ...
    def as_text(self) -> str: ...
    def memory_analysis(self) -> CompiledMemoryStats | None: ...

class Lowered:
    def as_text(self) -> str: ...
    def compile(self, compiler_options: Mapping[str, str | int]) -> Compiled: ...

class Wrapped:
    def __call__(self, *arguments: Any) -> Any: ...
    def lower(self, *arguments: object) -> Lowered: ...
