"""The report as Markdown and as one self-contained HTML page, by Jinja templates."""

from __future__ import annotations

import base64
import re
from importlib.resources import files
from typing import Any

from benchmarks.tables import markdown_table

from .blocks import Block, FigureKey, Heading, Table


def to_markdown(blocks: list[Block], image_prefix: str) -> str:
    """Markdown; ``image_prefix`` is the start of the paths of figures."""
    return _render("report.md.j2", blocks, autoescape=False, image_prefix=image_prefix)


def to_html(blocks: list[Block], figures: dict[FigureKey, bytes]) -> str:
    """An HTML page that contains its styles and figures."""
    headings = [block for block in blocks if isinstance(block, Heading)]
    return _render(
        "report.html.j2",
        blocks,
        autoescape=True,
        title=headings[0].text,
        contents=[heading.text for heading in headings if heading.level == 2],
        figures={key: base64.b64encode(png).decode() for key, png in figures.items()},
    )


def _render(template: str, blocks: list[Block], *, autoescape: bool, **context: Any) -> str:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=autoescape, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "inline": _inline, "plain": _plain, "anchor": anchor, "markdown_table": _markdown_table,
    }  # fmt: skip
    text = (files(__package__) / template).read_text("utf-8")
    kinds = [(type(block).__name__, block) for block in blocks]
    return environment.from_string(text).render(blocks=kinds, **context)


def _markdown_table(table: Table) -> str:
    rows = [["<br>".join([cell.text, *cell.details]) for cell in row] for row in table.rows]
    return markdown_table(table.header, rows)


def anchor(text: str) -> str:
    """
    >>> anchor("Table 1: GPCA by alpha")
    'table-1-gpca-by-alpha'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _plain(text: str) -> str:
    """Markdown of a text whose HTML tags are shown as text.

    >>> _plain("a < b, <b>bold</b>")
    'a < b, &lt;b>bold&lt;/b>'
    """
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", text)


def _inline(text: str) -> object:
    """HTML of a text with `code` and *emphasis*."""
    from markupsafe import Markup, escape

    html = str(escape(text))
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", html)
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", html))
