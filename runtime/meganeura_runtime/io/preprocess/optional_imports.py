"""Libraries that only some users need: imported when a file asks for them, named when missing."""

from importlib import import_module
from types import ModuleType

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.io.preprocess.preprocess_problems import MissingExtra


def load(module: str, extra: str, purpose: str) -> ModuleType:
    """A module of an optional extra; raises `ProblemError` where it is not installed."""
    try:
        return import_module(module)
    except (ImportError, OSError):
        raise ProblemError(MissingExtra(module, extra, purpose)) from None
