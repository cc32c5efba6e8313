"""A plan as a page of HTML: the drawing, then the text.  It stands alone: nothing is loaded from elsewhere."""

from __future__ import annotations

from html import escape

from weft.explain.pages import Page
from weft.explain.svg import svg
from weft.explain.text import text

_STYLE = """
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:1.5rem;max-width:120rem}
h1{font-size:1.3rem}.drawing{overflow:auto;border:1px solid #8884;border-radius:6px;padding:.5rem}
.drawing svg{max-width:none}pre{overflow:auto;font-size:13px;line-height:1.45}
"""


def html(page: Page) -> str:
    """The page as HTML."""
    title = f"Weft plan, stage {page.stage}"
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n"
        f'<div class="drawing">{svg(page)}</div>\n<pre>{escape(text(page))}</pre>\n</body></html>\n'
    )
