"""Errors of planning a graph for an adapter."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from meganeura_dsl.ir.graph import Value


class LimitError(Exception):
    """A value exceeds a limit of the adapter; says which, by how much, and where it comes from."""

    def __init__(self, value: Value, limit: str, needed: str, allowed: str) -> None:
        location = str(value.origin)
        result = f"`{type(value.op).__name__}` gives {value.type}"
        super().__init__(
            f"{location}{': ' if location else ''}{result}, which needs {needed}; "
            f"the adapter's limit `{limit}` is {allowed}"
        )
        self.value = value
        self.limit = limit


class DeviceError(Exception):
    """The device cannot be had, or has failed; says what to do."""


class OutOfMemoryError(DeviceError):
    """The device has no memory left."""
