"""Draws reports for a page: the text of a terminal, with its colours as styles.

A colour is mixed with that of the text around it, so that it can be read on light and on dark.
"""

import re
from collections.abc import Iterable
from html import escape

from meganeura_dsl.diagnostics.report import Report
from meganeura_dsl.diagnostics.terminal import render

_CODE = re.compile("\x1b\\[([0-9;]*)m")
_COLOURS = {"31": "#d33a3a", "32": "#2a9a4a", "33": "#c08000", "36": "#1590a8"}
MONOSPACED = "font-family:ui-monospace,monospace;line-height:1.35;overflow-x:auto"
"""The style of a text whose columns stand below each other: a notebook sets another font."""
PLAIN = "0"
"""The code that ends a style."""


def html_of(reports: Iterable[Report]) -> str:
    """Returns reports as one element, each as the command line prints it."""
    texts = [escape(render(each, colour=True), quote=False) for each in reports]
    drawn = _CODE.sub(lambda code: _tag(code[1]), "\n\n".join(texts))
    return f'<pre style="{MONOSPACED}">{drawn}</pre>'


def _tag(code: str) -> str:
    """Returns the tag that stands for a code of a terminal: `1;31` is bold and red."""
    if code == PLAIN:
        return "</span>"
    colour = next((_COLOURS[part] for part in code.split(";") if part in _COLOURS), "")
    tone = f"color:color-mix(in srgb,{colour} 70%,currentColor);" if colour else ""
    weight = "font-weight:600;" if "1" in code.split(";") else ""
    return f'<span style="{tone}{weight}">'
