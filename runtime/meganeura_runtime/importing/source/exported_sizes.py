"""Open sizes of an exported program: their names, and the conditions that its code asks of them."""

import logging
import re
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from meganeura_dsl.diagnostics.problem import ProblemError
from meganeura_runtime.importing.source.source_text import Example
from meganeura_runtime.importing.source.torch_source_problems import FixedSize
from meganeura_runtime.importing.source.user_code import place_of, user_frames

LOGGER = "torch.fx.experimental.symbolic_shapes"
"""The logger that says when a size becomes a number."""
REPLACED = re.compile(r"set_replacement (\w+) = (\S+)")


@dataclass(frozen=True)
class Replacements:
    """The lines of users' code by which symbols of sizes became something else."""

    places: dict[str, str] = field(default_factory=dict[str, str])


class _Listener(logging.Handler):
    """Notes where a symbol is replaced, from the stack of the message about it."""

    def __init__(self, found: Replacements) -> None:
        super().__init__(logging.INFO)
        self.found = found

    def emit(self, record: logging.LogRecord) -> None:
        """Read one message."""
        replaced = REPLACED.match(record.getMessage())
        if replaced is not None:
            frames = user_frames(traceback.extract_stack())
            frames = [each for each in frames if each.filename != logging.__file__]
            self.found.places[replaced[1]] = place_of(frames[-1]) if frames else ""


@contextmanager
def replacements() -> Generator[Replacements]:
    """Gives the places at which symbols are replaced while the context is entered."""
    found, logger = Replacements(), logging.getLogger(LOGGER)
    listener, before = _Listener(found), (logger.level, logger.propagate)
    others = list(logger.handlers)
    logger.handlers = [listener]
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.handlers = others
        logger.level, logger.propagate = before


@contextmanager
def quiet_export(torch: Any) -> Generator[None]:  # noqa: ANN401 - an extra
    """Hides PyTorch's messages about itself, and treats a size of 1 as any other.

    So code that asks for a size of 1 is a condition on it.
    """
    torch._logging.set_logs(all=logging.CRITICAL)  # noqa: SLF001 - as its documentation has it
    options = import_module("torch.fx.experimental._config")
    with warnings.catch_warnings(), options.patch(backed_size_oblivious=True):
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class OpenSizes:
    """The open sizes of an exported program."""

    names: Mapping[str, str]
    """The names that the examples have for them, by their texts in the program."""
    conditions: Sequence[str]
    """The conditions on these names under which the code goes the way that was exported."""


def open_sizes(
    source: str,
    exported: Any,  # noqa: ANN401 - a class of an extra
    examples: Sequence[Example],
    replaced: Replacements,
) -> OpenSizes:
    """Returns the open sizes; raises `ProblemError` for one that the program has as a number.

    Also for a size that is another one. `examples` are in the order of the program's inputs.
    """
    values = [
        node.meta["val"]
        for node in exported.graph.nodes
        if node.op == "placeholder" and node.name in exported.graph_signature.user_inputs
    ]
    names: dict[str, str] = {}
    symbols: dict[Any, str] = {}
    for value, given in zip(values, examples, strict=True):
        for axis, (size, name) in enumerate(zip(value.shape, given.sizes, strict=True)):
            if isinstance(name, int):
                continue
            expression = None if isinstance(size, int) else size.node.expr
            where = _place(exported, given.name, axis, replaced)
            if expression is None or expression.is_number:
                raise ProblemError(FixedSize(source, name, str(size), where))
            known = names.setdefault(str(expression), name)
            if known != name:
                raise ProblemError(FixedSize(source, name, known, where))
            if expression.is_symbol:
                symbols[expression] = name
    return OpenSizes(names, _conditions(exported, symbols))


def _shape_environment(exported: Any) -> Any:  # noqa: ANN401 - as above
    """The record of an export about its sizes, or None if all are numbers."""
    for node in exported.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if mode is not None and mode.shape_env is not None:
            return mode.shape_env
    return None


def _place(exported: Any, name: str, axis: int, replaced: Replacements) -> str:  # noqa: ANN401 - as above
    """The line that made a size of an input what it is, as far as it is known."""
    environment = _shape_environment(exported)
    sources: Mapping[Any, Sequence[Any]] = getattr(environment, "var_to_sources", {})
    for symbol, places in sources.items():
        called = [str(each.name() if callable(each.name) else each.name) for each in places]
        if any(f"'{name}'" in each and each.endswith(f".size()[{axis}]") for each in called):
            return replaced.places.get(str(symbol), "")
    return ""


def _conditions(exported: Any, symbols: Mapping[Any, str]) -> list[str]:  # noqa: ANN401 - as above
    """The conditions that code outside of PyTorch asked of sizes, as Python writes them."""
    sympy = import_module("sympy")
    printer = import_module("torch.utils._sympy.printers").PythonPrinter()
    environment = _shape_environment(exported)
    if environment is None:
        return []
    named = {symbol: sympy.Symbol(name, integer=True) for symbol, name in symbols.items()}
    found = list[str]()
    for guard in environment.guards:
        frame = guard.sloc.framework_loc
        if isinstance(frame, traceback.FrameSummary) and user_frames([frame]):
            expression = guard.expr.xreplace(environment.replacements).xreplace(named)
            found.append(printer.doprint(expression))
    return list(dict.fromkeys(found))
