"""The files of a drawing: a page of HTML, and a picture in SVG.

Both are laid out by one script, built from `runtime/web/drawing`: by the browser that opens the
page, and for the picture by an engine of JavaScript, which is an extra.
"""

import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any, Protocol

from meganeura_dsl.diagnostics.source import Source
from meganeura_dsl.graph_drawing import Measure, drawing_data
from meganeura_dsl.ir.graph import Graph
from meganeura_dsl.summary import Summary
from meganeura_runtime.support.optional_imports import load

PAGE, SCRIPT = "drawing.html", "drawing.js"
FORM = "{{FORM}}"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"'
"""The beginning of a picture."""
STACK = 256 << 20
"""Bytes of address space for the recursion of the layout, which is as deep as the model is long."""


class _Engine(Protocol):
    """An engine of JavaScript, as `quickjs` has it."""

    def eval(self, code: str) -> object: ...
    def set_max_stack_size(self, size: int) -> None: ...


@dataclass(frozen=True)
class Shown:
    """The measure of the colours of a drawing, and the levels of layers that are open.

    Without `depth` a page begins with all layers closed, and a picture has all of them open.
    """

    measure: Measure = "weights"
    depth: int | None = None


def page(found: Summary, graph: Graph, texts: Iterable[Source], shown: Shown) -> str:
    """Returns the page of a model; `texts` are those of its program, which layers lead to."""
    data = drawing_data(found, graph)
    root = found.root
    form = {
        "drawing": data,
        "totals": {
            "weights": root.weights,
            "flops": root.flops,
            "memory": root.memory,
            "sizes": ", ".join(f"{name}={size}" for name, size in found.sizes.items()),
        },
        "sources": _sources(data, texts),
        **asdict(shown),
    }
    before, _, after = _held(PAGE).partition(FORM)
    return f"{before}{json.dumps(form).replace('<', chr(92) + 'u003c')}{after}"


def picture(found: Summary, graph: Graph, shown: Shown) -> str:
    """Returns the text of an SVG file; raises `ProblemError` where the engine is missing."""
    module = load("quickjs", "drawing", "lay out a picture")
    given = json.dumps(json.dumps(drawing_data(found, graph)))
    asked = f"{given}, {json.dumps(shown.depth)}, {json.dumps(shown.measure)}"

    def drawn() -> object:
        engine: _Engine = module.Context()
        engine.set_max_stack_size(STACK // 2)
        engine.eval(_held(SCRIPT))
        return engine.eval(f"drawn({asked})")

    text = _with_stack(drawn)
    assert isinstance(text, str)
    return text


def _with_stack(call: Callable[[], object]) -> object:
    """Returns what a function returns in a thread with room for deep recursion.

    The thread is a daemon, so that an interrupt does not wait for it.
    """
    future = Future[object]()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised again where it is waited for
            future.set_exception(error)

    before = threading.stack_size(STACK)
    try:
        threading.Thread(target=run, daemon=True).start()
    finally:
        threading.stack_size(before)
    return future.result()


def _held(name: str) -> str:
    return files("meganeura.drawing").joinpath(name).read_text("utf-8")


def _sources(data: dict[str, Any], texts: Iterable[Source]) -> dict[str, str]:
    """Returns the texts that layers are written in, by name, that of the program first.

    A name that two different texts have is left out: it does not say which is meant.
    """
    wanted = set(_files(data["joins"])) | set(_files(data["layers"]))
    found: dict[str, set[str]] = {}
    for each in texts:
        found.setdefault(each.name, set()).add(each.text)
    return {
        name: next(iter(each)) for name, each in found.items() if name in wanted and len(each) == 1
    }


def _files(nodes: Iterable[dict[str, Any]]) -> Iterable[str]:
    for each in nodes:
        yield each["location"].rpartition(":")[0]
        yield from _files(each.get("inside", ()))
