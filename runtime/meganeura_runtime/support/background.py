"""Something done by its own thread while the program goes on."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def begin(
    name: str,
    action: Callable[Arguments, Result],
    *arguments: Arguments.args,
    **options: Arguments.kwargs,
) -> Future[Result]:
    """Do something in a new thread; its result waits, and raises what it raised."""
    thread = ThreadPoolExecutor(1, thread_name_prefix=name)
    begun = thread.submit(action, *arguments, **options)
    thread.shutdown(wait=False)
    return begun
