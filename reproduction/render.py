"""The report's two faces: Markdown, and one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
import re
from importlib.resources import files

from benchmarks.markdown_table import table

from .blocks import Block, Box, Heading, Items, Picture, Table, Text


def to_markdown(blocks: list[Block], prefix: str) -> str:
    """``prefix`` is how the names of pictures begin, as seen from the file."""
    return "\n\n".join(_markdown(block, prefix) for block in blocks) + "\n"


def _markdown(block: Block, prefix: str) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Items(items):
            return "\n".join(f"- {item}" for item in items)
        case Table(header, rows, caption):
            told = table(header, [[_box(box) for box in row] for row in rows])
            return f"{told}\n\n{caption}" if caption else told
        case Picture(name, alt, caption):
            return f"![{alt}]({prefix}{name}.png)\n\n{caption}"


def _box(box: Box) -> str:
    return "<br>".join([box.text, *box.detail.splitlines()])


def to_html(blocks: list[Block], pictures: dict[str, bytes]) -> str:
    """One page with everything in it: styles, and pictures as data."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["marked"] = _marked
    template = (files(__package__) / "report.html.j2").read_text("utf-8")
    encoded = {name: base64.b64encode(png).decode() for name, png in pictures.items()}
    title = next(block.text for block in blocks if isinstance(block, Heading))
    headings = [block for block in blocks if isinstance(block, Heading) and block.level == 2]
    return environment.from_string(template).render(
        blocks=[(type(block).__name__, block) for block in blocks],
        contents=[(anchor(heading.text), heading.text) for heading in headings],
        anchor=anchor,
        title=title,
        pictures=encoded,
    )


def anchor(text: str) -> str:
    """
    >>> anchor("Table 1: GPCA over alpha")
    'table-1-gpca-over-alpha'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _marked(text: str) -> object:
    """The little Markdown that paragraphs have: `code` and *emphasis*."""
    from markupsafe import Markup, escape

    html = str(escape(text))
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", html)
    return Markup(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", html))
