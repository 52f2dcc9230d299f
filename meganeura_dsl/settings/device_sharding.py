"""The distribution of a run over several devices."""

from enum import StrEnum


class DeviceSharding(StrEnum):
    """The parameters on each device; each computes on its share of the batch in either case."""

    DATA = "data"
    """All parameters and optimizer states: data parallelism."""
    FSDP = "fsdp"
    """Its share of them, gathered where they are read: fully sharded data parallelism."""
