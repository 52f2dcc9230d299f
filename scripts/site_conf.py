"""The configuration of Sphinx for the site; `scripts/build_site.py` copies it beside the pages."""

from typing import Any

from meganeura.pygments_lexer import MgnLexer

project = "Meganeura"
html_title = "Meganeura"
extensions = ["myst_parser"]
myst_heading_anchors = 4
smartquotes = False
suppress_warnings = ["misc.highlighting_failure"]
"""Pages of messages have programs that are no programs; such a one is shown without colours."""
html_theme = "furo"
html_favicon = "icon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b7a75", "color-brand-content": "#0b7a75"},
    "dark_css_variables": {"color-brand-primary": "#4fc3b8", "color-brand-content": "#4fc3b8"},
}


def setup(app: Any) -> None:  # noqa: ANN401 - whoever checks types need not have Sphinx
    """Let Sphinx colour programs."""
    app.add_lexer("mgn", MgnLexer)
