"""One self-contained HTML page of runs: it needs no network, and reads nothing beside itself.

All text of a run is data to the page: it stands in one block of JSON, is drawn as text, and a
content security policy lets no script run but the page's own.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from meganeura_runtime.train.report.page_data import run_data, runs_data
from meganeura_runtime.train.report.run_summary import RunSummary

HERE = Path(__file__).parent

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="Meganeura">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; \
style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<noscript>This page draws with JavaScript. The numbers are in metrics.jsonl.</noscript>
<main id="page"></main>
<script type="application/json" id="data">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def run_page(summary: RunSummary, every: float = 0.0) -> str:
    """The page of one run; it loads itself again after so many seconds, if that is not 0."""
    return _page(summary.name, [run_data(summary)], every)


def comparison_page(summaries: Sequence[RunSummary]) -> str:
    """The page of several runs, laid over each other."""
    names = ", ".join(each.name for each in summaries)
    return _page(names, runs_data(summaries), 0.0)


def _page(title: str, runs: list[dict[str, object]], every: float) -> str:
    written = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"written": written, "every": every, "runs": runs}
    # `<` never stands in the block as it is, so that no text of a run can end it.
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    style, script = _asset("page.css"), _asset("page.js")
    return PAGE.format(
        title=escape(title),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        data=data,
    )


@cache
def _asset(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


@cache
def _hash(text: str) -> str:
    return b64encode(sha256(text.encode()).digest()).decode()
