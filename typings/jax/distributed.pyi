def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    *,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
) -> None: ...
def is_initialized() -> bool: ...
def shutdown() -> None: ...
